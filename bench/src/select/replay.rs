//! A policy at work on a sequence, by the measured table.

use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet};
use mgcomp_selector::{CheapFacts, Estimate, Outcome, Plan, Policy, StreamId};
use mgcomp_transport::session::ToldTimes;

use super::clock::{Call, Costs};
use super::completion::Link;
use super::sampler::Sampler;
use super::sequence::Cut;
use super::source::Source;
use super::table::Table;
use crate::error::BenchError;

/// A sequence over a link.
pub(super) struct Replay<'a> {
    pub(super) sources: &'a [Source],
    pub(super) cuts: &'a [Cut],
    pub(super) table: &'a Table,
    pub(super) transfers: &'a [usize],
    pub(super) link: Link,
}

/// What a policy came to.
#[derive(Clone, Debug)]
pub(super) struct Replayed {
    /// All transfers, with what they waited for deciding and sampling.
    pub(super) time_ns: f64,
    pub(super) sampling_ns: f64,
    pub(super) costs: Costs,
    /// Raw bytes by the number of the algorithm that was decided on.
    pub(super) carried: [u64; 16],
}

impl Replay<'_> {
    /// Replays the sequence with a policy that knows nothing yet.
    pub(super) fn run(
        &self,
        build: &dyn Fn() -> Box<dyn Policy>,
        sampler: &mut Sampler,
    ) -> Result<Replayed, BenchError> {
        let mut policy = build();
        let (mut calls, mut told) = (Vec::new(), ToldTimes::default());
        let (mut transfers_ns, mut sampling_ns, mut carried) = (0.0, 0.0, [0; 16]);
        for &cut in self.transfers {
            let facts = self.facts(cut);
            calls.push(Call::Plan(facts));
            let (decision, sampling) = match policy.plan(&facts) {
                Plan::Use(decision) => (decision, None),
                Plan::Sample { algorithms, size } => {
                    let mut took = Duration::ZERO;
                    let raw = self.raw(cut);
                    let take = |algorithm| {
                        let (bits, time) = sampler.take((cut, raw, facts.element), algorithm, size)?;
                        took += time;
                        Some(Estimate { algorithm, bits })
                    };
                    let estimates: Vec<Estimate> = algorithms.iter().filter_map(take).collect();
                    calls.push(Call::Choose(facts, estimates.clone()));
                    (policy.choose(&facts, &estimates), Some(took))
                }
            };
            let raw_bytes = facts.raw_bytes;
            let Some(sent) = self.table.sent(cut, raw_bytes, decision.algorithm) else {
                return Err(BenchError::NotMeasured { algorithm: decision.algorithm.name() });
            };
            carried[usize::from(decision.algorithm.number())] += raw_bytes;
            transfers_ns += self.link.completion_ns(raw_bytes, &sent);
            sampling_ns += sampling.unwrap_or_default().as_nanos() as f64;
            let went_raw = sent.wire_bytes == raw_bytes;
            let time = |ns: f64| Some(Duration::from_nanos(ns.round() as u64));
            let outcome = Outcome {
                sent: if went_raw { Algorithm::None } else { decision.algorithm },
                coded_bytes: sent.wire_bytes,
                sampling,
                encode: if decision.algorithm == Algorithm::None { None } else { time(sent.encode_ns) },
                decode: None,
                acknowledged: None,
            };
            policy.observe(&facts, &decision, &outcome);
            let meanwhile_ns = self.link.after_encoding_ns(raw_bytes, &sent);
            calls.push(Call::Observe { facts, decision, outcome, meanwhile_ns });
            // Which the peer says now and then, where there was something to decode.
            if told.is_told(outcome.sent) {
                let took = Duration::from_nanos(sent.decode_ns.round() as u64);
                policy.decoded(&facts, &decision, sent.wire_bytes, took);
                calls.push(Call::Decoded(facts, decision, sent.wire_bytes, took));
            }
        }
        let costs = Costs::of(build, &calls);
        Ok(Replayed { time_ns: transfers_ns + sampling_ns + costs.waited_ns, sampling_ns, costs, carried })
    }

    fn raw(&self, cut: usize) -> &[u8] {
        let Cut { source, offset, len, .. } = self.cuts[cut];
        &self.sources[source].raw()[offset..][..len]
    }

    /// One stream to one peer.
    fn facts(&self, cut: usize) -> CheapFacts {
        let Cut { element, len, .. } = self.cuts[cut];
        CheapFacts {
            peer: 1,
            stream: StreamId(0),
            raw_bytes: len as u64,
            element,
            allowed: AlgorithmSet::supported(),
            link: Some(self.link.facts()),
            lambda: None,
            is_observed: true,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mgcomp_codecs::Element;
    use mgcomp_selector::speeds::Speeds;
    use mgcomp_selector::{Decision, Fixed, PolicySpec, Steering};

    use super::*;
    use crate::select::table::Coded;

    const BYTES: usize = 32 << 10;
    const TRANSFERS: usize = 20;
    /// At half a gigabit each byte takes 16 ns; no overlap.
    const LINK: Link = Link { rate_gbps: 0.5, latency_ns: 100, segment: None };

    fn replayed(policy: PolicySpec) -> Replayed {
        let steering = Steering { speeds: Speeds::typical(), ..Steering::default() };
        replay_zeros(LINK, &|| policy.build(&steering))
    }

    /// Replays zeros, of which ZVC leaves a 32nd, in 3 µs for both ways, and any other codec an eighth in as much.
    fn replay_zeros(link: Link, build: &dyn Fn() -> Box<dyn Policy>) -> Replayed {
        let sources = [Source::of_zeros(None, "zeros", Element::F32, BYTES)];
        let cuts = [Cut { source: 0, element: Element::F32, offset: 0, len: BYTES }];
        let coded = |bytes| Coded { bytes, encode_ns: 2000.0, decode_ns: 1000.0 };
        let of = |algorithm| coded(if algorithm == Algorithm::Zvc { BYTES / 32 } else { BYTES / 8 } as u64);
        let table = Table::of_cut(BYTES as u64, of);
        let replay =
            Replay { sources: &sources, cuts: &cuts, table: &table, transfers: &[0; TRANSFERS], link };
        replay.run(build, &mut Sampler::default()).unwrap()
    }

    /// What the transfers themselves took.
    fn transfers_ns(replayed: &Replayed) -> f64 {
        replayed.time_ns - replayed.sampling_ns - replayed.costs.waited_ns
    }

    #[test]
    fn transfers_take_what_the_table_says_whatever_the_policy_costs() {
        let near = |a: f64, b: f64| (a - b).abs() < 1.0;
        let raw = replayed("fixed:none".parse().unwrap());
        assert!(near(transfers_ns(&raw), 20.0 * (100.0 + 524_288.0)), "{raw:?}");
        let zvc = replayed("fixed:zvc".parse().unwrap());
        assert!(near(transfers_ns(&zvc), 20.0 * (100.0 + 2000.0 + 16_384.0 + 1000.0)), "{zvc:?}");
        assert_eq!(zvc.carried[usize::from(Algorithm::Zvc.number())], (TRANSFERS * BYTES) as u64);
        assert_eq!((raw.sampling_ns, zvc.sampling_ns), (0.0, 0.0));
    }

    #[test]
    fn adaptive_finds_a_codec_where_any_is_far_ahead() {
        let adaptive = replayed(PolicySpec::Adaptive);
        let raw_bytes = adaptive.carried[usize::from(Algorithm::None.number())];
        assert!(raw_bytes < (TRANSFERS * BYTES / 2) as u64, "{adaptive:?}");
        assert_eq!(adaptive.carried.iter().sum::<u64>(), (TRANSFERS * BYTES) as u64);
        assert!(adaptive.sampling_ns > 0.0, "{adaptive:?}");
    }

    /// What hearing of each transfer takes at least.
    const SLOW: Duration = Duration::from_millis(1);

    /// Sends all raw, and is slow to hear of it.
    #[derive(Debug)]
    struct SlowToHear(Fixed);

    impl Policy for SlowToHear {
        fn name(&self) -> String {
            "slow-to-hear".into()
        }

        fn plan(&mut self, facts: &CheapFacts) -> Plan {
            self.0.plan(facts)
        }

        fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
            self.0.choose(facts, estimates)
        }

        fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {
            thread::sleep(SLOW);
        }
    }

    #[test]
    fn hearing_is_waited_for_where_it_takes_longer_than_the_transfer() {
        let waited_ns = |rate_gbps| {
            let link = Link { rate_gbps, latency_ns: 0, segment: None };
            replay_zeros(link, &|| Box::new(SlowToHear(Fixed::BYPASS))).costs.waited_ns
        };
        let all_ns = TRANSFERS as f64 * SLOW.as_nanos() as f64;
        // 32 KiB take 2.6 ns, and half a second.
        assert!(waited_ns(1e5) > 0.9 * all_ns);
        assert!(waited_ns(5e-4) < 0.9 * all_ns);
    }
}

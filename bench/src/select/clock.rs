//! What deciding takes: the calls of a replay, made again with the clock running.

use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::{CheapFacts, Decision, Estimate, Outcome, Policy};

/// How often all calls are made: the median counts, for what takes longer was interrupted.
const RUNS: usize = 3;

/// A call of a policy.
pub(super) enum Call {
    Plan(CheapFacts),
    Choose(CheapFacts, Vec<Estimate>),
    Observe {
        facts: CheapFacts,
        decision: Decision,
        outcome: Outcome,
        /// For so long the transfer is on its way by then.
        meanwhile_ns: f64,
    },
    Decoded(CheapFacts, Decision, u64, Duration),
}

/// What deciding takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// All calls of the sequence together, but for hearing what came of a transfer while that is on its way.
    pub(super) waited_ns: f64,
    /// The decision of a transfer that is not sampled, the first for each length left out: the median, if there are any.
    pub(super) plan_ns: Option<f64>,
    /// The slowest of a hundred of the same.
    pub(super) slow_plan_ns: Option<f64>,
    /// Hearing what came of one: the median.
    pub(super) observe_ns: f64,
}

impl Costs {
    pub(super) fn of(build: &dyn Fn() -> Box<dyn Policy>, calls: &[Call]) -> Self {
        let mut all: [f64; RUNS] = std::array::from_fn(|_| time_all(&mut *build(), calls));
        let each = time_each(build, calls);
        let mut observed: Vec<f64> = observed(calls, &each).collect();
        let mut late: Vec<f64> = late_plans(calls, &each).collect();
        Self {
            waited_ns: median(&mut all) * waited_share(calls, &each),
            plan_ns: quantile(&mut late, 0.5),
            slow_plan_ns: quantile(&mut late, 0.99),
            observe_ns: median(&mut observed),
        }
    }
}

fn time_all(policy: &mut dyn Policy, calls: &[Call]) -> f64 {
    let started = Instant::now();
    for call in calls {
        make(policy, call);
    }
    started.elapsed().as_nanos() as f64
}

/// What each call takes, without what the clock does: the median of several runs.
fn time_each(build: &dyn Fn() -> Box<dyn Policy>, calls: &[Call]) -> Vec<f64> {
    let mut clock: Vec<f64> = (0..calls.len()).map(|_| since(Instant::now())).collect();
    let clock_ns = median(&mut clock);
    let mut times = vec![[0.0; RUNS]; calls.len()];
    for run in 0..RUNS {
        let mut policy = build();
        for (call, times) in calls.iter().zip(&mut times) {
            let started = Instant::now();
            make(&mut *policy, call);
            times[run] = since(started);
        }
    }
    times.iter_mut().map(|times| (median(times) - clock_ns).max(0.0)).collect()
}

/// The part of what calls take `each` that transfers wait for. What all take together is known better than what each does.
fn waited_share(calls: &[Call], each: &[f64]) -> f64 {
    let waited = |(call, ns): (&Call, &f64)| match call {
        Call::Observe { meanwhile_ns, .. } => (ns - meanwhile_ns).max(0.0),
        _ => *ns,
    };
    let all_ns: f64 = each.iter().sum();
    if all_ns > 0.0 { calls.iter().zip(each).map(waited).sum::<f64>() / all_ns } else { 1.0 }
}

/// What hearing of each transfer takes.
fn observed(calls: &[Call], each: &[f64]) -> impl Iterator<Item = f64> {
    calls.iter().zip(each).filter(|(call, _)| matches!(call, Call::Observe { .. })).map(|(_, ns)| *ns)
}

/// What decisions take that ask for no sample and are not the first for their length.
fn late_plans(calls: &[Call], each: &[f64]) -> impl Iterator<Item = f64> {
    let mut met = HashSet::<(Element, u64)>::new();
    let next = calls.iter().skip(1).map(Some).chain([None]);
    calls.iter().zip(next).zip(each).filter_map(move |((call, next), ns)| match call {
        Call::Plan(facts) => {
            let is_late = !met.insert((facts.element, half_octave(facts.raw_bytes)));
            (is_late && !matches!(next, Some(Call::Choose(..)))).then_some(*ns)
        }
        _ => None,
    })
}

/// Up to one and a half times as many bytes all lengths are about the same.
const SHORTEST: u64 = 64;

/// Lengths above a power of two up to one and a half of it, and from there to the next power.
fn half_octave(raw_bytes: u64) -> u64 {
    let last = raw_bytes.saturating_sub(1).max(SHORTEST);
    let octave = last.ilog2();
    u64::from(2 * octave) + (last >> (octave - 1) & 1)
}

fn since(started: Instant) -> f64 {
    started.elapsed().as_nanos() as f64
}

fn make(policy: &mut dyn Policy, call: &Call) {
    match black_box(call) {
        Call::Plan(facts) => drop(black_box(policy.plan(facts))),
        Call::Choose(facts, estimates) => {
            black_box(policy.choose(facts, estimates));
        }
        Call::Observe { facts, decision, outcome, .. } => policy.observe(facts, decision, outcome),
        Call::Decoded(facts, decision, coded_bytes, took) => {
            policy.decoded(facts, decision, *coded_bytes, *took);
        }
    }
}

/// Zero where there is nothing.
fn median(times: &mut [f64]) -> f64 {
    quantile(times, 0.5).unwrap_or_default()
}

/// A figure that so large a part of the others does not exceed.
fn quantile(times: &mut [f64], part: f64) -> Option<f64> {
    times.sort_unstable_by(f64::total_cmp);
    let last = times.len().saturating_sub(1) as f64;
    times.get((last * part).ceil() as usize).copied()
}

#[cfg(test)]
mod tests {
    use std::thread;

    use mgcomp_codecs::{Algorithm, AlgorithmSet};
    use mgcomp_selector::{Fixed, Plan, Reason, StreamId};

    use super::*;

    /// What the first decision for a length takes at least.
    const FIRST: Duration = Duration::from_millis(10);

    /// Works its choice out for each length that is new, at leisure.
    #[derive(Debug)]
    struct SlowAtFirst {
        met: HashSet<u64>,
        choice: Fixed,
    }

    impl Policy for SlowAtFirst {
        fn name(&self) -> String {
            "slow-at-first".into()
        }

        fn plan(&mut self, facts: &CheapFacts) -> Plan {
            if self.met.insert(facts.raw_bytes) {
                thread::sleep(FIRST);
            }
            self.choice.plan(facts)
        }

        fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
            self.choice.choose(facts, estimates)
        }

        fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}
    }

    fn facts(raw_bytes: u64) -> CheapFacts {
        CheapFacts {
            peer: 1,
            stream: StreamId(0),
            raw_bytes,
            element: Element::U8,
            allowed: AlgorithmSet::supported(),
            link: None,
            lambda: None,
            is_observed: true,
        }
    }

    fn costs(lens: &[u64]) -> Costs {
        let calls: Vec<Call> = lens.iter().map(|&raw_bytes| Call::Plan(facts(raw_bytes))).collect();
        let policy =
            || -> Box<dyn Policy> { Box::new(SlowAtFirst { met: HashSet::new(), choice: Fixed::BYPASS }) };
        Costs::of(&policy, &calls)
    }

    #[test]
    fn a_power_of_two_is_the_last_of_its_lengths() {
        for [same, next] in
            [[1, 97], [97, 129], [(48 << 10) + 1, (64 << 10) + 1], [(64 << 10) + 1, (96 << 10) + 1]]
        {
            let last = next - 1;
            assert_eq!(half_octave(same), half_octave(last), "{same} {last}");
            assert_ne!(half_octave(last), half_octave(next), "{last} {next}");
        }
    }

    #[test]
    fn the_first_decision_for_a_length_is_in_no_quantile() {
        let costs = costs(&[256, 512, 1024, 2048, 2048]);
        // One of five: the median of all would be one of the first.
        let (plan_ns, slow_plan_ns) = (costs.plan_ns.unwrap(), costs.slow_plan_ns.unwrap());
        assert!(plan_ns < FIRST.as_nanos() as f64 && plan_ns <= slow_plan_ns, "{costs:?}");
        assert!(costs.waited_ns >= 4.0 * FIRST.as_nanos() as f64, "{costs:?}");
    }

    #[test]
    fn what_is_heard_while_a_transfer_is_on_its_way_keeps_nobody_waiting() {
        let facts = facts(1000);
        let observe = |meanwhile_ns| Call::Observe {
            facts,
            decision: Decision::bypass(&facts, Reason::LinkUnknown),
            outcome: Outcome {
                sent: Algorithm::None,
                coded_bytes: 1000,
                sampling: None,
                encode: None,
                decode: None,
                acknowledged: None,
            },
            meanwhile_ns,
        };
        // The second is heard of after 30 of its 50 ns, the third 40 ns after it has arrived.
        let calls = [Call::Plan(facts), observe(50.0), Call::Choose(facts, vec![]), observe(20.0)];
        assert_eq!(waited_share(&calls, &[100.0, 30.0, 10.0, 60.0]), 150.0 / 200.0);
        assert_eq!(observed(&calls, &[100.0, 30.0, 10.0, 60.0]).collect::<Vec<_>>(), [30.0, 60.0]);
        assert_eq!(waited_share(&calls, &[0.0; 4]), 1.0);
    }

    #[test]
    fn a_decision_that_asks_for_a_sample_is_in_no_quantile() {
        let plan = || Call::Plan(facts(1000));
        let calls = [plan(), plan(), Call::Choose(facts(1000), vec![]), plan(), plan()];
        assert_eq!(late_plans(&calls, &[1.0, 2.0, 3.0, 4.0, 5.0]).collect::<Vec<_>>(), [4.0, 5.0]);
    }

    #[test]
    fn where_every_length_comes_once_there_are_no_quantiles() {
        let costs = costs(&[256, 512, 1024]);
        assert_eq!((costs.plan_ns, costs.slow_plan_ns), (None, None));
    }

    #[test]
    fn quantiles_are_figures_that_came_up() {
        assert_eq!(quantile(&mut [9.0, 1.0, 5.0], 0.5), Some(5.0));
        assert_eq!(quantile(&mut [9.0, 1.0, 5.0], 0.99), Some(9.0));
        assert_eq!((quantile(&mut [], 0.5), median(&mut [])), (None, 0.0));
    }
}

//! What deciding takes: the calls of a replay, made again with the clock running.

use std::collections::HashSet;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_selector::{CheapFacts, Decision, Estimate, Outcome, Plan, Policy};

/// How often all calls are made: the median counts, for what takes longer was interrupted.
const RUNS: usize = 3;

/// A call of a policy.
pub(super) enum Call {
    Plan(CheapFacts),
    Choose(CheapFacts, Vec<Estimate>),
    Observe(CheapFacts, Decision, Outcome),
    Decoded(CheapFacts, Decision, u64, Duration),
}

/// What deciding takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// All calls of the sequence together.
    pub(super) all_ns: f64,
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
        let net = |ns: f64| (ns - each.clock_ns).max(0.0);
        let mut observed: Vec<f64> = each.observed.iter().copied().map(net).collect();
        let late = each.plans.iter().zip(running(calls)).filter(|(_, running)| *running);
        let mut late: Vec<f64> = late.filter_map(|(ns, _)| ns.map(net)).collect();
        Self {
            all_ns: median(&mut all),
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

/// What each call takes, and what the clock does.
struct Each {
    /// By plan; none for those that ask for a sample.
    plans: Vec<Option<f64>>,
    observed: Vec<f64>,
    clock_ns: f64,
}

/// Makes all calls several times: the median of each counts.
fn time_each(build: &dyn Fn() -> Box<dyn Policy>, calls: &[Call]) -> Each {
    let mut clock: Vec<f64> = (0..calls.len()).map(|_| since(Instant::now())).collect();
    let (mut plans, mut observed) = (Vec::<[Option<f64>; RUNS]>::new(), Vec::<[f64; RUNS]>::new());
    for run in 0..RUNS {
        let (mut plan, mut observe) = (0, 0);
        let mut policy = build();
        for call in calls {
            let started = Instant::now();
            let samples = make(&mut *policy, call);
            let ns = since(started);
            match call {
                Call::Plan(_) => {
                    note(&mut plans, plan, run, if samples { None } else { Some(ns) });
                    plan += 1;
                }
                Call::Observe(..) => {
                    note(&mut observed, observe, run, ns);
                    observe += 1;
                }
                Call::Choose(..) | Call::Decoded(..) => {}
            }
        }
    }
    let median_of_runs = |mut times: [f64; RUNS]| median(&mut times);
    // All runs ask for the same samples.
    let plan = |times: [Option<f64>; RUNS]| {
        times[0]?;
        Some(median_of_runs(times.map(Option::unwrap_or_default)))
    };
    Each {
        plans: plans.into_iter().map(plan).collect(),
        observed: observed.into_iter().map(median_of_runs).collect(),
        clock_ns: median(&mut clock),
    }
}

/// Notes a figure of a run.
fn note<T: Copy + Default>(figures: &mut Vec<[T; RUNS]>, at: usize, run: usize, figure: T) {
    if figures.len() == at {
        figures.push([T::default(); RUNS]);
    }
    figures[at][run] = figure;
}

/// By plan: whether a transfer of the same element and about the same length went before.
fn running(calls: &[Call]) -> Vec<bool> {
    let mut met = HashSet::<(Element, u64)>::new();
    let plan = |call: &Call| match call {
        Call::Plan(facts) => Some(!met.insert((facts.element, half_octave(facts.raw_bytes)))),
        _ => None,
    };
    calls.iter().filter_map(plan).collect()
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

/// Makes a call; returns whether it asks for a sample.
fn make(policy: &mut dyn Policy, call: &Call) -> bool {
    match black_box(call) {
        Call::Plan(facts) => matches!(black_box(policy.plan(facts)), Plan::Sample { .. }),
        Call::Choose(facts, estimates) => {
            black_box(policy.choose(facts, estimates));
            false
        }
        Call::Observe(facts, decision, outcome) => {
            policy.observe(facts, decision, outcome);
            false
        }
        Call::Decoded(facts, decision, coded_bytes, took) => {
            policy.decoded(facts, decision, *coded_bytes, *took);
            false
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

    use mgcomp_codecs::AlgorithmSet;
    use mgcomp_selector::{Fixed, StreamId};

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

    fn costs(lens: &[u64]) -> Costs {
        let plan = |&raw_bytes: &u64| {
            Call::Plan(CheapFacts {
                peer: 1,
                stream: StreamId(0),
                raw_bytes,
                element: Element::U8,
                allowed: AlgorithmSet::supported(),
                link: None,
                lambda: None,
                is_observed: true,
            })
        };
        let calls: Vec<Call> = lens.iter().map(plan).collect();
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
        assert!(costs.all_ns >= 4.0 * FIRST.as_nanos() as f64, "{costs:?}");
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

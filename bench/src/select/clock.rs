//! What deciding takes: the calls of a replay, made again with the clock running.

use std::hint::black_box;
use std::time::Instant;

use mgcomp_selector::{CheapFacts, Decision, Estimate, Outcome, Plan, Policy};

/// How often all calls are made: the best counts, for the others were interrupted.
const RUNS: usize = 3;

/// A call of a policy.
pub(super) enum Call {
    Plan(CheapFacts),
    Choose(CheapFacts, Vec<Estimate>),
    Observe(CheapFacts, Decision, Outcome),
}

/// What deciding takes, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// All calls of the sequence together.
    pub(super) all_ns: f64,
    /// The decision of a transfer that is not sampled: the median.
    pub(super) plan_ns: f64,
    /// Hearing what came of one: the median.
    pub(super) observe_ns: f64,
}

impl Costs {
    pub(super) fn of(build: &dyn Fn() -> Box<dyn Policy>, calls: &[Call]) -> Self {
        let all_ns = (0..RUNS).map(|_| time_all(&mut *build(), calls)).fold(f64::INFINITY, f64::min);
        let (plan_ns, observe_ns) = time_each(&mut *build(), calls);
        Self { all_ns, plan_ns, observe_ns }
    }
}

fn time_all(policy: &mut dyn Policy, calls: &[Call]) -> f64 {
    let started = Instant::now();
    for call in calls {
        make(policy, call);
    }
    started.elapsed().as_nanos() as f64
}

/// The medians of planning and observing, less what the clock takes.
fn time_each(policy: &mut dyn Policy, calls: &[Call]) -> (f64, f64) {
    let (mut plans, mut observed) = (Vec::new(), Vec::new());
    let mut clock: Vec<u64> = (0..calls.len()).map(|_| since(Instant::now())).collect();
    for call in calls {
        let started = Instant::now();
        let samples = make(policy, call);
        let ns = since(started);
        match call {
            Call::Plan(_) if !samples => plans.push(ns),
            Call::Observe(..) => observed.push(ns),
            _ => {}
        }
    }
    let clock_ns = median(&mut clock);
    ((median(&mut plans) - clock_ns).max(0.0), (median(&mut observed) - clock_ns).max(0.0))
}

fn since(started: Instant) -> u64 {
    started.elapsed().as_nanos() as u64
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
    }
}

/// Zero where there is nothing.
fn median(times: &mut [u64]) -> f64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or_default() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_one_counts() {
        assert_eq!(median(&mut [9, 1, 5]), 5.0);
        assert_eq!(median(&mut []), 0.0);
    }
}

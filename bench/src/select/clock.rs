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
    /// The decision of a transfer that is not sampled: the median.
    pub(super) plan_ns: f64,
    /// The same, the slowest of a hundred, the first for each length left out.
    pub(super) slow_plan_ns: f64,
    /// Hearing what came of one: the median.
    pub(super) observe_ns: f64,
}

impl Costs {
    pub(super) fn of(build: &dyn Fn() -> Box<dyn Policy>, calls: &[Call]) -> Self {
        let mut all: [f64; RUNS] = std::array::from_fn(|_| time_all(&mut *build(), calls));
        let all_ns = quantile(&mut all, 0.5);
        let each = time_each(build, calls);
        let running = running(calls);
        let clock_ns = each.clock_ns;
        let net = |ns: &f64| (ns - clock_ns).max(0.0);
        let mut plans: Vec<f64> = each.plans.iter().flatten().map(net).collect();
        let mut observed: Vec<f64> = each.observed.iter().map(net).collect();
        let mut late: Vec<f64> = each
            .plans
            .iter()
            .zip(running)
            .filter(|(_, running)| *running)
            .filter_map(|(ns, _)| *ns)
            .collect();
        late.iter_mut().for_each(|ns| *ns = net(ns));
        Self {
            all_ns,
            plan_ns: quantile(&mut plans, 0.5),
            slow_plan_ns: quantile(&mut late, 0.99),
            observe_ns: quantile(&mut observed, 0.5),
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
    let median = |mut times: [f64; RUNS]| quantile(&mut times, 0.5);
    // All runs ask for the same samples.
    let plan = |times: [Option<f64>; RUNS]| {
        times[0]?;
        Some(median(times.map(Option::unwrap_or_default)))
    };
    Each {
        plans: plans.into_iter().map(plan).collect(),
        observed: observed.into_iter().map(median).collect(),
        clock_ns: quantile(&mut clock, 0.5),
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

/// Lengths from one to one and a half powers of two, and from there to the next power.
fn half_octave(raw_bytes: u64) -> u64 {
    let octave = raw_bytes.max(2).ilog2();
    u64::from(2 * octave) + (raw_bytes >> (octave - 1) & 1)
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
fn quantile(times: &mut [f64], part: f64) -> f64 {
    times.sort_unstable_by(f64::total_cmp);
    let last = times.len().saturating_sub(1) as f64;
    times.get((last * part).ceil() as usize).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_figures_that_came_up() {
        assert_eq!(quantile(&mut [9.0, 1.0, 5.0], 0.5), 5.0);
        assert_eq!(quantile(&mut [9.0, 1.0, 5.0], 0.99), 9.0);
        assert_eq!(quantile(&mut [], 0.5), 0.0);
    }
}

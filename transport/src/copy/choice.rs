//! How a copy is coded: what policies decide.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, Decision, Estimate, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Reason, Steering,
    StreamId,
};

use super::{CopyReport, Direction};
use crate::calibrate;
use crate::control::OfProcess;
use crate::simulated::SimulatedLink;

/// Policies of other names that a copier remembers; the one that came first makes room.
const MOST_POLICIES: usize = 32;

/// The policies that copies were made with so far, with what they have learned.
#[derive(Debug)]
pub(super) struct Policies {
    known: Mutex<Vec<(PolicySpec, Box<dyn Policy>)>>,
    /// Whoever may turn compression off, whatever they say.
    process: OfProcess,
}

impl Policies {
    pub(super) fn new(process: OfProcess) -> Self {
        Self { known: Mutex::default(), process }
    }

    pub(super) fn plan(&self, spec: PolicySpec, facts: &CheapFacts) -> Plan {
        if self.process.is_off() {
            return Plan::Use(Decision::bypass(facts, Reason::SwitchedOff));
        }
        self.with(spec, |policy| policy.plan(facts))
    }

    pub(super) fn choose(&self, spec: PolicySpec, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.with(spec, |policy| policy.choose(facts, estimates))
    }

    pub(super) fn observe(
        &self,
        spec: PolicySpec,
        facts: &CheapFacts,
        (decision, sampling): (&Decision, Option<Duration>),
        report: &CopyReport,
    ) {
        let coded = decision.algorithm != Algorithm::None;
        let outcome = Outcome {
            sent: report.algorithm,
            coded_bytes: report.coded_bytes,
            sampling,
            encode: coded.then_some(report.encode),
            decode: None,
            acknowledged: None,
        };
        self.with(spec, |policy| policy.observe(facts, decision, &outcome));
    }

    fn with<R>(&self, spec: PolicySpec, ask: impl FnOnce(&mut dyn Policy) -> R) -> R {
        let mut known = self.lock();
        if let Some((_, policy)) = known.iter_mut().find(|(name, _)| *name == spec) {
            return ask(policy.as_mut());
        }
        if known.len() == MOST_POLICIES {
            known.remove(0);
        }
        let mut policy = spec.build(&Steering { lambda: None, speeds: calibrate::speeds() });
        let answer = ask(policy.as_mut());
        known.push((spec, policy));
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(PolicySpec, Box<dyn Policy>)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A copy as policies see it: copies of one direction are a stream.
pub(super) fn facts(
    direction: Direction,
    link: Option<&SimulatedLink>,
    element: Element,
    (raw_bytes, segment_bytes): (u64, u64),
) -> CheapFacts {
    let stream = StreamId(Direction::ALL.iter().position(|known| *known == direction).unwrap_or(0) as u32);
    let link = link.and_then(|link| {
        let shaping = link.shaping();
        let latency_ns = u64::try_from(shaping.latency().as_nanos()).unwrap_or(u64::MAX);
        LinkFacts::try_new(shaping.rate_gbps(), latency_ns, Overlap::Segments(segment_bytes)).ok()
    });
    CheapFacts { peer: 0, stream, raw_bytes, element, allowed: AlgorithmSet::supported(), link, lambda: None }
}

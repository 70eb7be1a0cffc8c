//! How a copy is coded: what policies decide.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    Behind, CheapFacts, Decision, Estimate, LinkFacts, Look, Outcome, Overlap, Plan, Policy, PolicySpec,
    Reason, Steering, StreamId,
};

use super::{CopyReport, Direction};
use crate::calibrate;
use crate::control::OfProcess;
use crate::simulated::SimulatedLink;

/// Policies of other names that a copier remembers; the one that came first makes room.
const MOST_POLICIES: usize = 32;

/// What was decided for a copy.
#[derive(Debug)]
pub(super) struct Made {
    pub(super) decision: Decision,
    /// What the sample took that it was decided by.
    pub(super) sampling: Option<Duration>,
    /// Whether it is looked at on its way, for later ones.
    pub(super) is_looked_at: bool,
}

/// The policies that copies were made with so far, with what they have learned.
#[derive(Debug)]
pub(super) struct Policies {
    known: Mutex<Vec<Known>>,
    /// Whoever may turn compression off, whatever they say.
    process: OfProcess,
}

#[derive(Debug)]
struct Known {
    spec: PolicySpec,
    policy: Box<dyn Policy>,
    /// For what is in the memory of devices.
    behind: Behind,
}

impl Policies {
    pub(super) fn new(process: OfProcess) -> Self {
        Self { known: Mutex::default(), process }
    }

    pub(super) fn plan(&self, spec: PolicySpec, facts: &CheapFacts) -> Plan {
        if self.process.is_off() {
            return Plan::Use(Decision::bypass(facts, Reason::SwitchedOff));
        }
        self.with(spec, |known| known.policy.plan(facts))
    }

    pub(super) fn choose(&self, spec: PolicySpec, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.with(spec, |known| known.policy.choose(facts, estimates))
    }

    /// As [`plan`](Self::plan), where nothing waits for a look.
    pub(super) fn plan_behind(&self, spec: PolicySpec, facts: &CheapFacts) -> (Decision, Option<Look>) {
        if self.process.is_off() {
            return (Decision::bypass(facts, Reason::SwitchedOff), None);
        }
        self.with(spec, |Known { policy, behind, .. }| behind.plan(policy.as_mut(), facts))
    }

    /// Hears what such a look has found.
    pub(super) fn hear(&self, spec: PolicySpec, facts: &CheapFacts, estimates: &[Estimate]) {
        self.with(spec, |Known { policy, behind, .. }| behind.hear(policy.as_mut(), facts, estimates));
    }

    pub(super) fn observe(
        &self,
        spec: PolicySpec,
        facts: &CheapFacts,
        Made { decision, sampling, is_looked_at }: &Made,
        report: &CopyReport,
    ) {
        let coded = decision.algorithm != Algorithm::None;
        let outcome = Outcome {
            sent: report.algorithm,
            coded_bytes: report.coded_bytes,
            sampling: *sampling,
            // What was looked at meanwhile has had its part of that time.
            encode: (coded && !is_looked_at).then_some(report.encode),
            decode: None,
            acknowledged: None,
        };
        self.with(spec, |known| known.policy.observe(facts, decision, &outcome));
    }

    fn with<R>(&self, spec: PolicySpec, ask: impl FnOnce(&mut Known) -> R) -> R {
        let mut known = self.lock();
        if let Some(known) = known.iter_mut().find(|known| known.spec == spec) {
            return ask(known);
        }
        if known.len() == MOST_POLICIES {
            known.remove(0);
        }
        let policy = spec.build(&Steering { lambda: None, speeds: calibrate::speeds() });
        let mut new = Known { spec, policy, behind: Behind::default() };
        let answer = ask(&mut new);
        known.push(new);
        answer
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Known>> {
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

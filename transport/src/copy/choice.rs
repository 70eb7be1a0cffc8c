//! How a copy is coded: what policies decide.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::Device;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{
    Behind, CheapFacts, Decision, Estimate, LinkFacts, Look, Outcome, Plan, Policy, PolicySpec, Reason,
    Steering, StreamId,
};

use super::{CopyReport, Direction};
use crate::calibrate;
use crate::control::OfProcess;
#[cfg(feature = "cuda")]
use crate::memory::Slice;
use crate::payload::Payload;

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

impl Made {
    /// Without a look at what is copied.
    pub(super) fn of(decision: Decision) -> Self {
        Self { decision, sampling: None, is_looked_at: false }
    }
}

/// The policies that copies were made with so far, with what they have learned.
#[derive(Debug)]
pub(super) struct Policies {
    known: Mutex<Vec<Known>>,
    /// Whoever may turn compression off, whatever they say.
    process: OfProcess,
}

/// What codes at one end of a copy.
#[derive(Clone, Debug)]
pub(super) enum Coding {
    Host,
    #[cfg(feature = "cuda")]
    Device(Device),
}

/// What a copy goes by. Copies that differ in this have policies of their own.
#[derive(Clone, Debug)]
pub(super) struct How {
    spec: PolicySpec,
    from: Coding,
    to: Coding,
}

impl Coding {
    fn of(memory: &Payload) -> Self {
        #[cfg(feature = "cuda")]
        if let Some(Slice::Device(slice)) = memory.slice() {
            return Self::Device(slice.device().clone());
        }
        let _ = memory;
        Self::Host
    }

    pub(super) fn is_host(&self) -> bool {
        matches!(self, Self::Host)
    }

    fn is_same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Host, Self::Host) => true,
            #[cfg(feature = "cuda")]
            (Self::Device(one), Self::Device(other)) => one.is_same(other),
            #[cfg(feature = "cuda")]
            _ => false,
        }
    }

    fn speeds(&self) -> Arc<Speeds> {
        match self {
            Self::Host => calibrate::speeds(),
            #[cfg(feature = "cuda")]
            Self::Device(device) => calibrate::device_speeds(device.info()),
        }
    }
}

impl How {
    /// A copy of `source`. What is kept, where there is no destination, will be decoded for where it came from.
    pub(super) fn new(spec: PolicySpec, source: &Payload, destination: Option<&Payload>) -> Self {
        Self { spec, from: Coding::of(source), to: Coding::of(destination.unwrap_or(source)) }
    }

    /// What encodes.
    pub(super) fn from(&self) -> &Coding {
        &self.from
    }

    /// What decodes.
    pub(super) fn to(&self) -> &Coding {
        &self.to
    }

    /// Whether its policy goes by how fast the way between host and device, or devices, is.
    pub(super) fn goes_by_the_way(&self) -> bool {
        self.spec == PolicySpec::Adaptive && !(self.from.is_host() && self.to.is_host())
    }

    fn is_same(&self, other: &Self) -> bool {
        self.spec == other.spec && self.from.is_same(&other.from) && self.to.is_same(&other.to)
    }

    fn speeds(&self) -> Arc<Speeds> {
        let encoders = self.from.speeds();
        if self.from.is_same(&self.to) {
            return encoders;
        }
        Arc::new(encoders.decoded_by(&self.to.speeds()))
    }
}

#[derive(Debug)]
struct Known {
    how: How,
    policy: Box<dyn Policy>,
    /// For what is in the memory of devices.
    behind: Behind,
}

impl Policies {
    pub(super) fn new(process: OfProcess) -> Self {
        Self { known: Mutex::default(), process }
    }

    pub(super) fn plan(&self, how: &How, facts: &CheapFacts) -> Plan {
        if self.process.is_off() {
            return Plan::Use(Decision::bypass(facts, Reason::SwitchedOff));
        }
        self.with(how, |known| known.policy.plan(facts))
    }

    pub(super) fn choose(&self, how: &How, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        self.with(how, |known| known.policy.choose(facts, estimates))
    }

    /// As [`plan`](Self::plan), where nothing waits for a look.
    pub(super) fn plan_behind(&self, how: &How, facts: &CheapFacts) -> (Decision, Option<Look>) {
        if self.process.is_off() {
            return (Decision::bypass(facts, Reason::SwitchedOff), None);
        }
        self.with(how, |Known { policy, behind, .. }| behind.plan(policy.as_mut(), facts))
    }

    /// Hears what such a look has found.
    pub(super) fn hear(&self, how: &How, facts: &CheapFacts, estimates: &[Estimate]) {
        self.with(how, |Known { policy, behind, .. }| behind.hear(policy.as_mut(), facts, estimates));
    }

    pub(super) fn observe(
        &self,
        how: &How,
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
        self.with(how, |known| known.policy.observe(facts, decision, &outcome));
    }

    fn with<R>(&self, how: &How, ask: impl FnOnce(&mut Known) -> R) -> R {
        let mut known = self.lock();
        if let Some(known) = known.iter_mut().find(|known| known.how.is_same(how)) {
            return ask(known);
        }
        if known.len() == MOST_POLICIES {
            known.remove(0);
        }
        let policy = how.spec.build(&Steering { lambda: None, speeds: how.speeds() });
        let mut new = Known { how: how.clone(), policy, behind: Behind::default() };
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
    link: Option<LinkFacts>,
    element: Element,
    raw_bytes: u64,
) -> CheapFacts {
    let stream = StreamId(Direction::ALL.iter().position(|known| *known == direction).unwrap_or(0) as u32);
    CheapFacts {
        peer: 0,
        stream,
        raw_bytes,
        element,
        allowed: AlgorithmSet::supported(),
        link,
        lambda: None,
        is_observed: true,
    }
}

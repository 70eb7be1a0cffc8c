//! Whether and how copies are coded.

use std::fmt;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{CheapFacts, Decision, LinkFacts, Plan, Policy, Steering, StreamId};

use super::PeerCopyConfig;
use crate::executor::cuda::estimate;
use crate::memory::DeviceSlice;
use crate::{calibrate, control};

/// A policy, and what it has found out.
pub(super) struct Choice {
    policy: Box<dyn Policy>,
    /// What it chose when it last looked at data.
    learned: Option<Decision>,
    link: Option<LinkFacts>,
    allowed: AlgorithmSet,
    gate_bytes: u64,
    is_off: bool,
}

impl Choice {
    pub(super) fn new(config: &PeerCopyConfig, allowed: AlgorithmSet) -> Self {
        let steering = Steering { lambda: None, speeds: calibrate::speeds() };
        Self {
            policy: config.policy.build(&steering),
            learned: None,
            link: config.link,
            allowed,
            gate_bytes: config.gate_bytes,
            is_off: control::is_switched_off(),
        }
    }

    /// How a copy is to be coded, without a look at its bytes: a policy that wants one gets its way at the next
    /// [`learn`](Self::learn).
    pub(super) fn algorithm(&mut self, element: Element, raw_bytes: u64) -> Algorithm {
        if self.is_off || raw_bytes < self.gate_bytes {
            return Algorithm::None;
        }
        match self.policy.plan(&self.facts(element, raw_bytes)) {
            Plan::Use(decision) => decision.algorithm,
            Plan::Sample { .. } => self.learned.map_or(Algorithm::None, |decision| decision.algorithm),
        }
    }

    /// Lets the policy look at some data, if it wants to. Waits for that.
    pub(super) fn learn(&mut self, element: Element, data: &DeviceSlice) {
        let facts = self.facts(element, data.len() as u64);
        if let Plan::Sample { algorithms, size } = self.policy.plan(&facts) {
            let estimates = estimate(data, element, algorithms, size);
            self.learned = Some(self.policy.choose(&facts, &estimates));
        }
    }

    fn facts(&self, element: Element, raw_bytes: u64) -> CheapFacts {
        let (link, allowed) = (self.link, self.allowed);
        CheapFacts { peer: 0, stream: StreamId(0), raw_bytes, element, allowed, link, lambda: None }
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice").field("policy", &self.policy).field("learned", &self.learned).finish()
    }
}

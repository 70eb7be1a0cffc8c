//! Whether and how copies are coded.

use std::fmt;

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{CheapFacts, Decision, LinkFacts, Plan, Policy, Steering, StreamId};

use super::PeerCopyConfig;
use super::codecs::chunk_size;
use crate::executor::cuda::estimate;
use crate::executor::cuda::probe::{Answer, Question};
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
    chunk_size: ChunkSize,
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
            chunk_size: chunk_size(config.segment_bytes.min(config.most_bytes)),
            is_off: control::is_switched_off(),
        }
    }

    /// How a copy is to be coded, without a look at its bytes; and what the policy would like to know of them.
    pub(super) fn algorithm(&mut self, element: Element, raw_bytes: u64) -> (Algorithm, Option<Question>) {
        if self.is_off || raw_bytes < self.gate_bytes {
            return (Algorithm::None, None);
        }
        let (facts, chunk_size) = (self.facts(element, raw_bytes), self.chunk_size);
        match self.policy.plan(&facts) {
            Plan::Use(decision) => (decision.algorithm, None),
            Plan::Sample { algorithms, size } => {
                let learned = self.learned.map_or(Algorithm::None, |decision| decision.algorithm);
                (learned, Some(Question { facts, chunk_size, algorithms, size }))
            }
        }
    }

    /// Hears what was found in copies that were made.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        for (facts, estimates) in answers {
            self.learned = Some(self.policy.choose(&facts, &estimates));
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

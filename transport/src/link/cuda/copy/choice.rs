//! Whether and how copies are coded.

use std::fmt;
use std::time::Duration;

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, Decision, LinkFacts, Overlap, Plan, Policy, PolicySpec, Steering, StreamId,
};

use super::PeerCopyConfig;
use super::codecs::chunk_size;
use crate::executor::cuda::estimate;
use crate::executor::cuda::probe::{Answer, Question};
use crate::link::rate::TimedRate;
use crate::memory::DeviceSlice;
use crate::{calibrate, control};

/// What the driver and the devices take to begin a copy, whatever its length.
const START: Duration = Duration::from_micros(10);
/// So many plain copies are timed one after the other while nothing is known: more of them hardly tell what these did not.
const FIRST_TIMED: u32 = 8;
/// Then, or once the link is known, so many plain copies go by before one is timed again.
const PLAIN_BETWEEN: u32 = 7;
/// So many coded ones go by before one is plain instead, since else a link that has changed, or was disturbed, would be taken
/// for what it was.
const CODED_BETWEEN: u32 = 255;

/// A policy, and what it has found out.
pub(super) struct Choice {
    policy: Box<dyn Policy>,
    /// What it chose when it last looked at data.
    learned: Option<Decision>,
    link: Link,
    overlap: Overlap,
    allowed: AlgorithmSet,
    gate_bytes: u64,
    chunk_size: ChunkSize,
    is_off: bool,
}

/// What is known of the link.
#[derive(Debug)]
enum Link {
    /// What the program has said; or nothing, where the policy does not go by it.
    Stated(Option<LinkFacts>),
    /// What plain copies have shown.
    Timed(Timed),
}

#[derive(Debug)]
struct Timed {
    rate: TimedRate,
    /// Copies that were to be timed, up to [`FIRST_TIMED`], and those since the last of them.
    first: u32,
    since: u32,
}

/// What becomes of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) algorithm: Algorithm,
    /// What the policy would like to know of it.
    pub(super) question: Option<Question>,
    /// Whether it shows how fast the link is.
    pub(super) is_timed: bool,
}

impl Choice {
    pub(super) fn new(config: &PeerCopyConfig, allowed: AlgorithmSet) -> Self {
        let steering = Steering { lambda: config.lambda, speeds: calibrate::speeds() };
        let link = match (config.policy, config.link) {
            (PolicySpec::Adaptive, None) if config.lambda.is_none() => {
                Link::Timed(Timed { rate: TimedRate::new(START), first: 0, since: 0 })
            }
            (_, link) => Link::Stated(link),
        };
        Self {
            policy: config.policy.build(&steering),
            learned: None,
            link,
            overlap: Overlap::Segments(config.segment_bytes),
            allowed,
            gate_bytes: config.gate_bytes,
            chunk_size: chunk_size(config.segment_bytes.min(config.most_bytes)),
            is_off: control::is_switched_off(),
        }
    }

    /// Whether copies of so many bytes are plain, and nobody is asked.
    pub(super) const fn is_short(&self, raw_bytes: u64) -> bool {
        raw_bytes < self.gate_bytes
    }

    /// How a copy is to be coded, without a look at its bytes. `can_time` says whether it can be timed.
    pub(super) fn choose(&mut self, element: Element, raw_bytes: u64, can_time: bool) -> Chosen {
        let plain = Chosen { algorithm: Algorithm::None, question: None, is_timed: false };
        if self.is_off {
            return plain;
        }
        let (facts, chunk_size) = (self.facts(element, raw_bytes), self.chunk_size);
        let chosen = match self.policy.plan(&facts) {
            Plan::Use(decision) => Chosen { algorithm: decision.algorithm, ..plain },
            Plan::Sample { algorithms, size } => {
                let algorithm = self.learned.map_or(Algorithm::None, |decision| decision.algorithm);
                Chosen {
                    algorithm,
                    question: Some(Question { facts, chunk_size, algorithms, size }),
                    ..plain
                }
            }
        };
        if can_time && self.link.is_due(chosen.algorithm) {
            return Chosen { algorithm: Algorithm::None, is_timed: true, ..chosen };
        }
        chosen
    }

    /// Hears what was found in copies that were made.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        for (facts, estimates) in answers {
            self.learned = Some(self.policy.choose(&facts, &estimates));
        }
    }

    /// Hears how long a plain copy took.
    pub(super) fn timed(&mut self, raw_bytes: u64, took: Duration) {
        if let Link::Timed(timed) = &mut self.link {
            timed.rate.learn(raw_bytes, took);
        }
    }

    /// What is known of the link.
    pub(super) fn link(&self) -> Option<LinkFacts> {
        match &self.link {
            Link::Stated(link) => *link,
            Link::Timed(timed) => timed.rate.facts(self.overlap),
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
        let (link, allowed) = (self.link(), self.allowed);
        CheapFacts { peer: 0, stream: StreamId(0), raw_bytes, element, allowed, link, lambda: None }
    }
}

impl Link {
    /// Whether a copy that was to go so is plain and timed.
    fn is_due(&mut self, algorithm: Algorithm) -> bool {
        let Self::Timed(Timed { rate, first, since }) = self else { return false };
        let between = match algorithm {
            Algorithm::None if *first < FIRST_TIMED && rate.facts(Overlap::None).is_none() => 0,
            Algorithm::None => PLAIN_BETWEEN,
            _ => CODED_BETWEEN,
        };
        let is_due = *since >= between;
        *since = if is_due { 0 } else { *since + 1 };
        *first += u32::from(is_due && *first < FIRST_TIMED);
        is_due
    }
}

impl fmt::Debug for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Choice")
            .field("policy", &self.policy)
            .field("learned", &self.learned)
            .field("link", &self.link)
            .finish()
    }
}

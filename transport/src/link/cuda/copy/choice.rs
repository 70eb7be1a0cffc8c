//! Whether and how copies are coded.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{
    CheapFacts, Decision, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Reason, Steering, StreamId,
};

use super::PeerCopyConfig;
use super::codecs::chunk_size;
use crate::control;
use crate::executor::cuda::estimate;
use crate::executor::cuda::probe::{Answer, Question};
use crate::link::rate::TimedRate;
use crate::memory::DeviceSlice;

/// What the driver and the devices take to begin a copy, whatever its length.
const START: Duration = Duration::from_micros(10);
/// So many plain copies are timed one after the other while nothing is known: more of them hardly tell what these did not.
const FIRST_TIMED: u32 = 8;
/// Then, or once the link is known, so many plain copies go by before one is timed again.
const PLAIN_BETWEEN: u32 = 7;
/// So many coded ones go by before one is plain instead, since else a link that has changed, or was disturbed, would be taken
/// for what it was.
const CODED_BETWEEN: u32 = 255;
/// So many copies with one algorithm are watched one after the other, and then one after so many others.
const FIRST_WATCHED: u32 = 8;
const WATCHED_BETWEEN: u32 = 7;
/// What takes so many times as long as the link does for its bytes takes that time by itself.
const BEYOND_THE_LINK: f64 = 1.25;

/// A policy, and what it has found out.
pub(super) struct Choice {
    policy: Box<dyn Policy>,
    /// What it chose when it last looked at data.
    learned: Option<Decision>,
    link: Link,
    overlap: Overlap,
    watches: Watches,
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

/// Which coded copies are watched.
#[derive(Debug)]
struct Watches {
    /// What the last one was coded with, how many were in a row, and how many there were since one was watched.
    algorithm: Algorithm,
    in_a_row: u32,
    since: u32,
}

/// A decision, and what it was made for.
pub(super) type Made = (CheapFacts, Decision);

/// What becomes of a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub(super) algorithm: Algorithm,
    /// What the policy would like to know of it.
    pub(super) question: Option<Question>,
    /// Whether it shows how fast the link is.
    pub(super) is_timed: bool,
    /// What is to be heard of again, with what it has shown, if that is asked for.
    pub(super) watched: Option<Made>,
}

impl Choice {
    /// For copies with the algorithms `allowed`, by kernels that are as fast as `speeds` say until they show it, and that work beside
    /// the link as `overlap` says.
    pub(super) fn new(
        config: &PeerCopyConfig,
        (allowed, speeds): (AlgorithmSet, Arc<Speeds>),
        overlap: Overlap,
    ) -> Self {
        let steering = Steering { lambda: config.lambda, speeds };
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
            overlap,
            watches: Watches::of(Algorithm::None),
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

    /// How a copy is to be coded, without a look at its bytes. `can_time` says whether it can be timed if it is plain, `can_watch`
    /// whether it can be watched if it is coded.
    pub(super) fn choose(
        &mut self,
        (element, raw_bytes): (Element, u64),
        can_time: bool,
        can_watch: bool,
    ) -> Chosen {
        let plain = Chosen { algorithm: Algorithm::None, question: None, is_timed: false, watched: None };
        if self.is_off {
            return plain;
        }
        let (facts, chunk_size) = (self.facts(element, raw_bytes), self.chunk_size);
        let (decision, question) = match self.policy.plan(&facts) {
            Plan::Use(decision) => (Some(decision), None),
            Plan::Sample { algorithms, size } => {
                (self.learned, Some(Question { facts, chunk_size, algorithms, size }))
            }
        };
        // A trial that nobody watches would be in vain.
        let is_trial =
            |decision: &Decision| matches!(decision.reason, Reason::Trial { .. } | Reason::Guessed { .. });
        let decision = decision.filter(|decision| can_watch || !is_trial(decision));
        let algorithm = decision.map_or(Algorithm::None, |decision| decision.algorithm);
        if can_time && self.link.is_due(algorithm) {
            return Chosen { question, is_timed: true, ..plain };
        }
        let is_watched = can_watch && self.watches.is_due(algorithm);
        let watched = decision.filter(|_| is_watched).map(|decision| (facts, decision));
        Chosen { algorithm, question, watched, ..plain }
    }

    /// Hears what a coded copy has become, and what the kernels at both ends took.
    pub(super) fn observe(
        &mut self,
        (facts, decision): &Made,
        coded_bytes: u64,
        [encode, decode]: [Duration; 2],
    ) {
        // A kernel that uses the link takes no less than that does, which is not its own time.
        let wire_ns = self.link().map(|link| 8.0 * coded_bytes as f64 / link.rate_gbps());
        let own = |took: Duration| {
            wire_ns.is_some_and(|wire_ns| took.as_nanos() as f64 > BEYOND_THE_LINK * wire_ns).then_some(took)
        };
        let is_relayed = matches!(self.overlap, Overlap::Relayed(_));
        let outcome = Outcome {
            sent: decision.algorithm,
            coded_bytes,
            sampling: None,
            encode: own(encode),
            decode: if is_relayed { own(decode) } else { Some(decode) },
            acknowledged: None,
        };
        self.policy.observe(facts, decision, &outcome);
    }

    /// Hears what was found in copies that were made.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        for (facts, estimates) in answers {
            let decision = self.policy.choose(&facts, &estimates);
            // What is expected of it is expected of that length.
            self.learned = Some(Decision { predicted_bits: None, predicted_ns: None, ..decision });
        }
    }

    /// Hears how long a plain copy took: once over the link, or twice.
    pub(super) fn timed(&mut self, raw_bytes: u64, took: Duration) {
        let Link::Timed(timed) = &mut self.link else { return };
        let once = match self.overlap {
            Overlap::Relayed(segment_bytes) => {
                // The second pass of a segment goes beside the first of the next.
                let segments = raw_bytes.div_ceil(segment_bytes).max(1) as f64;
                took.mul_f64(segments / (segments + 1.0))
            }
            _ => took,
        };
        timed.rate.learn(raw_bytes, once);
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
            self.hear(vec![(facts, estimates)]);
        }
    }

    fn facts(&self, element: Element, raw_bytes: u64) -> CheapFacts {
        // However codecs and link overlap where it was stated, here they do as they do.
        let link = self.link().and_then(|link| link.with_overlap(self.overlap).ok());
        let allowed = self.allowed;
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

impl Watches {
    const fn of(algorithm: Algorithm) -> Self {
        Self { algorithm, in_a_row: 0, since: 0 }
    }

    /// Whether a copy that goes so is watched.
    fn is_due(&mut self, algorithm: Algorithm) -> bool {
        if algorithm == Algorithm::None {
            return false;
        }
        if algorithm != self.algorithm {
            *self = Self::of(algorithm);
        }
        let is_due = self.in_a_row < FIRST_WATCHED || self.since >= WATCHED_BETWEEN;
        self.in_a_row = self.in_a_row.saturating_add(1);
        self.since = if is_due { 0 } else { self.since + 1 };
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

//! What is compressed, and how: what all ranks decide alike, and what each decides for what it sends.
//!
//! Whether headers go ahead is decided alike, from what the ranks concerned know: the length, the settings, and what
//! became of the calls before. Where two calls in a row sent nothing but raw bytes, the next ones are plain, more of them
//! each time. How it codes what it sends is a rank's own affair. Data that its policy wants to look at is looked at while it is on
//! its way: later transfers go by what is found.
//!
//! How fast the link is shows in calls with headers that go from every rank to every other one, while what the headers announce
//! is moved: all ranks have just met then, so none waits long for another. Each kind of such calls has a rate of its own, and
//! each rank goes by its own, as it does by what its data becomes. Messages to some ranks only tell nothing of the link: whoever
//! gets them may come late, and what else the rank sends and receives meanwhile takes its part.

use std::collections::HashMap;
use std::time::Duration;

use mgcomp_codecs::device::{Region, algorithms};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{
    CheapFacts, Decision, LinkFacts, Outcome, Overlap, Plan, Policy, PolicySpec, Reason, Steering, StreamId,
};

use super::NcclConfig;
use super::entry::{Coding, Entry};
use super::lane::Outgoing;
use crate::executor::cuda::probe::{Answer, Question};
use crate::link::Position;
use crate::link::rate::TimedRate;
use crate::{calibrate, control};

/// The most calls that are plain in a row before it is tried again.
const LONGEST_PAUSE: u32 = 64;

/// What NCCL takes to begin, and ranks to come to it one after the other: who waits for headers may sleep for 200 us.
const START: Duration = Duration::from_micros(300);

/// What calls are alike.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Key {
    Broadcast {
        root: u32,
    },
    AllGather,
    To(u32),
    From(u32),
    /// To all others, and from them.
    Exchange,
}

impl Key {
    /// The stream that policies know it by.
    const fn stream(self) -> StreamId {
        match self {
            Self::Broadcast { .. } => StreamId(0),
            Self::AllGather => StreamId(1),
            Self::To(_) | Self::From(_) | Self::Exchange => StreamId(2),
        }
    }
}

/// What became of calls of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Pause {
    raw_in_a_row: u32,
    left: u32,
}

/// What a call has moved, which is timed.
#[derive(Debug)]
pub(super) struct Moved {
    pub(super) key: Key,
    /// What it has sent or received, whichever is more.
    pub(super) bytes: u64,
}

/// How a region goes, before it is known what becomes of it.
#[derive(Debug)]
pub(super) struct Choice {
    facts: CheapFacts,
    decision: Decision,
}

pub(super) struct Choices {
    policy: Box<dyn Policy>,
    config: NcclConfig,
    compresses: bool,
    /// What devices have kernels of.
    allowed: AlgorithmSet,
    pauses: HashMap<Key, Pause>,
    /// What was chosen when data was last looked at, for transfers alike.
    learned: HashMap<(u32, StreamId, Element), Decision>,
    /// What is known of the link, unless that was said.
    rates: HashMap<Key, TimedRate>,
}

impl Choices {
    pub(super) fn new(config: NcclConfig, position: Position) -> Self {
        let steering = Steering { lambda: config.lambda, speeds: calibrate::speeds() };
        let (policy, _) = control::steer(config.policy.build(&steering), position);
        // IBP would need codebooks, which nobody fits here.
        let allowed = algorithms().filter(|&algorithm| algorithm != Algorithm::Ibp).collect();
        let (pauses, learned, rates) = (HashMap::new(), HashMap::new(), HashMap::new());
        Self { policy, config, compresses: config.compresses(), allowed, pauses, learned, rates }
    }

    /// Whether headers are worth looking at for so many bytes. If so, [`is_open`](Self::is_open) says whether they go ahead.
    pub(super) fn is_long(&self, len: u64) -> bool {
        self.compresses && len > 0 && len >= self.config.least_bytes
    }

    /// Whether headers go ahead of this call. To be asked once for each call, on every rank concerned.
    pub(super) fn is_open(&mut self, key: Key) -> bool {
        let pause = self.pauses.entry(key).or_default();
        if pause.left == 0 {
            return true;
        }
        pause.left -= 1;
        false
    }

    /// Learns what headers said, which all ranks concerned have seen.
    pub(super) fn learn<'a>(&mut self, key: Key, entries: impl IntoIterator<Item = &'a Entry>) {
        let pause = self.pauses.entry(key).or_default();
        if entries.into_iter().any(|entry| entry.coding().is_some()) {
            *pause = Pause::default();
            return;
        }
        pause.raw_in_a_row = (pause.raw_in_a_row + 1).min(8);
        if pause.raw_in_a_row > 1 {
            pause.left = (1 << (pause.raw_in_a_row - 1)).min(LONGEST_PAUSE);
        }
    }

    /// Hears what was found in the data of transfers that have gone.
    pub(super) fn hear(&mut self, answers: Vec<Answer>) {
        for (facts, estimates) in answers {
            let decision = self.policy.choose(&facts, &estimates);
            // What is expected of it is expected of that length.
            let learned = Decision { predicted_bits: None, predicted_ns: None, ..decision };
            self.learned.insert((facts.peer, facts.stream, facts.element), learned);
        }
    }

    /// Whether anybody wants to know how fast the link is.
    pub(super) fn measures(&self) -> bool {
        let NcclConfig { policy, link, lambda, .. } = &self.config;
        *policy == PolicySpec::Adaptive && link.is_none() && lambda.is_none()
    }

    /// Hears how long something took to be moved.
    pub(super) fn timed(&mut self, moved: &Moved, took: Duration) {
        self.rates.entry(moved.key).or_insert_with(|| TimedRate::new(START)).learn(moved.bytes, took);
    }

    /// What is known of the link for calls of one kind, if they are timed. Codecs work before and after it.
    fn link(&self, key: Option<Key>) -> Option<LinkFacts> {
        self.config.link.or_else(|| self.rates.get(&key?)?.facts(Overlap::None))
    }

    /// Chooses how a region goes to `peer`. What the policy wants to look at goes as was chosen when it last looked at
    /// something like it, raw if it never did; `can_look` says whether anybody can look at it meanwhile, `timed` what calls
    /// tell how fast its way is.
    pub(super) fn choose<'a>(
        &mut self,
        (key, timed, peer): (Key, Option<Key>, u32),
        (region, element): (Region<'a>, Element),
        can_look: bool,
    ) -> (Outgoing<'a>, Choice) {
        let (raw_bytes, stream) = (region.len(), key.stream());
        let chunk_size = ChunkSize::for_len(raw_bytes as usize);
        let (allowed, link) = (self.allowed, self.link(timed));
        let facts = CheapFacts { peer, stream, raw_bytes, element, allowed, link, lambda: None };
        let (decision, question) = match self.policy.plan(&facts) {
            Plan::Use(decision) => (decision, None),
            Plan::Sample { algorithms, size } if can_look => {
                let learned = self.learned.get(&(peer, stream, element)).copied();
                let decision = learned.unwrap_or_else(|| Decision::bypass(&facts, Reason::NotSampled));
                (decision, Some(Question { facts, chunk_size, algorithms, size }))
            }
            Plan::Sample { .. } => (self.policy.choose(&facts, &[]), None),
        };
        let algorithm = decision.algorithm;
        let coding = (algorithm != Algorithm::None).then_some(Coding { algorithm, chunk_size });
        (Outgoing { region, coding, question }, Choice { facts, decision })
    }

    /// Tells the policy what became of a region, by its header, and how long that took to encode.
    pub(super) fn observe(&mut self, choice: &Choice, entry: &Entry, encode: Option<Duration>) {
        let Choice { facts, decision } = choice;
        if facts.raw_bytes == 0 {
            return;
        }
        let outcome = Outcome {
            sent: entry.coding().map_or(Algorithm::None, |coding| coding.algorithm),
            coded_bytes: entry.stored_len(),
            sampling: None,
            encode,
            decode: None,
            acknowledged: None,
        };
        self.policy.observe(facts, decision, &outcome);
    }
}

impl std::fmt::Debug for Choices {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Choices({})", self.policy.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_stays_raw_is_tried_less_and_less_often() {
        let position = Position { rank: crate::message::Rank(0), ranks: 2 };
        let mut choices = Choices::new(NcclConfig::default(), position);
        let raw = [Entry::new(1 << 20, None, 1)];
        let tries: Vec<bool> = (0..40)
            .map(|_| {
                let open = choices.is_open(Key::AllGather);
                if open {
                    choices.learn(Key::AllGather, &raw);
                }
                open
            })
            .collect();
        let at: Vec<usize> = (0..40).filter(|&i| tries[i]).collect();
        // Two, then pauses of 2, 4, 8 and 16 calls.
        assert_eq!(at, [0, 1, 4, 9, 18, 35]);
        assert!(choices.is_open(Key::To(1)), "another kind of call");
    }
}

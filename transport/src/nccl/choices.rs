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
use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::device::{Region, algorithms};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{
    Behind, CheapFacts, Decision, LinkFacts, Outcome, Overlap, Policy, Steering, StreamId,
};

use super::NcclConfig;
use super::entry::{Coding, Entry};
use super::lane::Outgoing;
use crate::control;
use crate::cuda::probe::{Answer, Question};
use crate::link::Position;
use crate::link::rate::TimedRate;

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

/// What the frames of a call were decoded to, which is timed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Decoded {
    algorithm: Algorithm,
    /// Of all frames, and of one on average.
    raw_bytes: u64,
    frame_bytes: u64,
}

impl Decoded {
    /// Of all frames that `entries` announce, if there are any and they are of one codec.
    pub(super) fn of<'a>(entries: impl Iterator<Item = &'a Entry>) -> Option<Self> {
        let mut frames = entries.filter_map(|entry| Some((entry.coding()?.algorithm, entry.raw_len)));
        let (algorithm, first) = frames.next()?;
        let add = |(sum, count): (u64, u64), (other, len): (Algorithm, u64)| {
            (other == algorithm).then(|| (sum.saturating_add(len), count + 1))
        };
        // Frames are shorter than what they hold, so that is not nothing.
        let (raw_bytes, count) = frames.try_fold((first, 1), add)?;
        Some(Self { algorithm, raw_bytes, frame_bytes: raw_bytes / count })
    }
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
    behind: Behind,
    /// What is known of the link, unless that was said.
    rates: HashMap<Key, TimedRate>,
    /// How long it has taken here to decode something, which no policy has heard of yet.
    decoded: Option<(Decoded, Duration)>,
}

impl Choices {
    /// For kernels that are as fast as `speeds` say until they show it.
    pub(super) fn new(config: NcclConfig, position: Position, speeds: Arc<Speeds>) -> Self {
        let steering = Steering { lambda: config.lambda, speeds: speeds.clone() };
        let (policy, _) = control::steer(config.policy.build(&steering), Some(speeds), position);
        // IBP would need codebooks, which nobody fits here.
        let allowed = algorithms().filter(|&algorithm| algorithm != Algorithm::Ibp).collect();
        let (pauses, behind, rates) = (HashMap::new(), Behind::default(), HashMap::new());
        let (compresses, decoded) = (config.compresses(), None);
        Self { policy, config, compresses, allowed, pauses, behind, rates, decoded }
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
            self.behind.hear(self.policy.as_mut(), &facts, &estimates);
        }
    }

    /// Whether anybody wants to know how fast the link is.
    pub(super) fn measures(&self) -> bool {
        let NcclConfig { link, lambda, .. } = &self.config;
        self.policy.goes_by_time() && link.is_none() && lambda.is_none()
    }

    /// Whether anybody wants to know how fast decoders are.
    pub(super) fn times_decoders(&self) -> bool {
        self.policy.goes_by_time()
    }

    /// Hears how long something took to be decoded.
    pub(super) fn decoded(&mut self, decoded: Decoded, took: Duration) {
        self.decoded = Some((decoded, took));
    }

    /// What it takes to decode so many bytes where they go, if about as many were decoded here: other ranks have devices like this one.
    fn decoding_time(&mut self, algorithm: Algorithm, raw_bytes: u64) -> Option<Duration> {
        let alike = |decoded: &Decoded| {
            decoded.algorithm == algorithm
                && decoded.frame_bytes / 2 <= raw_bytes
                && raw_bytes / 2 <= decoded.frame_bytes
        };
        // Once: what is heard again and again is no news.
        let (decoded, took) = self.decoded.take_if(|(decoded, _)| alike(decoded))?;
        Some(took.mul_f64(raw_bytes as f64 / decoded.raw_bytes as f64))
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
        let facts =
            CheapFacts { peer, stream, raw_bytes, element, allowed, link, lambda: None, is_observed: true };
        let (decision, look) = self.behind.plan(self.policy.as_mut(), &facts);
        let question = look.map(|(algorithms, size)| Question { facts, chunk_size, algorithms, size });
        let decision = match question {
            Some(_) if !can_look => self.policy.choose(&facts, &[]),
            _ => decision,
        };
        let question = question.filter(|_| can_look);
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
        let decode = self.decoding_time(decision.algorithm, facts.raw_bytes);
        let outcome = Outcome {
            sent: entry.coding().map_or(Algorithm::None, |coding| coding.algorithm),
            coded_bytes: entry.stored_len(),
            sampling: None,
            encode,
            decode,
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
    fn decoding_is_timed_of_one_codec_and_told_once() {
        let entry = |raw_len: u64, algorithm| {
            let coding = Coding { algorithm, chunk_size: ChunkSize::DEFAULT };
            let coding = (algorithm != Algorithm::None).then_some(coding);
            let mut bytes = Entry::new(raw_len, coding, 1).to_bytes();
            // As the encoder leaves it.
            bytes[..8].copy_from_slice(&(raw_len / 2).to_le_bytes());
            Entry::read(&bytes, 0, 1).unwrap()
        };
        let of = |entries: &[Entry]| Decoded::of(entries.iter());
        let (zvc, raw, xp) =
            (entry(100, Algorithm::Zvc), entry(7, Algorithm::None), entry(30, Algorithm::Xp));
        assert_eq!((of(&[]), of(&[raw]), of(&[zvc, xp, zvc])), (None, None, None));
        let both = Decoded { algorithm: Algorithm::Zvc, raw_bytes: 200, frame_bytes: 100 };
        assert_eq!(of(&[zvc, raw, zvc]), Some(both));

        let position = Position { rank: crate::message::Rank(0), ranks: 2 };
        let mut choices = Choices::new(NcclConfig::default(), position, Speeds::expected_of_device(132));
        let us = Duration::from_micros;
        choices.decoded(both, us(10));
        // A frame of the same length as one of the two takes half of their time.
        assert_eq!(choices.decoding_time(Algorithm::Xp, 100), None);
        assert_eq!(choices.decoding_time(Algorithm::Zvc, 49), None);
        assert_eq!(choices.decoding_time(Algorithm::Zvc, 202), None);
        assert_eq!(choices.decoding_time(Algorithm::Zvc, 100), Some(us(5)));
        assert_eq!(choices.decoding_time(Algorithm::Zvc, 100), None, "no news");
    }

    #[test]
    fn what_stays_raw_is_tried_less_and_less_often() {
        let position = Position { rank: crate::message::Rank(0), ranks: 2 };
        let mut choices = Choices::new(NcclConfig::default(), position, Speeds::expected_of_device(132));
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

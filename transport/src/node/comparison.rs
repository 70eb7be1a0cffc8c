//! Whether reads, writes and sends of this rank take less time where what they move is compressed; see [`comparison`](crate::comparison).
//!
//! * **Together**: what is under way at the same time shares the link and the cores. So what this rank asks of one peer goes one way in
//!   *bursts*: until nothing of its kind and length is under way, or many have begun. What is left of a burst then is waited for, for a while, before
//!   the times of the next one count, and a burst counts as one, with the time that one of it took on average.
//! * **By who asks**: that one knows when it has asked, and when all is there. A read says to the peer whether it is to go raw
//!   ([`ReadRequest::raw`](crate::message::ReadRequest::raw)). Sends that are done before they were received tell nobody when that
//!   is, and are not compared. All parts of a message are one.
//! * **Not by chance**: a send also takes what the peer does before it receives it, raw or not. So what takes longer or less with compression has
//!   to do so for more than chance. Where the peer's own work is most of it, there is no difference to find.
//! * **What is clear is not compared**: where the whole has taken less than half as long with compression as the link alone would take for the raw
//!   bytes of all that went the same way between the two meanwhile. Raw ones would be felt then. Half, because a link that waits for cores
//!   which run codecs looks slower than it is. Where it is the cores' own work, nothing is clear. Nor are those compared in which the
//!   policy learns, which take longer. Of others, it takes a few in a row that are not clear.

use std::time::{Duration, Instant};

use mgcomp_selector::{CheapFacts, Decision, Reason};
use rustc_hash::FxHashMap;

use crate::comparison::{Course, Expected, Known, LEAST_BYTES, LONGEST_UNFELT, Way, length_class};
use crate::message::Rank;
use crate::session::RequestId;

/// So many are a burst; what begins before they have ended goes beside it.
const BURST: u32 = 16;
/// So long may all of one take, whose length is worth a comparison.
const PATIENCE: Duration = LONGEST_UNFELT.saturating_mul(BURST);
/// So many in a row that are not clear are more than something else's doing.
const UNCLEAR: u32 = 3;
/// After so many in a row with a request that has failed, none that counts is to be expected.
const FAILED: u32 = 4;

/// What moves bytes from or to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Read,
    Write,
    Send,
}

/// The two ways between this rank and a peer, each of which has a link of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Direction {
    FromPeer,
    ToPeer,
}

/// What a request moves.
#[derive(Clone, Copy, Debug)]
pub(super) struct Move {
    pub(super) peer: Rank,
    pub(super) kind: Kind,
    /// All of it; of a part, all of what that is a part of.
    pub(super) bytes: u64,
    /// Whether it is a part that another one follows.
    pub(super) continued: bool,
}

/// What is compared with each other: the peer, the kind and the length.
type Class = (Rank, Kind, u32);

/// The comparisons of a node.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    known: Known<Class, Line>,
    under_way: FxHashMap<RequestId, UnderWay>,
    bursts: u64,
    /// The raw bytes of all that has come from each peer, and gone to it.
    passed: FxHashMap<(Rank, Direction), u64>,
}

/// Those of one class.
#[derive(Debug, Default)]
struct Line {
    course: Course,
    burst: Option<Burst>,
    left: Left,
    /// How many bursts in a row were not clear, of those that say something.
    unclear: u32,
    /// How many in a row had a request that has failed.
    failed: u32,
}

/// Those of earlier bursts that are still under way.
#[derive(Debug, Default)]
struct Left {
    count: u32,
    /// Since when.
    since: Option<Instant>,
    /// Those that have begun meanwhile; of those in parts, the last parts.
    begun: u32,
    /// Those of this burst and of earlier ones are not waited for.
    forgotten: u64,
}

/// Some at the same time, or one behind the other.
#[derive(Debug)]
struct Burst {
    number: u64,
    way: Way,
    started: Instant,
    /// Since when its times count, and what had passed then: not while some of an earlier one are under way.
    since: Option<(Instant, u64)>,
    under_way: u32,
    /// Those that have begun since; of those in parts, the last parts.
    begun: u32,
    /// Those of these that have ended since, and others that have.
    ended: u32,
    others_ended: u32,
    /// When the last one of these ended, and what had passed then.
    last: Option<(Instant, u64)>,
    expected: Expected,
    /// What takes less for each raw byte is clear, in nanoseconds.
    clear_byte_ns: f64,
    /// Whether one has failed.
    has_failed: bool,
}

/// A request under way.
#[derive(Debug)]
struct UnderWay {
    class: Class,
    burst: u64,
    way: Way,
    /// Whether it is one of those that the burst is judged by.
    counts: bool,
    bytes: u64,
    continued: bool,
    expected: Expected,
}

impl Comparisons {
    /// A request begins. What takes less than `clear_byte_ns` for each raw byte is clear; of 0, nothing is. Returns whether it is to go
    /// raw where predicted times speak against that.
    pub(super) fn begin(
        &mut self,
        request: RequestId,
        Move { peer, kind, bytes, continued }: Move,
        clear_byte_ns: impl FnOnce() -> f64,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        if bytes < LEAST_BYTES {
            return false;
        }
        let (class, now) = ((peer, kind, length_class(bytes)), now());
        let line = self.known.meet(class);
        line.lose_patience(self.bursts, now);
        let passed = self.passed.get(&(peer, kind.direction())).copied().unwrap_or_default();
        let burst = line.burst.get_or_insert_with(|| {
            self.bursts += 1;
            Burst {
                number: self.bursts,
                way: line.course.begin(),
                started: now,
                since: (line.left.count == 0).then_some((now, passed)),
                under_way: 0,
                begun: 0,
                ended: 0,
                others_ended: 0,
                last: None,
                expected: Expected::default(),
                clear_byte_ns: clear_byte_ns(),
                has_failed: false,
            }
        });
        let is_timed = burst.since.is_some();
        let begun = if is_timed { &mut burst.begun } else { &mut line.left.begun };
        let is_one = *begun < BURST;
        *begun = begun.saturating_add(u32::from(!continued));
        let (way, counts) = if is_one { (burst.way, is_timed) } else { (line.course.beside(), false) };
        burst.under_way += 1;
        let burst = burst.number;
        let one = UnderWay { class, burst, way, counts, bytes, continued, expected: Expected::default() };
        self.under_way.insert(request, one);
        way.raw().is_some()
    }

    /// So many raw bytes go from `peer` or to it, whatever they are for.
    pub(super) fn pass(&mut self, peer: Rank, direction: Direction, raw_bytes: u64) {
        let passed = self.passed.entry((peer, direction)).or_default();
        *passed = passed.wrapping_add(raw_bytes);
    }

    /// What becomes of a decision on a part of a write or of a send. `is_looked_at`: a sample is taken for that.
    pub(super) fn decide(
        &mut self,
        request: RequestId,
        facts: &CheapFacts,
        decision: Decision,
        is_looked_at: bool,
    ) -> Decision {
        let Some(one) = self.under_way.get_mut(&request) else { return decision };
        let is_faster = one.expected.note(facts, &decision, is_looked_at);
        match one.way.raw() {
            Some(raw) if is_faster => decision.raw_instead(facts, raw.of_transfer()),
            _ => decision,
        }
    }

    /// A part of a read has come compressed.
    pub(super) fn arrived(&mut self, request: RequestId, raw_bytes: u64, coded_bytes: u64) {
        if let Some(UnderWay { expected, .. }) = self.under_way.get_mut(&request) {
            expected.raw_bytes += raw_bytes;
            expected.known_bytes += raw_bytes;
            expected.coded_bytes += coded_bytes;
        }
    }

    /// A request has ended.
    pub(super) fn end(&mut self, request: RequestId, is_good: bool, now: impl FnOnce() -> Instant) {
        let Some(one) = self.under_way.remove(&request) else { return };
        let Some(line) = self.known.get_mut(&one.class) else { return };
        let (peer, kind, _) = one.class;
        let passed = self.passed.get(&(peer, kind.direction())).copied().unwrap_or_default();
        let now = now();
        match &mut line.burst {
            Some(burst) if burst.number == one.burst => {
                burst.under_way -= 1;
                burst.has_failed |= !is_good;
                if one.counts {
                    burst.ended += u32::from(!one.continued);
                    burst.last = Some((now, passed));
                    burst.expected.add(one.expected());
                } else if burst.since.is_some() {
                    burst.others_ended += u32::from(!one.continued);
                }
                if burst.ended >= BURST || burst.under_way == 0 {
                    line.end_burst(now, passed);
                }
            }
            _ if one.burst > line.left.forgotten => line.end_left(now, passed),
            _ => {}
        }
    }
}

impl Kind {
    fn direction(self) -> Direction {
        match self {
            Self::Read => Direction::FromPeer,
            Self::Write | Self::Send => Direction::ToPeer,
        }
    }
}

impl Line {
    /// What takes too long is not waited for: a send may be received at the end of the program. A burst with such a one is over with what has
    /// ended of it. `last` is the burst that was begun last.
    fn lose_patience(&mut self, last: u64, now: Instant) {
        let is_late = |since| now.saturating_duration_since(since) > PATIENCE;
        if let Some(burst) = self.burst.as_ref().filter(|burst| is_late(burst.started)) {
            if burst.ended == 0 {
                self.course.give_up(); // or all bursts might go raw for ever, and none count
            }
            let (at, passed) = burst.last.unwrap_or((burst.started, 0));
            self.end_burst(at, passed);
        }
        if self.left.since.is_some_and(is_late) {
            let forgotten = self.burst.as_ref().map_or(last, |burst| burst.number - 1);
            self.left = Left { forgotten, ..Left::default() };
        }
    }

    /// One of an earlier burst has ended.
    fn end_left(&mut self, now: Instant, passed: u64) {
        self.left.count = self.left.count.saturating_sub(1); // of a line that was forgotten, this one knows nothing
        if self.left.count == 0 {
            (self.left.since, self.left.begun) = (None, 0);
            if let Some(burst) = self.burst.as_mut().filter(|burst| burst.since.is_none()) {
                burst.since = Some((now, passed));
            }
        }
    }

    fn end_burst(&mut self, now: Instant, passed: u64) {
        let Some(burst) = self.burst.take() else { return };
        self.failed = if burst.has_failed { self.failed + 1 } else { 0 };
        if self.failed >= FAILED {
            self.failed = 0;
            self.course.give_up(); // or all of them might go raw for ever, and none count
        }
        self.left.count += burst.under_way;
        if burst.under_way > 0 {
            self.left.since.get_or_insert(now);
        }
        if let Some((since, before)) = burst.since
            && burst.ended > 0
            && !burst.has_failed
        {
            let took = now.saturating_duration_since(since);
            let is_clear =
                (took.as_nanos() as f64) < passed.wrapping_sub(before) as f64 * burst.clear_byte_ns;
            // What is clear is known better here: the link's time is not that of several at once, and looks long where cores hold it up.
            let mut expected = Expected { link_ns: 0, ..burst.expected };
            if expected.says_something() {
                self.unclear = if is_clear { 0 } else { self.unclear.saturating_add(1) };
            }
            if burst.way == Way::Free && self.unclear < UNCLEAR {
                // Nothing that was to be compressed is to be compared.
                expected = Expected { sent_bytes: expected.sent_bytes, ..Expected::default() };
            }
            // Where they follow each other without end, those were on their way in as much of that time.
            let others = if burst.ended < BURST { 0 } else { burst.others_ended };
            self.course.end(burst.way, took / (burst.ended + others), expected);
            self.course.hear_own();
        }
    }
}

impl UnderWay {
    /// What was expected of it. Of a read, only the peer knows that: what has come compressed is what was to be, and what was asked for
    /// raw is taken for something that would be.
    fn expected(&self) -> Expected {
        let (_, kind, _) = self.class;
        let arrived = self.expected;
        match (kind, self.way.raw()) {
            (Kind::Write | Kind::Send, _) => arrived,
            (Kind::Read, None) => Expected { sent_bytes: self.bytes, ..arrived },
            (Kind::Read, Some(_)) => {
                // The peer had its reasons to compress it all the same, so it says nothing.
                let learning_bytes = if arrived.raw_bytes > 0 { self.bytes } else { 0 };
                let expected =
                    Expected { sent_bytes: self.bytes, raw_bytes: self.bytes, ..Expected::default() };
                Expected { learning_bytes, ..expected }
            }
        }
    }
}

/// What becomes of a decision on the answer to a read that is to go raw.
pub(super) fn answer_raw(facts: &CheapFacts, decision: Decision) -> Decision {
    let is_faster = matches!(decision.reason, Reason::Fastest { .. });
    if is_faster { decision.raw_instead(facts, Reason::RawWanted) } else { decision }
}

#[cfg(test)]
mod tests;

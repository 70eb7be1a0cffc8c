//! Whether reads, writes and sends of this rank take less time where what they move is compressed; see [`comparison`](crate::comparison).
//!
//! * **Together**: what is under way at the same time shares the link and the cores. So what this rank asks of one peer goes one way in
//!   *bursts*: until nothing of its kind and length is under way, or many have ended. What is left of a burst then is waited for before
//!   the times of the next one count, and a burst counts as one, with the time that one of it took on average.
//! * **By who asks**: that one knows when it has asked, and when all is there. A read says to the peer whether it is to go raw
//!   ([`ReadRequest::raw`](crate::message::ReadRequest::raw)). Sends that are done before they were received tell nobody when that
//!   is, and are not compared. All parts of a message are one.
//! * **What is clear is not compared**: where the whole has taken less than half as long with compression as the link alone would take, as fast
//!   as it looks, for the raw bytes of all that went the same way between the two meanwhile. Raw ones would be felt then. Nor are those in which the
//!   policy learns, which take longer. Of others, it takes a few in a row that are not clear. Not what has taken longer: a link that waits for cores
//!   which run codecs looks slower than it is. Where it is the cores' own work, nothing is clear.

use std::time::Instant;

use mgcomp_selector::{CheapFacts, Decision, Reason};
use rustc_hash::FxHashMap;

use crate::comparison::{Course, Expected, Known, LEAST_BYTES, Raw, Way, length_class};
use crate::message::Rank;
use crate::session::RequestId;

/// A burst is over when so many have ended.
const BURST: u32 = 16;
/// So many in a row that are not clear are more than something else's doing.
const UNCLEAR: u32 = 3;

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
    /// Those of earlier bursts that are still under way.
    left: u32,
    /// How many bursts in a row were not clear, of those that say something.
    unclear: u32,
}

/// Some at the same time, or one behind the other.
#[derive(Debug)]
struct Burst {
    number: u64,
    way: Way,
    /// Since when its times count, and what had passed then: not while some of an earlier one are under way.
    since: Option<(Instant, u64)>,
    under_way: u32,
    /// Whether a part that another one follows was the last that has begun.
    goes_on: bool,
    /// Those that have ended since; of those in parts, the last parts.
    ended: u32,
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
        clear_byte_ns: f64,
        now: impl FnOnce() -> Instant,
    ) -> bool {
        if bytes < LEAST_BYTES {
            return false;
        }
        let class = (peer, kind, length_class(bytes));
        let line = self.known.meet(class);
        let passed = self.passed.get(&(peer, kind.direction())).copied().unwrap_or_default();
        let burst = line.burst.get_or_insert_with(|| {
            self.bursts += 1;
            Burst {
                number: self.bursts,
                way: line.course.begin(),
                since: (line.left == 0).then(|| (now(), passed)),
                under_way: 0,
                goes_on: false,
                ended: 0,
                expected: Expected::default(),
                clear_byte_ns,
                has_failed: false,
            }
        });
        burst.under_way += 1;
        burst.goes_on = continued;
        let (burst, way) = (burst.number, burst.way);
        let one = UnderWay { class, burst, way, bytes, continued, expected: Expected::default() };
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
            Some(raw) if is_faster => Decision::bypass(facts, reason(raw)),
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
        match &mut line.burst {
            Some(burst) if burst.number == one.burst => {
                burst.under_way -= 1;
                burst.has_failed |= !is_good;
                if burst.since.is_some() {
                    burst.ended += u32::from(!one.continued);
                    burst.expected.add(one.expected());
                }
                if burst.ended >= BURST || burst.under_way == 0 && !burst.goes_on && line.left == 0 {
                    line.end_burst(now(), passed);
                }
            }
            burst => {
                line.left = line.left.saturating_sub(1); // of a line that was forgotten, this one knows nothing
                if line.left == 0
                    && let Some(burst) = burst
                {
                    burst.since.get_or_insert_with(|| (now(), passed));
                }
            }
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
    fn end_burst(&mut self, now: Instant, passed: u64) {
        let Some(burst) = self.burst.take() else { return };
        self.left += burst.under_way;
        if let Some((since, before)) = burst.since
            && burst.ended > 0
            && !burst.has_failed
        {
            let took = now.saturating_duration_since(since);
            let is_clear =
                (took.as_nanos() as f64) < passed.wrapping_sub(before) as f64 * burst.clear_byte_ns;
            let mut expected = burst.expected;
            if expected.says_something() {
                self.unclear = if is_clear { 0 } else { self.unclear.saturating_add(1) };
            }
            if burst.way == Way::Free && self.unclear < UNCLEAR {
                // Nothing that was to be compressed is to be compared.
                expected = Expected { sent_bytes: expected.sent_bytes, ..Expected::default() };
            }
            self.course.end(burst.way, took / burst.ended, expected);
            if let Some(report) = self.course.report() {
                self.course.hear(&[report]);
            }
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
    if is_faster { Decision::bypass(facts, Reason::RawWanted) } else { decision }
}

fn reason(raw: Raw) -> Reason {
    match raw {
        Raw::Timed => Reason::TransferTimed,
        Raw::Slower { coded_ns, raw_ns } => Reason::TransferSlower { coded_ns, raw_ns },
    }
}

#[cfg(test)]
mod tests;

//! How those of one kind go, one after the other: a state machine without clock or messages.
//!
//! What several ranks do alike rests on the count and on what all have reported, and on nothing else.

use std::time::Duration;

use mgcomp_selector::Reason;

use super::Expected;
use super::contest::{Contest, NoChance, Verdict};
use super::report::{Report, nanos};

/// What would take longer raw is not compared,
const LONGEST: Duration = Duration::from_millis(50);
/// but where that is less than so many times what it takes now, and that not so many times less than the links alone would take; then,
/// what would take longer than this.
const FELT: f64 = 1.5;
const CLEAR: f64 = 1.15;
pub(crate) const LONGEST_UNFELT: Duration = Duration::from_millis(200);
/// The comparison after the next starts after about so many times as many, and about so many more at most, a power of two: where
/// compression pays, where there was nothing to compare, and where it is slower or makes no difference.
const PAYS: (u64, u64) = (8, 4096);
const NOTHING: (u64, u64) = (2, 2048);
const OPEN: (u64, u64) = (2, 512);
/// The same on a rank that judges by itself, where none was to be compressed any more once they were compared.
const NONE_OF_EACH: (u64, u64) = (2, 32);
/// What is shorter than that before the next comparison is no rest; but it may be rounded.
const SHORTEST_REST: u64 = 7;
/// Comparisons behind this number and multiples of it begin up to so many later than at one: else what comes again as often would look like all
/// there is. With a whole comparison that is less than half of it, so that the next one is behind the next multiple, for all alike.
const FAR: u64 = 512;
const LATER: u64 = 192;
/// Not the very first is compared: all is cold then.
const FIRST: u64 = 1;
/// Of so many in a comparison, the first of which has a multiple of that before it, and [`FIRST`], half are raw, and half of those at each
/// place of four.
const EIGHT: u64 = 8;
/// Data is other data where it becomes so many times what it did, and so much of the raw bytes less.
const LESS: f64 = 0.75;
const LESS_OF_RAW: f64 = 0.05;
/// What was found no longer counts after so many in a row that show it.
const CONTRADICTED: u32 = 4;

/// Those of one kind.
#[derive(Debug)]
pub(crate) struct Course {
    /// Those that have ended.
    count: u64,
    /// Where the comparison starts that is under way, or the next.
    start: u64,
    /// The one that is under way.
    contest: Option<Contest>,
    /// Whether there was nothing to compare the last time, and whether compression paid.
    had_nothing: bool,
    paid: bool,
    /// What the last one would take raw that the policy wanted to compress since the last comparison, and what it took; nothing if that
    /// was clearly less than raw bytes take.
    wanted: Option<(Duration, Duration)>,
    slower: Option<Slower>,
    /// How many in a row contradict that.
    contradicted: u32,
}

/// What was found where compression is slower.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slower {
    coded_ns: u64,
    raw_ns: u64,
    /// What the policy expected then, as a part of the bytes.
    fraction: f64,
}

/// How one goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// As the policy wants.
    Free,
    /// The same, and its time counts.
    TimedFree,
    Raw(Raw),
}

/// Why one goes raw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Raw {
    /// To see how long it takes.
    Timed,
    /// Those like it took longer as the policy would have it.
    Slower {
        /// What they took then.
        coded_ns: u64,
        /// What they took raw.
        raw_ns: u64,
    },
}

impl Way {
    pub(crate) fn raw(self) -> Option<Raw> {
        if let Self::Raw(raw) = self { Some(raw) } else { None }
    }
}

impl Raw {
    /// The same of a collective, for who looks at what was decided.
    pub(crate) fn of_collective(self) -> Reason {
        match self {
            Self::Timed => Reason::CollectiveTimed,
            Self::Slower { coded_ns, raw_ns } => Reason::CollectiveSlower { coded_ns, raw_ns },
        }
    }

    /// The same of a read, a write or a send.
    pub(crate) fn of_transfer(self) -> Reason {
        match self {
            Self::Timed => Reason::TransferTimed,
            Self::Slower { coded_ns, raw_ns } => Reason::TransferSlower { coded_ns, raw_ns },
        }
    }
}

impl Default for Course {
    fn default() -> Self {
        Self {
            count: 0,
            start: FIRST,
            contest: None,
            had_nothing: false,
            paid: false,
            wanted: None,
            slower: None,
            contradicted: 0,
        }
    }
}

impl Course {
    /// How the next one goes.
    pub(crate) fn begin(&self) -> Way {
        match &self.contest {
            Some(_) if is_raw(self.count) => Way::Raw(Raw::Timed),
            Some(_) => Way::TimedFree,
            None => self.beside(),
        }
    }

    /// How one goes that does not count.
    pub(crate) fn beside(&self) -> Way {
        match self.slower {
            Some(Slower { coded_ns, raw_ns, .. }) => Way::Raw(Raw::Slower { coded_ns, raw_ns }),
            None => Way::Free,
        }
    }

    /// One that went this way has ended.
    pub(crate) fn end(&mut self, way: Way, took: Duration, expected: Expected) {
        self.count += 1;
        let fraction = expected.fraction();
        if expected.raw_bytes > 0 && expected.says_something() {
            let would_take = match way.raw() {
                Some(_) => took,
                // If all that takes time is the link.
                None => took.div_f64(fraction.unwrap_or(1.0).clamp(1e-3, 1.0)),
            };
            let is_clear =
                way.raw().is_none() && took.as_nanos() as f64 * CLEAR < expected.link_ns_of_one() as f64;
            self.wanted = Some((would_take, if is_clear { Duration::ZERO } else { took }));
            self.contradict(fraction, took);
        }
        if let Some(contest) = self.contest.as_mut().filter(|_| expected.says_something()) {
            contest.note(way == Way::Raw(Raw::Timed), took, fraction);
        }
    }

    /// One has failed on this rank, of which it knows nothing more. The others count it too.
    pub(crate) fn end_failed(&mut self) {
        self.count += 1;
    }

    /// None ends in time for that, on a rank that judges by itself: what is under way is compared no further, and what was found does not go
    /// on for ever.
    pub(crate) fn give_up(&mut self) {
        match self.contest {
            Some(_) => self.rest(OPEN),
            None => self.note_contradiction(true),
        }
    }

    /// What to tell the other ranks now that one has ended, if it is time for that: how the comparison stands, or whether
    /// there is anything to compare.
    pub(crate) fn report(&self) -> Option<Report> {
        let ended = self.count.checked_sub(self.start)?;
        match &self.contest {
            Some(contest) => contest.is_due(ended).then(|| contest.report()),
            None => Some(Report {
                raw_ns: self.wanted.map_or(0, |(raw, _)| nanos(raw)),
                coded_ns: self.wanted.map_or(0, |(_, took)| nanos(took)),
                of_each: self.wanted.is_some().into(),
            }),
        }
    }

    /// What all ranks that it takes have told, this one too.
    pub(crate) fn hear(&mut self, reports: &[Report]) {
        self.follow(Report::of_slowest(reports), None);
    }

    /// One has ended, and this rank has no other to ask: so it compares with the next eight once there is anything, and what it finds of four of each and
    /// more is no chance. That compression pays is looked at twice before it counts for long: what comes first may be disturbed.
    pub(crate) fn hear_own(&mut self) {
        if self.had_nothing && self.wanted.is_some() {
            self.start = self.start.min(FIRST + (self.count - FIRST).next_multiple_of(EIGHT));
        }
        if let Some(report) = self.report() {
            let no_chance = self.contest.as_ref().map_or(NoChance::NOTHING_IS, Contest::no_chance);
            self.follow(report, Some(no_chance));
        }
    }

    /// `own` is what is no chance where this rank judges by itself.
    fn follow(&mut self, told: Report, own: Option<NoChance>) {
        let Some(contest) = &mut self.contest else {
            return self.decide_to_compare(told);
        };
        match contest.judge(told, own.unwrap_or(NoChance::NOTHING_IS)) {
            Verdict::GoesOn => {}
            Verdict::Open => {
                self.paid = false;
                self.rest(if own.is_some() && told.of_each == 0 { NONE_OF_EACH } else { OPEN });
            }
            Verdict::Pays => {
                let counts_for_long = own.is_none() || self.paid;
                (self.slower, self.paid) = (None, true);
                self.rest(if counts_for_long { PAYS } else { OPEN });
            }
            Verdict::Slower => {
                let (Report { coded_ns, raw_ns, .. }, fraction) = (told, contest.fraction());
                (self.slower, self.contradicted) = (Some(Slower { coded_ns, raw_ns, fraction }), 0);
                self.paid = false;
                self.rest(OPEN);
            }
        }
    }

    fn decide_to_compare(&mut self, told: Report) {
        let is_long = is_long(told.raw_ns, told.coded_ns);
        if told.of_each > 0 && !is_long {
            (self.start, self.contest, self.had_nothing) = (self.count, Some(Contest::default()), false);
            return;
        }
        if is_long {
            self.slower = None; // if only on some ranks
        }
        self.rest(NOTHING);
        self.had_nothing = told.of_each == 0;
    }

    /// What was found slower may be no more. That is this rank's alone to say, and changes what it does until the next comparison.
    fn contradict(&mut self, fraction: Option<f64>, took: Duration) {
        let Some(slower) = self.slower else { return };
        let is_less =
            |fraction: f64| fraction < LESS * slower.fraction && slower.fraction - fraction > LESS_OF_RAW;
        let is_other = fraction.is_some_and(is_less) || is_long(nanos(took), slower.coded_ns);
        self.note_contradiction(is_other);
    }

    fn note_contradiction(&mut self, is_one: bool) {
        self.contradicted = if is_one { self.contradicted + 1 } else { 0 };
        if self.contradicted >= CONTRADICTED {
            self.slower = None;
        }
    }

    /// The comparison is over, or there is none. The next one begins near a round number, and how near depends on that alone: where two ranks
    /// judge by themselves whose times depend on each other, as those of messages both ways do, they are to compare at the same time.
    fn rest(&mut self, (times, most): (u64, u64)) {
        (self.contest, self.wanted, self.had_nothing) = (None, None, false);
        let next = self.count + (self.count * (times - 1)).clamp(SHORTEST_REST, most);
        let step = most.min(1 << next.ilog2());
        let round = (next + step / 2) / step * step;
        let later = if step >= FAR { mix(round / FAR) % LATER } else { 0 };
        self.start = FIRST + round + later / EIGHT * EIGHT;
    }
}

/// Whether what takes that time raw, and this time now, takes too long for a comparison.
fn is_long(raw_ns: u64, now_ns: u64) -> bool {
    let is_felt = raw_ns as f64 >= FELT * now_ns as f64;
    raw_ns > nanos(if is_felt { LONGEST } else { LONGEST_UNFELT })
}

/// Whether the one with this number is raw in a comparison: of eight `raw`, `raw`, `coded`, `coded`, `coded`, `coded`, `raw`, `raw`, or `coded`,
/// `raw`, `raw`, `coded`, `raw`, `coded`, `coded`, `raw`, and so on. Of four the first and the third go different ways, and so do the second and the
/// fourth, so half are raw, also of every second one; the next four go the other ways, so half are of every fourth one, and neither way comes
/// later. By the number alone, so ranks that have begun to compare sooner and later go the same way.
fn is_raw(number: u64) -> bool {
    let place = number.wrapping_sub(FIRST);
    let by_chance = mix(place / EIGHT + 1) >> (place % 2) & 1 == 1;
    by_chance ^ (place & 2 != 0) ^ (place & 4 != 0)
}

/// The finalizer of SplitMix64: as good as chance, and the same on all ranks.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed >> 32
}

#[cfg(test)]
mod tests;

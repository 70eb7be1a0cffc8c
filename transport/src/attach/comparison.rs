//! Whether collectives of a program take less time where its messages are compressed; see [`comparison`](crate::comparison).
//!
//! They are compared as those of [`communicator`](crate::communicator) are, but their ranks have other ways to tell each other what they saw, and other
//! lengths to go by.

use std::cell::Cell;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use mgcomp_selector::{CheapFacts, Decision};

use crate::comparison::{Course, Expected, Known, LEAST_BYTES, LONG_BYTES, Report, Way, length_class};

pub use crate::comparison::REPORT_LEN;

/// The comparisons of ranks that carry out collectives together, by kind `K` and length. Each of them has one of these.
#[derive(Debug)]
pub struct Comparisons<K> {
    known: Mutex<Known<(K, u32), Course>>,
}

/// A collective under way: raw where such were found to take less time so, or to find that out.
#[derive(Debug)]
pub struct UnderWay {
    way: Way,
    /// Bytes of all of it.
    bytes: u64,
    /// What the policy expected of what this rank sends for it.
    expected: Cell<Expected>,
}

/// Which part of a collective a message is.
#[derive(Clone, Copy, Debug)]
pub struct PartOf<'a> {
    /// That collective.
    pub collective: &'a UnderWay,
    /// Whether it is the first one of what goes to a rank. Where that goes raw, the policy is not asked about the others, so what
    /// it expects is taken from first ones.
    pub is_first: bool,
}

impl<K: Copy + Eq + Hash> Comparisons<K> {
    /// Does a collective of that kind on so many bytes. Now and then this rank has a report for the others then; `tell_all` brings it to all,
    /// and returns those of all ranks, one behind the other.
    ///
    /// All ranks have to do the same collectives in the same order, with as many bytes each: then all of them have reports behind the
    /// same ones. So what this rank alone finds wrong while the others go on has to be a value that `work` returns, and not its error:
    /// behind that, it tells nothing.
    ///
    /// # Errors
    /// That of `work`, or that of `tell_all`.
    pub fn compared<T, E>(
        &self,
        kind: K,
        bytes: u64,
        work: impl FnOnce(&UnderWay) -> Result<T, E>,
        tell_all: impl FnOnce(&[u8; REPORT_LEN]) -> Result<Vec<u8>, E>,
    ) -> Result<T, E> {
        let class = (kind, length_class(bytes));
        if bytes < LEAST_BYTES {
            return work(&UnderWay { way: Way::Free, bytes, expected: Cell::default() });
        }
        let way = self.lock().meet(class).begin();
        let collective = UnderWay { way, bytes, expected: Cell::default() };
        let started = Instant::now();
        let done = work(&collective);
        let took = started.elapsed();
        let Ok(done) = done else {
            if let Some(course) = self.lock().get_mut(&class) {
                course.end_failed();
            }
            return done;
        };
        // Behind it, not before the next one: that would begin on all ranks at once then, as no other does.
        if let Some(report) = self.end(&class, &collective, took) {
            let told = tell_all(&report.to_bytes())?;
            let reports: Vec<_> = told.chunks_exact(REPORT_LEN).map(Report::of_bytes).collect();
            if let Some(course) = self.lock().get_mut(&class) {
                course.hear(&reports);
            }
        }
        Ok(done)
    }

    fn end(&self, class: &(K, u32), collective: &UnderWay, took: Duration) -> Option<Report> {
        let mut known = self.lock();
        let course = known.get_mut(class)?;
        course.end(collective.way, took, collective.expected.get());
        course.report()
    }

    fn lock(&self) -> MutexGuard<'_, Known<(K, u32), Course>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Copy + Eq + Hash> Default for Comparisons<K> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

impl PartOf<'_> {
    /// What becomes of a decision on the message. `is_looked_at`: a sample was taken for that.
    pub(super) fn decide(&self, facts: &CheapFacts, decision: Decision, is_looked_at: bool) -> Decision {
        let UnderWay { way, bytes, expected } = self.collective;
        let mut noted = Expected::default();
        let is_faster = noted.note(facts, &decision, is_looked_at && *bytes < LONG_BYTES);
        if !self.is_first {
            (noted.known_bytes, noted.coded_bytes) = (0, 0);
        }
        let mut all = expected.get();
        all.add(noted);
        expected.set(all);
        match way.raw() {
            Some(raw) if is_faster => decision.raw_instead(facts, raw.of_collective()),
            _ => decision,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
    use mgcomp_selector::{Reason, StreamId};

    use super::*;

    const LEN: u64 = 1 << 20;
    const FACTS: CheapFacts = CheapFacts {
        peer: 1,
        stream: StreamId(0),
        raw_bytes: LEN,
        element: Element::F32,
        allowed: AlgorithmSet::from_bits(0),
        link: None,
        lambda: None,
        is_observed: true,
    };
    /// To half of its length, which is 4 Mibit.
    const FASTEST: Decision = Decision {
        algorithm: Algorithm::Xp,
        reason: Reason::Fastest { predicted_ns: 1, raw_ns: 2 },
        predicted_bits: Some(4 << 20),
        predicted_ns: None,
        charged: None,
    };

    /// A rank that carries out collectives with one that reports these three words whenever there are reports.
    #[derive(Default)]
    struct Rank {
        comparisons: Comparisons<char>,
        /// How many there were, and behind which of them there were reports.
        count: Cell<u64>,
        told: RefCell<Vec<u64>>,
        other: [u64; 3],
    }

    impl Rank {
        /// One collective; returns what became of a decision for compression.
        fn one(&self, kind: char, bytes: u64) -> Result<Decision, &'static str> {
            self.work(kind, bytes, |collective| {
                Ok(PartOf { collective, is_first: true }.decide(&FACTS, FASTEST, false))
            })
        }

        fn work<T>(
            &self,
            kind: char,
            bytes: u64,
            work: impl FnOnce(&UnderWay) -> Result<T, &'static str>,
        ) -> Result<T, &'static str> {
            self.count.set(self.count.get() + 1);
            self.comparisons.compared(kind, bytes, work, |own| {
                self.told.borrow_mut().push(self.count.get());
                Ok([*own, words(self.other)].concat())
            })
        }

        fn told(&self) -> Vec<u64> {
            self.told.borrow().clone()
        }
    }

    fn words(words: [u64; 3]) -> [u8; REPORT_LEN] {
        let mut bytes = [0; REPORT_LEN];
        bytes.as_chunks_mut::<8>().0.iter_mut().zip(words).for_each(|(to, word)| *to = word.to_le_bytes());
        bytes
    }

    #[test]
    fn what_the_slowest_rank_says_decides() {
        // 30 ms compressed and 10 ms raw, of 8 each, where this rank sees a few microseconds.
        let rank = Rank { other: [10_000_000, 30_000_000, 8], ..Rank::default() };
        let all: Vec<_> = (0..40).map(|_| rank.one('a', LEN).unwrap()).collect();
        // The first one may be compared. Of 4 this rank has seen two of each way, which is too little for that; of 8, four. About as many as
        // were then go raw before it is looked at again, with two reports more.
        assert_eq!(rank.told(), [1, 5, 9, 17, 21, 25]);
        let slower = Reason::CollectiveSlower { coded_ns: 30_000_000, raw_ns: 10_000_000 };
        let count =
            |all: &[Decision], reason| all.iter().filter(|decision| decision.reason == reason).count();
        assert_eq!(all[0], FASTEST);
        assert_eq!(count(&all[1..9], Reason::CollectiveTimed), 4);
        assert_eq!(count(&all[1..9], FASTEST.reason), 4);
        assert_eq!(count(&all[9..17], slower), 8);
        assert_eq!((count(&all[17..25], Reason::CollectiveTimed), count(&all[25..], slower)), (4, 15));
        assert!(all.iter().all(|one| (one.algorithm == Algorithm::None) == (one.reason != FASTEST.reason)));
    }

    #[test]
    fn other_kinds_and_lengths_go_their_own_ways() {
        let rank = Rank { other: [10_000_000, 30_000_000, 8], ..Rank::default() };
        (0..9).for_each(|_| _ = rank.one('a', LEN));
        assert_ne!(rank.one('a', LEN), Ok(FASTEST));
        assert_eq!(rank.one('b', LEN), Ok(FASTEST));
        assert_eq!(rank.one('a', 2 * LEN), Ok(FASTEST));
    }

    #[test]
    fn what_is_short_is_not_compared() {
        let rank = Rank { other: [10_000_000, 30_000_000, 8], ..Rank::default() };
        assert!((0..40).all(|_| rank.one('a', LEAST_BYTES - 1) == Ok(FASTEST)));
        assert!(rank.told().is_empty());
    }

    #[test]
    fn one_that_fails_counts_and_tells_nothing() {
        let rank = Rank { other: [10_000_000, 30_000_000, 8], ..Rank::default() };
        let fail = || rank.work('a', LEN, |_| Err::<(), _>("a link"));
        assert_eq!(rank.one('a', LEN), Ok(FASTEST));
        assert_eq!((0..4).map(|_| fail()).collect::<Vec<_>>(), [Err("a link"); 4]);
        assert_eq!(rank.told(), [1], "not the fifth, as the others do");
        (0..3).for_each(|_| _ = rank.one('a', LEN));
        assert_eq!(rank.told(), [1, 6], "but with the next one");
    }

    #[test]
    fn what_is_expected_is_that_of_first_parts() {
        let expected_of = |bytes, is_first| {
            let collective = UnderWay { way: Way::Free, bytes, expected: Cell::default() };
            for is_first in [true, is_first] {
                PartOf { collective: &collective, is_first }.decide(&FACTS, FASTEST, !is_first);
            }
            collective.expected.get()
        };
        let expected = |is_first| expected_of(LONG_BYTES - 1, is_first);
        // Half a MiB of one; what is looked at takes longer wherever it is.
        let all = Expected {
            sent_bytes: 2 * LEN,
            raw_bytes: 2 * LEN,
            link_ns: 4,
            peers: 1 << 1,
            ..Expected::default()
        };
        let of_first = Expected { known_bytes: LEN, coded_bytes: LEN / 2, learning_bytes: LEN, ..all };
        assert_eq!(expected(false), of_first);
        assert_eq!(expected(true), Expected { known_bytes: 2 * LEN, coded_bytes: LEN, ..all });
        assert_eq!(
            expected_of(LONG_BYTES, false),
            Expected { learning_bytes: 0, ..of_first },
            "beside what is long"
        );
    }

    #[test]
    fn what_is_found_by_something_else_than_its_time_stays() {
        let rank = Rank { other: [10_000_000, 30_000_000, 8], ..Rank::default() };
        let fixed = Decision { reason: Reason::Fixed, ..FASTEST };
        let decide =
            |collective: &UnderWay| Ok(PartOf { collective, is_first: true }.decide(&FACTS, fixed, false));
        assert!((0..40).all(|_| rank.work('a', LEN, decide) == Ok(fixed)));
    }
}

//! Whether collectives take less time where the policy compresses what they send.
//!
//! A policy knows the link and the codecs, not what a collective waits for: that ranks share cores, that a peer decodes before it
//! sends what comes next, or that links have saved up room for what is short. So now and then some go raw, and the times of the whole
//! tell which way is better for those of the same kind and length, until they are compared again.
//!
//! * **Together**: what one rank sends raw, it does not wait for itself. So all ranks do the same: which collectives are
//!   compared, and which of those are raw, follows from how many of their kind and length there were, and behind some the ranks
//!   tell each other what they took. Only policies that go by predicted times are overruled, and what they do to learn something is
//!   left alone.
//! * **No period**: of four in a row the first or the third is raw, and the second or the fourth, by chance. So what changes in turn, be
//!   it data or policy, is not mistaken for a difference.
//! * **Judged** by eight of each way, on the rank that they take longest on, by the mean of all but the slowest quarter, which
//!   something else has disturbed. A rank that sends nothing counts with what it waits for. Collectives go raw where compression takes a
//!   twentieth longer. What is clear is found sooner: by four of each where one way takes 1.15 times as long, and that compression
//!   pays by two, where the fastest raw one takes 1.5 times as long as the slowest other.
//! * **Seldom**: where compression pays, the next comparison is after eight times as many. Those that are expected to take more
//!   than 50 ms raw are not compared: there codecs and link are all that counts, and a few raw ones would be felt. Nor are those of
//!   less than 16 KiB, those whose lengths are not known to all ranks, nor those that bring all to one rank or from one: the others
//!   need not wait for anybody then, and comparisons would make them.
//! * **Data that becomes another** is seen even so, since the policy is asked all the same: where it expects a quarter less for some
//!   time than when compression was found slower, this rank goes its way again. So it does where collectives have become long.
//! * **Waiting counts**: ranks that come late make all times longer, those of raw ones as well as others. Where that is most of it, there is
//!   no difference to find, and beyond 50 ms nothing is compared.

mod contest;
mod course;
mod report;

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Instant;

use mgcomp_codecs::Element;
use mgcomp_codecs::reduction::Datatype;

use self::course::Course;
use self::report::Report;
use super::{CommunicatorError, Group};
use crate::memory::{HostBuffer, Slice};

/// Shorter ones are not worth the looks at the clock.
const LEAST_BYTES: usize = 16 << 10;
/// Kinds and lengths that are known at most; what was not met for longest is forgotten.
const MOST_KNOWN: usize = 256;

/// Kinds of collectives whose length all members know. Of what has another datatype, policies expect something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Compared {
    Broadcast,
    AllGather,
    AllToAll,
    ReduceScatter(Datatype),
    AllReduce(Datatype),
}

/// Collectives whose times say something about each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Class {
    compared: Compared,
    length: u32,
}

impl Class {
    /// Each power of two up to the next has four lengths.
    fn of(compared: Compared, bytes: usize) -> Self {
        let power = bytes.max(4).ilog2();
        let quarter = (bytes >> (power - 2) & 3) as u32;
        Self { compared, length: 4 * power + quarter }
    }
}

/// The comparisons of a communicator.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    /// With the number of the collective that was the last of its class.
    known: HashMap<Class, (u64, Course)>,
    collectives: u64,
}

impl Comparisons {
    /// All members ask for the same in the same order, so they know and forget the same.
    fn of(&mut self, class: Class) -> &mut Course {
        self.collectives += 1;
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&class) {
            let oldest = self.known.iter().min_by_key(|(_, (last, _))| *last).map(|(&class, _)| class);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        let (last, course) = self.known.entry(class).or_default();
        *last = self.collectives;
        course
    }
}

impl Group {
    /// Does a collective on so many bytes, as many on all members: raw where such were found to take less time so, or to find
    /// that out. Its arguments are known to be good, so that all members count the same.
    pub(super) fn compared(
        &self,
        compared: Compared,
        bytes: usize,
        work: impl FnOnce() -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        if bytes < LEAST_BYTES || self.size() < 2 {
            return work();
        }
        // One collective is carried out at a time, so nobody waits for this.
        let mut comparisons = self.comparisons.lock().unwrap_or_else(PoisonError::into_inner);
        let course = comparisons.of(Class::of(compared, bytes));
        let way = course.begin();
        let collective = self.node.begin_collective(self.context, way.raw());
        let started = Instant::now();
        work()?;
        let (took, expected) = (started.elapsed(), collective.expected());
        drop(collective); // what members tell each other is no part of it
        course.end(way, took, expected);
        // Behind it, not before the next one: that would begin on all members at once then, as no other does.
        if let Some(report) = course.report() {
            course.hear(&self.exchange_reports(report)?);
        }
        Ok(())
    }

    /// Brings the reports of all members to all.
    fn exchange_reports(&self, report: Report) -> Result<Vec<Report>, CommunicatorError> {
        let _reports = self.node.begin_reports(self.context);
        let mine = HostBuffer::from(report.to_bytes().to_vec()).all();
        let all: Vec<_> = (0..self.size()).map(|_| HostBuffer::zeroed(mine.len()).all()).collect();
        let into: Vec<Slice> = all.iter().map(|slice| slice.clone().into()).collect();
        self.bring_to_all(&mine.into(), &into, Element::U64)?;
        Ok(all.iter().map(|slice| slice.read(Report::of_bytes)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_met_for_longest_is_forgotten() {
        let mut comparisons = Comparisons::default();
        let class = |compared, length| Class { compared, length };
        let all_reduce = Compared::AllReduce(Datatype::F32);
        for length in 0..MOST_KNOWN as u32 {
            comparisons.of(class(all_reduce, length));
        }
        comparisons.of(class(all_reduce, 0));
        comparisons.of(class(Compared::AllGather, 0));
        assert_eq!(comparisons.known.len(), MOST_KNOWN);
        let is_known = |compared, length| comparisons.known.contains_key(&class(compared, length));
        assert!(is_known(all_reduce, 0) && is_known(Compared::AllGather, 0));
        assert!(!is_known(all_reduce, 1) && is_known(all_reduce, 2));
    }

    #[test]
    fn lengths_within_a_quarter_of_a_power_of_two_are_one() {
        let is_one =
            |bytes, other| Class::of(Compared::Broadcast, bytes) == Class::of(Compared::Broadcast, other);
        for (first, last) in
            [(16_384, 20_479), (20_480, 24_575), (24_576, 28_671), (28_672, 32_767), (32_768, 40_959)]
        {
            assert!(is_one(first, last) && !is_one(first - 1, first) && !is_one(last, last + 1));
        }
        assert!(is_one(usize::MAX, usize::MAX - 1));
        let reduced =
            [Datatype::F32, Datatype::F64].map(|datatype| Class::of(Compared::AllReduce(datatype), 20_000));
        assert_ne!(reduced[0], reduced[1]);
    }
}

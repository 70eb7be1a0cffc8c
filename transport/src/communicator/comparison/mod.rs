//! Whether collectives take less time where the policy compresses what they send.
//!
//! A policy knows the link and the codecs, not what a collective waits for: that ranks share cores, that a peer decodes before it
//! sends what comes next, or that links have saved up room for what is short. So now and then some go raw, and the times of the whole
//! tell which way is better for those of the same kind and length, until they are compared again.
//!
//! * **Together**: what one rank sends raw, it does not wait for itself. So all ranks do the same: which collectives are
//!   compared, and which of those are raw, follows from how many there were, and between them the ranks tell each other what they took.
//!   Only policies that go by predicted times are overruled, and what they do to learn something is left alone.
//! * **No period**: of four in a row the first or the third is raw, and the second or the fourth, by chance. So what changes in turn, be
//!   it data or policy, is not mistaken for a difference.
//! * **Judged** by eight of each way, by the mean over all ranks of all but the slowest quarter, which something else has disturbed. Collectives
//!   go raw where compression takes a twentieth longer. What is clear is found sooner: by four of each where one way takes 1.15 times as long,
//!   and that compression pays by two, where the fastest raw one takes 1.5 times as long as the slowest other.
//! * **Seldom**: where compression pays, the next comparison is after eight times as many. Those that are expected to take more
//!   than 50 ms raw are not compared: there codecs and link are all that counts, and a few raw ones would be felt. Nor are those of
//!   less than 16 KiB, nor those whose lengths are not known to all ranks.
//! * **Data that becomes another** is seen even so, since the policy is asked all the same: where it expects a quarter less for some
//!   time than when compression was found slower, this rank goes its way again. So it does where collectives have become long.

mod course;

use std::collections::HashMap;
use std::sync::PoisonError;
use std::time::Instant;

use mgcomp_codecs::Element;

use self::course::{Course, Report};
use super::collective::Block;
use super::{CommunicatorError, Group};
use crate::memory::HostBuffer;

/// Shorter ones are not worth the looks at the clock.
const LEAST_BYTES: usize = 16 << 10;
/// Kinds and lengths that are known at most; what was not met for longest is forgotten.
const MOST_KNOWN: usize = 256;

/// Collectives whose length all members know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Compared {
    Broadcast,
    Gather,
    Scatter,
    AllGather,
    AllToAll,
    Reduce,
    ReduceScatter,
    AllReduce,
}

/// The comparisons of a communicator.
#[derive(Debug, Default)]
pub(super) struct Comparisons {
    /// With the number of the collective that was the last of its kind and length.
    known: HashMap<(Compared, usize), (u64, Course)>,
    collectives: u64,
}

impl Comparisons {
    /// All members ask for the same in the same order, so they know and forget the same.
    fn of(&mut self, compared: (Compared, usize)) -> &mut Course {
        self.collectives += 1;
        if self.known.len() >= MOST_KNOWN && !self.known.contains_key(&compared) {
            let oldest = self.known.iter().min_by_key(|(_, (last, _))| *last).map(|(&key, _)| key);
            oldest.and_then(|oldest| self.known.remove(&oldest));
        }
        let (last, course) = self.known.entry(compared).or_default();
        *last = self.collectives;
        course
    }
}

impl Group {
    /// Does a collective on so many bytes, which is the same on all members: raw where such were found to take less time so, or
    /// to find that out.
    pub(super) fn compared(
        &self,
        compared: (Compared, usize),
        work: impl FnOnce() -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        if compared.1 < LEAST_BYTES || self.size() < 2 {
            return work();
        }
        // One collective is carried out at a time, so nobody waits for this.
        let mut comparisons = self.comparisons.lock().unwrap_or_else(PoisonError::into_inner);
        let course = comparisons.of(compared);
        if let Some(report) = course.report() {
            course.hear(&self.exchange_reports(report)?);
        }
        let way = course.begin();
        let collective = self.node.begin_collective(self.context, way.raw());
        let started = Instant::now();
        work()?;
        course.end(way, started.elapsed(), collective.expected());
        Ok(())
    }

    /// Brings the reports of all members to all.
    fn exchange_reports(&self, report: Report) -> Result<Vec<Report>, CommunicatorError> {
        let len = report.to_bytes().len();
        let (mine, all) =
            (HostBuffer::from(report.to_bytes().to_vec()), HostBuffer::zeroed(len * self.size()));
        let blocks: Vec<Block> = (0..self.size()).map(|rank| Block { offset: rank * len, len }).collect();
        self.all_gather(&mine.all().into(), &all.all().into(), &blocks, Element::U64)?;
        Ok(all.all().read(|bytes| bytes.chunks_exact(len).map(Report::of_bytes).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_met_for_longest_is_forgotten() {
        let mut comparisons = Comparisons::default();
        for bytes in 0..MOST_KNOWN {
            comparisons.of((Compared::AllReduce, bytes));
        }
        comparisons.of((Compared::AllReduce, 0));
        comparisons.of((Compared::AllGather, 0));
        assert_eq!(comparisons.known.len(), MOST_KNOWN);
        let is_known = |kind, bytes| comparisons.known.contains_key(&(kind, bytes));
        assert!(is_known(Compared::AllReduce, 0) && is_known(Compared::AllGather, 0));
        assert!(!is_known(Compared::AllReduce, 1) && is_known(Compared::AllReduce, 2));
    }
}

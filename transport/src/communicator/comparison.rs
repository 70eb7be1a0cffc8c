//! Whether collectives take less time where the policy compresses what they send; see [`comparison`](crate::comparison).
//!
//! * **Together**: what one rank sends raw, it does not wait for itself. So all ranks do the same: which collectives are
//!   compared, and which of those are raw, follows from how many of their kind and length there were, and behind some the ranks
//!   tell each other what they took.
//! * **Judged** on the rank that they take longest on. A rank that sends nothing counts with what it waits for.
//! * **Not compared** are those whose lengths are not known to all ranks, and those that bring all to one rank or from one: the others
//!   need not wait for anybody then, and comparisons would make them.
//! * **Waiting counts**: ranks that come late make all times longer, those of raw ones as well as others. Where that is most of it, there is
//!   no difference to find, and what takes very long is not compared.

use std::sync::PoisonError;
use std::time::Instant;

use mgcomp_codecs::Element;
use mgcomp_codecs::reduction::Datatype;

use super::{CommunicatorError, Group};
use crate::comparison::{Course, Known, LEAST_BYTES, Raw, Report, length_class};
use crate::memory::{HostBuffer, Slice};

/// Kinds of collectives whose length all members know. Of what has another datatype, policies expect something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Compared {
    Broadcast,
    AllGather,
    AllToAll,
    ReduceScatter(Datatype),
    AllReduce(Datatype),
}

/// The comparisons of a communicator, by kind and length. All members ask for the same in the same order, so they know and forget the
/// same.
pub(super) type Comparisons = Known<(Compared, u32), Course>;

impl Group {
    /// Does a collective on so many bytes, as many on all members: raw where such were found to take less time so, or to find
    /// that out. Its arguments are known to be good, so that all members count the same.
    pub(super) fn compared(
        &self,
        compared: Compared,
        bytes: usize,
        work: impl FnOnce() -> Result<(), CommunicatorError>,
    ) -> Result<(), CommunicatorError> {
        let bytes = bytes as u64;
        if bytes < LEAST_BYTES || self.size() < 2 {
            return work();
        }
        // One collective is carried out at a time, so nobody waits for this.
        let mut comparisons = self.comparisons.lock().unwrap_or_else(PoisonError::into_inner);
        let course = comparisons.meet((compared, length_class(bytes)));
        let way = course.begin();
        let collective = self.node.begin_collective(self.context, way.raw().map(Raw::of_collective));
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
    use std::time::Duration;

    use super::*;
    use crate::comparison::{Expected, Way};

    #[test]
    fn collectives_of_each_kind_and_datatype_go_their_own_ways() {
        let mut comparisons = Comparisons::default();
        let compared = (Compared::AllReduce(Datatype::F32), length_class(20_000));
        let wanted = Expected { sent_bytes: 20_000, raw_bytes: 20_000, ..Expected::default() };
        let course = comparisons.meet(compared);
        course.end(Way::Free, Duration::from_millis(1), wanted);
        let report = course.report().unwrap();
        course.hear(&[report]);
        assert_ne!(course.begin(), Way::Free, "it is compared next");
        assert_ne!(comparisons.meet(compared).begin(), Way::Free);
        for other in [Compared::AllReduce(Datatype::F64), Compared::ReduceScatter(Datatype::F32)] {
            assert_eq!(comparisons.meet((other, length_class(20_000))).begin(), Way::Free);
        }
        assert_eq!(comparisons.meet((compared.0, length_class(30_000))).begin(), Way::Free);
    }
}

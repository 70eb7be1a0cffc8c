//! What was encoded lately: what a policy has yet to hear of it, and the frames of which receivers may say how long it took to decode them.

use std::collections::VecDeque;

use mgcomp_selector::{CheapFacts, Decision, Outcome, Policy, RecordId};
use rustc_hash::FxHashMap;

use crate::message::Rank;
use crate::session::JobId;

/// Frames to each peer that are remembered: as many as a window of long messages has, and more.
const REMEMBERED: usize = 512;

/// A transfer, what was decided of it, and what came of that.
pub(super) struct Lesson {
    pub(super) facts: CheapFacts,
    pub(super) decision: Decision,
    pub(super) outcome: Outcome,
}

impl Lesson {
    pub(super) fn teach(&self, policy: &mut dyn Policy) {
        policy.observe(&self.facts, &self.decision, &self.outcome);
    }
}

/// A frame, and how it came about.
#[derive(Clone, Copy, Debug)]
pub(super) struct Coded {
    pub(super) facts: CheapFacts,
    pub(super) decision: Decision,
    pub(super) coded_bytes: u64,
    pub(super) record: RecordId,
}

/// The last frames to each peer.
#[derive(Debug, Default)]
pub(super) struct LatelyCoded(FxHashMap<Rank, VecDeque<(JobId, Coded)>>);

impl LatelyCoded {
    /// `job` has encoded a frame for `peer`.
    pub(super) fn put(&mut self, (peer, job): (Rank, JobId), coded: Coded) {
        let frames = self.0.entry(peer).or_default();
        if frames.len() == REMEMBERED {
            frames.pop_front();
        }
        frames.push_back((job, coded));
    }

    /// What `job` has encoded for `peer`, if that is remembered. It is no longer.
    pub(super) fn take(&mut self, (peer, job): (Rank, JobId)) -> Option<Coded> {
        let frames = self.0.get_mut(&peer)?;
        let at = frames.iter().position(|(encoded_by, _)| *encoded_by == job)?;
        frames.remove(at).map(|(_, coded)| coded)
    }

    /// Nothing more will be heard of `peer`.
    pub(super) fn forget(&mut self, peer: Rank) {
        self.0.remove(&peer);
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{AlgorithmSet, Element};
    use mgcomp_selector::{Reason, StreamId};

    use super::*;

    fn coded(record: u64) -> Coded {
        let facts = CheapFacts {
            peer: 1,
            stream: StreamId(0),
            raw_bytes: 4096,
            element: Element::U8,
            allowed: AlgorithmSet::supported(),
            link: None,
            lambda: None,
            is_observed: true,
        };
        let decision = Decision::bypass(&facts, Reason::NotSampled);
        Coded { facts, decision, coded_bytes: 10, record: RecordId(record) }
    }

    #[test]
    fn the_last_frames_to_each_peer_are_remembered_until_they_are_heard_of() {
        let mut frames = LatelyCoded::default();
        (0..=REMEMBERED as u64).for_each(|job| frames.put((Rank(1), JobId(job)), coded(job)));
        frames.put((Rank(2), JobId(0)), coded(1000));
        let mut record = |peer, job| frames.take((Rank(peer), JobId(job))).map(|coded| coded.record.0);
        assert_eq!((record(1, 0), record(1, 1), record(1, 1)), (None, Some(1), None));
        assert_eq!((record(1, REMEMBERED as u64), record(3, 0)), (Some(REMEMBERED as u64), None));
        frames.forget(Rank(1));
        let mut record = |peer, job| frames.take((Rank(peer), JobId(job))).map(|coded| coded.record.0);
        assert_eq!((record(1, 2), record(2, 0)), (None, Some(1000)));
    }
}

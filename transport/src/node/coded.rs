//! Frames that were sent lately: their receivers may say how long it took to decode them.

use std::collections::VecDeque;

use mgcomp_selector::{CheapFacts, Decision, RecordId};
use rustc_hash::FxHashMap;

use crate::message::Rank;
use crate::session::JobId;

/// Frames to each peer that are remembered: it says so soon, or of the next one.
const REMEMBERED: usize = 64;

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

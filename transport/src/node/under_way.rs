//! Codec work of a node that is under way, and the transfers that it is for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use mgcomp_selector::{CheapFacts, Decision};

use crate::executor::Ticket;
use crate::fanout::Fanout;
use crate::message::Rank;
use crate::payload::Payload;
use crate::session::{JobId, Purpose};

pub(super) struct UnderWay {
    pub(super) peer: Rank,
    pub(super) job: JobId,
    pub(super) stage: Stage,
}

/// A transfer that gets what is encoded for another peer.
pub(super) struct Follower {
    pub(super) by: (Rank, JobId),
    pub(super) encoding: Encoding,
}

pub(super) enum Stage {
    Sampling {
        source: Payload,
        transfer: Transfer,
    },
    /// Beside its encoding.
    Looking {
        facts: CheapFacts,
    },
    Encoding(Encoding),
    Decoding {
        raw_bytes: u64,
        coded_bytes: u64,
    },
}

/// A transfer whose algorithm is decided on.
pub(super) struct Encoding {
    pub(super) transfer: Transfer,
    pub(super) decision: Decision,
    /// The time that a sample took, if one was taken first.
    pub(super) sampling: Option<Duration>,
    /// What looks at it meanwhile.
    pub(super) look: Option<Ticket>,
    /// What other peers get of it, where that is the same.
    pub(super) fanout: Option<Arc<Fanout>>,
    /// Whether a codec works for it, and not only for another peer.
    pub(super) is_timed: bool,
}

/// What is to be encoded, as policy and log see it.
#[derive(Clone, Copy)]
pub(super) struct Transfer {
    pub(super) facts: CheapFacts,
    /// The group whose collectives it is a part of.
    pub(super) group: Option<u32>,
    pub(super) planned_at: Instant,
    pub(super) purpose: Purpose,
    /// Whether the session that it is for is over.
    pub(super) forgotten: bool,
}

impl Transfer {
    /// Whether the peer will say when it has it.
    pub(super) fn is_acknowledged(&self) -> bool {
        matches!(self.purpose, Purpose::Write { .. })
    }
}

//! What a session is told at its start.

use std::time::Duration;

use crate::message::{Limits, Rank, Secret};

/// Settings of a session: who is at either end, and what it puts up with.
#[derive(Clone, Debug)]
pub struct SessionConfig {
    /// The rank on this side.
    pub local: Rank,
    /// The rank on the other side.
    pub peer: Rank,
    /// Ranks in the job.
    pub ranks: u32,
    /// What tells members of the job from strangers.
    pub secret: Secret,
    /// What this side takes at once; the peer is told and held to it.
    pub limits: Limits,
    /// Bytes per message: longer reads and writes are cut into pieces of this length (or of either side's
    /// limit, where that is less), several of which are under way at once. At least 1.
    pub piece_bytes: u32,
    /// How long the peer may take for its hello.
    pub greeting_timeout: Duration,
    /// How long a peer that owes an answer may stay silent.
    pub silence_timeout: Duration,
    /// Whether what the link brings is this side's own, so that it may be kept when the peer has gone.
    pub keeps_arrived: bool,
}

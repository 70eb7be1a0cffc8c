//! Ranks that are joined by shared memory.

use mgcomp_transport::link::Link;
use mgcomp_transport::link::shm::{Shm, ShmConfig, ShmJob};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::NodeConfig;

use super::super::error::PerfError;
use super::super::options::Args;
use super::QUEUE_BYTES;

/// The link of a rank; it finds the others by what the secret tells.
pub(super) fn link(rank: u32, ranks: u32, secret: Secret, args: &Args) -> Result<Box<dyn Link>, PerfError> {
    let config = ShmConfig {
        queue_bytes: QUEUE_BYTES,
        connect_timeout: args.timeout,
        shaping: args.shaping()?,
        ..ShmConfig::new(NodeConfig::default().limits)
    };
    Ok(Box::new(Shm::new(ShmJob::new(secret, ranks), Rank(rank), config)?))
}

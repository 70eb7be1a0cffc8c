//! Ranks that are joined by windows in the memory of their devices.

use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::ipc::{CudaIpc, CudaIpcConfig};
use mgcomp_transport::link::shm::{ShmConfig, ShmJob};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::NodeConfig;

use super::super::error::PerfError;
use super::super::options::Args;
use super::QUEUE_BYTES;
use crate::room::Room;

/// The link of a rank whose buffers lie in `room`; it finds the others by what the secret tells.
pub(super) fn link(
    rank: u32,
    ranks: u32,
    secret: Secret,
    room: &Room,
    args: &Args,
) -> Result<Box<dyn Link>, PerfError> {
    let limits = NodeConfig::default().limits;
    let shm = ShmConfig { queue_bytes: QUEUE_BYTES, connect_timeout: args.timeout, ..ShmConfig::new(limits) };
    let config = CudaIpcConfig { shm, ..CudaIpcConfig::new(limits) };
    let device = room.device().cloned();
    Ok(Box::new(CudaIpc::new(ShmJob::new(secret, ranks), Rank(rank), device, config)?))
}

//! Ranks that are joined by windows in the memory of their devices.

use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::ipc::{CudaIpc, CudaIpcConfig};
use mgcomp_transport::link::shm::{ShmConfig, ShmJob};
use mgcomp_transport::message::{Rank, Secret};
use mgcomp_transport::node::NodeConfig;

use super::super::error::PerfError;
use super::super::member::LookAtWays;
use super::super::options::Args;
use super::super::row::Ways;
use super::QUEUE_BYTES;
use crate::room::Room;

/// The link of a rank whose buffers lie in `room`, which finds the others by what the secret tells, and what goes which way there.
pub(super) fn link(
    rank: u32,
    ranks: u32,
    secret: Secret,
    room: &Room,
    args: &Args,
) -> Result<(Box<dyn Link>, LookAtWays), PerfError> {
    let limits = NodeConfig::default().limits;
    let shm = ShmConfig { queue_bytes: QUEUE_BYTES, connect_timeout: args.timeout, ..ShmConfig::new(limits) };
    let config = CudaIpcConfig { shm, ..CudaIpcConfig::new(limits) };
    let device = room.device().cloned();
    let link = CudaIpc::new(ShmJob::new(secret, ranks), Rank(rank), device, config)?;
    let carried = link.carried();
    let look = move || Ways { window_bytes: carried.window_bytes(), host_bytes: carried.host_bytes() };
    Ok((Box::new(link), Box::new(look)))
}

//! The queue for what leaves a device for a while: activations go out in forward and come back in backward, as in vDNN.
//!
//! ```
//! use mgcomp_codecs::Element;
//! use mgcomp_transport::copy::CopyConfig;
//! use mgcomp_transport::copy::offload::{OffloadConfig, OffloadQueue};
//! use mgcomp_transport::memory::HostBuffer;
//!
//! let copy = CopyConfig::simulated(16.0)?;
//! let queue = OffloadQueue::start(OffloadConfig::new(copy, "fixed:zvc".parse()?, 64 << 20))?;
//!
//! let activations = HostBuffer::from((0..1u32 << 16).flat_map(|i| (i % 2 * i).to_le_bytes()).collect::<Vec<u8>>());
//! let ticket = queue.offload(activations.all(), Element::F32)?;
//! queue.wait(ticket)?; // the device's memory may be used for something else now
//!
//! let back = HostBuffer::zeroed(activations.len());
//! queue.prefetch(ticket, back.all())?.wait()?;
//! assert_eq!(back.all().to_vec(), activations.all().to_vec());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Host memory is bounded. What is being offloaded counts in full until it is known what is left of it, so the bound holds
//! at any moment; [`OffloadQueue::offload`] waits while others that are under way may make room, and is refused if nothing is.
//! Memory comes in blocks up to an eighth longer than what is in them, and what was brought back leaves its blocks to what is
//! offloaded next, within the same bound. Besides there are the buffers of segments under way.
//!
//! What leaves a CUDA device is brought straight to page-locked blocks and goes back from there, where a segment of it has
//! 64 KiB or more left. They count within the bound, and are freed before the queue is only where it leaves no room for blocks of
//! other lengths: the driver may wait for all that devices do then.

mod error;
mod queue;
mod store;

pub use error::OffloadError;
pub use queue::OffloadQueue;
pub use store::OffloadStats;

use mgcomp_selector::PolicySpec;

use super::CopyConfig;

/// Settings of an [`OffloadQueue`].
#[derive(Clone, Debug)]
pub struct OffloadConfig {
    /// How copies are made; in order, if they are to begin and finish as they were asked for.
    pub copy: CopyConfig,
    /// How they are coded.
    pub policy: PolicySpec,
    /// Bytes of host memory that what is offloaded may take.
    pub host_bytes: u64,
}

impl OffloadConfig {
    /// These settings.
    #[must_use]
    pub const fn new(copy: CopyConfig, policy: PolicySpec, host_bytes: u64) -> Self {
        Self { copy, policy, host_bytes }
    }
}

/// Stands for something offloaded, until it was brought back or discarded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket {
    /// Which queue of this process gave it out.
    pub(super) queue: u64,
    pub(super) number: u64,
}

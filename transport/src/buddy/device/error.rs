//! What a pool in the memory of a device refuses, and what can go wrong in it.

use mgcomp_codecs::device::{DeviceError, EntriesRefused};

use super::super::BuddyError;

/// Why a pool in the memory of a device did not do what it was asked to.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceBuddyError {
    /// What was asked for. Nothing has changed.
    #[error(transparent)]
    Pool(#[from] BuddyError),
    /// Kernels of one device do not reach the memory of the other.
    #[error("kernels of the device do not reach the memory that is to be buddy memory")]
    OutOfReach,
    /// The driver, or the regions of a call. What a call from or to host memory had begun is done in part.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// Entries are damaged, or their metadata. Of a call from or to host memory the first `done` bytes of the range have
    /// been dealt with, and up to the next multiple of [`STAGE_LEN`](super::STAGE_LEN) of the allocation all but the damaged
    /// entries; no others. A call that was only enqueued has dealt with all but these, and `done` is 0.
    #[error("{refused} ({done} bytes of the range are done)")]
    Refused {
        /// What is wrong with the first of them.
        refused: EntriesRefused,
        /// Bytes of the range before the piece that was being dealt with.
        done: u64,
    },
}

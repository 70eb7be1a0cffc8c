//! What a queue refuses.

use crate::copy::CopyError;

/// Why something is not offloaded or brought back.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OffloadError {
    /// It would not fit if there were nothing else.
    #[error("{needed} bytes with all that they may take do not fit into {limit} bytes of host memory")]
    TooLong {
        /// Bytes that must be free when it begins: all of its own, and some for the ticket.
        needed: u64,
        /// Bytes that the queue may take.
        limit: u64,
    },
    /// Host memory is full, and nothing is under way that would make room.
    #[error("{needed} bytes are needed, but {used} of {limit} bytes of host memory are in use")]
    Full {
        /// Bytes that must be free when it begins.
        needed: u64,
        /// Bytes that are in use.
        used: u64,
        /// Bytes that the queue may take.
        limit: u64,
    },
    /// The ticket is of another queue.
    #[error("ticket {number} is of queue {of_queue}, not of queue {queue}")]
    OtherQueue {
        /// The ticket.
        number: u64,
        /// Where it is from.
        of_queue: u64,
        /// Where it was shown.
        queue: u64,
    },
    /// What the ticket stands for was brought back or discarded, or is on its way back.
    #[error("ticket {number} of queue {queue} was used before")]
    Used {
        /// The ticket.
        number: u64,
        /// The queue.
        queue: u64,
    },
    /// The copy cannot be made, or failed.
    #[error(transparent)]
    Copy(#[from] CopyError),
}

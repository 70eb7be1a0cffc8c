//! Why an operation of a communicator fails.

use super::Datatype;
use crate::message::Status;
use crate::session::TransferError;

/// Why an operation failed, by who must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CommunicatorError {
    /// No member has this number.
    #[error("there is no rank {rank} among {ranks}")]
    Rank {
        /// What was asked for.
        rank: u32,
        /// Members that there are.
        ranks: u32,
    },
    /// A message to or from this member itself: messages are for others.
    #[error("rank {rank} is this member: messages are for others")]
    Own {
        /// Its number in the communicator.
        rank: u32,
    },
    /// Buffers do not fit each other or the number of ranks.
    #[error("{what} has {got} bytes, but {expected} are needed")]
    Length {
        /// Which buffer.
        what: &'static str,
        /// What it has.
        got: usize,
        /// What it needs.
        expected: usize,
    },
    /// One block for each rank is needed.
    #[error("{got} blocks for {ranks} ranks")]
    Blocks {
        /// Blocks given.
        got: usize,
        /// Members that there are.
        ranks: u32,
    },
    /// A block lies outside of its buffer.
    #[error("block {block} is {len} bytes at {offset}, outside of a buffer of {buffer_len}")]
    BlockOutside {
        /// Which block.
        block: usize,
        /// Where it starts.
        offset: usize,
        /// Its bytes.
        len: usize,
        /// The bytes that there are.
        buffer_len: usize,
    },
    /// Two blocks that must not have bytes in common have some.
    #[error("blocks {first} and {second} overlap")]
    BlocksOverlap {
        /// The one that starts first.
        first: usize,
        /// The other.
        second: usize,
    },
    /// A buffer that is read and one that is written have bytes in common, and are not the same.
    #[error("the buffers to send from and to receive into overlap, but not where in-place use allows it")]
    Overlap,
    /// A buffer does not hold whole numbers.
    #[error("{len} bytes are no whole number of {datatype}")]
    Width {
        /// Its bytes.
        len: usize,
        /// What it is to hold.
        datatype: Datatype,
    },
    /// A message is longer than the buffer that it was to go to. It is lost.
    #[error("a message of {len} bytes does not fit the buffer of {capacity}")]
    Truncated {
        /// Bytes of the message.
        len: u64,
        /// Bytes of the buffer.
        capacity: u64,
    },
    /// A member sent another number of bytes than this one expected: they do not agree on the lengths of the operation.
    #[error("rank {rank} sent {got} bytes where {expected} were expected")]
    WrongLength {
        /// Who sent them, by its number in the communicator.
        rank: u32,
        /// Bytes that came.
        got: u64,
        /// Bytes that were to come.
        expected: u64,
    },
    /// An earlier operation failed halfway, so that ranks may be at different places.
    #[error("the communicator cannot be used since an operation failed: {0}")]
    Broken(Box<CommunicatorError>),
    /// The node has, or had, a communicator of all ranks.
    #[error("the node has had a communicator of all ranks already")]
    SecondWorld,
    /// All numbers of communicators are used up.
    #[error("no more communicators can be made from this node")]
    TooMany,
    /// The system gives no thread for collectives that are not waited for.
    #[error("cannot start a thread: {0}")]
    Thread(String),
    /// The operation panicked on this member: a defect, here or in what owns the memory that was lent to it.
    #[error("the operation panicked on this rank")]
    Panicked,
    /// A block could not be copied from or to the memory of a device, or numbers not be combined there.
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] mgcomp_codecs::device::DeviceError),
    /// A transfer with a member failed.
    #[error(transparent)]
    Transfer(#[from] TransferError),
}

impl CommunicatorError {
    /// What other members are told when an operation has failed so.
    pub(super) fn status(&self) -> Status {
        match self {
            Self::WrongLength { .. } | Self::Transfer(TransferError::BufferTooSmall { .. }) => {
                Status::ReceiveTooSmall
            }
            Self::Transfer(error) => error.status(),
            _ => Status::Internal,
        }
    }

    /// Whether members may be at different places after it: something was sent or received before, or they carry the operation
    /// out without this one, where there are others.
    pub(super) const fn is_halfway(&self) -> bool {
        match self {
            Self::Transfer(_) | Self::WrongLength { .. } | Self::Thread(_) | Self::Panicked => true,
            #[cfg(feature = "cuda")]
            Self::Device(_) => true,
            _ => false,
        }
    }
}

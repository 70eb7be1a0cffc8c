//! Why a copy cannot be made, or was not finished.

use std::io;
use std::sync::Arc;

use super::Direction;
use crate::link::ShapingError;
use crate::message::Status;
use crate::payload::MemoryKind;

/// Why a copy cannot be made, or was not finished. Nothing was written, but where [`Segment`](Self::Segment) says so.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CopyError {
    /// A range that a buffer does not have.
    #[error("bytes {start} to {end} of a buffer of {len} bytes")]
    Outside {
        /// First byte.
        start: usize,
        /// One past the last.
        end: usize,
        /// Bytes that there are.
        len: usize,
    },
    /// Source and destination are not of one length.
    #[error("{source_bytes} bytes into a destination of {destination_bytes}")]
    Length {
        /// Length of the source.
        source_bytes: u64,
        /// Length of the destination.
        destination_bytes: u64,
    },
    /// The bytes are no whole number of elements. Bytes that are no elements are copied as `u8`.
    #[error("{bytes} bytes are no whole number of elements of {width_bytes} bytes")]
    OddLength {
        /// Length of the source.
        bytes: u64,
        /// Length of an element.
        width_bytes: usize,
    },
    /// The source or the destination does not begin where an element of its buffer does.
    #[error("byte {offset} of a buffer is no place for elements of {width_bytes} bytes")]
    Misaligned {
        /// Where it begins, in its buffer or in the memory of its device.
        offset: usize,
        /// Length of an element.
        width_bytes: usize,
    },
    /// Source and destination have bytes in common.
    #[error("source and destination have {bytes} bytes in common, from byte {offset} of their buffer on")]
    Overlap {
        /// How many.
        bytes: usize,
        /// The first of them, in the buffer or in the memory of the device.
        offset: usize,
    },
    /// Memory of a device where the direction says that there is none.
    #[error("a copy from {direction}, but one of its places is memory of {place:?}")]
    Direction {
        /// What the direction says.
        direction: Direction,
        /// Where the memory is.
        place: MemoryKind,
    },
    /// Memory that nothing here reaches.
    #[error("memory of {place:?} cannot be reached from here")]
    Place {
        /// Where it is.
        place: MemoryKind,
    },
    /// A segment could not be encoded or decoded. Other parts of the destination may have been written.
    #[error(
        "bytes {start} to {end} of {raw_bytes}: {status}; {written_bytes} bytes of the destination were written"
    )]
    Segment {
        /// The segment's first byte.
        start: u64,
        /// One past its last.
        end: u64,
        /// Length of the copy.
        raw_bytes: u64,
        /// What was wrong.
        status: Status,
        /// Bytes of the destination that hold what they should by then.
        written_bytes: u64,
    },
    /// The copier went before the copy was finished. Parts of the destination may have been written.
    #[error("the copier is gone; {written_bytes} bytes of the destination were written")]
    Closed {
        /// Bytes of the destination that hold what they should.
        written_bytes: u64,
    },
    /// A setting that cannot work.
    #[error("{what} of {got}; it must be {least} to {most}")]
    Setting {
        /// Which.
        what: &'static str,
        /// What was given.
        got: u64,
        /// The least that works.
        least: u64,
        /// The most that works.
        most: u64,
    },
    /// A rate that is none.
    #[error(transparent)]
    Rate(#[from] ShapingError),
    /// The system gives no thread.
    #[error("cannot start a thread: {0}")]
    Thread(Arc<io::Error>),
    /// This process is a child, made by `fork`, of the one that has the threads.
    #[error("the copier belongs to the process that this one was forked from")]
    Forked,
}

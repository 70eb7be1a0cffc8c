//! What a pool refuses, and what can go wrong in it.

use std::ops::Range;

use mgcomp_codecs::ChunkError;

use super::{Form, MemoryError, Target};

/// Which of the two memories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Device memory.
    Device,
    /// Buddy memory.
    Buddy,
}

impl std::fmt::Display for Place {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(match self {
            Self::Device => "device",
            Self::Buddy => "buddy",
        })
    }
}

/// Why a pool did not do what it was asked to. Unless the error says otherwise, nothing has changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuddyError {
    /// An allocation of no bytes.
    #[error("an allocation has at least one byte")]
    NoBytes,
    /// A target whose share of an entry is not made of whole sectors.
    #[error("target {target} is not for entries of form {form}")]
    TargetOfForm {
        /// The target asked for.
        target: Target,
        /// The form asked for.
        form: Form,
    },
    /// One of the memories has no room left, at least not in one piece.
    #[error("{place} memory has no {needed} bytes in a row: {free} are free, at most {largest} together")]
    Exhausted {
        /// The memory.
        place: Place,
        /// Bytes that the allocation takes there.
        needed: u64,
        /// Bytes that are free.
        free: u64,
        /// The longest free piece.
        largest: u64,
    },
    /// The handle is one of another pool.
    #[error("the allocation belongs to pool {owner}, this is pool {pool}")]
    OtherPool {
        /// The pool that gave the handle.
        owner: u64,
        /// The pool that was asked.
        pool: u64,
    },
    /// The allocation has been freed.
    #[error("allocation {index} of generation {generation} is freed; its place is at generation {current}")]
    Freed {
        /// Number of the allocation's place.
        index: usize,
        /// Generation of the handle.
        generation: u64,
        /// Generation of the place now.
        current: u64,
    },
    /// The range is not inside the allocation, or ends before it starts.
    #[error("bytes {}..{} are not a range of an allocation of {len} bytes", .range.start, .range.end)]
    Outside {
        /// The range asked for.
        range: Range<u64>,
        /// Length of the allocation.
        len: u64,
    },
    /// The buffer is not as long as the range.
    #[error("the range has {range} bytes, the buffer {buffer}")]
    Lengths {
        /// Bytes of the range.
        range: u64,
        /// Bytes of the buffer.
        buffer: u64,
    },
    /// Metadata of an entry has no meaning. The first `done` bytes of the range have been dealt with, no others.
    #[error("entry {entry}: metadata {state} has no meaning ({done} bytes of the range are done)")]
    State {
        /// Number of the entry in the allocation.
        entry: u64,
        /// The metadata found.
        state: u16,
        /// Bytes of the range before the entries that were being dealt with.
        done: u64,
    },
    /// An entry does not decode. The first `done` bytes of the range have been dealt with, no others.
    #[error("entry {entry} or one that was read with it is damaged ({done} bytes of the range are done)")]
    Damaged {
        /// Number of the first entry that was being decoded.
        entry: u64,
        /// Bytes of the range before the entries that were being dealt with.
        done: u64,
        /// What is wrong with it.
        source: ChunkError,
    },
    /// A memory failed. The first `done` bytes of the range have been dealt with. Of a write, the next entries, up
    /// to 64, may be damaged, with all that they hold.
    #[error("memory failed ({done} bytes of the range are done)")]
    Memory {
        /// Bytes of the range before the entries that were being dealt with.
        done: u64,
        /// What it said.
        source: MemoryError,
    },
}

/// What can go wrong with some entries.
#[derive(Debug)]
pub(super) enum EntryError {
    State { entry: u64, state: u16 },
    Damaged { entry: u64, source: ChunkError },
    Memory(MemoryError),
}

impl From<MemoryError> for EntryError {
    fn from(source: MemoryError) -> Self {
        Self::Memory(source)
    }
}

impl EntryError {
    pub(super) fn after(self, done: u64) -> BuddyError {
        match self {
            Self::State { entry, state } => BuddyError::State { entry, state, done },
            Self::Damaged { entry, source } => BuddyError::Damaged { entry, done, source },
            Self::Memory(source) => BuddyError::Memory { done, source },
        }
    }
}

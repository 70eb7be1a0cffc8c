//! What can be wrong with a call.

use mgcomp_codecs::ChunkError;
use mgcomp_codecs::frame::WorkersError;
use mgcomp_codecs::ibp::CodebookError;

/// Why a call of a table or a cache was refused. Unless it says otherwise, nothing was written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Rows have no bytes, or too many, or there are too many clusters; or a codebook is none.
    #[error(transparent)]
    Codebook(#[from] CodebookError),
    /// The threads asked for cannot be had.
    #[error(transparent)]
    Workers(#[from] WorkersError),
    /// The memory ends within a row.
    #[error("{bytes} bytes have no whole number of rows of {row_len}")]
    Uneven {
        /// Bytes of the memory.
        bytes: usize,
        /// Bytes of a row.
        row_len: usize,
    },
    /// No row has this index.
    #[error("index {index} at position {position}: there are {rows} rows")]
    Index {
        /// Where it stands among the indices of the call.
        position: usize,
        /// The index.
        index: u64,
        /// How many rows there are.
        rows: u64,
    },
    /// The buffer is not as long as the rows asked for or given.
    #[error("{rows} rows of {row_len} bytes do not fill a buffer of {got} bytes exactly")]
    Buffer {
        /// How many indices.
        rows: usize,
        /// Bytes of a row.
        row_len: usize,
        /// Bytes of the buffer.
        got: usize,
    },
    /// The stored bytes of a row are none of a row's: somebody else wrote to the table's memory. Of the rows asked for, any
    /// may have been written.
    #[error(
        "row {index} at position {position} is damaged; what was gathered is to be thrown away: {source}"
    )]
    Row {
        /// Where it stands among the indices of the call.
        position: usize,
        /// The row.
        index: u64,
        /// What is wrong with it.
        source: ChunkError,
    },
    /// A cache was filled from another table, or the table was changed behind its back.
    #[error(
        "the cache was filled from table {cached_table} after {cached_changes} changes; this is table {table} after {changes}"
    )]
    Stale {
        /// Number of the table it was filled from.
        cached_table: u64,
        /// Its changes by then.
        cached_changes: u64,
        /// Number of the table given.
        table: u64,
        /// Its changes.
        changes: u64,
    },
    /// More slabs than an entry can tell apart.
    #[error("{slabs} slabs; at most {most} are possible", most = super::MAX_SLABS)]
    Slabs {
        /// How many.
        slabs: usize,
    },
    /// A slab longer than an entry can point into.
    #[error("slab {slab} of {bytes} bytes; at most {most} are possible")]
    SlabLen {
        /// Index of the slab.
        slab: usize,
        /// Its length.
        bytes: u64,
        /// The most bytes.
        most: u64,
    },
}

//! What can be wrong with the file of a table.

use std::io;
use std::path::PathBuf;

use mgcomp_codecs::ChunkError;
use mgcomp_codecs::frame::WorkersError;
use mgcomp_codecs::ibp::{CodebookError, MAX_CODEBOOK_LEN};

use super::super::TableError;

/// Why a table could not be saved or loaded. Offsets count from the front of the file.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableFileError {
    /// The file cannot be opened.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The file cannot be written. What was there before still is.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// The new table is there, but may be gone, and the old one there, after a loss of power.
    #[error("{} is written, but its folder may forget it: {source}", path.display())]
    NotSynced {
        /// Which file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// Reading or writing failed on the way.
    #[error(transparent)]
    Io(io::Error),
    /// A folder, a pipe or the like; or, where a table was to be written, a link that leads nowhere.
    #[error("{} is no regular file", path.display())]
    NotAFile {
        /// Where it is.
        path: PathBuf,
    },
    /// No table.
    #[error("starts with {got:02x?}: no table")]
    Magic {
        /// The first bytes.
        got: [u8; 4],
    },
    /// A version that this code does not know.
    #[error("version {got} (byte 4) is not supported; this is version 1")]
    Version {
        /// The version.
        got: u8,
    },
    /// A reserved byte is not zero.
    #[error("reserved byte {offset} is {got:#04x}, not zero")]
    Reserved {
        /// Where it is.
        offset: usize,
        /// What it holds.
        got: u8,
    },
    /// Some bytes are not those that were written.
    #[error("{section} (byte {offset}): checksum {computed:#010x}; {stored:#010x} was written")]
    Checksum {
        /// What they are.
        section: &'static str,
        /// Where they start.
        offset: u64,
        /// The checksum in the file.
        stored: u32,
        /// That of the bytes.
        computed: u32,
    },
    /// A codebook longer than any is.
    #[error("a codebook of {got} bytes (byte 24) is over the limit of {MAX_CODEBOOK_LEN}")]
    CodebookLen {
        /// Its length.
        got: usize,
    },
    /// The codebook is none.
    #[error("codebook (byte 32): {0}")]
    Codebook(#[from] CodebookError),
    /// The file ends too early.
    #[error("truncated: {needed} bytes are needed from byte {offset} on, {got} are there")]
    Truncated {
        /// Where something begins.
        offset: u64,
        /// Its length.
        needed: u64,
        /// What is left of the file.
        got: u64,
    },
    /// The file is not as long as its header says.
    #[error("{got} bytes, where the header says {needed}")]
    Length {
        /// What the header says.
        needed: u128,
        /// The length of the file.
        got: u64,
    },
    /// Bits behind the last row are set.
    #[error("the last byte of the bits of {rows} rows is {got:#04x}: it names rows that are not there")]
    UnusedBits {
        /// How many rows there are.
        rows: u64,
        /// The byte.
        got: u8,
    },
    /// A row names a cluster that the codebook has not, or is raw and names one.
    #[error("row {row}: cluster {cluster}; at most {most} is possible")]
    Cluster {
        /// Which row.
        row: u64,
        /// The cluster.
        cluster: u8,
        /// The last one it can name.
        most: usize,
    },
    /// The stored bytes cannot be those of so many rows.
    #[error("{got} stored bytes (byte 16) are too few: the rows take {least} at the least")]
    TooFew {
        /// What the rows take.
        least: u128,
        /// What the header says.
        got: u64,
    },
    /// More memory than the caller allows.
    #[error("the rows take {bytes} bytes of memory; {limit} are allowed")]
    TooLarge {
        /// Bytes of all rows.
        bytes: u128,
        /// What is allowed.
        limit: u64,
    },
    /// There is no such memory, or what was given is of another length.
    #[error("there are no {bytes} bytes of memory to be had")]
    Memory {
        /// How many.
        bytes: usize,
    },
    /// A block of more bytes than its rows have unpacked.
    #[error("the block at byte {offset} has {got} bytes; its rows have at most {most}")]
    BlockLen {
        /// Where it starts.
        offset: u64,
        /// Its length.
        got: u32,
        /// The most.
        most: usize,
    },
    /// The stored bytes of a row are none.
    #[error("row {row}: {source}")]
    Row {
        /// Which row.
        row: u64,
        /// What is wrong with it.
        source: ChunkError,
    },
    /// A block goes on behind its last row.
    #[error("block {block}: {bytes} bytes follow its last row")]
    Leftover {
        /// Index of the block.
        block: u64,
        /// How many.
        bytes: usize,
    },
    /// The rows have not as many bytes as the header says.
    #[error("{rows} stored bytes, where the header says {header}")]
    StoredBytes {
        /// What it says.
        header: u64,
        /// What the rows have.
        rows: u64,
    },
    /// A row of the table to be saved is damaged.
    #[error(transparent)]
    Table(TableError),
    /// The threads asked for cannot be had.
    #[error(transparent)]
    Workers(#[from] WorkersError),
}

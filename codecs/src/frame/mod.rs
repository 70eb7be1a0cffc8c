//! The frame: what a payload with an algorithm other than `none` consists of.
//!
//! Header (16 bytes), chunk table, for IBP a codebook, chunks. `FORMAT.md` draws every byte; the short of it:
//!
//! * A table entry is the chunk's end offset in units of 16 bytes, counted from the first chunk, and, if
//!   the header says so, the CRC32C of the chunk's *raw* bytes. Two entries are enough to find a chunk.
//! * A chunk is stored raw if its stored length is that of the raw chunk, both in units of 16 bytes.
//! * Chunks are independent of each other.
//!
//! The version is 1. Golden files hold the layout fast (`codecs/tests/golden`).

mod apart;
mod crew;
mod decode;
mod encode;
mod error;
mod estimate;
mod header;
mod plan;
mod read;
mod stage;
mod workers;
mod write;

pub use decode::{Chunk, Frame};
pub use encode::{Options, encode, encode_into, encode_to, max_frame_len};
pub use error::FrameError;
pub use estimate::{estimated_frame_len, frame_len, sampled_frame_len};
pub use header::{ChunkSize, HEADER_LEN, Header, MAGIC, VERSION};
pub use workers::{MAX_THREADS, Workers, WorkersError};

/// The most raw bytes that one frame holds: table entries count up to 2³² − 1 units of 16 bytes.
pub const MAX_RAW_LEN: u64 = u32::MAX as u64 * crate::chunk::CHUNK_ALIGN as u64;

/// Unit of the chunk table, and alignment of every chunk, in bytes.
pub const UNIT: usize = crate::chunk::CHUNK_ALIGN;

/// The checksum of a chunk's raw bytes: CRC32C, as iSCSI has it.
fn crc32c(raw: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, raw) as u32
}

/// Bytes of the table entries of `chunks` chunks, padding to the first chunk included.
const fn table_len(chunks: usize, entry_len: usize) -> usize {
    (chunks * entry_len).next_multiple_of(UNIT)
}

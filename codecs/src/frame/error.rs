//! What can be wrong with a frame.

use super::VERSION;
use crate::chunk::ChunkError;
use crate::ibp::CodebookError;
use crate::{Algorithm, UnknownAlgorithm, UnknownElement};

/// Why bytes are not a frame of this version. Offsets count from the frame's first byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FrameError {
    /// The frame ends before the part that starts at `offset` does.
    #[error("frame truncated: {part} from byte {offset} on: {needed} bytes are needed, {got} are there")]
    Truncated {
        /// Which part.
        part: &'static str,
        /// Where it starts.
        offset: u64,
        /// Its length in bytes.
        needed: u64,
        /// Bytes there.
        got: u64,
    },
    /// Bytes follow the last chunk.
    #[error("frame too long: it ends at byte {end}, but {got} bytes are there")]
    Trailing {
        /// Where the last chunk ends.
        end: u64,
        /// Bytes there.
        got: u64,
    },
    /// The first two bytes are not `MG`.
    #[error("no frame: byte 0 should start with 4d 47, found {0:02x?}")]
    Magic([u8; 2]),
    /// A version that this code does not know.
    #[error("frame version {0} (byte 2) is not supported; this is version {VERSION}")]
    Version(u8),
    /// An algorithm number without a meaning.
    #[error("byte 3: {0}")]
    UnknownAlgorithm(#[source] UnknownAlgorithm),
    /// An algorithm that has no frames, or that this version has no codec for.
    #[error("byte 3: this version cannot decode a frame of algorithm {0}")]
    Unsupported(Algorithm),
    /// An element number without a meaning.
    #[error("byte 4: {0}")]
    UnknownElement(#[source] UnknownElement),
    /// A flag without a meaning.
    #[error("byte 5: unknown flags {0:#04x}")]
    Flags(u8),
    /// A chunk size that is no power of two from 4 KiB to 64 KiB.
    #[error("byte 6: chunk size 2^{0} is not supported; 2^12 to 2^16 are")]
    ChunkSize(u8),
    /// A byte that must be zero is not.
    #[error("byte {offset}: reserved or padding byte is {got:#04x}, not zero")]
    Reserved {
        /// Where it stands.
        offset: u64,
        /// What it holds.
        got: u8,
    },
    /// The caller's buffer is shorter than the worst case of the frame.
    #[error("a frame needs room for {needed} bytes, the buffer has {got}")]
    Room {
        /// What [`max_frame_len`](super::max_frame_len) says.
        needed: u64,
        /// Length of the buffer in bytes.
        got: u64,
    },
    /// More raw bytes than the caller or the format allows.
    #[error("raw length {got} (byte 8) is over the limit of {limit} bytes")]
    RawLength {
        /// The raw length in bytes.
        got: u64,
        /// The limit in bytes.
        limit: u64,
    },
    /// The buffer to decode into has another length than the frame's raw bytes.
    #[error("the frame holds {raw_len} raw bytes (byte 8), the destination {destination}")]
    Destination {
        /// The frame's raw length in bytes.
        raw_len: u64,
        /// The destination's length in bytes.
        destination: u64,
    },
    /// A table entry that does not lie behind the one before it, or gives the chunk more than its raw size.
    #[error(
        "byte {offset}: chunk {chunk} runs from unit {start} to {end}; it must take 1 to {limit} units of 16 bytes"
    )]
    Table {
        /// Where the entry stands.
        offset: u64,
        /// Index of the chunk.
        chunk: usize,
        /// Start of the chunk in units.
        start: u32,
        /// End of the chunk in units.
        end: u32,
        /// The most units that a chunk of its raw length takes.
        limit: u32,
    },
    /// The codebook cannot be what it says.
    #[error("codebook at byte {offset}: {source}")]
    Codebook {
        /// Where it starts.
        offset: u64,
        /// What is wrong with it.
        source: CodebookError,
    },
    /// The frame only names its codebook, and the caller has not given it.
    #[error("codebook {id:#018x} is needed to decode the chunks; the frame only names it")]
    CodebookMissing {
        /// The codebook's identity.
        id: u64,
    },
    /// The caller has given a codebook that is not the one that the frame names.
    #[error("codebook {given:#018x} was given, but the frame needs {needed:#018x}")]
    CodebookOther {
        /// The identity that the frame names; 0 if it needs none.
        needed: u64,
        /// The identity of the codebook given.
        given: u64,
    },
    /// A chunk is no code of its raw length.
    #[error("chunk {chunk} at byte {offset}: {source}")]
    Chunk {
        /// Index of the chunk.
        chunk: usize,
        /// Where it starts.
        offset: u64,
        /// What is wrong inside it.
        source: ChunkError,
    },
    /// A chunk does not decode to the bytes that were encoded.
    #[error(
        "chunk {chunk} at byte {offset}: checksum of the raw bytes is {computed:#010x}, not {stored:#010x}"
    )]
    Checksum {
        /// Index of the chunk.
        chunk: usize,
        /// Where it starts.
        offset: u64,
        /// CRC32C in the table.
        stored: u32,
        /// CRC32C of what was decoded.
        computed: u32,
    },
}

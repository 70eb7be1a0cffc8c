//! The first 16 bytes of a frame.
//!
//! ```text
//! byte  0     1     2         3           4         5       6            7
//!       'M'   'G'   version   algorithm   element   flags   chunk log2   0
//! byte  8 .. 15
//!       raw length, u64 little-endian
//! ```

use super::{FrameError, MAX_RAW_LEN};
use crate::{Algorithm, Element};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 16;
/// The first two bytes of every frame.
pub const MAGIC: [u8; 2] = *b"MG";
/// The only version of the layout so far.
pub const VERSION: u8 = 1;

/// Flag: every table entry carries the CRC32C of its chunk's raw bytes.
const FLAG_CHECKSUM: u8 = 1;
/// Flag: a codebook stands between table and chunks.
const FLAG_CODEBOOK: u8 = 2;

/// How many raw bytes each chunk but the last holds: a power of two from 4 KiB to 64 KiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ChunkSize {
    log2: u8,
}

impl ChunkSize {
    /// 4 KiB: for small messages, so that they still spread over several thread blocks.
    pub const SMALL: Self = Self { log2: 12 };
    /// 16 KiB: the default.
    pub const DEFAULT: Self = Self { log2: 14 };
    /// 64 KiB: the largest.
    pub const LARGE: Self = Self { log2: 16 };

    /// The size of 2^`log2` bytes, or `None` outside 12 to 16.
    #[must_use]
    pub const fn from_log2(log2: u8) -> Option<Self> {
        if Self::SMALL.log2 <= log2 && log2 <= Self::LARGE.log2 { Some(Self { log2 }) } else { None }
    }

    /// The size used for a buffer of `raw_len` bytes where nobody asks for another.
    #[must_use]
    pub const fn for_len(raw_len: usize) -> Self {
        if raw_len <= 4 * Self::DEFAULT.bytes() { Self::SMALL } else { Self::DEFAULT }
    }

    /// Base-2 logarithm of the size.
    #[must_use]
    pub const fn log2(self) -> u8 {
        self.log2
    }

    /// The size in bytes.
    #[must_use]
    pub const fn bytes(self) -> usize {
        1 << self.log2
    }
}

/// The header of a frame, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// How the chunks are coded; never [`Algorithm::None`].
    pub algorithm: Algorithm,
    /// What the raw bytes are.
    pub element: Element,
    /// Whether table entries carry checksums.
    pub checksum: bool,
    /// Whether a codebook is named or carried, without which chunks cannot be decoded.
    pub codebook: bool,
    /// Raw bytes per chunk.
    pub chunk_size: ChunkSize,
    /// Raw bytes in all.
    pub raw_len: u64,
}

impl Header {
    /// The header as it stands at the front of a frame.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..2].copy_from_slice(&MAGIC);
        bytes[2] = VERSION;
        bytes[3] = self.algorithm.number();
        bytes[4] = self.element.number();
        let flags = [(self.checksum, FLAG_CHECKSUM), (self.codebook, FLAG_CODEBOOK)];
        bytes[5] = flags.iter().map(|&(set, flag)| if set { flag } else { 0 }).sum();
        bytes[6] = self.chunk_size.log2;
        bytes[8..].copy_from_slice(&self.raw_len.to_le_bytes());
        bytes
    }

    /// Reads and checks the header at the front of `frame`.
    ///
    /// # Errors
    /// [`FrameError`] naming the first field that is wrong.
    pub fn parse(frame: &[u8]) -> Result<Self, FrameError> {
        let bytes: &[u8; HEADER_LEN] = frame.first_chunk().ok_or(FrameError::Truncated {
            part: "header",
            offset: 0,
            needed: HEADER_LEN as u64,
            got: frame.len() as u64,
        })?;
        let [m0, m1, version, algorithm, element, flags, chunk_log2, reserved, raw_len @ ..] = *bytes;
        if [m0, m1] != MAGIC {
            return Err(FrameError::Magic([m0, m1]));
        }
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let algorithm = Algorithm::try_from(algorithm).map_err(FrameError::UnknownAlgorithm)?;
        if crate::codec(algorithm).is_none() {
            return Err(FrameError::Unsupported(algorithm));
        }
        let element = Element::try_from(element).map_err(FrameError::UnknownElement)?;
        let codebook = if algorithm == Algorithm::Ibp { FLAG_CODEBOOK } else { 0 };
        if flags & !(FLAG_CHECKSUM | codebook) != 0 {
            return Err(FrameError::Flags(flags));
        }
        let chunk_size = ChunkSize::from_log2(chunk_log2).ok_or(FrameError::ChunkSize(chunk_log2))?;
        if reserved != 0 {
            return Err(FrameError::Reserved { offset: 7, got: reserved });
        }
        let raw_len = u64::from_le_bytes(raw_len);
        if raw_len > MAX_RAW_LEN {
            return Err(FrameError::RawLength { got: raw_len, limit: MAX_RAW_LEN });
        }
        let [checksum, codebook] = [FLAG_CHECKSUM, FLAG_CODEBOOK].map(|flag| flags & flag != 0);
        Ok(Self { algorithm, element, checksum, codebook, chunk_size, raw_len })
    }

    /// How many chunks the frame has.
    #[must_use]
    pub fn chunks(&self) -> usize {
        // Fits: MAX_RAW_LEN is below 2^36 and a chunk has at least 2^12 bytes.
        self.raw_len.div_ceil(self.chunk_size.bytes() as u64) as usize
    }

    /// Raw bytes in chunk `index`, which must be one of the frame's.
    #[must_use]
    pub fn chunk_raw_len(&self, index: usize) -> usize {
        let start = index as u64 * self.chunk_size.bytes() as u64;
        (self.raw_len - start).min(self.chunk_size.bytes() as u64) as usize
    }

    pub(super) const fn entry_len(&self) -> usize {
        if self.checksum { 8 } else { 4 }
    }

    /// Where the chunk table ends, in bytes: there starts the codebook or, without one, the first chunk.
    #[must_use]
    pub fn table_end(&self) -> usize {
        HEADER_LEN + super::table_len(self.chunks(), self.entry_len())
    }
}

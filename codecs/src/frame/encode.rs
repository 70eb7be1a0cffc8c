//! Writing frames.

use super::{ChunkSize, FrameError, HEADER_LEN, Header, MAX_RAW_LEN, UNIT, table_len};
use crate::{Codec, Element};

/// How a frame is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Raw bytes per chunk.
    pub chunk_size: ChunkSize,
    /// Whether the table carries a CRC32C of each chunk's raw bytes. Files want it; messages ride on links
    /// that have their own.
    pub checksum: bool,
}

impl Options {
    /// The usual chunk size for `raw_len` bytes, with checksums.
    #[must_use]
    pub const fn for_len(raw_len: usize) -> Self {
        Self { chunk_size: ChunkSize::for_len(raw_len), checksum: true }
    }
}

/// The most bytes that a frame of `raw_len` raw bytes takes, whatever they are: every chunk stored raw.
#[must_use]
pub fn max_frame_len(raw_len: usize, options: Options) -> usize {
    let chunk = options.chunk_size.bytes();
    let chunks = raw_len.div_ceil(chunk);
    let entry_len = if options.checksum { 8 } else { 4 };
    // Chunks but the last are multiples of the unit.
    HEADER_LEN + table_len(chunks, entry_len) + raw_len.next_multiple_of(UNIT)
}

/// The frame of `raw` under `codec`.
///
/// # Errors
/// [`FrameError::RawLength`] if `raw` is longer than [`MAX_RAW_LEN`].
pub fn encode(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::new();
    encode_into(codec, element, raw, options, &mut frame, |_| {})?;
    Ok(frame)
}

/// Replaces the content of `frame` by the frame of `raw`, calling `progress` with the raw bytes done so far
/// after each chunk.
///
/// # Errors
/// [`FrameError::RawLength`] if `raw` is longer than [`MAX_RAW_LEN`].
pub fn encode_into(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
    frame: &mut Vec<u8>,
    mut progress: impl FnMut(u64),
) -> Result<(), FrameError> {
    let raw_len = raw.len() as u64;
    if raw_len > MAX_RAW_LEN {
        return Err(FrameError::RawLength { got: raw_len, limit: MAX_RAW_LEN });
    }
    let Options { chunk_size, checksum } = options;
    let header = Header { algorithm: codec.algorithm(), element, checksum, chunk_size, raw_len };
    frame.clear();
    frame.extend_from_slice(&header.to_bytes());
    frame.resize(header.chunks_offset(), 0);

    let mut scratch = vec![0; codec.max_chunk_len(element, chunk_size.bytes().min(raw.len()))];
    let mut end_units = 0u32;
    for (index, chunk) in raw.chunks(chunk_size.bytes()).enumerate() {
        end_units += push_chunk(codec, element, chunk, &mut scratch, frame);
        let entry = HEADER_LEN + index * header.entry_len();
        frame[entry..entry + 4].copy_from_slice(&end_units.to_le_bytes());
        if checksum {
            frame[entry + 4..entry + 8].copy_from_slice(&crc32c::crc32c(chunk).to_le_bytes());
        }
        progress((index as u64 * chunk_size.bytes() as u64) + chunk.len() as u64);
    }
    Ok(())
}

/// Appends one chunk, coded or raw, whichever takes fewer units; returns its units.
fn push_chunk(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    scratch: &mut [u8],
    frame: &mut Vec<u8>,
) -> u32 {
    let raw_units = raw.len().div_ceil(UNIT);
    let coded_len = codec.encode_chunk(element, raw, scratch);
    let coded_units = coded_len.div_ceil(UNIT);
    let start = frame.len();
    let units = if coded_units < raw_units {
        frame.extend_from_slice(&scratch[..coded_len]);
        coded_units
    } else {
        frame.extend_from_slice(raw);
        raw_units
    };
    frame.resize(start + units * UNIT, 0);
    units as u32
}

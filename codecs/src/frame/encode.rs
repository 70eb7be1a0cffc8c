//! Writing frames.

use super::crew::Work;
use super::plan::Plan;
use super::stage::Stages;
use super::write::Writer;
use super::{ChunkSize, FrameError, HEADER_LEN, UNIT, table_len};
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
/// [`FrameError::RawLength`] if `raw` is longer than [`MAX_RAW_LEN`](super::MAX_RAW_LEN).
pub fn encode(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::new();
    encode_into(codec, element, raw, options, &mut frame, &|_| {})?;
    Ok(frame)
}

/// Replaces the content of `frame` by the frame of `raw`, calling `progress` with the raw bytes done so far.
///
/// # Errors
/// [`FrameError::RawLength`] if `raw` is longer than [`MAX_RAW_LEN`](super::MAX_RAW_LEN).
pub fn encode_into(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
    frame: &mut Vec<u8>,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<(), FrameError> {
    let plan = Plan::new(codec, element, raw, options)?;
    let room = max_frame_len(raw.len(), options);
    if plan.streamer().streams() {
        // Filling room with zeros takes as long as some codecs do. Fresh memory has them, and old bytes may stay.
        match frame.capacity() < room {
            true => *frame = vec![0; room],
            false => frame.resize(room, 0),
        }
        let len = encode_plan(&plan, frame, progress)?;
        frame.truncate(len);
    } else {
        frame.clear();
        frame.reserve(room);
        plan.append_to(frame, progress);
    }
    Ok(())
}

/// Writes the frame of `raw` to the front of `room`, which has [`max_frame_len`] bytes or more, and returns the
/// frame's length. What lies behind it is anything.
///
/// # Errors
/// [`FrameError::RawLength`] if `raw` is longer than [`MAX_RAW_LEN`](super::MAX_RAW_LEN), [`FrameError::Room`] if `room` is too
/// short.
pub fn encode_to(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
    room: &mut [u8],
) -> Result<usize, FrameError> {
    encode_plan(&Plan::new(codec, element, raw, options)?, room, &|_| {})
}

fn encode_plan(
    plan: &Plan<'_>,
    room: &mut [u8],
    progress: &(dyn Fn(u64) + Sync),
) -> Result<usize, FrameError> {
    let stages = Stages::default();
    let writer = Writer::new(plan, room, 1, &stages, progress)?;
    writer.work(0);
    Ok(writer.finish())
}

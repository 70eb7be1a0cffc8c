//! How long a frame would be, without writing it.

use super::plan::Plan;
use super::{Options, UNIT, max_frame_len};
use crate::cpu::prefetch;
use crate::line::LINE_LEN;
use crate::{Codec, Element};

/// One byte in so many is looked at.
const SAMPLED_PART: usize = 80;
/// The most pieces: more would not make the estimate better.
const MOST_PIECES: usize = 16_384;
/// How many pieces ahead memory is asked for. Each lies where nothing was read before.
const AHEAD: usize = 8;

/// The length in bytes of the frame that [`encode`](super::encode) would write: every chunk is looked at.
#[must_use]
pub fn frame_len(codec: &dyn Codec, element: Element, raw: &[u8], options: Options) -> u64 {
    exact_len(&Plan::of(codec, element, raw, options))
}

fn exact_len(plan: &Plan<'_>) -> u64 {
    let units: usize = plan.chunks().map(|(offset, chunk)| plan.chunk_units(offset, chunk)).sum();
    (plan.chunks_offset() + units * UNIT) as u64
}

/// About the length in bytes of the frame that [`encode`](super::encode) would write, from a sample of pieces
/// spread evenly over `raw`, one in each of as many equal parts, at a place in it that no period in the data
/// can follow. Buffers too short for a sample are looked at as a whole.
///
/// The same buffer always gives the same estimate. The shorter the buffer, the fewer the pieces: where data
/// changes along it, an estimate of 1 MiB rests on four places.
#[must_use]
pub fn estimated_frame_len(codec: &dyn Codec, element: Element, raw: &[u8], options: Options) -> u64 {
    let plan = Plan::of(codec, element, raw, options);
    // What a chunk costs beyond its data: it is paid per chunk, not per piece.
    let overhead_len = codec.overhead_len(element);
    let Pieces { piece_len, fewest } = Pieces::of(overhead_len, raw.len());
    let pieces = (raw.len() / SAMPLED_PART / piece_len).clamp(fewest, MOST_PIECES);
    let part_len = raw.len() / pieces / LINE_LEN * LINE_LEN;
    if part_len < 8 * piece_len {
        return exact_len(&plan);
    }
    let lines = ((part_len - piece_len) / LINE_LEN) as u64;
    let start_of = |index: usize| index * part_len + (scattered(index) % (lines + 1)) as usize * LINE_LEN;
    let mut sampled = 0;
    for index in 0..pieces {
        if let Some(next) = raw.get(start_of(index + AHEAD)..).and_then(|rest| rest.get(..piece_len)) {
            prefetch(next);
        }
        let start = start_of(index);
        let piece = &raw[start..start + piece_len];
        let coded_len = plan.coded_len(start as u64, piece).unwrap_or(piece_len);
        sampled += coded_len.saturating_sub(overhead_len).min(piece_len) as u64;
    }
    let chunks = raw.len().div_ceil(options.chunk_size.bytes()) as u64;
    // On average half a unit of padding ends a chunk.
    let scaled_len = (u128::from(sampled) * raw.len() as u128 / (pieces * piece_len) as u128) as u64;
    let data_len = scaled_len + chunks * (overhead_len + UNIT / 2) as u64;
    // No frame is longer, though what a sample saves may be less than the codebook takes.
    (plan.chunks_offset() as u64 + data_len).min(max_frame_len(raw.len(), options) as u64)
}

/// How a buffer is sampled.
struct Pieces {
    /// Bytes of a piece.
    piece_len: usize,
    /// The fewest pieces.
    fewest: usize,
}

impl Pieces {
    /// Codecs that look at one line at a time need no long pieces, so they get many. The others fit tables and
    /// predictors to a chunk, and code a short piece as no chunk ever is.
    const fn of(overhead_len: usize, raw_len: usize) -> Self {
        match (overhead_len, raw_len) {
            (0, _) => Self { piece_len: 512, fewest: 16 },
            (_, ..0x100_0000) => Self { piece_len: 4 << 10, fewest: 4 },
            _ => Self { piece_len: 16 << 10, fewest: 4 },
        }
    }
}

/// SplitMix64 of `index`: numbers that are scattered, and the same every time.
const fn scattered(index: usize) -> u64 {
    let seed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

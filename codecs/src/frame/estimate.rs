//! How long a frame would be, without writing it.

use super::write::Plan;
use super::{Options, UNIT};
use crate::line::LINE_LEN;
use crate::{Codec, Element};

/// One byte in so many is looked at.
const SAMPLED_PART: usize = 80;
/// The fewest and the most pieces. From the most on, more would not make the estimate better.
const PIECES: (usize, usize) = (4, 4096);

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
    let piece_len = piece_len(overhead_len, raw.len());
    let pieces = (raw.len() / SAMPLED_PART / piece_len).clamp(PIECES.0, PIECES.1);
    let part_len = raw.len() / pieces / LINE_LEN * LINE_LEN;
    if part_len < 8 * piece_len {
        return exact_len(&plan);
    }
    let mut places = Places(0);
    let mut sampled = 0;
    for (index, part) in raw.chunks_exact(part_len).take(pieces).enumerate() {
        let lines = (part_len - piece_len) / LINE_LEN;
        let start = (places.next() % (lines as u64 + 1)) as usize * LINE_LEN;
        let piece = &part[start..start + piece_len];
        let coded_len = plan.coded_len((index * part_len + start) as u64, piece).unwrap_or(piece_len);
        sampled += coded_len.saturating_sub(overhead_len).min(piece_len) as u64;
    }
    let chunks = raw.len().div_ceil(options.chunk_size.bytes()) as u64;
    // On average half a unit of padding ends a chunk.
    let data_len =
        sampled * raw.len() as u64 / (pieces * piece_len) as u64 + chunks * (overhead_len + UNIT / 2) as u64;
    plan.chunks_offset() as u64 + data_len.min(raw.len().next_multiple_of(UNIT) as u64)
}

/// Codecs that look at one line at a time need no long pieces, so they get many. The others fit tables and
/// predictors to a chunk, and code a short piece as no chunk ever is.
const fn piece_len(overhead_len: usize, raw_len: usize) -> usize {
    match (overhead_len, raw_len) {
        (0, _) => 1 << 10,
        (_, ..0x100_0000) => 4 << 10,
        _ => 16 << 10,
    }
}

/// SplitMix64 from a fixed seed: scattered numbers, the same every time.
struct Places(u64);

impl Places {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }
}

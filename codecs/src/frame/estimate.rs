//! How long a frame would be, without writing it.

use super::{Header, Options, UNIT};
use crate::{Codec, Element};

/// Bytes of each piece of a sample: a few lines, so that a sample spreads over many places.
const PIECE_LEN: usize = 1 << 10;
/// One byte in so many is looked at.
const SAMPLED_PART: usize = 128;
/// The fewest and the most pieces. From the most on, more would not make the estimate better.
const PIECES: (usize, usize) = (16, 4096);

/// The length in bytes of the frame that [`encode`](super::encode) would write: every chunk is looked at.
#[must_use]
pub fn frame_len(codec: &dyn Codec, element: Element, raw: &[u8], options: Options) -> u64 {
    let coded_units = |chunk: &[u8]| codec.chunk_len(element, chunk).div_ceil(UNIT);
    let chunks = raw.chunks(options.chunk_size.bytes());
    let units: usize = chunks.map(|chunk| coded_units(chunk).min(chunk.len().div_ceil(UNIT))).sum();
    front_len(codec, element, raw, options) + (units * UNIT) as u64
}

/// About the length in bytes of the frame that [`encode`](super::encode) would write, from a sample of short
/// pieces spread evenly over `raw`, one in each of as many equal parts, at a place in it that no period in the
/// data can follow. Buffers too short for a sample are looked at as a whole.
///
/// The same buffer always gives the same estimate.
#[must_use]
pub fn estimated_frame_len(codec: &dyn Codec, element: Element, raw: &[u8], options: Options) -> u64 {
    let pieces = (raw.len() / SAMPLED_PART / PIECE_LEN).clamp(PIECES.0, PIECES.1);
    let part_len = raw.len() / pieces / PIECE_LEN * PIECE_LEN;
    if part_len < 2 * PIECE_LEN {
        return frame_len(codec, element, raw, options);
    }
    // What a chunk costs beyond its data: it is paid per chunk, not per piece.
    let fixed_len = codec.chunk_len(element, &[]) as u64;
    let mut places = Places(0);
    let mut sampled = 0;
    for part in raw.chunks_exact(part_len).take(pieces) {
        let lines = (part_len - PIECE_LEN) / LINE;
        let start = (places.next() % (lines as u64 + 1)) as usize * LINE;
        let piece = &part[start..start + PIECE_LEN];
        let coded_len = (codec.chunk_len(element, piece) as u64).saturating_sub(fixed_len);
        sampled += coded_len.min(PIECE_LEN as u64);
    }
    let chunks = raw.len().div_ceil(options.chunk_size.bytes()) as u64;
    // On average half a unit of padding ends a chunk.
    let data_len =
        sampled * raw.len() as u64 / (pieces * PIECE_LEN) as u64 + chunks * (fixed_len + UNIT as u64 / 2);
    front_len(codec, element, raw, options) + data_len.min(raw.len().next_multiple_of(UNIT) as u64)
}

/// Pieces start at a multiple of a line.
const LINE: usize = crate::line::LINE_LEN;

/// Header and table.
fn front_len(codec: &dyn Codec, element: Element, raw: &[u8], options: Options) -> u64 {
    let Options { chunk_size, checksum } = options;
    let header =
        Header { algorithm: codec.algorithm(), element, checksum, chunk_size, raw_len: raw.len() as u64 };
    header.chunks_offset() as u64
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

//! How long a frame would be, without writing it.

use super::plan::Plan;
use super::{Options, UNIT, max_frame_len};
use crate::cpu::prefetch;
use crate::line::LINE_LEN;
use crate::{Codec, Element};

/// The most pieces: more would not make the estimate better.
const MOST_PIECES: usize = 2048;
/// Short pieces are looked at so many bytes together.
const GATHERED_LEN: usize = 4 << 10;
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
    let sample = Sample::of(codec.overhead_len(element), raw.len());
    estimated(codec, element, raw, options, (sample, usize::MAX))
}

/// As [`estimated_frame_len`], from about `sample_len` bytes of `raw`, however few of all they are: what a caller can
/// afford to look at.
#[must_use]
pub fn sampled_frame_len(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
    sample_len: usize,
) -> u64 {
    let sample = Sample::within(sample_len, codec.overhead_len(element), raw.len());
    estimated(codec, element, raw, options, (sample, sample_len))
}

/// The length from a sample, for which a codec is fitted to about `fitted_len` bytes; or from all if there is none.
fn estimated(
    codec: &dyn Codec,
    element: Element,
    raw: &[u8],
    options: Options,
    (sample, fitted_len): (Option<Sample>, usize),
) -> u64 {
    // Whether a codebook pays is known for sure only when chunks have been looked at, all of them where it does not.
    let plan = match sample {
        Some(_) => Plan::fitted(codec, element, raw, options, fitted_len),
        None => Plan::of(codec, element, raw, options),
    };
    scaled_up(&plan, codec.overhead_len(element), sample)
}

/// The length from a sample, or from all if there is none. `overhead_len` is what a chunk costs beyond its data: it is
/// paid per chunk, not per piece.
fn scaled_up(plan: &Plan<'_>, overhead_len: usize, sample: Option<Sample>) -> u64 {
    let Some(sample) = sample else { return exact_len(plan) };
    let (raw, options) = (plan.raw, plan.options);
    let scaled_len =
        u128::from(sample.coded_len(plan, overhead_len)) * raw.len() as u128 / sample.len() as u128;
    let chunks = raw.len().div_ceil(options.chunk_size.bytes()) as u64;
    // On average half a unit of padding ends a chunk.
    let data_len = scaled_len as u64 + chunks * (overhead_len + UNIT / 2) as u64;
    // No frame is longer, though what a sample saves may be less than the codebook takes.
    (plan.chunks_offset() as u64 + data_len).min(max_frame_len(raw.len(), options) as u64)
}

/// Where a buffer is looked at: a piece in each of as many equal parts.
struct Sample {
    piece_len: usize,
    pieces: usize,
    part_len: usize,
}

impl Sample {
    /// `None` for a buffer that is too short for one.
    ///
    /// Codecs that look at one line at a time need no long pieces, so they get many where there are few bytes to
    /// look at. The others fit tables and predictors to a chunk, and code a short piece as no chunk ever is.
    ///
    /// All pieces together are to cost a hundredth of what encoding takes, or less. Past the caches a byte of
    /// theirs costs twice what it costs an encoder, which reads on where it was; fewer are enough then.
    fn of(overhead_len: usize, raw_len: usize) -> Option<Self> {
        let (piece_len, one_byte_in) = match (overhead_len, raw_len >> 20) {
            (0, ..32) => (512, 100),
            (0, _) => (4 << 10, 200),
            (_, ..16) => (4 << 10, 160),
            (_, ..32) => (16 << 10, 100),
            (_, _) => (16 << 10, 180),
        };
        let fewest = if overhead_len == 0 { 16 } else { 4 };
        let pieces = (raw_len / one_byte_in / piece_len).clamp(fewest, MOST_PIECES);
        let part_len = raw_len / pieces / LINE_LEN * LINE_LEN;
        (part_len >= 8 * piece_len).then_some(Self { piece_len, pieces, part_len })
    }

    /// A sample of about `sample_len` bytes; `None` where that is half of the buffer or more.
    fn within(sample_len: usize, overhead_len: usize, raw_len: usize) -> Option<Self> {
        // The shorter the pieces, the more places; but codecs that fit tables need pieces that look like chunks. And all codecs
        // look at the same places, where there is room: which of them is best shows from fewer bytes then.
        let piece_len = match (overhead_len, sample_len >> 10) {
            (0, ..4) => 512,
            (_, ..=64) => 4 << 10,
            _ => 16 << 10,
        };
        let pieces = (sample_len / piece_len).max(1);
        let part_len = raw_len / pieces / LINE_LEN * LINE_LEN;
        (part_len >= 2 * piece_len).then_some(Self { piece_len, pieces, part_len })
    }

    /// Bytes of all pieces.
    const fn len(&self) -> usize {
        self.pieces * self.piece_len
    }

    /// Bytes of the codes of all pieces, without what each code has besides.
    fn coded_len(&self, plan: &Plan<'_>, overhead_len: usize) -> u64 {
        // Codecs that look at a line at a time take many lines at once, from wherever these come.
        let gathers = overhead_len == 0 && plan.codebook.is_empty();
        let mut gathered = Vec::with_capacity(if gathers { GATHERED_LEN } else { 0 });
        let mut len = 0;
        for index in 0..self.pieces {
            if index + AHEAD < self.pieces {
                prefetch(&plan.raw[self.start_of(index + AHEAD)..][..self.piece_len]);
            }
            let start = self.start_of(index);
            let mut piece = &plan.raw[start..][..self.piece_len];
            if gathers {
                gathered.extend_from_slice(piece);
                if gathered.len() < GATHERED_LEN && index + 1 < self.pieces {
                    continue;
                }
                piece = &gathered;
            }
            let coded_len = plan.coded_len(start as u64, piece).unwrap_or(piece.len());
            len += coded_len.saturating_sub(overhead_len).min(piece.len()) as u64;
            gathered.clear();
        }
        len
    }

    /// The place of a piece in its part: any line that leaves room for it.
    fn start_of(&self, index: usize) -> usize {
        let lines = ((self.part_len - self.piece_len) / LINE_LEN) as u64;
        index * self.part_len + (scattered(index) % (lines + 1)) as usize * LINE_LEN
    }
}

/// SplitMix64 of `index`: numbers that are scattered, and the same every time.
const fn scattered(index: usize) -> u64 {
    let seed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let mixed = (seed ^ seed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}

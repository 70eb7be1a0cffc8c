//! From bits to granules.

// Bits are read at any byte; each place is checked.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tables::Walk;
use super::{LINE, VECTOR, each, shift_down, shift_up};
use crate::cpu::lanes::NO_LANE;
use crate::cpu::{load256, store256};
use crate::ibp::bits::{Source, marks_at, ones};
use crate::ibp::plan::Plan;

/// Bytes that half a vector is read from: its own, and one for bits that begin within a byte.
const WINDOW: usize = 17;
/// Bytes behind which all windows of a line end, wherever in the first byte it begins.
const REACH: usize = LINE + WINDOW;

/// Decodes with `P` runs to move, or 0 for the stages.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn granules<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    source: &mut Source<'_>,
    raw: &mut [u8],
) {
    let mut walk = Walk::<P>::new(plan, phase);
    let (whole, part) = raw.as_chunks_mut();
    let done = lines::<G, P>(&mut walk, source, whole);
    let whole = &mut whole[done..];
    if whole.is_empty() && part_of_line::<G, P>(&mut walk, source, part) {
        return;
    }
    // What is left of the kept bits is less than a line may need.
    let place = source.bit / 8;
    let left = &source.kept[place..];
    let mut kept = [0; 2 * REACH];
    kept[..left.len()].copy_from_slice(left);
    let mut last = Source { kept: &kept, bit: source.bit % 8, ..*source };
    lines::<G, P>(&mut walk, &mut last, whole);
    part_of_line::<G, P>(&mut walk, &mut last, part);
    (source.granules, source.bit) = (last.granules, last.bit + 8 * place);
}

/// Decodes less than a line, if the source has the bytes of all windows of a line; returns whether it has.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn part_of_line<const G: usize, const P: usize>(
    walk: &mut Walk<'_, P>,
    source: &mut Source<'_>,
    part: &mut [u8],
) -> bool {
    let count = part.len() / G;
    if count == 0 {
        return true;
    }
    let marks = marks_at(source.participation, source.granules) & ones(count as u32);
    let mut line = [[0; LINE]];
    let mut alone = Source { participation: &marks.to_le_bytes(), granules: 0, ..*source };
    if lines::<G, P>(walk, &mut alone, &mut line) == 0 {
        return false;
    }
    part.copy_from_slice(&line[0][..part.len()]);
    source.granules += count;
    // Granules that are not there were taken as well.
    source.bit = alone.bit - 8 * (LINE - part.len());
    true
}

/// Decodes lines as long as the source has the bytes of all windows; returns how many these are.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn lines<const G: usize, const P: usize>(
    walk: &mut Walk<'_, P>,
    source: &mut Source<'_>,
    lines: &mut [[u8; LINE]],
) -> usize {
    let Some(last) = source.kept.len().checked_sub(WINDOW) else { return 0 };
    // Copies stay in registers.
    let (mut steps, mut at) = (*walk, *source);
    let mut done = 0;
    let mut ahead = Layout::new::<G, P>(&steps, &at);
    for line in lines {
        let layout = ahead;
        if layout.quarters[3] / 8 > last {
            break;
        }
        let places = steps.places();
        steps.advance();
        at.granules += LINE / G;
        at.bit = layout.end;
        // It takes long until one knows where to read, so the next line's places are found meanwhile.
        ahead = Layout::new::<G, P>(&steps, &at);
        let (vectors, _) = line.as_chunks_mut();
        for (i, place) in places.into_iter().enumerate() {
            // SAFETY: no quarter begins behind the last one, and from there on there are 17 bytes.
            let windows = unsafe { windows(at.kept, layout.quarters[2 * i], layout.quarters[2 * i + 1]) };
            let words = layout.words::<G>(i, windows);
            let participants = lanes::<G>(layout.participants, i);
            let decoded = _mm256_blendv_epi8(words, place.scatter::<G>(words), participants);
            store256(&mut vectors[i], decoded);
        }
        done += 1;
    }
    (*walk, *source) = (steps, at);
    done
}

/// The 16 bytes from where each quarter begins, and those a byte behind.
///
/// # Safety
/// From the byte of either bit on `kept` must have 17 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn windows(kept: &[u8], low: usize, high: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises the bytes.
    unsafe {
        let (low, high) = (kept.as_ptr().add(low / 8), kept.as_ptr().add(high / 8));
        [
            _mm256_loadu2_m128i(high.cast(), low.cast()),
            _mm256_loadu2_m128i(high.add(1).cast(), low.add(1).cast()),
        ]
    }
}

/// Where the granules of a line lie in the kept bits. A quarter of a line, 16 bytes of raw granules, is half a
/// vector, and is read from 17 bytes.
#[derive(Clone, Copy)]
struct Layout {
    /// All ones or zero for each granule, a byte each.
    participants: __m128i,
    /// The bits where the quarters begin, and where the last one ends.
    quarters: [usize; 4],
    end: usize,
    /// For each granule the byte of its quarter's window where it begins, and the bit in that byte; twice.
    bytes: __m256i,
    shifts: __m256i,
}

impl Layout {
    /// Of the line that the walk and the source are at. Where there is none, nothing participates.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    fn new<const G: usize, const P: usize>(walk: &Walk<'_, P>, source: &Source<'_>) -> Self {
        let participants = byte_lanes(marks_at(source.participation, source.granules) as u16);
        let saved = _mm_and_si128(load128(walk.savings::<G>()), participants);
        let (starts, totals) = sums::<G>(_mm_sub_epi8(_mm_set1_epi8(8 * G as i8), saved));
        let ends = _mm_add_epi32(totals, _mm_slli_si128::<4>(totals));
        let ends = _mm_add_epi32(ends, _mm_slli_si128::<8>(ends));
        let bit = source.bit;
        let begins = _mm_add_epi32(_mm_sub_epi32(ends, totals), _mm_set1_epi32((bit % 8) as i32));
        let begins = _mm_and_si128(begins, _mm_set1_epi8(7));
        let starts = _mm_add_epi8(starts, _mm_shuffle_epi8(begins, load128(&QUARTERS[G / 8])));
        let shifts = _mm_and_si128(starts, _mm_set1_epi8(7));
        let bytes = _mm_and_si128(_mm_srli_epi16::<3>(starts), _mm_set1_epi8(0x1f));
        let (low, high) = (_mm_cvtsi128_si64(ends) as u64, _mm_extract_epi64::<1>(ends) as u64);
        let [second, third, fourth, end] =
            [low & 0xffff_ffff, low >> 32, high & 0xffff_ffff, high >> 32].map(|end| bit + end as usize);
        Self {
            participants,
            quarters: [bit, second, third, fourth],
            end,
            bytes: _mm256_broadcastsi128_si256(bytes),
            shifts: _mm256_broadcastsi128_si256(shifts),
        }
    }

    /// The granules of vector number `i`: each with all the bits that a granule can have, so that behind those of a
    /// shorter one others follow.
    #[inline]
    #[target_feature(enable = "avx2")]
    fn words<const G: usize>(&self, i: usize, [low, high]: [__m256i; 2]) -> __m256i {
        let Spread { all, first, steps } = &SPREADS[G / 8][i];
        let bytes = _mm256_add_epi8(_mm256_shuffle_epi8(self.bytes, load256(all)), load256(steps));
        let shifts = _mm256_shuffle_epi8(self.shifts, load256(first));
        let back = _mm256_sub_epi32(each::<G>(8), shifts);
        let low = shift_down::<G>(_mm256_shuffle_epi8(low, bytes), shifts);
        _mm256_or_si256(low, shift_up::<G>(_mm256_shuffle_epi8(high, bytes), back))
    }
}

/// For each granule the lengths of those before it in its quarter, a byte each; and what each quarter has in all, four
/// bytes each.
#[inline]
#[target_feature(enable = "avx2")]
fn sums<const G: usize>(lens: __m128i) -> (__m128i, __m128i) {
    if G == 8 {
        let starts = _mm_slli_epi16::<8>(lens);
        let ends = _mm_add_epi8(lens, starts);
        return (starts, _mm_cvtepu16_epi32(_mm_srli_epi16::<8>(ends)));
    }
    let pairs = _mm_add_epi8(lens, _mm_slli_epi32::<8>(lens));
    let ends = _mm_add_epi8(pairs, _mm_slli_epi32::<16>(pairs));
    (_mm_sub_epi8(ends, lens), _mm_srli_epi32::<24>(ends))
}

/// All ones in the granules of vector number `i` whose bytes are, zero in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn lanes<const G: usize>(bytes: __m128i, i: usize) -> __m256i {
    match (G, i) {
        (8, 0) => _mm256_cvtepi8_epi64(bytes),
        (8, _) => _mm256_cvtepi8_epi64(_mm_srli_si128::<4>(bytes)),
        (_, 0) => _mm256_cvtepi8_epi32(bytes),
        (_, _) => _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes)),
    }
}

/// All ones in the bytes whose bit is set, zero in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_lanes(marks: u16) -> __m128i {
    let bits = _mm_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let spread = _mm_set_epi64x(0x0101_0101_0101_0101, 0);
    let marks = _mm_shuffle_epi8(_mm_cvtsi32_si128(i32::from(marks)), spread);
    _mm_cmpeq_epi8(_mm_and_si128(marks, bits), bits)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load128(from: &[u8; 16]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// Shuffles that copy the low byte of each quarter's number to the bytes of its granules.
static QUARTERS: [[u8; 16]; 2] = [
    [0, 0, 0, 0, 4, 4, 4, 4, 8, 8, 8, 8, 12, 12, 12, 12],
    [0, 0, 4, 4, 8, 8, 12, 12, 0, 0, 4, 4, 8, 8, 12, 12],
];

/// Shuffles that bring the bytes of granules to the granules of a vector.
struct Spread {
    /// To each byte.
    all: [u8; 32],
    /// To the first byte, and zeros to the others.
    first: [u8; 32],
    /// The places of the bytes in their granules.
    steps: [u8; 32],
}

static SPREADS: [[Spread; 2]; 2] = [[spread(4, 0), spread(4, 1)], [spread(8, 0), spread(8, 1)]];

const fn spread(granule: usize, vector: usize) -> Spread {
    let mut spread = Spread { all: [0; 32], first: [NO_LANE; 32], steps: [0; 32] };
    let mut i = 0;
    while i < VECTOR {
        let number = ((VECTOR * vector + i) / granule) as u8;
        spread.all[i] = number;
        spread.steps[i] = (i % granule) as u8;
        if i.is_multiple_of(granule) {
            spread.first[i] = number;
        }
        i += 1;
    }
    spread
}

//! Where the granules of a line lie in the kept bits.

// A load of sixteen bytes takes a pointer; it comes from an array of as many.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::tables::Walk;
use super::{VECTOR, each, shift_down, shift_up};
use crate::cpu::lanes::NO_LANE;
use crate::cpu::load256;
use crate::ibp::bits::{Source, marks_at};

/// The places of the granules of a line. A quarter of a line, 16 bytes of raw granules, is half a vector, and is read
/// from 17 bytes.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// All ones or zero for each granule, a byte each.
    pub(super) participants: __m128i,
    /// The bits where the quarters begin, and where the last one ends.
    pub(super) quarters: [usize; 4],
    pub(super) end: usize,
    /// For each granule the byte of its quarter's window where it begins, and the bit in that byte; twice.
    bytes: __m256i,
    shifts: __m256i,
}

impl Layout {
    /// Of the line that the walk and the source are at. It may be asked for behind the last line, and then means
    /// nothing.
    #[inline]
    #[target_feature(enable = "avx2,bmi2")]
    pub(super) fn new<const G: usize, const P: usize>(walk: &Walk<'_, P>, source: &Source<'_>) -> Self {
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

    /// The granules of vector number `i` from the windows of its quarters and those a byte behind: each with all the bits that a granule can have, so that behind those of a
    /// shorter one others follow.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) fn words<const G: usize>(&self, i: usize, [low, high]: [__m256i; 2]) -> __m256i {
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
pub(super) fn lanes<const G: usize>(bytes: __m128i, i: usize) -> __m256i {
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

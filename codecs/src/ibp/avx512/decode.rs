//! From bits to granules.

use std::arch::x86_64::*;

use super::saved;
use super::tables::{Phases, SCATTER, Tables};
use crate::cpu::{load512, load512_partial, prefetch_line, store512, store512_partial};
use crate::ibp::bits::{Source, marks_at, ones};
use crate::ibp::plan::Plan;

/// Decodes with tables of `P` fields.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn vectors<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    source: &mut Source<'_>,
    raw: &mut [u8],
) {
    let mut phases = Phases::new(plan, phase, 64);
    let mut tables = Tables::<P>::none();
    let Source { participation, kept, mut granules, mut bit } = *source;
    let chunk_len = raw.len();
    for vector in raw.chunks_mut(64) {
        // Chunks mostly follow each other, and a line that is written is read before.
        prefetch_line(vector.as_ptr().wrapping_add(chunk_len));
        if let Some(phase) = phases.next() {
            tables = Tables::at::<G, SCATTER>(plan, phase);
        }
        let count = vector.len() / G;
        let marks = (marks_at(participation, granules) & ones(count as u32)) as u16;
        let (decoded, taken) = self::vector::<G, P, SCATTER>(kept, bit, marks, count, &tables);
        granules += count;
        bit += taken;
        match vector.first_chunk_mut() {
            Some(vector) => store512(vector, decoded),
            None => store512_partial(vector, decoded),
        }
    }
    (source.granules, source.bit) = (granules, bit);
}

/// The first `count` granules of a vector, of which `marks` participate, from `bit` on in `kept`, and how many bits they
/// have there. (For each use a function of its own, with one caller.)
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn vector<const G: usize, const P: usize, const USE: u8>(
    kept: &[u8],
    bit: usize,
    marks: u16,
    count: usize,
    tables: &Tables<P>,
) -> (__m512i, usize) {
    let words = words::<G>(kept, bit, marks, tables.savings);
    let scattered = tables.pick(tables.bitvals, words);
    let decoded = match G {
        8 => _mm512_mask_mov_epi64(words, marks as u8, scattered),
        _ => _mm512_mask_mov_epi32(words, marks, scattered),
    };
    (decoded, 8 * G * count - saved::<G>(marks, tables.savings))
}

/// The granules of a vector, of which `marks` participate, from `bit` on in `kept`: each with all of its bits, so
/// that behind those of a shorter one others follow.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2")]
fn words<const G: usize>(kept: &[u8], bit: usize, marks: u16, savings: __m128i) -> __m512i {
    let starts = starts::<G>(marks, savings, bit % 8);
    let bytes = _mm256_srli_epi16::<3>(starts);
    let shifts = _mm256_and_si256(starts, _mm256_set1_epi16(7));
    let bytes = _mm512_permutexvar_epi8(load512(&SPREAD[G / 8]), _mm512_castsi256_si512(bytes));
    let bytes = _mm512_add_epi8(bytes, _mm512_set1_epi64(STEPS[G / 8]));
    let [low, high] = windows::<G>(kept, bit / 8).map(|window| _mm512_permutexvar_epi8(bytes, window));
    match G {
        8 => _mm512_shrdv_epi64(low, high, _mm512_cvtepu16_epi64(_mm256_castsi256_si128(shifts))),
        _ => _mm512_shrdv_epi32(low, high, _mm512_cvtepu16_epi32(shifts)),
    }
}

/// The 64 bytes from `at` on, and those from a granule's length behind it; zeros behind the end. All granules of a
/// vector start in the first ones, so none ends behind the others.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
fn windows<const G: usize>(kept: &[u8], at: usize) -> [__m512i; 2] {
    if at + 64 + G <= kept.len() {
        // SAFETY: the slice has the 64 bytes from either place on.
        unsafe { [at, at + G].map(|at| _mm512_loadu_si512(kept.as_ptr().add(at).cast())) }
    } else {
        [at, at + G].map(|at| load512_partial(kept.get(at..).unwrap_or_default()))
    }
}

/// Shuffles that copy the low byte of each 16-bit number to all bytes of a granule, and the bytes' places in it.
static SPREAD: [[u8; 64]; 2] = [spread(4), spread(8)];
const STEPS: [i64; 2] = [0x0302_0100_0302_0100, 0x0706_0504_0302_0100];

const fn spread(granule: usize) -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut i = 0;
    while i < 64 {
        bytes[i] = (2 * (i / granule)) as u8;
        i += 1;
    }
    bytes
}

/// For each granule of a vector the sum of the lengths of those before it, and `start`. In 16 bits each, for
/// narrow vectors are cheap to shuffle.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn starts<const G: usize>(marks: u16, savings: __m128i, start: usize) -> __m256i {
    let saved = _mm256_cvtepu8_epi16(_mm_maskz_mov_epi8(marks, savings));
    let lens = _mm256_sub_epi16(_mm256_set1_epi16(8 * G as i16), saved);
    let sums = _mm256_add_epi16(lens, _mm256_slli_si256::<2>(lens));
    let sums = _mm256_add_epi16(sums, _mm256_slli_si256::<4>(sums));
    let mut sums = _mm256_add_epi16(sums, _mm256_slli_si256::<8>(sums));
    if G == 4 {
        // The lower eight come before the upper eight.
        let lower = _mm256_permute4x64_epi64::<0x50>(_mm256_shufflehi_epi16::<0xff>(sums));
        sums = _mm256_add_epi16(sums, _mm256_maskz_mov_epi16(0xff00, lower));
    }
    _mm256_add_epi16(_mm256_sub_epi16(sums, lens), _mm256_set1_epi16(start as i16))
}

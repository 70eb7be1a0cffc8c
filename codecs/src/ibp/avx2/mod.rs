//! Invariant bit packing with AVX2: 64 bytes of granules at a time, as two vectors.
//!
//! Without instructions that take bits from anywhere, the kept bits of a granule move run by run, each run of all
//! granules at once; where there are many runs, all bits move together in stages. (There are instructions for one
//! granule, but on some machines they take longer than all of this.)

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

mod decode;
mod encode;
mod layout;
mod moves;
mod tables;
mod tally;

use std::arch::x86_64::*;

pub(super) use self::moves::add_tables;
use self::tables::Walk;
use super::bits::{self, Sink, Source, ones};
use super::counts::Counts;
use super::plan::Plan;
use super::tally::{Participants, SampleRow, Thresholds};
use crate::Avx2;
use crate::cpu::{array, load256};

/// Bytes that are coded at a time.
const LINE: usize = 64;
/// Bytes of a vector.
const VECTOR: usize = 32;

pub(super) fn encode(_: Avx2, plan: &Plan, phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    if raw.is_empty() {
        return;
    }
    let encode = match (plan.granule, plan.runs) {
        (8, Some(1)) => encode::granules::<8, 1>,
        (8, Some(2)) => encode::granules::<8, 2>,
        (8, Some(3)) => encode::granules::<8, 3>,
        (8, Some(4)) => encode::granules::<8, 4>,
        (8, Some(6)) => encode::granules::<8, 6>,
        (8, _) => encode::granules::<8, 0>,
        (_, Some(1)) => encode::granules::<4, 1>,
        (_, Some(2)) => encode::granules::<4, 2>,
        (_, Some(3)) => encode::granules::<4, 3>,
        (_, Some(4)) => encode::granules::<4, 4>,
        (_, Some(6)) => encode::granules::<4, 6>,
        (_, _) => encode::granules::<4, 0>,
    };
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode(plan, phase, raw, sink) }
}

pub(super) fn decode(_: Avx2, plan: &Plan, phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    if raw.is_empty() {
        return;
    }
    let decode = match (plan.granule, plan.runs) {
        (8, Some(1)) => decode::granules::<8, 1>,
        (8, Some(2)) => decode::granules::<8, 2>,
        (8, Some(3)) => decode::granules::<8, 3>,
        (8, Some(4)) => decode::granules::<8, 4>,
        (8, Some(6)) => decode::granules::<8, 6>,
        (8, _) => decode::granules::<8, 0>,
        (_, Some(1)) => decode::granules::<4, 1>,
        (_, Some(2)) => decode::granules::<4, 2>,
        (_, Some(3)) => decode::granules::<4, 3>,
        (_, Some(4)) => decode::granules::<4, 4>,
        (_, Some(6)) => decode::granules::<4, 6>,
        (_, _) => decode::granules::<4, 0>,
    };
    // SAFETY: as above.
    unsafe { decode(plan, phase, source, raw) }
}

pub(super) fn saved_by(_: Avx2, plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    if raw.is_empty() {
        return 0;
    }
    // SAFETY: as above.
    unsafe {
        match plan.granule {
            8 => saved_by_lines::<8>(plan, phase, raw),
            _ => saved_by_lines::<4>(plan, phase, raw),
        }
    }
}

pub(super) fn saved_in(
    _: Avx2,
    plan: &Plan,
    phase: usize,
    participation: &[u8],
    first: usize,
    count: usize,
) -> usize {
    // SAFETY: as above.
    unsafe { saved_in_groups(plan, phase, participation, first, count) }
}

pub(super) fn set_bits(_: Avx2, rows: &[SampleRow]) -> Counts {
    // SAFETY: as above.
    unsafe { tally::set_bits(rows) }
}

pub(super) fn participants(_: Avx2, thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    // SAFETY: as above.
    unsafe { tally::participants(thresholds, rows) }
}

#[target_feature(enable = "avx2")]
fn saved_by_lines<const G: usize>(plan: &Plan, phase: usize, raw: &[u8]) -> usize {
    // Whatever moves there are, nothing moves here.
    let mut walk = Walk::<1>::new(plan, phase);
    let mut sums = [_mm256_setzero_si256(); 2];
    for line in raw.chunks(LINE) {
        let (raw, valid) = (load(line), valid(line.len()));
        for (i, place) in walk.places().into_iter().enumerate() {
            let participants = _mm256_and_si256(place.participants::<G>(raw[i]), valid[i]);
            let saved = _mm256_and_si256(place.savings(), participants);
            sums[i] = _mm256_add_epi64(sums[i], byte_sums(saved));
        }
        walk.advance();
    }
    total(_mm256_add_epi64(sums[0], sums[1]))
}

#[target_feature(enable = "avx2")]
fn saved_in_groups(plan: &Plan, phase: usize, participation: &[u8], first: usize, count: usize) -> usize {
    /// Granules whose participation bits are a vector of bytes.
    const GROUP: usize = 32;
    let (mut index, granules) = (phase / plan.granule, plan.period / plan.granule);
    let step = GROUP % granules.max(1);
    let mut sums = _mm256_setzero_si256();
    for start in (0..count).step_by(GROUP) {
        let place = first + start;
        let marks = bits::load(participation, place / 8) >> (place % 8);
        let marks = marks & ones((count - start).min(GROUP) as u32);
        let savings = load256(array(&plan.savings[index..]));
        let saved = _mm256_and_si256(byte_lanes(marks as u32), savings);
        sums = _mm256_add_epi64(sums, byte_sums(saved));
        index += step;
        if index >= granules {
            index -= granules;
        }
    }
    total(sums)
}

/// The sum of the bytes of each lane of eight.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_sums(vector: __m256i) -> __m256i {
    _mm256_sad_epu8(vector, _mm256_setzero_si256())
}

/// The sum of four lanes of eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn total(sums: __m256i) -> usize {
    let halves = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    (_mm_cvtsi128_si64(halves) + _mm_extract_epi64::<1>(halves)) as usize
}

/// Up to 64 bytes of whole granules, zeros behind the end.
#[inline]
#[target_feature(enable = "avx2")]
fn load(bytes: &[u8]) -> [__m256i; 2] {
    if let Some(line) = bytes.first_chunk::<LINE>() {
        return [load256(array(line)), load256(array(&line[VECTOR..]))];
    }
    let [low, high] = valid(bytes.len());
    let first: *const i32 = bytes.as_ptr().cast();
    // SAFETY: the masks cover bytes of the slice only; masked-out bytes are not touched.
    unsafe {
        [_mm256_maskload_epi32(first, low), _mm256_maskload_epi32(first.wrapping_byte_add(VECTOR), high)]
    }
}

/// All ones in the first `len` of 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn valid(len: usize) -> [__m256i; 2] {
    static ENDS: [u8; 2 * LINE] = {
        let mut ends = [0; 2 * LINE];
        let mut i = 0;
        while i < LINE {
            ends[i] = 0xff;
            i += 1;
        }
        ends
    };
    let ends = &ENDS[LINE - len..];
    [load256(array(ends)), load256(array(&ends[VECTOR..]))]
}

/// `number` in each granule of a vector.
#[inline]
#[target_feature(enable = "avx2")]
fn each<const G: usize>(number: usize) -> __m256i {
    match G {
        8 => _mm256_set1_epi64x(number as i64),
        _ => _mm256_set1_epi32(number as i32),
    }
}

/// All ones in the granules that are equal, zero in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn equal<const G: usize>(a: __m256i, b: __m256i) -> __m256i {
    match G {
        8 => _mm256_cmpeq_epi64(a, b),
        _ => _mm256_cmpeq_epi32(a, b),
    }
}

/// Moves the bits of each granule down.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_down<const G: usize>(granules: __m256i, counts: __m256i) -> __m256i {
    match G {
        8 => _mm256_srlv_epi64(granules, counts),
        _ => _mm256_srlv_epi32(granules, counts),
    }
}

/// Moves the bits of each granule up.
#[inline]
#[target_feature(enable = "avx2")]
fn shift_up<const G: usize>(granules: __m256i, counts: __m256i) -> __m256i {
    match G {
        8 => _mm256_sllv_epi64(granules, counts),
        _ => _mm256_sllv_epi32(granules, counts),
    }
}

/// One bit per granule of all ones.
#[inline]
#[target_feature(enable = "avx2")]
fn marks_of<const G: usize>(lanes: __m256i) -> u64 {
    let marks = match G {
        8 => _mm256_movemask_pd(_mm256_castsi256_pd(lanes)),
        _ => _mm256_movemask_ps(_mm256_castsi256_ps(lanes)),
    };
    marks as u64
}

/// All ones in the bytes whose bit is set, zero in the others.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_lanes(marks: u32) -> __m256i {
    let spread = _mm256_setr_epi64x(0, 0x0101_0101_0101_0101, 0x0202_0202_0202_0202, 0x0303_0303_0303_0303);
    let bits = _mm256_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let marks = _mm256_shuffle_epi8(_mm256_set1_epi32(marks as i32), spread);
    _mm256_cmpeq_epi8(_mm256_and_si256(marks, bits), bits)
}

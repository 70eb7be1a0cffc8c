//! Sums over forms: what the lines of a chunk take, and where each of a block lies.

// Loads and stores take pointers; here each one gets its bounds from a type.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::bdi::plan::Plan;
use crate::bdi::{DATA_LENS, FORMS, MASK_LENS, RAW, RAW_LINES, Tally};
use crate::cpu::{array_mut, load512_partial, store512};

/// Lines whose forms are looked at together, a byte each.
const VECTOR_LINES: usize = 64;

#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,bmi2")]
pub(super) fn tally(forms: &[u8]) -> Tally {
    let zero = _mm512_setzero_si512();
    let (mut mask_len, mut data_len, mut raw_lines, mut largest) = (zero, zero, zero, zero);
    for bytes in forms.chunks(64) {
        let pairs = load512_partial(bytes);
        let nibble = _mm512_set1_epi8(0xf);
        for forms in
            [_mm512_and_si512(pairs, nibble), _mm512_and_si512(_mm512_srli_epi16::<4>(pairs), nibble)]
        {
            let sum_of = |lens| _mm512_sad_epu8(_mm512_shuffle_epi8(lens, forms), zero);
            mask_len = _mm512_add_epi64(mask_len, sum_of(table(&MASK_LENS)));
            data_len = _mm512_add_epi64(data_len, sum_of(table(&DATA_LENS)));
            raw_lines = _mm512_add_epi64(raw_lines, sum_of(table(&RAW_LINES)));
            largest = _mm512_max_epu8(largest, forms);
        }
    }
    let sum = |lanes| _mm512_reduce_add_epi64(lanes) as usize;
    Tally {
        mask_len: sum(mask_len),
        data_len: sum(data_len),
        raw_lines: sum(raw_lines),
        all_known: _mm512_cmpgt_epu8_mask(largest, _mm512_set1_epi8(RAW as i8)) == 0,
    }
}

/// A table of 16 bytes in each 128-bit lane.
#[inline]
#[target_feature(enable = "avx512f")]
fn table(bytes: &[u8; 16]) -> __m512i {
    // SAFETY: the array has the 16 bytes that are read.
    _mm512_broadcast_i32x4(unsafe { _mm_loadu_si128(bytes.as_ptr().cast()) })
}

/// Plans the first `lines` of `forms`, at most a block; returns the lengths of their masks and data.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn fill(plan: &mut Plan, forms: &[u8], lines: usize) -> (usize, usize) {
    plan.counts = [0; FORMS];
    let (mut masks_end, mut data_end) = (_mm512_setzero_si512(), _mm512_setzero_si512());
    for (i, bytes) in forms.chunks(VECTOR_LINES / 2).enumerate() {
        let first = i * VECTOR_LINES;
        // The half byte behind the last line may belong to a partial one.
        let known = _bzhi_u64(u64::MAX, VECTOR_LINES.min(lines - first) as u32);
        let pairs = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(load512_partial(bytes)));
        let apart = _mm512_or_si512(pairs, _mm512_slli_epi16::<4>(pairs));
        let forms = _mm512_maskz_mov_epi8(known, _mm512_and_si512(apart, _mm512_set1_epi8(0xf)));
        list_lines(plan, forms, known, first);
        place_lines(&mut plan.mask_at.as_chunks_mut().0[i], forms, &MASK_LENS, &mut masks_end);
        place_lines(&mut plan.data_at.as_chunks_mut().0[i], forms, &DATA_LENS, &mut data_end);
    }
    let low_half = |lanes| _mm_cvtsi128_si32(_mm512_castsi512_si128(lanes)) as u16;
    (low_half(masks_end).into(), low_half(data_end).into())
}

/// Appends the numbers of these lines, the first of which is `first`, to the lists of their forms.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,popcnt")]
fn list_lines(plan: &mut Plan, forms: __m512i, known: u64, first: usize) {
    // SAFETY: the array has the 64 bytes that are read.
    let counting = unsafe { _mm512_loadu_si512(COUNTING.as_ptr().cast()) };
    let numbers = _mm512_add_epi8(counting, _mm512_set1_epi8(first as i8));
    for (form, (list, count)) in plan.lists.iter_mut().zip(&mut plan.counts).enumerate() {
        let found = _mm512_mask_cmpeq_epi8_mask(known, forms, _mm512_set1_epi8(form as i8));
        store512(array_mut(&mut list[*count..]), _mm512_maskz_compress_epi8(found, numbers));
        *count += found.count_ones() as usize;
    }
}

/// 0, 1, 2 and so on.
static COUNTING: [u8; VECTOR_LINES] = {
    let mut counting = [0; VECTOR_LINES];
    let mut i = 0;
    while i < VECTOR_LINES {
        counting[i] = i as u8;
        i += 1;
    }
    counting
};

/// Writes the sum of the lengths before each line, and adds all of them to the lanes of `end`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn place_lines(places: &mut [u16; VECTOR_LINES], forms: __m512i, lens: &[u8; 16], end: &mut __m512i) {
    let lens = _mm512_shuffle_epi8(table(lens), forms);
    let halves = [_mm512_castsi512_si256(lens), _mm512_extracti64x4_epi64::<1>(lens)];
    for (places, lens) in places.as_chunks_mut::<32>().0.iter_mut().zip(halves) {
        let lens = _mm512_cvtepu8_epi16(lens);
        let sums = _mm512_add_epi16(sums_to_each(lens), *end);
        *end = _mm512_permutexvar_epi16(_mm512_set1_epi16(31), sums);
        // SAFETY: the array has the 64 bytes that are written.
        unsafe { _mm512_storeu_si512(places.as_mut_ptr().cast(), _mm512_sub_epi16(sums, lens)) };
    }
}

/// The sum of each number and those before it.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn sums_to_each(numbers: __m512i) -> __m512i {
    let zero = _mm512_setzero_si512();
    // Within each 128 bits
    let mut sums = _mm512_add_epi16(numbers, _mm512_bslli_epi128::<2>(numbers));
    sums = _mm512_add_epi16(sums, _mm512_bslli_epi128::<4>(sums));
    sums = _mm512_add_epi16(sums, _mm512_bslli_epi128::<8>(sums));
    // and across them.
    let totals = _mm512_shuffle_epi8(sums, _mm512_set1_epi16(0x0f0e));
    let mut before = _mm512_alignr_epi64::<6>(totals, zero);
    before = _mm512_add_epi16(before, _mm512_alignr_epi64::<6>(before, zero));
    before = _mm512_add_epi16(before, _mm512_alignr_epi64::<4>(before, zero));
    _mm512_add_epi16(sums, before)
}

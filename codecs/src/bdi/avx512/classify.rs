//! Which form each line takes: eight lines side by side, all forms at once.

use std::arch::x86_64::*;

use super::lanes::{add, max, min, splat, sub};
use crate::bdi::{RAW, REPEATED, ZERO};
use crate::cpu::load256;
use crate::line::LINE_LEN;

/// Lines that are classified together.
const GROUP: usize = 8;

#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2")]
pub(super) fn classify(raw: &[u8], forms: &mut [u8]) {
    let (groups, rest) = raw.as_chunks::<{ GROUP * LINE_LEN }>();
    let (group_forms, rest_forms) = forms.split_at_mut(groups.len() * GROUP / 2);
    for (group, forms) in groups.iter().zip(group_forms.as_chunks_mut().0) {
        *forms = forms_of(group);
    }
    if !rest.is_empty() {
        let mut group = [0; GROUP * LINE_LEN];
        group[..rest.len()].copy_from_slice(rest);
        rest_forms.copy_from_slice(&forms_of(&group)[..rest_forms.len()]);
    }
}

/// The forms of eight lines, half a byte each.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,bmi2")]
fn forms_of(group: &[u8; GROUP * LINE_LEN]) -> [u8; GROUP / 2] {
    let columns = transpose(group);
    let repeated = all_equal(&columns);
    let zero = repeated & _mm512_testn_epi64_mask(columns[0], columns[0]);
    let eight_four = fits::<8, 4>(&columns);
    let four_two = fits::<4, 2>(&columns);
    let mut forms = _mm512_set1_epi64(RAW.into());
    // The costliest form first: cheaper ones take its place.
    forms = _mm512_mask_mov_epi64(forms, eight_four, _mm512_set1_epi64(4));
    forms = _mm512_mask_mov_epi64(forms, fits::<2, 1>(&columns), _mm512_set1_epi64(7));
    forms = _mm512_mask_mov_epi64(forms, four_two, _mm512_set1_epi64(6));
    // A line that fits deltas of one width fits all wider ones, so these need not be tried for every group.
    let mut eight_one = 0;
    if eight_four & !repeated != 0 {
        forms = _mm512_mask_mov_epi64(forms, fits::<8, 2>(&columns), _mm512_set1_epi64(3));
        eight_one = fits::<8, 1>(&columns);
    }
    if four_two & !repeated != 0 {
        forms = _mm512_mask_mov_epi64(forms, fits::<4, 1>(&columns), _mm512_set1_epi64(5));
    }
    forms = _mm512_mask_mov_epi64(forms, eight_one, _mm512_set1_epi64(2));
    forms = _mm512_mask_mov_epi64(forms, repeated, _mm512_set1_epi64(REPEATED.into()));
    forms = _mm512_mask_mov_epi64(forms, zero, _mm512_set1_epi64(ZERO.into()));
    let bytes = _mm_cvtsi128_si64(_mm512_cvtepi64_epi8(forms)) as u64;
    (_pext_u64(bytes, 0x0f0f_0f0f_0f0f_0f0f) as u32).to_le_bytes()
}

/// Eight lines as columns of 64-bit words: lane i of vector k is some word of line i.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn transpose(group: &[u8; GROUP * LINE_LEN]) -> [__m512i; 8] {
    let halves = group.as_chunks::<32>().0;
    let pair = |half: usize, line: usize| {
        let low = _mm512_castsi256_si512(load256(&halves[2 * line + half]));
        _mm512_inserti64x4::<1>(low, load256(&halves[2 * (line + 2) + half]))
    };
    let mut columns = [_mm512_setzero_si512(); 8];
    for half in 0..2 {
        // Each vector has the same half of two lines.
        let [a, b, c, d] = [pair(half, 0), pair(half, 1), pair(half, 4), pair(half, 5)];
        let [even_ab, odd_ab] = [_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)];
        let [even_cd, odd_cd] = [_mm512_unpacklo_epi64(c, d), _mm512_unpackhi_epi64(c, d)];
        columns[4 * half] = _mm512_shuffle_i64x2::<0b10_00_10_00>(even_ab, even_cd);
        columns[4 * half + 1] = _mm512_shuffle_i64x2::<0b11_01_11_01>(even_ab, even_cd);
        columns[4 * half + 2] = _mm512_shuffle_i64x2::<0b10_00_10_00>(odd_ab, odd_cd);
        columns[4 * half + 3] = _mm512_shuffle_i64x2::<0b11_01_11_01>(odd_ab, odd_cd);
    }
    columns
}

/// Which lines are one 64-bit word, repeated.
#[inline]
#[target_feature(enable = "avx512f")]
fn all_equal(columns: &[__m512i; 8]) -> __mmask8 {
    let mut different = _mm512_setzero_si512();
    for &column in &columns[1..] {
        // different | (column ^ first)
        different = _mm512_ternarylogic_epi64::<0xf6>(different, column, columns[0]);
    }
    _mm512_testn_epi64_mask(different, different)
}

/// Which lines fit elements of `B` bytes with deltas of `D`.
///
/// With half = 2^(8D-1), and modulo 2^(8B), an element e is short if e + half < 2 half; the others need the
/// explicit base. So short elements have the smallest of all e + half and the largest of all e - half. If
/// there are others at all, the largest e + half, say L, and the smallest e - half, say S, are of those,
/// and nobody has to tell them from the short ones. The line fits if the two elements, L - half and S + half,
/// are less than 2 half apart: if L - S - 2 half < 2 half. If all elements are short, that difference is how
/// far they are apart as signed numbers, which is less than 2 half too.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn fits<const B: usize, const D: usize>(columns: &[__m512i; 8]) -> __mmask8 {
    let half = splat::<B>(1 << (8 * D - 1));
    let mut largest = add::<B>(columns[0], half);
    let mut smallest = sub::<B>(columns[0], half);
    for &column in &columns[1..] {
        largest = max::<B>(largest, add::<B>(column, half));
        smallest = min::<B>(smallest, sub::<B>(column, half));
    }
    // The top element of each 64-bit lane gets that of the lane.
    if B < 8 {
        largest = max::<B>(largest, _mm512_slli_epi64::<32>(largest));
        smallest = min::<B>(smallest, _mm512_slli_epi64::<32>(smallest));
    }
    if B < 4 {
        largest = max::<B>(largest, _mm512_slli_epi64::<16>(largest));
        smallest = min::<B>(smallest, _mm512_slli_epi64::<16>(smallest));
    }
    let apart = sub::<B>(sub::<B>(largest, smallest), splat::<B>(1 << (8 * D)));
    // Of the top element of each lane, the bits above a delta.
    let too_far = _mm512_set1_epi64((u64::MAX << (64 - 8 * (B - D))) as i64);
    _mm512_testn_epi64_mask(apart, too_far)
}

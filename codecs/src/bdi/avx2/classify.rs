//! Which form each line takes: four lines side by side, all forms at once.

use std::arch::x86_64::*;

use super::lanes::{add, load128, max, min, splat, sub};
use crate::bdi::{RAW, REPEATED, ZERO};
use crate::line::LINE_LEN;

/// Lines whose forms fill whole bytes and are classified together, four with even and four with odd numbers.
const GROUP: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) fn classify(raw: &[u8], forms: &mut [u8]) {
    let (groups, rest) = raw.as_chunks::<{ GROUP * LINE_LEN }>();
    let (group_forms, rest_forms) = forms.split_at_mut(groups.len() * GROUP / 2);
    for (group, forms) in groups.iter().zip(group_forms.as_chunks_mut().0) {
        *forms = packed_forms(group);
    }
    if !rest.is_empty() {
        let mut group = [0; GROUP * LINE_LEN];
        group[..rest.len()].copy_from_slice(rest);
        rest_forms.copy_from_slice(&packed_forms(&group)[..rest_forms.len()]);
    }
}

/// The forms of eight lines, half a byte each.
#[inline]
#[target_feature(enable = "avx2")]
fn packed_forms(group: &[u8; GROUP * LINE_LEN]) -> [u8; GROUP / 2] {
    let (even, odd) = (forms_of(&transpose(group, 0)), forms_of(&transpose(group, 1)));
    // One byte in each 64-bit lane; the two of each half go to its front.
    let pairs = _mm256_or_si256(even, _mm256_slli_epi64::<4>(odd));
    let pairs = _mm256_shuffle_epi8(pairs, _mm256_set1_epi64x(0x0800));
    let low = _mm256_extract_epi16::<0>(pairs) as u32;
    let high = _mm256_extract_epi16::<8>(pairs) as u32;
    (low | high << 16).to_le_bytes()
}

/// The forms of four lines, in 64-bit lanes.
#[inline]
#[target_feature(enable = "avx2")]
fn forms_of(columns: &[__m256i; 8]) -> __m256i {
    let repeated = all_equal(columns);
    let zero = _mm256_and_si256(repeated, _mm256_cmpeq_epi64(columns[0], _mm256_setzero_si256()));
    let eight_four = fits::<8, 4>(columns);
    let four_two = fits::<4, 2>(columns);
    // The costliest form first: cheaper ones take its place.
    let mut forms = _mm256_set1_epi64x(RAW.into());
    forms = set_where(eight_four, 4, forms);
    forms = set_where(fits::<2, 1>(columns), 7, forms);
    forms = set_where(four_two, 6, forms);
    // A line that fits deltas of one width fits all wider ones, so these need not be tried for every group.
    let mut eight_one = _mm256_setzero_si256();
    if _mm256_testc_si256(repeated, eight_four) == 0 {
        forms = set_where(fits::<8, 2>(columns), 3, forms);
        eight_one = fits::<8, 1>(columns);
    }
    if _mm256_testc_si256(repeated, four_two) == 0 {
        forms = set_where(fits::<4, 1>(columns), 5, forms);
    }
    forms = set_where(eight_one, 2, forms);
    forms = set_where(repeated, REPEATED, forms);
    set_where(zero, ZERO, forms)
}

/// `form` in the lanes that are set, those of `others` elsewhere.
#[inline]
#[target_feature(enable = "avx2")]
fn set_where(lanes: __m256i, form: u8, others: __m256i) -> __m256i {
    _mm256_blendv_epi8(others, _mm256_set1_epi64x(form.into()), lanes)
}

/// Four lines, every second from `first` on, as columns of 64-bit words: lane i of vector k is some word of
/// the i-th of them.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose(group: &[u8; GROUP * LINE_LEN], first: usize) -> [__m256i; 8] {
    let quarters = group.as_chunks::<16>().0;
    let mut columns = [_mm256_setzero_si256(); 8];
    for part in 0..4 {
        let [a, b] = [pair(quarters, first, part), pair(quarters, first + 2, part)];
        columns[2 * part] = _mm256_unpacklo_epi64(a, b);
        columns[2 * part + 1] = _mm256_unpackhi_epi64(a, b);
    }
    columns
}

/// The same quarter of `line` and of the fourth line after it.
#[inline]
#[target_feature(enable = "avx2")]
fn pair(quarters: &[[u8; 16]], line: usize, part: usize) -> __m256i {
    let low = _mm256_castsi128_si256(load128(&quarters[4 * line + part]));
    _mm256_inserti128_si256::<1>(low, load128(&quarters[4 * (line + 4) + part]))
}

/// Which lines are one 64-bit word, repeated.
#[inline]
#[target_feature(enable = "avx2")]
fn all_equal(columns: &[__m256i; 8]) -> __m256i {
    let mut different = _mm256_setzero_si256();
    for &column in &columns[1..] {
        different = _mm256_or_si256(different, _mm256_xor_si256(column, columns[0]));
    }
    _mm256_cmpeq_epi64(different, _mm256_setzero_si256())
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
#[target_feature(enable = "avx2")]
fn fits<const B: usize, const D: usize>(columns: &[__m256i; 8]) -> __m256i {
    // There is no order of unsigned 64-bit numbers: the top bit of all numbers is flipped, which the
    // difference does not see.
    let flip = if B == 8 { 1 << 63 } else { 0 };
    let (plus, minus) =
        (splat::<B>(flip + (1 << (8 * D - 1))), splat::<B>(flip.wrapping_sub(1 << (8 * D - 1))));
    let mut largest = add::<B>(columns[0], plus);
    let mut smallest = add::<B>(columns[0], minus);
    for &column in &columns[1..] {
        largest = max::<B>(largest, add::<B>(column, plus));
        smallest = min::<B>(smallest, add::<B>(column, minus));
    }
    // The top element of each 64-bit lane gets that of the lane.
    if B < 8 {
        largest = max::<B>(largest, _mm256_slli_epi64::<32>(largest));
        smallest = min::<B>(smallest, _mm256_slli_epi64::<32>(smallest));
    }
    if B < 4 {
        largest = max::<B>(largest, _mm256_slli_epi64::<16>(largest));
        smallest = min::<B>(smallest, _mm256_slli_epi64::<16>(smallest));
    }
    let apart = sub::<B>(sub::<B>(largest, smallest), splat::<B>(1 << (8 * D)));
    // Of the top element of each lane, the bits above a delta.
    let too_far = _mm256_set1_epi64x((u64::MAX << (64 - 8 * (B - D))) as i64);
    _mm256_cmpeq_epi64(_mm256_and_si256(apart, too_far), _mm256_setzero_si256())
}

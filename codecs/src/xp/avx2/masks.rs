//! Leaving out the values that are zero or repeat the one before, and putting them back, eight at a time.

use std::arch::x86_64::*;

use super::lanes::{compress_control, expand_control, load, load64, load128, store, store64, store128};
use crate::cpu::groups::{byte_pairs, doubled, expanded_words};

/// Values whose bits are a byte of a mask.
const EIGHT: usize = 8;

/// Eight values: the low half of a vector of 16 bytes, that, a vector of 32, or two.
type Eight = [__m256i; 2];

/// See [`Vectors::leave_out`](crate::xp::vector::Vectors::leave_out).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn leave_out<const B: u32, const REPEATS: bool>(
    values: *const u8,
    count: usize,
    bits: *mut u8,
    mut kept: *mut u8,
) -> usize {
    let (width, zero) = (B as usize / 8, _mm256_setzero_si256());
    let (mut before, mut number) = ([zero; 2], 0);
    // SAFETY: eight values are read before any of their place is written: there are never more kept values
    // than were read.
    unsafe {
        for group in 0..count / EIGHT {
            let here = eight_at::<B>(values.add(EIGHT * width * group));
            let other = if REPEATS { one_back::<B>(before, here) } else { [zero; 2] };
            let mask = !matches::<B>(here, other);
            before = here;
            *bits.add(group) = mask;
            keep::<B>(here, mask, kept);
            kept = kept.add(width * mask.count_ones() as usize);
            number += mask.count_ones() as usize;
        }
        let (groups, left) = (count / EIGHT, count % EIGHT);
        if left > 0 {
            let mut last = [0; 64];
            last.as_mut_ptr().copy_from_nonoverlapping(values.add(EIGHT * width * groups), left * width);
            let here = eight_at::<B>(last.as_ptr());
            let other = if REPEATS { one_back::<B>(before, here) } else { [zero; 2] };
            let mask = !matches::<B>(here, other) & ((1 << left) - 1);
            *bits.add(groups) = mask;
            keep::<B>(here, mask, kept);
            number += mask.count_ones() as usize;
        }
        bits.add(count.div_ceil(EIGHT)).write_bytes(0, 64);
    }
    number
}

/// See [`Vectors::put_zeros_back`](crate::xp::vector::Vectors::put_zeros_back).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn put_zeros_back<const B: u32>(bits: *const u8, mut kept: *const u8, to: &mut [u8]) {
    let width = B as usize / 8;
    for (group, to) in to.chunks_mut(EIGHT * width).enumerate() {
        // SAFETY: the bits of the group are there; the next kept value is among those promised.
        unsafe {
            let mask = *bits.add(group);
            put_eight::<B>(spread::<B>(mask, kept), to);
            kept = kept.add(width * mask.count_ones() as usize);
        }
    }
}

/// See [`Vectors::put_repeats_back`](crate::xp::vector::Vectors::put_repeats_back).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn put_repeats_back<const B: u32>(bits: *const u8, kept: *const u8, to: &mut [u8]) {
    let width = B as usize / 8;
    // The last value that was put.
    let mut last = kept.wrapping_sub(width);
    for (group, to) in to.chunks_mut(EIGHT * width).enumerate() {
        // SAFETY: `last` is the value in front of `kept`, or one of the kept values, which slack follows.
        unsafe {
            let mask = *bits.add(group);
            // If the first is new, none is the old one, and the last may be the eighth new one.
            let from = last.add(width * usize::from(mask & 1));
            put_eight::<B>(place::<B>(&RANKS[usize::from(mask >> 1)], from), to);
            last = last.add(width * mask.count_ones() as usize);
        }
    }
}

/// `RANKS[mask][i]`: the set bits of `mask` below bit `i`.
static RANKS: [[u8; EIGHT]; 128] = {
    let mut ranks = [[0; EIGHT]; 128];
    let mut mask = 0;
    while mask < 128 {
        let mut i = 1;
        while i < EIGHT {
            ranks[mask][i] = ranks[mask][i - 1] + (mask >> (i - 1) & 1) as u8;
            i += 1;
        }
        mask += 1;
    }
    ranks
};

/// # Safety
/// There are eight values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn eight_at<const B: u32>(from: *const u8) -> Eight {
    let zero = _mm256_setzero_si256();
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            8 => [_mm256_zextsi128_si256(load64(from)), zero],
            16 => [_mm256_zextsi128_si256(load128(from)), zero],
            32 => [load(from), zero],
            _ => [load(from), load(from.add(32))],
        }
    }
}

/// The last of the eight values before, then all but the last of these.
#[inline]
#[target_feature(enable = "avx2")]
fn one_back<const B: u32>(before: Eight, here: Eight) -> Eight {
    let ([b0, b1], [h0, h1], zero) = (before, here, _mm256_setzero_si256());
    let (b, h) = (_mm256_castsi256_si128(b0), _mm256_castsi256_si128(h0));
    match B {
        8 => [_mm256_zextsi128_si256(_mm_or_si128(_mm_slli_si128::<1>(h), _mm_srli_epi64::<56>(b))), zero],
        16 => [_mm256_zextsi128_si256(_mm_alignr_epi8::<14>(h, b)), zero],
        32 => {
            let last_first = _mm256_setr_epi32(7, 0, 1, 2, 3, 4, 5, 6);
            let (b, h) =
                (_mm256_permutevar8x32_epi32(b0, last_first), _mm256_permutevar8x32_epi32(h0, last_first));
            [_mm256_blend_epi32::<1>(h, b), zero]
        }
        _ => {
            let b = _mm256_permute4x64_epi64::<0b10_01_00_11>(b1);
            let (low, high) = (
                _mm256_permute4x64_epi64::<0b10_01_00_11>(h0),
                _mm256_permute4x64_epi64::<0b10_01_00_11>(h1),
            );
            [_mm256_blend_epi32::<3>(low, b), _mm256_blend_epi32::<3>(high, low)]
        }
    }
}

/// Which of the eight values are equal.
#[inline]
#[target_feature(enable = "avx2")]
fn matches<const B: u32>([a0, a1]: Eight, [b0, b1]: Eight) -> u8 {
    let (a, b) = (_mm256_castsi256_si128(a0), _mm256_castsi256_si128(b0));
    match B {
        8 => _mm_movemask_epi8(_mm_cmpeq_epi8(a, b)) as u8,
        16 => {
            let equal = _mm_cmpeq_epi16(a, b);
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal)) as u8
        }
        32 => _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(a0, b0))) as u8,
        _ => {
            let low = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a0, b0)));
            let high = _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(a1, b1)));
            (low | high << 4) as u8
        }
    }
}

/// Writes the values whose bit is set to `to`, and anything behind them.
///
/// # Safety
/// `to` has room for eight values.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn keep<const B: u32>([a, b]: Eight, mask: u8, to: *mut u8) {
    let control = compress_control(mask);
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            8 => store64(to, _mm_shuffle_epi8(_mm256_castsi256_si128(a), control)),
            16 => store128(to, _mm_shuffle_epi8(_mm256_castsi256_si128(a), byte_pairs(control))),
            32 => store(to, _mm256_permutevar8x32_epi32(a, _mm256_cvtepu8_epi32(control))),
            _ => {
                for (i, v) in [a, b].into_iter().enumerate() {
                    let lanes = _mm256_cvtepu8_epi32(compress_control(doubled(mask >> (4 * i))));
                    let at = if i == 0 { 0 } else { 8 * (mask & 0xf).count_ones() as usize };
                    store(to.add(at), _mm256_permutevar8x32_epi32(v, lanes));
                }
            }
        }
    }
}

/// Eight values: where a bit is set the next of `kept`, elsewhere zero.
///
/// # Safety
/// `kept` has eight values.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
unsafe fn spread<const B: u32>(mask: u8, kept: *const u8) -> Eight {
    let (control, zero) = (expand_control(mask), _mm256_setzero_si256());
    // SAFETY: the caller's promise; the second half of eight qwords starts behind what the first has.
    unsafe {
        match B {
            8 => [_mm256_zextsi128_si256(_mm_shuffle_epi8(load64(kept), control)), zero],
            16 => [_mm256_zextsi128_si256(_mm_shuffle_epi8(load128(kept), byte_pairs(control))), zero],
            32 => [expanded_words(control, load(kept)), zero],
            _ => {
                let second = kept.add(8 * (mask & 0xf).count_ones() as usize);
                [
                    expanded_words(expand_control(doubled(mask)), load(kept)),
                    expanded_words(expand_control(doubled(mask >> 4)), load(second)),
                ]
            }
        }
    }
}

/// Eight values: value `ranks[i]` behind `from` for value `i`.
///
/// # Safety
/// `from` has eight values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn place<const B: u32>(ranks: &[u8; EIGHT], from: *const u8) -> Eight {
    let zero = _mm256_setzero_si256();
    // SAFETY: ranks are eight bytes, and below eight.
    unsafe {
        let control = load64(ranks.as_ptr());
        match B {
            8 => [_mm256_zextsi128_si256(_mm_shuffle_epi8(load64(from), control)), zero],
            16 => [_mm256_zextsi128_si256(_mm_shuffle_epi8(load128(from), byte_pairs(control))), zero],
            32 => [_mm256_permutevar8x32_epi32(load(from), _mm256_cvtepu8_epi32(control)), zero],
            _ => {
                let mut placed = [0u64; EIGHT];
                for (value, &rank) in placed.iter_mut().zip(ranks) {
                    *value = from.add(8 * usize::from(rank)).cast::<u64>().read_unaligned();
                }
                [load(placed.as_ptr().cast()), load(placed[4..].as_ptr().cast())]
            }
        }
    }
}

/// Fills `to` from the front of eight values.
#[inline]
#[target_feature(enable = "avx2")]
fn put_eight<const B: u32>([a, b]: Eight, to: &mut [u8]) {
    if to.len() < B as usize {
        let mut all = [0; 64];
        put_eight::<B>([a, b], &mut all[..B as usize]);
        to.copy_from_slice(&all[..to.len()]);
        return;
    }
    let to = to.as_mut_ptr();
    // SAFETY: eight values have as many bytes as one has bits, and `to` has them.
    unsafe {
        match B {
            8 => store64(to, _mm256_castsi256_si128(a)),
            16 => store128(to, _mm256_castsi256_si128(a)),
            32 => store(to, a),
            _ => {
                store(to, a);
                store(to.add(32), b);
            }
        }
    }
}

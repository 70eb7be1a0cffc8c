//! Leaving out the values that are zero or repeat the one before, and putting them back.

use std::arch::x86_64::*;

use super::lanes::{index, load, store};
use crate::cpu::{
    compress512, expand512, load512_partial, low_bits, non_zeros512, prefetch_line, store512_partial,
};

/// Values in a vector.
const fn lanes<const B: u32>() -> usize {
    512 / B as usize
}

/// See [`Vectors::leave_out`](crate::xp::vector::Vectors::leave_out).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn leave_out<const B: u32, const REPEATS: bool>(
    values: *const u8,
    count: usize,
    bits: *mut u8,
    mut kept: *mut u8,
) -> usize {
    let (width, lanes) = (B as usize / 8, lanes::<B>());
    // Of two vectors the last value of the first, and all but the last of the second.
    let one_back = index!(|i| (64 - B as usize / 8 + i));
    let (mut before, mut number) = (_mm512_setzero_si512(), 0);
    for vector in 0..count.div_ceil(lanes) {
        // SAFETY: the values of this vector are read before any of its place is written: there are never more
        // kept values than were read.
        unsafe {
            let left = (count - vector * lanes).min(lanes);
            let here = std::slice::from_raw_parts(values.add(64 * vector), left * width);
            let here = load512_partial(here);
            // Chunks mostly follow each other.
            prefetch_line(values.wrapping_add(64 * vector + count * width));
            let mask = if REPEATS {
                let shifted = _mm512_permutex2var_epi8(before, one_back, here);
                before = here;
                non_zeros512(width, _mm512_xor_si512(here, shifted)) & low_bits(left)
            } else {
                non_zeros512(width, here)
            };
            put_bits::<B>(bits.add(vector * lanes / 8), mask);
            store(kept, compress512(width, mask, here));
            let kept_here = mask.count_ones() as usize;
            kept = kept.add(kept_here * width);
            number += kept_here;
        }
    }
    // SAFETY: the room behind the bits.
    unsafe { store(bits.add(count.div_ceil(lanes) * lanes / 8), _mm512_setzero_si512()) };
    number
}

/// See [`Vectors::put_zeros_back`](crate::xp::vector::Vectors::put_zeros_back).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn put_zeros_back<const B: u32>(bits: *const u8, mut kept: *const u8, to: &mut [u8]) {
    let width = B as usize / 8;
    for (vector, to) in to.chunks_mut(64).enumerate() {
        // SAFETY: the bits of the vector are there; the next kept value is among those promised.
        unsafe {
            let mask = bits_at::<B>(bits, vector);
            store512_partial(to, expand512(width, mask, load(kept)));
            kept = kept.add(width * mask.count_ones() as usize);
        }
    }
}

/// See [`Vectors::put_repeats_back`](crate::xp::vector::Vectors::put_repeats_back).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi,avx512bitalg,bmi2,popcnt")]
pub(super) unsafe fn put_repeats_back<const B: u32>(bits: *const u8, kept: *const u8, to: &mut [u8]) {
    let width = B as usize / 8;
    // The last value that was put.
    let mut last = kept.wrapping_sub(width);
    for (vector, to) in to.chunks_mut(64).enumerate() {
        // SAFETY: `last` is the value in front of `kept`, or one of the kept values, of which 64 bytes follow
        // `last + 1`.
        unsafe {
            let mask = bits_at::<B>(bits, vector);
            // If the first is new, none is the old one, and the last may be the 64th new one.
            let from = last.add(width * (mask & 1) as usize);
            let values = place::<B>(load(from), ranks(mask >> 1));
            store512_partial(to, values);
            last = last.add(width * mask.count_ones() as usize);
        }
    }
}

/// Byte *i*: the set bits of `mask` below bit *i*.
#[inline]
#[target_feature(enable = "avx512bw,avx512bitalg,popcnt")]
fn ranks(mask: u64) -> __m512i {
    // Set bits of the bytes below each byte: sums of sums, one multiplication. The index of a byte shuffle
    // stays in its sixteen bytes, in which the word stands twice.
    let pairs = mask - (mask >> 1 & 0x5555_5555_5555_5555);
    let nibbles = (pairs & 0x3333_3333_3333_3333) + (pairs >> 2 & 0x3333_3333_3333_3333);
    let bytes = (nibbles + (nibbles >> 4)) & 0x0f0f_0f0f_0f0f_0f0f;
    let below = bytes.wrapping_mul(0x0101_0101_0101_0101) << 8;
    let each_byte = index!(|i| (i / 8));
    let spread_mask = _mm512_shuffle_epi8(_mm512_set1_epi64(mask as i64), each_byte);
    let spread_below = _mm512_shuffle_epi8(_mm512_set1_epi64(below as i64), each_byte);
    let lower = _mm512_set1_epi64(0x7f3f_1f0f_0703_0100);
    _mm512_add_epi8(spread_below, _mm512_popcnt_epi8(_mm512_and_si512(spread_mask, lower)))
}

/// Lane *i* of the result is lane `ranks[i]` of `values`, where byte *i* of `ranks` counts.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
fn place<const B: u32>(values: __m512i, ranks: __m512i) -> __m512i {
    match B {
        8 => _mm512_permutexvar_epi8(ranks, values),
        16 => _mm512_permutexvar_epi16(_mm512_cvtepu8_epi16(_mm512_castsi512_si256(ranks)), values),
        32 => _mm512_permutexvar_epi32(_mm512_cvtepu8_epi32(_mm512_castsi512_si128(ranks)), values),
        _ => _mm512_permutexvar_epi64(_mm512_cvtepu8_epi64(_mm512_castsi512_si128(ranks)), values),
    }
}

/// # Safety
/// `to` has room for the bits of a vector.
#[inline]
unsafe fn put_bits<const B: u32>(to: *mut u8, mask: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            8 => to.cast::<u64>().write_unaligned(mask),
            16 => to.cast::<u32>().write_unaligned(mask as u32),
            32 => to.cast::<u16>().write_unaligned(mask as u16),
            _ => *to = mask as u8,
        }
    }
}

/// The bits of vector number `vector`.
///
/// # Safety
/// They are there.
#[inline]
unsafe fn bits_at<const B: u32>(bits: *const u8, vector: usize) -> u64 {
    let from = bits.wrapping_add(vector * lanes::<B>() / 8);
    // SAFETY: the caller's promise.
    unsafe {
        match B {
            8 => from.cast::<u64>().read_unaligned(),
            16 => u64::from(from.cast::<u32>().read_unaligned()),
            32 => u64::from(from.cast::<u16>().read_unaligned()),
            _ => u64::from(*from),
        }
    }
}

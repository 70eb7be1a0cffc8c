//! Sixty-four values put together from symbols and rests.

use std::arch::x86_64::*;

use super::cut::Words;
use super::lanes::{interleave, load, store};
use super::planes::take_planes;
use super::tiers::Symbols;
use crate::xp::vector::cut::{Cut, Rests};

/// The inverse of [`cut`](super::cut::cut).
///
/// # Safety
/// `values` has room for 64 values; each piece has its 64 numbers, and the planes their 8 bytes each.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn join<const B: u32, const E: u32, const S: bool>(
    symbols: Symbols,
    rests: Rests,
    values: *mut u8,
) {
    let mut tops = symbols;
    if B == 8 {
        // SAFETY: the caller's promise.
        return unsafe { join_bytes::<S>(symbols.high, take_low_bits::<B, E, S>(rests.planes), values) };
    }
    if Cut::<B, E, S>::PLANES > 0 {
        // SAFETY: the caller's promise.
        let (a, b) = unsafe { take_low_bits::<B, E, S>(rests.planes) };
        let lowest = if Cut::<B, E, S>::TOP == 1 { &mut tops.high } else { &mut tops.low };
        *lowest = [_mm256_or_si256(lowest[0], a), _mm256_or_si256(lowest[1], b)];
    }
    if B > 8 && Cut::<B, E, S>::TOP == 1 {
        let piece = rests.pieces[if B == 16 { 0 } else { 1 }];
        // SAFETY: the last piece is the low bytes of the words.
        tops.low = unsafe { [load(piece), load(piece.add(32))] };
    }
    // SAFETY: the caller's promise, for every width below.
    unsafe {
        match B {
            16 => store_four(values, words_of_tops(tops).map(|v| rotated_back::<16, S>(v))),
            32 => join_dwords::<S>(words_of_tops(tops), rests.pieces[0], values),
            _ => join_qwords::<S>(words_of_tops(tops), rests.pieces, values),
        }
    }
}

/// The low bits of 64 bytes, from planes.
///
/// # Safety
/// The planes are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn take_low_bits<const B: u32, const E: u32, const S: bool>(from: *const u8) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise.
    unsafe {
        match Cut::<B, E, S>::PLANES {
            2 => take_planes::<2>(from),
            3 => take_planes::<3>(from),
            4 => take_planes::<4>(from),
            5 => take_planes::<5>(from),
            _ => take_planes::<7>(from),
        }
    }
}

/// The words of these high and low bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn words_of_tops(tops: Symbols) -> Words {
    let (a, b) = interleave::<1>(tops.low[0], tops.high[0]);
    let (c, d) = interleave::<1>(tops.low[1], tops.high[1]);
    [a, b, c, d]
}

/// # Safety
/// There is room for 128 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store_four(to: *mut u8, values: Words) {
    for (i, v) in values.into_iter().enumerate() {
        // SAFETY: the caller's promise.
        unsafe { store(to.add(32 * i), v) };
    }
}

/// # Safety
/// There is room for 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_bytes<const S: bool>(symbols: [__m256i; 2], rests: (__m256i, __m256i), values: *mut u8) {
    // A rest has at most four bits, the lowest of them the sign.
    let rotated = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, -0x80, 1, -0x7f, 2, -0x7e, 3, -0x7d, 4, -0x7c, 5, -0x7b, 6, -0x7a, 7, -0x79,
    ));
    for (i, (symbol, rest)) in symbols.into_iter().zip([rests.0, rests.1]).enumerate() {
        // The low bits of symbols are zero: none goes to another byte.
        let value = if S {
            _mm256_or_si256(symbol, rest)
        } else {
            _mm256_or_si256(_mm256_srli_epi16::<1>(symbol), _mm256_shuffle_epi8(rotated, rest))
        };
        // SAFETY: room for 64 values of a byte.
        unsafe { store(values.add(32 * i), value) };
    }
}

/// Writes 64 dwords of these high words and the low ones at `low`, rotated back unless the sign stayed.
///
/// # Safety
/// There are 64 low words, and room for the values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_dwords<const S: bool>(high: Words, low: *const u8, values: *mut u8) {
    for (i, high) in high.into_iter().enumerate() {
        // SAFETY: this is a quarter of the words, and of the room.
        unsafe {
            let (a, b) = interleave::<2>(load(low.add(32 * i)), high);
            store(values.add(64 * i), rotated_back::<32, S>(a));
            store(values.add(64 * i + 32), rotated_back::<32, S>(b));
        }
    }
}

/// # Safety
/// The pieces are there, and room for 64 values.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn join_qwords<const S: bool>(tops: Words, pieces: [*const u8; 2], values: *mut u8) {
    for (i, top) in tops.into_iter().enumerate() {
        // SAFETY: this is a quarter of the pieces, and of the room.
        unsafe {
            let (high_a, high_b) = interleave::<2>(load(pieces[1].add(32 * i)), top);
            let (a, b) = interleave::<4>(load(pieces[0].add(64 * i)), high_a);
            let (c, d) = interleave::<4>(load(pieces[0].add(64 * i + 32)), high_b);
            for (k, v) in [a, b, c, d].into_iter().enumerate() {
                store(values.add(128 * i + 32 * k), rotated_back::<64, S>(v));
            }
        }
    }
}

/// Values of `BITS` bits rotated right by one, unless the sign stays.
#[inline]
#[target_feature(enable = "avx2")]
fn rotated_back<const BITS: u32, const S: bool>(v: __m256i) -> __m256i {
    match BITS {
        _ if S => v,
        16 => _mm256_or_si256(_mm256_srli_epi16::<1>(v), _mm256_slli_epi16::<15>(v)),
        32 => _mm256_or_si256(_mm256_srli_epi32::<1>(v), _mm256_slli_epi32::<31>(v)),
        _ => _mm256_or_si256(_mm256_srli_epi64::<1>(v), _mm256_slli_epi64::<63>(v)),
    }
}

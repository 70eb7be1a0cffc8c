//! Sixty-four bytes to planes of one bit each, and back.
//!
//! Four planes are transposed at once. Double word *k* of a vector holds either byte *k* of each plane or the
//! nibbles of eight bytes: a matrix of 4 by 4 bits in its low nibbles, another in its high ones. The double
//! words stand in the order 0 1 4 5 2 3 6 7, so that bytes come out of them without leaving their half.

use std::arch::x86_64::*;

use super::lanes::{high_bits, in_order, load64, load128, store};
use crate::cpu::{lanes::NO_LANE, load256};

/// Writes the lowest `NUMBER` bits of 64 bytes as planes to `to`.
///
/// # Safety
/// `to` has room for 64 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn put_planes<const NUMBER: usize>(a: __m256i, b: __m256i, to: *mut u8) {
    // SAFETY: eight planes are 64 bytes.
    unsafe {
        if NUMBER <= 2 {
            return put_two_planes(a, b, to);
        }
        // Each plane's double words are every other one of either vector.
        let (a, b) = (_mm256_castsi256_ps(a), _mm256_castsi256_ps(b));
        let low = _mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(a, b));
        let high = _mm256_castps_si256(_mm256_shuffle_ps::<0b11_01_11_01>(a, b));
        let (low, high) = exchanged(low, high);
        store(to, planes_of(low));
        if NUMBER > 4 {
            store(to.add(32), planes_of(high));
        }
    }
}

/// # Safety
/// `to` has room for two planes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn put_two_planes(a: __m256i, b: __m256i, to: *mut u8) {
    let low = high_bits(_mm256_slli_epi16::<7>(a), _mm256_slli_epi16::<7>(b));
    let high = high_bits(_mm256_slli_epi16::<6>(a), _mm256_slli_epi16::<6>(b));
    // SAFETY: the caller's promise.
    unsafe {
        to.cast::<u64>().write_unaligned(low);
        to.add(8).cast::<u64>().write_unaligned(high);
    }
}

/// The inverse of [`put_planes`].
///
/// # Safety
/// The planes are there.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) unsafe fn take_planes<const NUMBER: usize>(from: *const u8) -> (__m256i, __m256i) {
    // SAFETY: the caller's promise.
    let (low, high) = unsafe {
        match NUMBER {
            2 => parted(matrices::<2>(from)),
            3 => parted(matrices::<3>(from)),
            4 => parted(matrices::<4>(from)),
            5 => exchanged(matrices::<4>(from), matrices::<1>(from.add(32))),
            7 => exchanged(matrices::<4>(from), matrices::<3>(from.add(32))),
            _ => exchanged(matrices::<4>(from), matrices::<4>(from.add(32))),
        }
    };
    (_mm256_unpacklo_epi32(low, high), _mm256_unpackhi_epi32(low, high))
}

/// Up to four planes as nibbles of bytes.
///
/// # Safety
/// The planes are there.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn matrices<const NUMBER: usize>(from: *const u8) -> __m256i {
    // SAFETY: one plane is 8 bytes, two are 16.
    unsafe {
        let planes = if NUMBER == 1 { load64(from) } else { load128(from) };
        let first = load256(const { &rows::<NUMBER>(0) });
        let mut rows_of_all = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(planes), first);
        if NUMBER > 2 {
            let planes = if NUMBER == 3 { load64(from.add(16)) } else { load128(from.add(16)) };
            let second = load256(const { &rows::<NUMBER>(2) });
            let planes = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(planes), second);
            rows_of_all = _mm256_or_si256(rows_of_all, planes);
        }
        transposed::<NUMBER>(rows_of_all)
    }
}

/// A control that takes the two planes from `first` on, as far as they are of `NUMBER`, to their rows.
const fn rows<const NUMBER: usize>(first: usize) -> [u8; 32] {
    let mut control = [NO_LANE; 32];
    let mut i = 0;
    while i < 32 {
        let plane = i % 4;
        if plane >= first && plane < first + 2 && plane < NUMBER {
            control[i] = (8 * (plane - first) + ORDER[i / 4]) as u8;
        }
        i += 1;
    }
    control
}

/// The order of double words.
const ORDER: [usize; 8] = [0, 1, 4, 5, 2, 3, 6, 7];

/// Four planes of what [`transposed`] nibbles say.
#[inline]
#[target_feature(enable = "avx2")]
fn planes_of(nibbles: __m256i) -> __m256i {
    let halves_of_planes = _mm256_setr_epi8(
        0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7,
        11, 15,
    );
    let planes = _mm256_shuffle_epi8(in_order(transposed::<4>(nibbles)), halves_of_planes);
    _mm256_permutevar8x32_epi32(planes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// The matrices of each double word transposed: bit *c* of byte *r* changes places with bit *r* of byte *c*,
/// and so in high nibbles. Bytes from `ROWS` on are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn transposed<const ROWS: usize>(v: __m256i) -> __m256i {
    // Quarters of the matrices, then bits of the quarters.
    let v = if ROWS <= 2 {
        _mm256_and_si256(_mm256_or_si256(v, _mm256_slli_epi32::<14>(v)), _mm256_set1_epi8(0x33))
    } else {
        let moved = _mm256_xor_si256(_mm256_srli_epi32::<14>(v), v);
        let moved = _mm256_and_si256(moved, _mm256_set1_epi32(0xcccc));
        _mm256_xor_si256(_mm256_xor_si256(v, moved), _mm256_slli_epi32::<14>(moved))
    };
    let moved = _mm256_xor_si256(_mm256_srli_epi32::<7>(v), v);
    let moved = _mm256_and_si256(moved, _mm256_set1_epi32(0x00aa_00aa));
    _mm256_xor_si256(_mm256_xor_si256(v, moved), _mm256_slli_epi32::<7>(moved))
}

/// The low nibbles and the high nibbles, each as low ones.
#[inline]
#[target_feature(enable = "avx2")]
fn parted(nibbles: __m256i) -> (__m256i, __m256i) {
    let low = _mm256_set1_epi8(0xf);
    (_mm256_and_si256(nibbles, low), _mm256_and_si256(_mm256_srli_epi16::<4>(nibbles), low))
}

/// `a` with the low nibbles of `b` as its high ones, and `b` with the high nibbles of `a` as its low ones.
#[inline]
#[target_feature(enable = "avx2")]
fn exchanged(a: __m256i, b: __m256i) -> (__m256i, __m256i) {
    let moved = _mm256_xor_si256(_mm256_srli_epi16::<4>(a), b);
    let moved = _mm256_and_si256(moved, _mm256_set1_epi8(0xf));
    (_mm256_xor_si256(a, _mm256_slli_epi16::<4>(moved)), _mm256_xor_si256(b, moved))
}

//! The levels of a mask: its bytes that are not zero, and where they are.

use std::arch::x86_64::*;

use super::lanes::{compress_control, expand_control, high_bits, load, load64, store64};

/// Bytes whose bits are a byte of the level above.
const EIGHT: usize = 8;

/// See [`Vectors::raise_level`](crate::xp::vector::Vectors::raise_level).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn raise_level(bytes: *const u8, blocks: usize, bits: *mut u8) -> usize {
    let (zero, mut non_zero) = (_mm256_setzero_si256(), 0);
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let (a, b) = (load(bytes.add(64 * block)), load(bytes.add(64 * block + 32)));
            let mask = !high_bits(_mm256_cmpeq_epi8(a, zero), _mm256_cmpeq_epi8(b, zero));
            bits.add(8 * block).cast::<u64>().write_unaligned(mask);
            non_zero += mask.count_ones() as usize;
        }
    }
    non_zero
}

/// See [`Vectors::put_level`](crate::xp::vector::Vectors::put_level).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn put_level(bits: *const u8, bytes: *const u8, blocks: usize, mut to: *mut u8) -> *mut u8 {
    for group in 0..EIGHT * blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let mask = *bits.add(group);
            store64(to, _mm_shuffle_epi8(load64(bytes.add(EIGHT * group)), compress_control(mask)));
            to = to.add(mask.count_ones() as usize);
        }
    }
    to
}

/// See [`Vectors::take_level`](crate::xp::vector::Vectors::take_level).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx2,popcnt")]
pub(super) unsafe fn take_level(bits: *const u8, blocks: usize, stored: &[u8], to: *mut u8) -> usize {
    let mut at = 0;
    for group in 0..EIGHT * blocks {
        let mut next = [0; EIGHT];
        match stored[at..].first_chunk() {
            Some(eight) => next = *eight,
            None => next[..stored.len() - at].copy_from_slice(&stored[at..]),
        }
        // SAFETY: the caller's promise.
        unsafe {
            let mask = *bits.add(group);
            store64(to.add(EIGHT * group), _mm_shuffle_epi8(load64(next.as_ptr()), expand_control(mask)));
            at += mask.count_ones() as usize;
        }
    }
    at
}

/// See [`Vectors::count_bits`](crate::xp::vector::Vectors::count_bits).
///
/// # Safety
/// As there.
#[target_feature(enable = "popcnt")]
pub(super) unsafe fn count_bits(bytes: *const u8, len: usize) -> usize {
    let mut sum = 0;
    for word in 0..len.div_ceil(8) {
        // SAFETY: the caller's promise.
        sum += unsafe { bytes.add(8 * word).cast::<u64>().read_unaligned() }.count_ones() as usize;
    }
    sum
}

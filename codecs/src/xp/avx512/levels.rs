//! The levels of a mask: its bytes that are not zero, and where they are.

use std::arch::x86_64::*;

use super::lanes::{load, store};
use crate::cpu::load512_partial;

/// See [`Vectors::raise_level`](crate::xp::vector::Vectors::raise_level).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,popcnt")]
pub(super) unsafe fn raise_level(bytes: *const u8, blocks: usize, bits: *mut u8) -> usize {
    let mut non_zero = 0;
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let here = load(bytes.add(64 * block));
            let mask = _mm512_test_epi8_mask(here, here);
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
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) unsafe fn put_level(bits: *const u8, bytes: *const u8, blocks: usize, mut to: *mut u8) -> *mut u8 {
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let kept = bits.add(8 * block).cast::<u64>().read_unaligned();
            store(to, _mm512_maskz_compress_epi8(kept, load(bytes.add(64 * block))));
            to = to.add(kept.count_ones() as usize);
        }
    }
    to
}

/// See [`Vectors::take_level`](crate::xp::vector::Vectors::take_level).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2,popcnt")]
pub(super) unsafe fn take_level(bits: *const u8, blocks: usize, stored: &[u8], to: *mut u8) -> usize {
    let mut at = 0;
    for block in 0..blocks {
        // SAFETY: the caller's promise.
        unsafe {
            let kept = bits.add(8 * block).cast::<u64>().read_unaligned();
            store(to.add(64 * block), _mm512_maskz_expand_epi8(kept, load512_partial(&stored[at..])));
            at += kept.count_ones() as usize;
        }
    }
    at
}

/// See [`Vectors::count_bits`](crate::xp::vector::Vectors::count_bits).
///
/// # Safety
/// As there.
#[target_feature(enable = "avx512bw,avx512vpopcntdq")]
pub(super) unsafe fn count_bits(bytes: *const u8, len: usize) -> usize {
    let mut sum = _mm512_setzero_si512();
    for block in 0..len.div_ceil(64) {
        // SAFETY: the caller's promise.
        let here = unsafe { load(bytes.add(64 * block)) };
        sum = _mm512_add_epi64(sum, _mm512_popcnt_epi64(here));
    }
    _mm512_reduce_add_epi64(sum) as usize
}

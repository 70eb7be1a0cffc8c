//! Vectors as elements of `B` = 8, 4 or 2 bytes.

// Loads and stores take pointers; here each one gets its bounds from a type.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::cpu::{array, load256};

/// The low `D` bytes of every element of `B` bytes, packed.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn truncate<const B: usize, const D: usize>(elements: __m512i) -> __m256i {
    match (B, D) {
        (8, 1) => _mm256_castsi128_si256(_mm512_cvtepi64_epi8(elements)),
        (8, 2) => _mm256_castsi128_si256(_mm512_cvtepi64_epi16(elements)),
        (8, _) => _mm512_cvtepi64_epi32(elements),
        (4, 1) => _mm256_castsi128_si256(_mm512_cvtepi32_epi8(elements)),
        (4, _) => _mm512_cvtepi32_epi16(elements),
        _ => _mm512_cvtepi16_epi8(elements),
    }
}

/// The inverse of [`truncate`] for signed numbers.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn widen<const B: usize, const D: usize>(deltas: &[u8]) -> __m512i {
    let low = || {
        // SAFETY: the array has the 16 bytes that are read.
        unsafe { _mm_loadu_si128(array::<16>(deltas).as_ptr().cast()) }
    };
    match (B, D) {
        (8, 1) => _mm512_cvtepi8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*array(deltas)))),
        (8, 2) => _mm512_cvtepi16_epi64(low()),
        (8, _) => _mm512_cvtepi32_epi64(load256(array(deltas))),
        (4, 1) => _mm512_cvtepi8_epi32(low()),
        (4, _) => _mm512_cvtepi16_epi32(load256(array(deltas))),
        _ => _mm512_cvtepi8_epi16(load256(array(deltas))),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn splat<const B: usize>(value: u64) -> __m512i {
    match B {
        8 => _mm512_set1_epi64(value as i64),
        4 => _mm512_set1_epi32(value as i32),
        _ => _mm512_set1_epi16(value as i16),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_add_epi64(a, b),
        4 => _mm512_add_epi32(a, b),
        _ => _mm512_add_epi16(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn sub<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_sub_epi64(a, b),
        4 => _mm512_sub_epi32(a, b),
        _ => _mm512_sub_epi16(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn max<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_max_epu64(a, b),
        4 => _mm512_max_epu32(a, b),
        _ => _mm512_max_epu16(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn min<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_min_epu64(a, b),
        4 => _mm512_min_epu32(a, b),
        _ => _mm512_min_epu16(a, b),
    }
}

/// The smallest element.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn lowest<const B: usize>(elements: __m512i) -> u64 {
    match B {
        8 => _mm512_reduce_min_epu64(elements),
        4 => _mm512_reduce_min_epu32(elements).into(),
        _ => {
            let high = _mm512_extracti64x4_epi64::<1>(elements);
            let four = _mm256_min_epu16(_mm512_castsi512_si256(elements), high);
            let eight = _mm_min_epu16(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            _mm_cvtsi128_si32(_mm_minpos_epu16(eight)) as u16 as u64
        }
    }
}

/// Which elements of `a` are not below those of `b`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn not_below<const B: usize>(a: __m512i, b: __m512i) -> u32 {
    match B {
        8 => _mm512_cmpge_epu64_mask(a, b).into(),
        4 => _mm512_cmpge_epu32_mask(a, b).into(),
        _ => _mm512_cmpge_epu16_mask(a, b),
    }
}

/// `a - b` where the bit of `mask` is set, `a` elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn sub_where<const B: usize>(a: __m512i, mask: u32, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_mask_sub_epi64(a, mask as u8, a, b),
        4 => _mm512_mask_sub_epi32(a, mask as u16, a, b),
        _ => _mm512_mask_sub_epi16(a, mask, a, b),
    }
}

/// `a + b` where the bit of `mask` is set, `other` elsewhere.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
pub(super) fn add_where<const B: usize>(other: __m512i, mask: u32, a: __m512i, b: __m512i) -> __m512i {
    match B {
        8 => _mm512_mask_add_epi64(other, mask as u8, a, b),
        4 => _mm512_mask_add_epi32(other, mask as u16, a, b),
        _ => _mm512_mask_add_epi16(other, mask, a, b),
    }
}

//! Vectors as elements of `B` = 8, 4 or 2 bytes; a line is two of them.

// Loads and stores take pointers; here each one gets its bounds from a type.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use crate::cpu::array;

/// The two halves of a line.
pub(super) type Halves = [__m256i; 2];

/// The 16 bytes of `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn load128(from: &[u8; 16]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

/// The low `D` bytes of every element of `B` bytes, packed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn truncate<const B: usize, const D: usize>(elements: Halves) -> __m256i {
    // Packing saturates, so what is cut off must be zero.
    let kept = splat::<B>(u64::MAX >> (64 - 8 * D));
    let [low, high] = elements.map(|half| _mm256_and_si256(half, kept));
    // Instructions that join vectors do so in each half of them.
    let in_order = |joined| _mm256_permute4x64_epi64::<0b11_01_10_00>(joined);
    let parts = |joined| (_mm256_castsi256_si128(joined), _mm256_extracti128_si256::<1>(joined));
    match B {
        8 => {
            let (low, high) = (_mm256_castsi256_ps(low), _mm256_castsi256_ps(high));
            let words = in_order(_mm256_castps_si256(_mm256_shuffle_ps::<0b10_00_10_00>(low, high)));
            if D == 4 {
                return words;
            }
            let (low, high) = parts(words);
            let halves = _mm_packus_epi32(low, high);
            _mm256_castsi128_si256(if D == 2 { halves } else { _mm_packus_epi16(halves, halves) })
        }
        4 => {
            let halves = in_order(_mm256_packus_epi32(low, high));
            if D == 2 {
                return halves;
            }
            let (low, high) = parts(halves);
            _mm256_castsi128_si256(_mm_packus_epi16(low, high))
        }
        _ => in_order(_mm256_packus_epi16(low, high)),
    }
}

/// The inverse of [`truncate`] for signed numbers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn widen<const B: usize, const D: usize>(deltas: &[u8]) -> Halves {
    match (B, D) {
        (8, 1) => {
            let bytes = _mm_cvtsi64_si128(i64::from_le_bytes(*array(deltas)));
            [_mm256_cvtepi8_epi64(bytes), _mm256_cvtepi8_epi64(_mm_srli_si128::<4>(bytes))]
        }
        (8, 2) => {
            let halves = load128(array(deltas));
            [_mm256_cvtepi16_epi64(halves), _mm256_cvtepi16_epi64(_mm_srli_si128::<8>(halves))]
        }
        (4, 1) => {
            let bytes = load128(array(deltas));
            [_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128::<8>(bytes))]
        }
        _ => [0, 16].map(|at| {
            let part = load128(array(&deltas[at..]));
            match B {
                8 => _mm256_cvtepi32_epi64(part),
                4 => _mm256_cvtepi16_epi32(part),
                _ => _mm256_cvtepi8_epi16(part),
            }
        }),
    }
}

/// One bit per element whose bits are all set.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bits<const B: usize>([low, high]: Halves) -> u32 {
    let ones = |half| match B {
        8 => _mm256_movemask_pd(_mm256_castsi256_pd(half)),
        _ => _mm256_movemask_ps(_mm256_castsi256_ps(half)),
    };
    if B > 2 {
        return (ones(low) | ones(high) << (32 / B)) as u32;
    }
    let bytes = _mm256_packs_epi16(low, high);
    _mm256_movemask_epi8(_mm256_permute4x64_epi64::<0b11_01_10_00>(bytes)) as u32
}

/// The inverse of [`bits`] for one half of a line, whose bits are the low ones.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lanes<const B: usize>(bits: u32) -> __m256i {
    let own_bit = match B {
        8 => _mm256_setr_epi64x(1, 2, 4, 8),
        4 => _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128),
        _ => {
            let low = _mm_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128);
            _mm256_set_m128i(_mm_slli_epi16::<8>(low), low)
        }
    };
    let own = _mm256_and_si256(splat::<B>(bits.into()), own_bit);
    equal::<B>(own, own_bit)
}

/// The smallest element of a line; for `B` = 8, whose top bits are flipped.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn lowest<const B: usize>([low, high]: Halves) -> u64 {
    let four = min::<B>(low, high);
    let swapped = _mm256_permute4x64_epi64::<0b01_00_11_10>(four);
    let two = _mm256_castsi256_si128(min::<B>(four, swapped));
    match B {
        8 => {
            let flip = |number: i64| number as u64 ^ 1 << 63;
            flip(_mm_cvtsi128_si64(two)).min(flip(_mm_extract_epi64::<1>(two)))
        }
        4 => {
            let one = _mm_min_epu32(two, _mm_shuffle_epi32::<0b01_00_11_10>(two));
            let one = _mm_min_epu32(one, _mm_shuffle_epi32::<0b10_11_00_01>(one));
            (_mm_cvtsi128_si32(one) as u32).into()
        }
        _ => (_mm_cvtsi128_si32(_mm_minpos_epu16(two)) as u16).into(),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn splat<const B: usize>(value: u64) -> __m256i {
    match B {
        8 => _mm256_set1_epi64x(value as i64),
        4 => _mm256_set1_epi32(value as i32),
        _ => _mm256_set1_epi16(value as i16),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn add<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        8 => _mm256_add_epi64(a, b),
        4 => _mm256_add_epi32(a, b),
        _ => _mm256_add_epi16(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sub<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        8 => _mm256_sub_epi64(a, b),
        4 => _mm256_sub_epi32(a, b),
        _ => _mm256_sub_epi16(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        8 => _mm256_cmpeq_epi64(a, b),
        4 => _mm256_cmpeq_epi32(a, b),
        _ => _mm256_cmpeq_epi16(a, b),
    }
}

/// The larger of two unsigned elements; for `B` = 8, whose top bits are flipped.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn max<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        8 => _mm256_blendv_epi8(a, b, _mm256_cmpgt_epi64(b, a)),
        4 => _mm256_max_epu32(a, b),
        _ => _mm256_max_epu16(a, b),
    }
}

/// The smaller of two unsigned elements; for `B` = 8, whose top bits are flipped.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn min<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        8 => _mm256_blendv_epi8(b, a, _mm256_cmpgt_epi64(b, a)),
        4 => _mm256_min_epu32(a, b),
        _ => _mm256_min_epu16(a, b),
    }
}

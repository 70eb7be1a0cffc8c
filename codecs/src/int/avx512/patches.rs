//! High bits of marked words, packed and unpacked.

// Patches lie in byte slices; loads of them are masked, stores overshoot into room that the encoder has.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::vector::{byte_mask, lanes, low_bytes, shifted_left, shifted_right};
use crate::cpu::load512_partial;

/// Vectors of a block of 32 words wider than a byte.
const fn vectors<const B: usize>() -> usize {
    B / 2
}

/// The marks of the lanes of vector `index` of a block.
const fn marks_of<const B: usize>(marks: u32, index: usize) -> u64 {
    marks as u64 >> (index * lanes::<B>()) & u64::MAX >> (64 - lanes::<B>())
}

/// Writes the bits from `low_bits` on of the marked words of a block, in `patch_len` bytes each, and returns
/// how many bytes they are. Words have at least two bytes.
///
/// # Safety
/// There must be room for 256 bytes at `to`, and none of the marked words may have more bits.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,avx512vl,popcnt")]
pub(super) unsafe fn store_patches<const B: usize>(
    words: [__m512i; 4],
    marks: u32,
    low_bits: u32,
    patch_len: u32,
    to: *mut u8,
) -> usize {
    let mut high = words;
    for vector in &mut high[..vectors::<B>()] {
        *vector = shifted_right::<B>(*vector, low_bits);
    }
    // SAFETY: the first two write a vector or less; a vector of the last takes no more than its words do.
    unsafe {
        match patch_len {
            1 => {
                let packed = _mm256_maskz_compress_epi8(marks, to_bytes::<B>(high));
                _mm256_storeu_si256(to.cast(), packed);
            }
            2 => {
                let packed = _mm512_maskz_compress_epi16(marks, to_halves::<B>(high));
                _mm512_storeu_si512(to.cast(), packed);
            }
            _ => {
                let mut place = to;
                for (i, &vector) in high[..vectors::<B>()].iter().enumerate() {
                    let mask = byte_mask::<B>(marks_of::<B>(marks, i)) & low_bytes::<B>(patch_len);
                    _mm512_storeu_si512(place.cast(), _mm512_maskz_compress_epi8(mask, vector));
                    place = place.add(mask.count_ones() as usize);
                }
            }
        }
    }
    (marks.count_ones() * patch_len) as usize
}

/// `words` of a block with `patches` above the low bits of the marked ones: `patch_len` bytes for each.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512vbmi2,avx512dq,avx512vl,popcnt,bmi1,bmi2")]
pub(super) fn patched<const B: usize>(
    words: [__m512i; 4],
    marks: u32,
    low_bits: u32,
    patch_len: u32,
    patches: &[u8],
) -> [__m512i; 4] {
    let high = match patch_len {
        1 => {
            let packed = _mm512_castsi512_si256(load512_partial(patches));
            from_bytes::<B>(_mm256_maskz_expand_epi8(marks, packed))
        }
        2 => from_halves::<B>(_mm512_maskz_expand_epi16(marks, load512_partial(patches))),
        _ => {
            let (mut left, mut high) = (patches, [_mm512_setzero_si512(); 4]);
            for (i, vector) in high[..vectors::<B>()].iter_mut().enumerate() {
                let mask = byte_mask::<B>(marks_of::<B>(marks, i)) & low_bytes::<B>(patch_len);
                let (front, rest) = left.split_at(mask.count_ones() as usize);
                *vector = _mm512_maskz_expand_epi8(mask, load512_partial(front));
                left = rest;
            }
            high
        }
    };
    let mut patched = words;
    for (vector, &high) in patched[..vectors::<B>()].iter_mut().zip(&high) {
        *vector = _mm512_or_si512(*vector, shifted_left::<B>(high, low_bits));
    }
    patched
}

/// The low byte of each of 32 words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
pub(super) fn to_bytes<const B: usize>(words: [__m512i; 4]) -> __m256i {
    match B {
        2 => _mm512_cvtepi16_epi8(words[0]),
        4 => _mm256_set_m128i(_mm512_cvtepi32_epi8(words[1]), _mm512_cvtepi32_epi8(words[0])),
        _ => {
            let low = _mm_unpacklo_epi64(_mm512_cvtepi64_epi8(words[0]), _mm512_cvtepi64_epi8(words[1]));
            let high = _mm_unpacklo_epi64(_mm512_cvtepi64_epi8(words[2]), _mm512_cvtepi64_epi8(words[3]));
            _mm256_set_m128i(high, low)
        }
    }
}

/// 32 words of one byte each.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn from_bytes<const B: usize>(bytes: __m256i) -> [__m512i; 4] {
    let zero = _mm512_setzero_si512();
    let [low, high] = [_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes)];
    match B {
        2 => [_mm512_cvtepu8_epi16(bytes), zero, zero, zero],
        4 => [_mm512_cvtepu8_epi32(low), _mm512_cvtepu8_epi32(high), zero, zero],
        _ => [
            _mm512_cvtepu8_epi64(low),
            _mm512_cvtepu8_epi64(_mm_unpackhi_epi64(low, low)),
            _mm512_cvtepu8_epi64(high),
            _mm512_cvtepu8_epi64(_mm_unpackhi_epi64(high, high)),
        ],
    }
}

/// The low two bytes of each of 32 words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
pub(super) fn to_halves<const B: usize>(words: [__m512i; 4]) -> __m512i {
    match B {
        2 => words[0],
        4 => joined(_mm512_cvtepi32_epi16(words[0]), _mm512_cvtepi32_epi16(words[1])),
        _ => {
            let low = _mm256_set_m128i(_mm512_cvtepi64_epi16(words[1]), _mm512_cvtepi64_epi16(words[0]));
            joined(low, _mm256_set_m128i(_mm512_cvtepi64_epi16(words[3]), _mm512_cvtepi64_epi16(words[2])))
        }
    }
}

/// 32 words of two bytes each.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
fn from_halves<const B: usize>(halves: __m512i) -> [__m512i; 4] {
    let zero = _mm512_setzero_si512();
    let [low, high] = [_mm512_castsi512_si256(halves), _mm512_extracti64x4_epi64::<1>(halves)];
    match B {
        2 => [halves, zero, zero, zero],
        4 => [_mm512_cvtepu16_epi32(low), _mm512_cvtepu16_epi32(high), zero, zero],
        _ => [
            _mm512_cvtepu16_epi64(_mm256_castsi256_si128(low)),
            _mm512_cvtepu16_epi64(_mm256_extracti128_si256::<1>(low)),
            _mm512_cvtepu16_epi64(_mm256_castsi256_si128(high)),
            _mm512_cvtepu16_epi64(_mm256_extracti128_si256::<1>(high)),
        ],
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn joined(low: __m256i, high: __m256i) -> __m512i {
    _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
}

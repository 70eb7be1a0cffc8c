//! Differences to residuals and back, a vector at a time.

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::super::word::word_bits;
use super::vector::{shifted_left, shifted_right, splat, sub, zigzag};
use crate::cpu::load256;

/// Differences as residuals: see [`Header::residual`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn residuals<const B: usize>(differences: __m256i, header: &Header) -> __m256i {
    let mapped = match header.map {
        Map::Identity => differences,
        Map::Zigzag => zigzag::<B>(differences),
        Map::Reversed => reversed::<B>(differences),
    };
    rotated_right::<B>(mapped, header.rotation)
}

/// Residuals as mapped differences: undoes their rotation.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn rotated_back<const B: usize>(residuals: __m256i, rotation: u32) -> __m256i {
    if rotation == 0 { residuals } else { rotated_right::<B>(residuals, word_bits::<B>() - rotation) }
}

/// Words rotated right by less than their bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn rotated_right<const B: usize>(vector: __m256i, by: u32) -> __m256i {
    if by == 0 {
        return vector;
    }
    _mm256_or_si256(shifted_right::<B>(vector, by), shifted_left::<B>(vector, word_bits::<B>() - by))
}

/// The inverse of [`zigzag`].
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn unzigzag<const B: usize>(vector: __m256i) -> __m256i {
    let odd = _mm256_and_si256(vector, splat::<B>(1));
    _mm256_xor_si256(shifted_right::<B>(vector, 1), sub::<B>(_mm256_setzero_si256(), odd))
}

/// The bits of each word in reverse order.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn reversed<const B: usize>(vector: __m256i) -> __m256i {
    let halves =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15));
    let half = _mm256_set1_epi8(15);
    let low = _mm256_shuffle_epi8(halves, _mm256_and_si256(vector, half));
    let high = _mm256_shuffle_epi8(halves, _mm256_and_si256(_mm256_srli_epi16::<4>(vector), half));
    let bytes = _mm256_or_si256(_mm256_slli_epi16::<4>(low), high);
    if B == 1 { bytes } else { _mm256_shuffle_epi8(bytes, load256(const { &bytes_reversed::<B>() })) }
}

/// The bytes of each word in reverse order, as shuffle control.
const fn bytes_reversed<const B: usize>() -> [u8; 32] {
    let mut order = [0; 32];
    let mut i = 0;
    while i < 32 {
        order[i] = (i % 16 / B * B + B - 1 - i % B) as u8;
        i += 1;
    }
    order
}

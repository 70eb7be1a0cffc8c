//! Differences to residuals and back, a vector at a time.

use std::arch::x86_64::*;

use super::super::header::{Header, Map};
use super::vector::{reversed, shifted_right, splat, sub, zigzag};

/// Makes residuals of differences: see [`Header::residual`].
#[derive(Clone, Copy)]
pub(super) struct Forward<const B: usize> {
    map: Map,
    /// By how much to rotate; for bytes, map and rotation as one matrix.
    by: __m512i,
}

/// Makes differences of residuals: see [`Header::difference`].
#[derive(Clone, Copy)]
pub(super) struct Backward<const B: usize> {
    map: Map,
    by: __m512i,
}

impl<const B: usize> Forward<B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn new(header: &Header) -> Self {
        let by = match B {
            1 => matrix(|byte| header.residual::<1>(byte)),
            _ => splat::<B>(u64::from(header.rotation)),
        };
        Self { map: header.map, by }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn residuals(&self, differences: __m512i) -> __m512i {
        if B == 1 {
            return _mm512_gf2p8affine_epi64_epi8::<0>(differences, self.by);
        }
        let mapped = match self.map {
            Map::Identity => differences,
            Map::Zigzag => zigzag::<B>(differences),
            Map::Reversed => reversed::<B>(differences),
        };
        match B {
            2 => _mm512_shrdv_epi16(mapped, mapped, self.by),
            4 => _mm512_rorv_epi32(mapped, self.by),
            _ => _mm512_rorv_epi64(mapped, self.by),
        }
    }
}

impl<const B: usize> Backward<B> {
    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn new(header: &Header) -> Self {
        let by = match B {
            1 => matrix(|byte| header.difference::<1>(byte)),
            _ => splat::<B>(u64::from(header.rotation)),
        };
        Self { map: header.map, by }
    }

    #[inline]
    #[target_feature(enable = "avx512vbmi,avx512vbmi2,gfni")]
    pub(super) fn differences(&self, residuals: __m512i) -> __m512i {
        let mapped = match B {
            1 => return _mm512_gf2p8affine_epi64_epi8::<0>(residuals, self.by),
            2 => _mm512_shldv_epi16(residuals, residuals, self.by),
            4 => _mm512_rolv_epi32(residuals, self.by),
            _ => _mm512_rolv_epi64(residuals, self.by),
        };
        match self.map {
            Map::Identity => mapped,
            Map::Zigzag => unzigzag::<B>(mapped),
            Map::Reversed => reversed::<B>(mapped),
        }
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn unzigzag<const B: usize>(vector: __m512i) -> __m512i {
    let odd = _mm512_and_si512(vector, splat::<B>(1));
    _mm512_xor_si512(shifted_right::<B>(vector, 1), sub::<B>(_mm512_setzero_si512(), odd))
}

/// The matrix of `map`, in whose results each bit is a sum, modulo 2, of bits of the argument.
#[inline]
#[target_feature(enable = "avx512bw")]
fn matrix(map: impl Fn(u64) -> u64) -> __m512i {
    let mut rows = [0u8; 8];
    for bit in 0..8 {
        let image = map(1 << bit);
        for (i, row) in rows.iter_mut().rev().enumerate() {
            *row |= ((image >> i & 1) << bit) as u8;
        }
    }
    _mm512_set1_epi64(i64::from_le_bytes(rows))
}

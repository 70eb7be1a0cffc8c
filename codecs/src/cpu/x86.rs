//! The x86-64 instruction sets as values, and loads and stores that stay inside their slices.

// Vector loads and stores take pointers; here each one gets its bounds from a type or a length.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

/// This machine has AVX2, BMI1, BMI2, LZCNT and POPCNT.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx2(());

impl Avx2 {
    /// The value, if this machine has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        found.then_some(Self(()))
    }
}

/// This machine has AVX-512 F, BW, CD, DQ, VL, VBMI, VBMI2, BITALG, VPOPCNTDQ, GFNI, and what [`Avx2`] says.
///
/// That is Ice Lake and Zen 4 or later; an older AVX-512 lacks the byte compress and expand that the codecs
/// live on, and runs AVX2.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Avx512(Avx2);

impl Avx512 {
    /// The value, if this machine has the instructions.
    #[must_use]
    pub fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512vbmi2")
            && is_x86_feature_detected!("avx512bitalg")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("gfni");
        if found { Avx2::detect().map(Self) } else { None }
    }

    /// The smaller instruction set that comes with it.
    #[must_use]
    pub const fn avx2(self) -> Avx2 {
        self.0
    }
}

/// The 64 bytes of `from`.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn load512(from: &[u8; 64]) -> __m512i {
    // SAFETY: the array has the 64 bytes that are read.
    unsafe { _mm512_loadu_si512(from.as_ptr().cast()) }
}

/// Up to 64 bytes of `from`, zeros behind its end.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
pub(crate) fn load512_partial(from: &[u8]) -> __m512i {
    // SAFETY: the mask covers bytes of the slice only; masked-out bytes are not touched.
    unsafe { _mm512_maskz_loadu_epi8(low_bits(from.len()), from.as_ptr().cast()) }
}

/// Writes 64 bytes.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn store512(to: &mut [u8; 64], value: __m512i) {
    // SAFETY: the array has the 64 bytes that are written.
    unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), value) }
}

/// Writes the first bytes of `value`, as many as `to` has and at most 64.
#[inline]
#[target_feature(enable = "avx512bw,bmi2")]
pub(crate) fn store512_partial(to: &mut [u8], value: __m512i) {
    // SAFETY: the mask covers bytes of the slice only; masked-out bytes are not touched.
    unsafe { _mm512_mask_storeu_epi8(to.as_mut_ptr().cast(), low_bits(to.len()), value) }
}

/// One bit per element of `width` bytes, set = not zero. `width` is meant to be a constant, here and below.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(crate) fn non_zeros512(width: usize, vector: __m512i) -> u64 {
    match width {
        1 => _mm512_test_epi8_mask(vector, vector),
        2 => u64::from(_mm512_test_epi16_mask(vector, vector)),
        4 => u64::from(_mm512_test_epi32_mask(vector, vector)),
        _ => u64::from(_mm512_test_epi64_mask(vector, vector)),
    }
}

/// The elements of `width` bytes whose bit is set, moved to the front.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2")]
pub(crate) fn compress512(width: usize, mask: u64, vector: __m512i) -> __m512i {
    match width {
        1 => _mm512_maskz_compress_epi8(mask, vector),
        2 => _mm512_maskz_compress_epi16(mask as u32, vector),
        4 => _mm512_maskz_compress_epi32(mask as u16, vector),
        _ => _mm512_maskz_compress_epi64(mask as u8, vector),
    }
}

/// The inverse of [`compress512`]: zero where the bit is clear.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2")]
pub(crate) fn expand512(width: usize, mask: u64, vector: __m512i) -> __m512i {
    match width {
        1 => _mm512_maskz_expand_epi8(mask, vector),
        2 => _mm512_maskz_expand_epi16(mask as u32, vector),
        4 => _mm512_maskz_expand_epi32(mask as u16, vector),
        _ => _mm512_maskz_expand_epi64(mask as u8, vector),
    }
}

/// The 32 bytes of `from`.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load256(from: &[u8; 32]) -> __m256i {
    // SAFETY: the array has the 32 bytes that are read.
    unsafe { _mm256_loadu_si256(from.as_ptr().cast()) }
}

/// Writes 32 bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store256(to: &mut [u8; 32], value: __m256i) {
    // SAFETY: the array has the 32 bytes that are written.
    unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), value) }
}

/// Writes the first 8, 16 or 32 bytes of `value`, as many as `to` has.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store256_low(to: &mut [u8], value: __m256i) {
    let low = _mm256_castsi256_si128(value);
    match to.len() {
        8 => to.copy_from_slice(&_mm_cvtsi128_si64(low).to_le_bytes()),
        16 => {
            let to: &mut [u8; 16] = array_mut(to);
            // SAFETY: the array has the 16 bytes that are written.
            unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), low) }
        }
        _ => store256(array_mut(to), value),
    }
}

/// The first `N` bytes of `bytes`.
///
/// # Panics
/// If there are fewer.
#[inline]
#[track_caller]
pub(crate) fn array<const N: usize>(bytes: &[u8]) -> &[u8; N] {
    let Some(front) = bytes.first_chunk() else { panic!("{} bytes where {N} are needed", bytes.len()) };
    front
}

/// The first `N` bytes of `bytes`, to be written.
///
/// # Panics
/// If there are fewer.
#[inline]
#[track_caller]
pub(crate) fn array_mut<const N: usize>(bytes: &mut [u8]) -> &mut [u8; N] {
    let len = bytes.len();
    let Some(front) = bytes.first_chunk_mut() else { panic!("{len} bytes where {N} are needed") };
    front
}

/// A mask of the low `count` bits, all 64 from 64 up.
#[inline]
pub(crate) const fn low_bits(count: usize) -> u64 {
    if count >= 64 { u64::MAX } else { (1 << count) - 1 }
}

//! Vectors of words of `B` bytes: the operations that differ by width.

// Loads take pointers; their bounds come from the slices they point into.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::word::truncated;
use crate::cpu::{load256, store256};

/// Words of `B` bytes in a vector.
pub(super) const fn lanes<const B: usize>() -> usize {
    32 / B
}

/// Words, and what is thought to lie before them.
#[derive(Clone, Copy)]
pub(super) struct Words<'a, const B: usize> {
    words: &'a [[u8; B]],
    base: u64,
}

impl<'a, const B: usize> Words<'a, B> {
    pub(super) const fn new(words: &'a [[u8; B]], base: u64) -> Self {
        Self { words, base }
    }

    pub(super) const fn words(&self) -> &'a [[u8; B]] {
        self.words
    }

    /// The words from `index` on.
    ///
    /// # Safety
    /// A vector of words must lie there.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn at(&self, index: usize) -> __m256i {
        debug_assert!(index + lanes::<B>() <= self.words.len());
        // SAFETY: the caller says that these 32 bytes belong to the slice.
        unsafe { _mm256_loadu_si256(self.words.as_ptr().add(index).cast()) }
    }

    /// The words `lag` before those from `index` on.
    ///
    /// # Safety
    /// A vector of words must lie at `index`.
    #[inline]
    #[target_feature(enable = "avx2")]
    unsafe fn before(&self, index: usize, lag: usize) -> __m256i {
        if lag <= index {
            // SAFETY: these words end where those from `index` on do, or earlier.
            return unsafe { self.at(index - lag) };
        }
        after::<B>(splat::<B>(self.base), lag - index, self.words)
    }

    /// The words from `index` on less what these lags predict.
    ///
    /// # Safety
    /// A vector of words must lie at `index`.
    #[inline]
    #[target_feature(enable = "avx2")]
    pub(super) unsafe fn difference(&self, index: usize, lags: [usize; 2]) -> __m256i {
        // SAFETY: the caller's word.
        unsafe {
            let words = self.at(index);
            match lags {
                [0, 0] => sub::<B>(words, splat::<B>(self.base)),
                [lag, 0] | [0, lag] => sub::<B>(words, self.before(index, lag)),
                [a, b] => {
                    let once = sub::<B>(words, self.before(index, a));
                    add::<B>(sub::<B>(once, self.before(index, b)), self.before(index, a + b))
                }
            }
        }
    }
}

/// `count` words of `base`, at most a vector, then the first of `words`.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn after<const B: usize>(base: __m256i, count: usize, words: &[[u8; B]]) -> __m256i {
    if count >= lanes::<B>() {
        return base;
    }
    let mut bytes = [0; 32];
    store256(&mut bytes, base);
    let places = &mut bytes.as_chunks_mut::<B>().0[count..];
    for (place, word) in places.iter_mut().zip(words) {
        *place = *word;
    }
    load256(&bytes)
}

/// The words in a vector.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn to_bytes(vector: __m256i) -> [u8; 32] {
    let mut bytes = [0; 32];
    store256(&mut bytes, vector);
    bytes
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn splat<const B: usize>(word: u64) -> __m256i {
    match B {
        1 => _mm256_set1_epi8(word as i8),
        2 => _mm256_set1_epi16(word as i16),
        4 => _mm256_set1_epi32(word as i32),
        _ => _mm256_set1_epi64x(word as i64),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn add<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        1 => _mm256_add_epi8(a, b),
        2 => _mm256_add_epi16(a, b),
        4 => _mm256_add_epi32(a, b),
        _ => _mm256_add_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sub<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        1 => _mm256_sub_epi8(a, b),
        2 => _mm256_sub_epi16(a, b),
        4 => _mm256_sub_epi32(a, b),
        _ => _mm256_sub_epi64(a, b),
    }
}

/// All ones in the lanes where the words are equal.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn equal<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        1 => _mm256_cmpeq_epi8(a, b),
        2 => _mm256_cmpeq_epi16(a, b),
        4 => _mm256_cmpeq_epi32(a, b),
        _ => _mm256_cmpeq_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn min<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        1 => _mm256_min_epu8(a, b),
        2 => _mm256_min_epu16(a, b),
        4 => _mm256_min_epu32(a, b),
        _ => {
            let top = _mm256_set1_epi64x(i64::MIN);
            let greater = _mm256_cmpgt_epi64(_mm256_xor_si256(a, top), _mm256_xor_si256(b, top));
            _mm256_blendv_epi8(a, b, greater)
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn max<const B: usize>(a: __m256i, b: __m256i) -> __m256i {
    match B {
        1 => _mm256_max_epu8(a, b),
        2 => _mm256_max_epu16(a, b),
        4 => _mm256_max_epu32(a, b),
        // The one that the minimum is not, bit by bit.
        _ => _mm256_xor_si256(_mm256_xor_si256(a, b), min::<8>(a, b)),
    }
}

/// Shifts right by less than a word's bits, the same for all.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn shifted_right<const B: usize>(vector: __m256i, by: u32) -> __m256i {
    let count = _mm_cvtsi32_si128(by as i32);
    match B {
        1 => _mm256_and_si256(_mm256_srl_epi16(vector, count), _mm256_set1_epi8((0xff >> by) as i8)),
        2 => _mm256_srl_epi16(vector, count),
        4 => _mm256_srl_epi32(vector, count),
        _ => _mm256_srl_epi64(vector, count),
    }
}

/// Shifts left by at most a word's bits, the same for all.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn shifted_left<const B: usize>(vector: __m256i, by: u32) -> __m256i {
    let count = _mm_cvtsi32_si128(by as i32);
    match B {
        1 => _mm256_and_si256(_mm256_sll_epi16(vector, count), _mm256_set1_epi8((0xff << by) as i8)),
        2 => _mm256_sll_epi16(vector, count),
        4 => _mm256_sll_epi32(vector, count),
        _ => _mm256_sll_epi64(vector, count),
    }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn zigzag<const B: usize>(vector: __m256i) -> __m256i {
    let zero = _mm256_setzero_si256();
    let signs = match B {
        1 => _mm256_cmpgt_epi8(zero, vector),
        2 => _mm256_srai_epi16::<15>(vector),
        4 => _mm256_srai_epi32::<31>(vector),
        _ => _mm256_cmpgt_epi64(zero, vector),
    };
    _mm256_xor_si256(add::<B>(vector, vector), signs)
}

/// The number of leading zeros of each word.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn leading_zeros<const B: usize>(vector: __m256i) -> __m256i {
    match B {
        1 => leading_zeros_of_bytes(vector),
        2 => {
            let bytes = leading_zeros_of_bytes(vector);
            let [high, low] = [_mm256_srli_epi16::<8>(bytes), _mm256_and_si256(bytes, splat::<2>(0xff))];
            let whole = _mm256_cmpeq_epi16(high, splat::<2>(8));
            _mm256_add_epi16(high, _mm256_and_si256(low, whole))
        }
        4 => leading_zeros_of_dwords(vector),
        _ => {
            let dwords = leading_zeros_of_dwords(vector);
            let [high, low] = [_mm256_srli_epi64::<32>(dwords), _mm256_and_si256(dwords, splat::<8>(0xff))];
            let whole = _mm256_cmpeq_epi64(high, splat::<8>(32));
            _mm256_add_epi64(high, _mm256_and_si256(low, whole))
        }
    }
}

#[inline]
#[target_feature(enable = "avx2")]
fn leading_zeros_of_bytes(vector: __m256i) -> __m256i {
    // Of the upper half of a byte, 8 if it is zero; of the lower half, thought to lie behind four zeros.
    let upper = _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 3, 2, 2, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0));
    let lower = _mm256_broadcastsi128_si256(_mm_setr_epi8(8, 7, 6, 6, 5, 5, 5, 5, 4, 4, 4, 4, 4, 4, 4, 4));
    let half = _mm256_set1_epi8(15);
    let high = _mm256_shuffle_epi8(upper, _mm256_and_si256(_mm256_srli_epi16::<4>(vector), half));
    _mm256_min_epu8(high, _mm256_shuffle_epi8(lower, _mm256_and_si256(vector, half)))
}

#[inline]
#[target_feature(enable = "avx2")]
fn leading_zeros_of_dwords(vector: __m256i) -> __m256i {
    // The exponent of the float; a negative one has its sign above the exponent, which saturates to no leading zeros. Of what
    // is longer than a byte, the last byte is left out: the rest fits a float, so nothing is rounded, and no exception raised.
    let front = _mm256_andnot_si256(_mm256_set1_epi32(0xff), vector);
    let is_short = _mm256_cmpeq_epi32(front, _mm256_setzero_si256());
    let kept = _mm256_or_si256(front, _mm256_and_si256(vector, is_short));
    let exponents = _mm256_srli_epi32::<23>(_mm256_castps_si256(_mm256_cvtepi32_ps(kept)));
    let zeros = _mm256_subs_epu16(_mm256_set1_epi32(158), exponents);
    _mm256_min_epi16(zeros, _mm256_set1_epi32(32))
}

/// The number of trailing zeros of each word.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn trailing_zeros<const B: usize>(vector: __m256i) -> __m256i {
    let below = _mm256_andnot_si256(vector, sub::<B>(vector, splat::<B>(1)));
    sub::<B>(splat::<B>(8 * B as u64), leading_zeros::<B>(below))
}

/// The sum of all words, which must be small numbers.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn sum<const B: usize>(vector: __m256i) -> u32 {
    let zero = _mm256_setzero_si256();
    let quads = match B {
        1 => _mm256_sad_epu8(vector, zero),
        2 => {
            let dwords = _mm256_madd_epi16(vector, _mm256_set1_epi16(1));
            _mm256_add_epi64(_mm256_srli_epi64::<32>(dwords), _mm256_and_si256(dwords, splat::<8>(0xffff)))
        }
        4 => _mm256_add_epi64(_mm256_srli_epi64::<32>(vector), _mm256_and_si256(vector, splat::<8>(0xffff))),
        _ => vector,
    };
    to_bytes(quads).as_chunks::<8>().0.iter().map(|&quad| u64::from_le_bytes(quad)).sum::<u64>() as u32
}

/// The words of all lanes, for the few reductions of a chunk.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn to_words<const B: usize>(vector: __m256i) -> impl Iterator<Item = u64> {
    let bytes = to_bytes(vector);
    (0..lanes::<B>()).map(move |lane| {
        let mut wide = [0; 8];
        wide[..B].copy_from_slice(&bytes[lane * B..][..B]);
        u64::from_le_bytes(wide)
    })
}

/// All words or-ed.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn or_of<const B: usize>(vector: __m256i) -> u64 {
    let halves = _mm_or_si128(_mm256_castsi256_si128(vector), _mm256_extracti128_si256::<1>(vector));
    let quad = (_mm_cvtsi128_si64(halves) | _mm_extract_epi64::<1>(halves)) as u64;
    let mut any = quad;
    let mut width = 32;
    while width >= 8 * B {
        any |= any >> width;
        width /= 2;
    }
    truncated::<B>(any)
}

/// The low byte of each of the 32 words in the first `B` vectors, which may have no higher bits.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn bytes_packed<const B: usize>(block: &[__m256i; 8]) -> __m256i {
    let [a, b, c, d, e, f, g, h] = *block;
    match B {
        1 => a,
        // Packing goes by halves, so that quarters come to lie 0 2 1 3.
        2 => _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_packus_epi16(a, b)),
        4 => eighths_packed(a, b, c, d),
        _ => eighths_packed(joined(a, b), joined(c, d), joined(e, f), joined(g, h)),
    }
}

/// A bit for each of the 32 words in the first `B` vectors, which are all ones or all zeros.
#[inline]
#[target_feature(enable = "avx2")]
pub(super) fn mask_bits<const B: usize>(masks: &[__m256i; 8]) -> u32 {
    let mut small = *masks;
    for mask in &mut small[..B] {
        *mask = _mm256_and_si256(*mask, splat::<B>(0x80));
    }
    _mm256_movemask_epi8(bytes_packed::<B>(&small)) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn eighths_packed(a: __m256i, b: __m256i, c: __m256i, d: __m256i) -> __m256i {
    let bytes = _mm256_packus_epi16(_mm256_packus_epi32(a, b), _mm256_packus_epi32(c, d));
    _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7))
}

/// The low 32 bits of each of eight words of 64.
#[inline]
#[target_feature(enable = "avx2")]
fn joined(front: __m256i, back: __m256i) -> __m256i {
    let low = _mm256_shuffle_ps::<0x88>(_mm256_castsi256_ps(front), _mm256_castsi256_ps(back));
    _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_castps_si256(low))
}

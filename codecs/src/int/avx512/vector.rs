//! Vectors of words of `B` bytes: the operations that differ by width.

// Loads and stores take pointers; here each one gets its bounds from a slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::super::word;
use crate::cpu::{array_mut, load512, store512};

/// Words of `B` bytes in a vector.
pub(super) const fn lanes<const B: usize>() -> usize {
    64 / B
}

/// Words, and what is thought to lie before them.
#[derive(Clone, Copy)]
pub(super) struct Words<'a, const B: usize> {
    words: &'a [[u8; B]],
    base: __m512i,
}

impl<'a, const B: usize> Words<'a, B> {
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) fn new(words: &'a [[u8; B]], base: u64) -> Self {
        Self { words, base: splat::<B>(base) }
    }

    pub(super) const fn len(&self) -> usize {
        self.words.len()
    }

    pub(super) const fn words(&self) -> &'a [[u8; B]] {
        self.words
    }

    pub(super) const fn base(&self) -> __m512i {
        self.base
    }

    /// The words from `index` on.
    ///
    /// # Safety
    /// A vector of words must lie there.
    #[inline]
    #[target_feature(enable = "avx512bw")]
    pub(super) unsafe fn at(&self, index: usize) -> __m512i {
        debug_assert!(index + lanes::<B>() <= self.words.len());
        // SAFETY: the caller says that these 64 bytes belong to the slice.
        unsafe { _mm512_loadu_si512(self.words.as_ptr().add(index).cast()) }
    }

    /// The words `lag` before those from `index` on.
    ///
    /// # Safety
    /// A vector of words must lie at `index`.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    pub(super) unsafe fn before(&self, index: usize, lag: usize) -> __m512i {
        let missing = lag.saturating_sub(index);
        if missing >= lanes::<B>() {
            return self.base;
        }
        // SAFETY: these words end where those from `index` on do, or earlier.
        let words = unsafe { self.at(index + missing - lag) };
        if missing == 0 { words } else { permuted2::<B>(self.base, shift_index::<B>(missing), words) }
    }
}

impl<const B: usize> Words<'_, B> {
    /// The words from `index` on less what these lags predict.
    ///
    /// # Safety
    /// A vector of words must lie at `index`.
    #[inline]
    #[target_feature(enable = "avx512vbmi")]
    pub(super) unsafe fn difference(&self, index: usize, lags: [usize; 2]) -> __m512i {
        // SAFETY: the caller's word.
        unsafe {
            let words = self.at(index);
            match lags {
                [0, 0] => sub::<B>(words, self.base),
                [lag, 0] | [0, lag] => sub::<B>(words, self.before(index, lag)),
                [a, b] => {
                    let once = sub::<B>(words, self.before(index, a));
                    add::<B>(sub::<B>(once, self.before(index, b)), self.before(index, a + b))
                }
            }
        }
    }
}

/// The number of each lane.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn lane_numbers<const B: usize>() -> __m512i {
    load512(const { &lane_bytes::<B>() })
}

const fn lane_bytes<const B: usize>() -> [u8; 64] {
    let mut bytes = [0; 64];
    let mut lane = 0;
    while lane < lanes::<B>() {
        bytes[lane * B] = lane as u8;
        lane += 1;
    }
    bytes
}

/// Where in two neighbouring vectors the words lie that come `lag` before those of the second.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn shift_index<const B: usize>(lag: usize) -> __m512i {
    add::<B>(lane_numbers::<B>(), splat::<B>((lanes::<B>() - lag) as u64))
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn splat<const B: usize>(word: u64) -> __m512i {
    match B {
        1 => _mm512_set1_epi8(word as i8),
        2 => _mm512_set1_epi16(word as i16),
        4 => _mm512_set1_epi32(word as i32),
        _ => _mm512_set1_epi64(word as i64),
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn add<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        1 => _mm512_add_epi8(a, b),
        2 => _mm512_add_epi16(a, b),
        4 => _mm512_add_epi32(a, b),
        _ => _mm512_add_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn sub<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        1 => _mm512_sub_epi8(a, b),
        2 => _mm512_sub_epi16(a, b),
        4 => _mm512_sub_epi32(a, b),
        _ => _mm512_sub_epi64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn min<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        1 => _mm512_min_epu8(a, b),
        2 => _mm512_min_epu16(a, b),
        4 => _mm512_min_epu32(a, b),
        _ => _mm512_min_epu64(a, b),
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn max<const B: usize>(a: __m512i, b: __m512i) -> __m512i {
    match B {
        1 => _mm512_max_epu8(a, b),
        2 => _mm512_max_epu16(a, b),
        4 => _mm512_max_epu32(a, b),
        _ => _mm512_max_epu64(a, b),
    }
}

/// The words of all lanes, for the few reductions of a chunk.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn to_words<const B: usize>(vector: __m512i) -> impl Iterator<Item = u64> {
    let mut bytes = [0; 64];
    crate::cpu::store512(&mut bytes, vector);
    (0..lanes::<B>()).map(move |lane| {
        let mut wide = [0; 8];
        wide[..B].copy_from_slice(&bytes[lane * B..][..B]);
        u64::from_le_bytes(wide)
    })
}

/// Each lane's word from lane `index` of `from`, and zero in lanes that `mask` leaves out.
#[inline]
#[target_feature(enable = "avx512vbmi")]
pub(super) fn permuted<const B: usize>(mask: u64, index: __m512i, from: __m512i) -> __m512i {
    match B {
        1 => _mm512_maskz_permutexvar_epi8(mask, index, from),
        2 => _mm512_maskz_permutexvar_epi16(mask as u32, index, from),
        4 => _mm512_maskz_permutexvar_epi32(mask as u16, index, from),
        _ => _mm512_maskz_permutexvar_epi64(mask as u8, index, from),
    }
}

/// Each lane's word from the two vectors one after the other.
#[inline]
#[target_feature(enable = "avx512vbmi")]
pub(super) fn permuted2<const B: usize>(low: __m512i, index: __m512i, high: __m512i) -> __m512i {
    match B {
        1 => _mm512_permutex2var_epi8(low, index, high),
        2 => _mm512_permutex2var_epi16(low, index, high),
        4 => _mm512_permutex2var_epi32(low, index, high),
        _ => _mm512_permutex2var_epi64(low, index, high),
    }
}

/// The lanes that are greater than `than`, unsigned.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn greater<const B: usize>(vector: __m512i, than: __m512i) -> u64 {
    match B {
        1 => _mm512_cmpgt_epu8_mask(vector, than),
        2 => u64::from(_mm512_cmpgt_epu16_mask(vector, than)),
        4 => u64::from(_mm512_cmpgt_epu32_mask(vector, than)),
        _ => u64::from(_mm512_cmpgt_epu64_mask(vector, than)),
    }
}

/// Shifts right by less than a word's bits, the same for all.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn shifted_right<const B: usize>(vector: __m512i, by: u32) -> __m512i {
    let count = _mm_cvtsi32_si128(by as i32);
    match B {
        1 => _mm512_and_si512(_mm512_srl_epi16(vector, count), _mm512_set1_epi8((0xff >> by) as i8)),
        2 => _mm512_srl_epi16(vector, count),
        4 => _mm512_srl_epi32(vector, count),
        _ => _mm512_srl_epi64(vector, count),
    }
}

/// Shifts left by less than a word's bits, the same for all.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn shifted_left<const B: usize>(vector: __m512i, by: u32) -> __m512i {
    let count = _mm_cvtsi32_si128(by as i32);
    match B {
        1 => _mm512_and_si512(_mm512_sll_epi16(vector, count), _mm512_set1_epi8((0xff << by) as i8)),
        2 => _mm512_sll_epi16(vector, count),
        4 => _mm512_sll_epi32(vector, count),
        _ => _mm512_sll_epi64(vector, count),
    }
}

/// The bits that turn lane mask to a mask of bytes: every byte of the lanes in `mask`.
#[inline]
#[target_feature(enable = "avx512bw,avx512dq")]
pub(super) fn byte_mask<const B: usize>(mask: u64) -> u64 {
    match B {
        1 => mask,
        2 => _mm512_movepi8_mask(_mm512_movm_epi16(mask as u32)),
        4 => _mm512_movepi8_mask(_mm512_movm_epi32(mask as u16)),
        _ => _mm512_movepi8_mask(_mm512_movm_epi64(mask as u8)),
    }
}

/// The low `count` bytes of every lane.
pub(super) const fn low_bytes<const B: usize>(count: u32) -> u64 {
    let lane = u64::MAX >> (64 - B);
    u64::MAX / lane * (lane & ((1 << count) - 1))
}

#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn zigzag<const B: usize>(vector: __m512i) -> __m512i {
    let doubled = add::<B>(vector, vector);
    let signs = match B {
        1 => _mm512_movm_epi8(_mm512_movepi8_mask(vector)),
        2 => _mm512_srai_epi16::<15>(vector),
        4 => _mm512_srai_epi32::<31>(vector),
        _ => _mm512_srai_epi64::<63>(vector),
    };
    _mm512_xor_si512(doubled, signs)
}

/// The number of leading zeros of each word.
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,gfni")]
pub(super) fn leading_zeros<const B: usize>(vector: __m512i) -> __m512i {
    match B {
        4 => _mm512_lzcnt_epi32(vector),
        8 => _mm512_lzcnt_epi64(vector),
        _ => trailing_zeros::<B>(reversed::<B>(vector)),
    }
}

/// [`leading_zeros`] of [`zigzag`].
#[inline]
#[target_feature(enable = "avx512vbmi,avx512bitalg,avx512vpopcntdq,avx512cd,gfni")]
pub(super) fn zigzag_leading_zeros<const B: usize>(vector: __m512i) -> __m512i {
    if B == 1 {
        let reversed = _mm512_gf2p8affine_epi64_epi8::<0>(vector, _mm512_set1_epi64(ZIGZAG_REVERSED));
        return trailing_zeros::<1>(reversed);
    }
    leading_zeros::<B>(zigzag::<B>(vector))
}

/// The matrix of zigzag, whose results have their bits in reverse order.
const ZIGZAG_REVERSED: i64 = {
    let mut rows = [0; 8];
    let mut bit = 0;
    while bit < 8 {
        let image = word::reversed::<1>(word::zigzag::<1>(1 << bit));
        let mut i = 0;
        while i < 8 {
            rows[7 - i] |= ((image >> i & 1) << bit) as u8;
            i += 1;
        }
        bit += 1;
    }
    i64::from_le_bytes(rows)
};

/// The number of trailing zeros of each word.
#[inline]
#[target_feature(enable = "avx512bitalg,avx512vpopcntdq")]
pub(super) fn trailing_zeros<const B: usize>(vector: __m512i) -> __m512i {
    let below = _mm512_andnot_si512(vector, sub::<B>(vector, splat::<B>(1)));
    match B {
        1 => _mm512_popcnt_epi8(below),
        2 => _mm512_popcnt_epi16(below),
        4 => _mm512_popcnt_epi32(below),
        _ => _mm512_popcnt_epi64(below),
    }
}

/// The sum of all words, which must be small numbers.
#[inline]
#[target_feature(enable = "avx512bw")]
pub(super) fn sum<const B: usize>(vector: __m512i) -> u32 {
    match B {
        1 => _mm512_reduce_add_epi64(_mm512_sad_epu8(vector, _mm512_setzero_si512())) as u32,
        2 => _mm512_reduce_add_epi32(_mm512_madd_epi16(vector, _mm512_set1_epi16(1))) as u32,
        4 => _mm512_reduce_add_epi32(vector) as u32,
        _ => _mm512_reduce_add_epi64(vector) as u32,
    }
}

/// The bits of each word in reverse order.
#[inline]
#[target_feature(enable = "avx512vbmi,gfni")]
pub(super) fn reversed<const B: usize>(vector: __m512i) -> __m512i {
    const REVERSE: i64 = 0x8040_2010_0804_0201_u64 as i64;
    let bytes = _mm512_gf2p8affine_epi64_epi8::<0>(vector, _mm512_set1_epi64(REVERSE));
    if B == 1 { bytes } else { _mm512_shuffle_epi8(bytes, load512(const { &bytes_reversed::<B>() })) }
}

/// The bytes of each word in reverse order, as shuffle control.
const fn bytes_reversed<const B: usize>() -> [u8; 64] {
    let mut order = [0; 64];
    let mut i = 0;
    while i < 64 {
        order[i] = (i / B * B + B - 1 - i % B) as u8;
        i += 1;
    }
    order
}

/// Writes the low byte of each word.
#[inline]
#[target_feature(enable = "avx512bw,avx512vl")]
pub(super) fn store_low_bytes<const B: usize>(vector: __m512i, to: &mut [u8]) {
    match B {
        1 => store512(array_mut(to), vector),
        2 => crate::cpu::store256(array_mut(to), _mm512_cvtepi16_epi8(vector)),
        4 => {
            let bytes = _mm512_cvtepi32_epi8(vector);
            let halves = [_mm_cvtsi128_si64(bytes), _mm_extract_epi64::<1>(bytes)];
            to[..8].copy_from_slice(&halves[0].to_le_bytes());
            to[8..16].copy_from_slice(&halves[1].to_le_bytes());
        }
        _ => to[..8].copy_from_slice(&_mm_cvtsi128_si64(_mm512_cvtepi64_epi8(vector)).to_le_bytes()),
    }
}

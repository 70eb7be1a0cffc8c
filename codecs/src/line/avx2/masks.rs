//! Masks of words as bits, as lanes and as counts.

// Masks are loaded and stored through pointers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::load64;
use crate::cpu::lanes::EXPAND;
use crate::line::Taken;
use crate::line::blocks::{BlockKinds, Masks};

/// The bits of `bits` at the set bits of `mask`, moved together.
pub(crate) fn keep_bits(bits: u32, mask: u32) -> u32 {
    let (mut left, mut kept) = (bits & mask, 0);
    if mask == u32::MAX {
        return bits;
    }
    while left != 0 {
        let below = (left & left.wrapping_neg()) - 1;
        kept |= 1 << (mask & below).count_ones();
        left &= left - 1;
    }
    kept
}

/// The low bits of `bits`, moved to the set bits of `mask`.
pub(crate) fn spread_bits(mut bits: u32, mut mask: u32) -> u32 {
    if mask == u32::MAX {
        return bits;
    }
    let mut spread = 0;
    while bits != 0 && mask != 0 {
        spread |= (mask & mask.wrapping_neg()) * (bits & 1);
        mask &= mask - 1;
        bits >>= 1;
    }
    spread
}

/// Half of the masks of a block, those of lines 0 to 15 or 16 to 31.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_masks(masks: &Masks, half: usize) -> __m256i {
    // SAFETY: 16 masks are 32 bytes.
    unsafe { _mm256_loadu_si256(masks.0.as_chunks::<16>().0[half].as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn store_masks(masks: &mut Masks, half: usize, vector: __m256i) {
    // SAFETY: as above.
    unsafe { _mm256_storeu_si256(masks.0.as_chunks_mut::<16>().0[half].as_mut_ptr().cast(), vector) };
}

/// The low and the high eight bits.
#[inline(always)]
pub(crate) const fn halves_of(mask: u16) -> [u8; 2] {
    mask.to_le_bytes()
}

/// All bits of the 32-bit lanes whose bit is set.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn lanes_of(mask: u8) -> __m256i {
    // The table has negative bytes for clear bits.
    let ranks = _mm256_cvtepi8_epi32(load64(&EXPAND[usize::from(mask)]));
    _mm256_cmpgt_epi32(ranks, _mm256_set1_epi32(-1))
}

/// All bits of the bytes whose bit is set.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn bytes_of(mask: u16) -> __m128i {
    let bits = _mm_set1_epi64x(0x8040_2010_0804_0201_u64 as i64);
    let repeat = _mm_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1);
    let bytes = _mm_shuffle_epi8(_mm_cvtsi32_si128(i32::from(mask)), repeat);
    _mm_cmpeq_epi8(_mm_and_si128(bytes, bits), bits)
}

/// How many bits are set in each 16-bit lane.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn count_bits(masks: __m256i) -> __m256i {
    _mm256_maddubs_epi16(count_bits_of_bytes(masks), _mm256_set1_epi8(1))
}

#[inline]
#[target_feature(enable = "avx2")]
fn count_bits_of_bytes(bytes: __m256i) -> __m256i {
    let counts = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4));
    let low = _mm256_set1_epi8(0xf);
    let high = _mm256_and_si256(_mm256_srli_epi16::<4>(bytes), low);
    let low = _mm256_and_si256(bytes, low);
    _mm256_add_epi8(_mm256_shuffle_epi8(counts, low), _mm256_shuffle_epi8(counts, high))
}

/// How many bits are set in all of `masks`.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn sum_bits(masks: __m256i) -> usize {
    let sums = _mm256_sad_epu8(count_bits_of_bytes(masks), _mm256_setzero_si256());
    let pairs = _mm_add_epi64(_mm256_castsi256_si128(sums), _mm256_extracti128_si256::<1>(sums));
    (_mm_cvtsi128_si64(pairs) + _mm_extract_epi64::<1>(pairs)) as usize
}

/// Adds how many bits are set in half the masks of a block: words, halfwords, bytes, 4-bit fields.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn count_fields([words, halves, bytes, nibbles]: [__m256i; 4]) -> Taken {
    Taken {
        words: sum_bits(words),
        halves: sum_bits(halves),
        bytes: sum_bits(bytes),
        nibbles: sum_bits(nibbles),
    }
}

/// The 16-bit lanes of half a block's lines that are coded, and those that are raw.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn lanes_of_kinds(kinds: BlockKinds, half: usize) -> [__m256i; 2] {
    let bits = lane_bits();
    [kinds.coded, kinds.raw].map(|kind| {
        let lanes = _mm256_set1_epi16((kind >> (16 * half)) as i16);
        _mm256_cmpeq_epi16(_mm256_and_si256(lanes, bits), bits)
    })
}

/// Bit i in lane i of 16.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn lane_bits() -> __m256i {
    _mm256_setr_epi16(1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, i16::MIN)
}

/// One bit for each of 16 lanes, each of which is all ones or all zeros.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn bits_of_lanes(lanes: __m256i) -> u16 {
    let bytes = _mm_packs_epi16(_mm256_castsi256_si128(lanes), _mm256_extracti128_si256::<1>(lanes));
    _mm_movemask_epi8(bytes) as u16
}

//! What FPC and C-Pack+Z share with AVX2: moving the fields of eight words to and from the data sections by
//! shuffles from a table of 256 masks.

// Loads and stores take pointers; each one gets its bounds from an array.
#![allow(unsafe_code)]

mod masks;
mod packed;
mod take;

use std::arch::x86_64::*;

pub(crate) use self::masks::{
    bits_of_lanes, bytes_of, count_bits, count_fields, halves_of, keep_bits, lane_bits, lanes_of,
    lanes_of_kinds, load_masks, spread_bits, store_masks, sum_bits,
};
pub(crate) use self::packed::{Packer, Unpacked, Unpacker};
pub(crate) use self::take::{Fields, Section};
use super::Line;
use super::blocks::{BLOCK_WORDS, Block, Masks, room_at};
use crate::cpu::groups::byte_pairs;
use crate::cpu::lanes::COMPRESS;
use crate::cpu::{load256, store256};

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn load128(from: &[u8; 16]) -> __m128i {
    // SAFETY: the array has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn load64(from: &[u8; 8]) -> __m128i {
    // SAFETY: the array has the 8 bytes that are read.
    unsafe { _mm_loadl_epi64(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "sse2")]
pub(crate) fn store128(to: &mut [u8], at: usize, value: __m128i) {
    let to: &mut [u8; 16] = room_at(to, at);
    // SAFETY: the array has the 16 bytes that are written.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "sse2")]
fn store64(to: &mut [u8], at: usize, value: __m128i) {
    let to: &mut [u8; 8] = room_at(to, at);
    // SAFETY: the array has the 8 bytes that are written.
    unsafe { _mm_storel_epi64(to.as_mut_ptr().cast(), value) }
}

/// The words of half a line.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load_words(line: &Line, half: usize) -> __m256i {
    load256(&line.as_chunks().0[half])
}

/// Writes the fields of the words section; returns where they end. `count` is how many there are.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn put_words(block: &Block, masks: &Masks, count: usize, out: &mut [u8], mut at: usize) -> usize {
    if count == BLOCK_WORDS {
        let bytes = block.as_flattened();
        out[at..at + bytes.len()].copy_from_slice(bytes);
        return at + bytes.len();
    }
    for (line, &mask) in block.iter().zip(&masks.0) {
        for (half, mask) in halves_of(mask).into_iter().enumerate() {
            let from = _mm256_cvtepu8_epi32(load64(&COMPRESS[usize::from(mask)]));
            store256(room_at(out, at), _mm256_permutevar8x32_epi32(load_words(line, half), from));
            at += 4 * mask.count_ones() as usize;
        }
    }
    at
}

/// Writes the low halfwords of the words of `mask`, of which `lanes` are the first and the last eight; returns
/// where they end.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn put_halves(lanes: [__m256i; 2], mask: u16, out: &mut [u8], mut at: usize) -> usize {
    let low_halves =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 8, 9, 12, 13, -1, -1, -1, -1, -1, -1, -1, -1));
    for (lanes, mask) in lanes.into_iter().zip(halves_of(mask)) {
        let halves = _mm256_shuffle_epi8(lanes, low_halves);
        let halves = _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(halves));
        let from = byte_pairs(load64(&COMPRESS[usize::from(mask)]));
        store128(out, at, _mm_shuffle_epi8(halves, from));
        at += 2 * mask.count_ones() as usize;
    }
    at
}

/// The low bytes of a line's words.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn low_bytes(line: &Line) -> __m128i {
    let first = _mm256_setr_epi8(
        0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, //
        -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1,
    );
    let last = _mm256_setr_epi8(
        -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1, -1, -1, -1, //
        -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12,
    );
    let first = _mm256_shuffle_epi8(load_words(line, 0), first);
    let last = _mm256_shuffle_epi8(load_words(line, 1), last);
    let bytes = _mm256_or_si256(first, last);
    _mm_or_si128(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256::<1>(bytes))
}

/// Writes the bytes of `mask`; returns where they end.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn put_bytes(bytes: __m128i, mask: u16, out: &mut [u8], at: usize) -> usize {
    let [low, high] = halves_of(mask);
    store64(out, at, _mm_shuffle_epi8(bytes, load64(&COMPRESS[usize::from(low)])));
    let middle = at + low.count_ones() as usize;
    let bytes = _mm_srli_si128::<8>(bytes);
    store64(out, middle, _mm_shuffle_epi8(bytes, load64(&COMPRESS[usize::from(high)])));
    middle + high.count_ones() as usize
}

//! Eight elements at a time with AVX2: a mask byte, and shuffles from a table of 256 masks.

// Loads and stores take pointers; each gets its bounds from a slice.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::lanes::{COMPRESS, EXPAND};
use super::{array, array_mut, load256, store256};

/// Elements that share a mask byte.
pub(crate) const GROUP: usize = 8;
/// Room for eight of the widest elements.
pub(crate) const GROUP_LEN: usize = 64;

/// Moves the elements of `group` whose bit is set to the front of `out`, and anything behind them.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn compress<const W: usize>(mask: u8, group: &[u8], out: &mut [u8]) {
    let control = &COMPRESS[usize::from(mask)];
    match W {
        1 => store128(out, _mm_shuffle_epi8(load64(group), load64(control))),
        2 => store128(out, _mm_shuffle_epi8(load128(group), byte_pairs(load64(control)))),
        4 => {
            let lanes = _mm256_cvtepu8_epi32(load64(control));
            store_at(out, 0, _mm256_permutevar8x32_epi32(vector(group, 0), lanes));
        }
        _ => {
            let mut at = 0;
            for half in 0..2 {
                let mask = doubled(mask >> (4 * half));
                let lanes = _mm256_cvtepu8_epi32(load64(&COMPRESS[usize::from(mask)]));
                store_at(out, at, _mm256_permutevar8x32_epi32(vector(group, 32 * half), lanes));
                at += 4 * mask.count_ones() as usize;
            }
        }
    }
}

/// The inverse of [`compress`]: zero where the bit is clear.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
pub(crate) fn expand<const W: usize>(mask: u8, stored: &[u8], out: &mut [u8]) {
    let control = &EXPAND[usize::from(mask)];
    match W {
        1 => {
            let bytes = _mm_cvtsi128_si64(_mm_shuffle_epi8(load64(stored), load64(control)));
            out[..8].copy_from_slice(&bytes.to_le_bytes());
        }
        2 => store128(out, _mm_shuffle_epi8(load128(stored), byte_pairs(load64(control)))),
        4 => store_at(out, 0, expanded_words(load64(control), vector(stored, 0))),
        _ => {
            let mut at = 0;
            for half in 0..2 {
                let mask = doubled(mask >> (4 * half));
                store_at(
                    out,
                    32 * half,
                    expanded_words(load64(&EXPAND[usize::from(mask)]), vector(stored, at)),
                );
                at += 4 * mask.count_ones() as usize;
            }
        }
    }
}

/// Eight words of 32 bits after an expand control, which is eight bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn expanded_words(control: __m128i, stored: __m256i) -> __m256i {
    let lanes = _mm256_cvtepu8_epi32(control);
    let none = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(7));
    _mm256_andnot_si256(none, _mm256_permutevar8x32_epi32(stored, lanes))
}

/// Each of the low four bits twice: a mask of 64-bit lanes as one of 32-bit lanes.
pub(crate) const fn doubled(mask: u8) -> u8 {
    let spread = mask & 1 | (mask & 2) << 1 | (mask & 4) << 2 | (mask & 8) << 3;
    spread | spread << 1
}

/// A control for eight bytes as one for eight halfwords. Saturation keeps the "no lane" bytes.
#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn byte_pairs(control: __m128i) -> __m128i {
    let twice = _mm_adds_epu8(control, control);
    let upper = _mm_adds_epu8(twice, _mm_set1_epi8(1));
    _mm_unpacklo_epi8(twice, upper)
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load64(from: &[u8]) -> __m128i {
    let mut word = [0; 8];
    word.copy_from_slice(&from[..8]);
    _mm_cvtsi64_si128(i64::from_le_bytes(word))
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn load128(from: &[u8]) -> __m128i {
    let from = &from[..16];
    // SAFETY: the slice has the 16 bytes that are read.
    unsafe { _mm_loadu_si128(from.as_ptr().cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn store128(to: &mut [u8], value: __m128i) {
    let to = &mut to[..16];
    // SAFETY: the slice has the 16 bytes that are written.
    unsafe { _mm_storeu_si128(to.as_mut_ptr().cast(), value) }
}

#[inline]
#[target_feature(enable = "avx2")]
pub(crate) fn vector(from: &[u8], at: usize) -> __m256i {
    load256(array(&from[at..]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_at(to: &mut [u8], at: usize, value: __m256i) {
    store256(array_mut(&mut to[at..]), value);
}

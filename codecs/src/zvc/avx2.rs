//! ZVC with AVX2: eight elements at a time, one mask byte, moved by shuffles from a table of 256 masks.

// The entry points promise the instructions that their token stands for; loads and stores take pointers.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::masks_len;
use super::portable::Sections;
use crate::Avx2;
use crate::cpu::lanes::{COMPRESS, EXPAND};
use crate::cpu::{array, array_mut, load256, store256};

/// Elements that share a mask byte.
const GROUP: usize = 8;
/// Room for eight of the widest elements.
const GROUP_LEN: usize = 64;

pub(super) fn encode<const W: usize>(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_groups::<W>(raw, coded) }
}

pub(super) fn non_zeros<const W: usize>(_: Avx2, raw: &[u8]) -> usize {
    // SAFETY: as above.
    unsafe { count_groups::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx2, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_groups::<W>(sections, raw) }
}

#[target_feature(enable = "avx2,popcnt")]
fn encode_groups<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.split_at(raw.len() - raw.len() % W);
    let masks_end = masks_len::<W>(raw.len()).next_multiple_of(8);
    let (masks, kept) = coded.split_at_mut(masks_end);
    if let Some(last) = masks.last_chunk_mut::<8>() {
        *last = [0; 8]; // padding, and the bits behind the last element
    }
    let groups = elements.chunks_exact(GROUP * W);
    let rest = groups.remainder();
    let mut at = 0;
    let mut mask_bytes = masks.iter_mut();
    for (group, mask_byte) in groups.zip(&mut mask_bytes) {
        let mask = group_mask::<W>(group);
        *mask_byte = mask;
        compress::<W>(mask, group, &mut kept[at..at + GROUP_LEN]);
        at += W * mask.count_ones() as usize;
    }
    if let (Some(mask_byte), false) = (mask_bytes.next(), rest.is_empty()) {
        let mut group = [0; GROUP_LEN];
        group[..rest.len()].copy_from_slice(rest);
        let mask = group_mask::<W>(&group);
        *mask_byte = mask;
        compress::<W>(mask, &group, &mut kept[at..at + GROUP_LEN]);
        at += W * mask.count_ones() as usize;
    }
    kept[at..at + tail.len()].copy_from_slice(tail);
    masks_end + at + tail.len()
}

#[target_feature(enable = "avx2,popcnt")]
fn count_groups<const W: usize>(raw: &[u8]) -> usize {
    let groups = raw[..raw.len() - raw.len() % W].chunks_exact(GROUP * W);
    let rest = groups.remainder().chunks_exact(W).filter(|element| element.iter().any(|&b| b != 0)).count();
    groups.map(|group| group_mask::<W>(group).count_ones() as usize).sum::<usize>() + rest
}

#[target_feature(enable = "avx2,popcnt")]
fn decode_groups<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let Sections { masks, kept, tail } = sections;
    let (elements, raw_tail) = raw.split_at_mut(raw.len() - raw.len() % W);
    raw_tail.copy_from_slice(tail);
    let mut at = 0;
    for (group, &mask) in elements.chunks_mut(GROUP * W).zip(masks) {
        let next = at + W * mask.count_ones() as usize;
        let mut padded = [0; GROUP_LEN];
        let stored = match kept.get(at..at + GROUP_LEN) {
            Some(stored) => stored,
            None => {
                padded[..next - at].copy_from_slice(&kept[at..next]);
                &padded
            }
        };
        if group.len() == GROUP * W {
            expand::<W>(mask, stored, group);
        } else {
            let mut out = [0; GROUP_LEN];
            expand::<W>(mask, stored, &mut out);
            group.copy_from_slice(&out[..group.len()]);
        }
        at = next;
    }
}

/// Bit i = element i of the group is not zero.
#[inline]
#[target_feature(enable = "avx2")]
fn group_mask<const W: usize>(group: &[u8]) -> u8 {
    let zero = _mm256_setzero_si256();
    let zeros = match W {
        1 => {
            let bytes = load64(group);
            _mm_movemask_epi8(_mm_cmpeq_epi8(bytes, _mm_setzero_si128()))
        }
        2 => {
            let equal = _mm_cmpeq_epi16(load128(group), _mm_setzero_si128());
            _mm_movemask_epi8(_mm_packs_epi16(equal, equal))
        }
        4 => _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(vector(group, 0), zero))),
        _ => {
            let [low, high] = [0, 32].map(|at| {
                let equal = _mm256_cmpeq_epi64(vector(group, at), zero);
                _mm256_movemask_pd(_mm256_castsi256_pd(equal))
            });
            low | high << 4
        }
    };
    !zeros as u8
}

/// Moves the elements of `group` whose bit is set to the front of `out`, and anything behind them.
#[inline]
#[target_feature(enable = "avx2,popcnt")]
fn compress<const W: usize>(mask: u8, group: &[u8], out: &mut [u8]) {
    let control = &COMPRESS[usize::from(mask)];
    match W {
        1 => store128(out, _mm_shuffle_epi8(load64(group), load64(control))),
        2 => store128(out, _mm_shuffle_epi8(load128(group), byte_pairs(control))),
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
fn expand<const W: usize>(mask: u8, stored: &[u8], out: &mut [u8]) {
    let control = &EXPAND[usize::from(mask)];
    match W {
        1 => {
            let bytes = _mm_cvtsi128_si64(_mm_shuffle_epi8(load64(stored), load64(control)));
            out[..8].copy_from_slice(&bytes.to_le_bytes());
        }
        2 => store128(out, _mm_shuffle_epi8(load128(stored), byte_pairs(control))),
        4 => store_at(out, 0, expanded(control, vector(stored, 0))),
        _ => {
            let mut at = 0;
            for half in 0..2 {
                let mask = doubled(mask >> (4 * half));
                store_at(out, 32 * half, expanded(&EXPAND[usize::from(mask)], vector(stored, at)));
                at += 4 * mask.count_ones() as usize;
            }
        }
    }
}

/// Eight 32-bit lanes after an expand control.
#[inline]
#[target_feature(enable = "avx2")]
fn expanded(control: &[u8; 8], stored: __m256i) -> __m256i {
    let lanes = _mm256_cvtepu8_epi32(load64(control));
    let none = _mm256_cmpgt_epi32(lanes, _mm256_set1_epi32(7));
    _mm256_andnot_si256(none, _mm256_permutevar8x32_epi32(stored, lanes))
}

/// Each of the low four bits twice: a mask of 64-bit lanes as one of 32-bit lanes.
const fn doubled(mask: u8) -> u8 {
    let spread = mask & 1 | (mask & 2) << 1 | (mask & 4) << 2 | (mask & 8) << 3;
    spread | spread << 1
}

/// A control for eight bytes as one for eight halfwords. Saturation keeps the "no lane" bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn byte_pairs(control: &[u8; 8]) -> __m128i {
    let control = load64(control);
    let twice = _mm_adds_epu8(control, control);
    let upper = _mm_adds_epu8(twice, _mm_set1_epi8(1));
    _mm_unpacklo_epi8(twice, upper)
}

#[inline]
#[target_feature(enable = "avx2")]
fn load64(from: &[u8]) -> __m128i {
    let mut word = [0; 8];
    word.copy_from_slice(&from[..8]);
    _mm_cvtsi64_si128(i64::from_le_bytes(word))
}

#[inline]
#[target_feature(enable = "avx2")]
fn load128(from: &[u8]) -> __m128i {
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
fn vector(from: &[u8], at: usize) -> __m256i {
    load256(array(&from[at..]))
}

#[inline]
#[target_feature(enable = "avx2")]
fn store_at(to: &mut [u8], at: usize, value: __m256i) {
    store256(array_mut(&mut to[at..]), value);
}

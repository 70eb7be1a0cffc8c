//! The planes of 32 lines, stored line by line: three vectors of 16-bit lanes to interleave and take apart.

use std::arch::x86_64::*;

use super::PLANES_LEN;
use crate::line::avx512::{load_at, load_masks, store_at};
use crate::line::blocks::Masks;

/// For each of the three vectors in which the planes of 32 lines are stored: which 16-bit lane of planes 0
/// and 1 (from 32 on) goes where, and which lane of plane 2.
static INTERLEAVE: [[Masks; 2]; 3] = interleave();

const fn interleave() -> [[Masks; 2]; 3] {
    let mut lanes = [[Masks::NONE; 2]; 3];
    let mut at = 0;
    while at < 96 {
        let (line, plane) = (at as u16 / 3, at as u16 % 3);
        lanes[at / 32][0].0[at % 32] = line + 32 * (plane & 1);
        lanes[at / 32][1].0[at % 32] = line;
        at += 1;
    }
    lanes
}

/// The lanes of each of those vectors that belong to plane 2.
const LANES_OF_HIGH_PLANE: [u32; 3] = [0x2492_4924, 0x4924_9249, 0x9249_2492];

/// Writes the planes of the coded lines; returns where they end.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
pub(super) fn put_planes(coded: u32, planes: &[Masks; 3], out: &mut [u8], at: usize) -> usize {
    if coded == 0 {
        return at;
    }
    let low = _mm512_maskz_compress_epi16(coded, load_masks(&planes[0]));
    let middle = _mm512_maskz_compress_epi16(coded, load_masks(&planes[1]));
    let high = _mm512_maskz_compress_epi16(coded, load_masks(&planes[2]));
    for vector in 0..3 {
        let [from_pair, from_high] = &INTERLEAVE[vector];
        let pairs = _mm512_permutex2var_epi16(low, load_masks(from_pair), middle);
        let lanes = LANES_OF_HIGH_PLANE[vector];
        let all = _mm512_mask_permutexvar_epi16(pairs, lanes, load_masks(from_high), high);
        store_at(out, at + 64 * vector, all);
    }
    at + PLANES_LEN * coded.count_ones() as usize
}

/// For each plane: which 16-bit lane of the first two vectors (from 32 on: the second) and which of the third
/// belongs to a line.
static DEINTERLEAVE: [[Masks; 2]; 3] = deinterleave();

const fn deinterleave() -> [[Masks; 2]; 3] {
    let mut lanes = [[Masks::NONE; 2]; 3];
    let mut at = 0;
    while at < 96 {
        lanes[at % 3][at / 64].0[at / 3] = at as u16 % 64;
        at += 1;
    }
    lanes
}

/// Reads the planes of the coded lines of a block; those of the other lines are all zero words.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2")]
pub(super) fn take_planes(planes: &[u8], at: usize, coded: u32) -> [__m512i; 3] {
    let none = _mm512_setzero_si512();
    if coded == 0 {
        return [_mm512_set1_epi16(-1), none, none];
    }
    let stored = [load_at(planes, at), load_at(planes, at + 64), load_at(planes, at + 128)];
    // Lines from 22 on have all their planes in the third vector; 21 has its first in the second.
    let low = _mm512_maskz_expand_epi16(coded, plane(stored, &DEINTERLEAVE[0], u32::MAX << 22));
    let middle = _mm512_maskz_expand_epi16(coded, plane(stored, &DEINTERLEAVE[1], u32::MAX << 21));
    let high = _mm512_maskz_expand_epi16(coded, plane(stored, &DEINTERLEAVE[2], u32::MAX << 21));
    [_mm512_mask_set1_epi16(low, !coded, -1), middle, high]
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn plane([first, second, third]: [__m512i; 3], from: &[Masks; 2], in_third: u32) -> __m512i {
    let front = _mm512_permutex2var_epi16(first, load_masks(&from[0]), second);
    _mm512_mask_permutexvar_epi16(front, in_third, load_masks(&from[1]), third)
}

//! RLE with AVX2: comparisons find zeros, and runs are copied by vectors.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::Sections;
use super::{Counts, vector};
use crate::Avx2;
use crate::cpu::{array, load256};

pub(super) fn encode<const W: usize>(_: Avx2, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_with::<W>(raw, coded) }
}

pub(super) fn count<const W: usize>(_: Avx2, raw: &[u8]) -> Counts {
    // SAFETY: as above.
    unsafe { count_with::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx2, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_with::<W>(sections, raw) }
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn encode_with<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    vector::encode::<W>(raw, coded, |window| zeros::<W>(window))
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn count_with<const W: usize>(raw: &[u8]) -> Counts {
    vector::count::<W>(raw, |window| zeros::<W>(window))
}

#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn decode_with<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    vector::decode::<W>(sections, raw);
}

/// Which of 64 elements are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn zeros<const W: usize>(window: &[u8]) -> u64 {
    let mut mask = 0;
    for i in 0..2 * W {
        mask |= u64::from(vector_zeros::<W>(load256(array(&window[32 * i..])))) << (32 / W * i);
    }
    mask
}

/// Which elements of a vector are zero.
#[inline]
#[target_feature(enable = "avx2")]
fn vector_zeros<const W: usize>(vector: __m256i) -> u32 {
    let zero = _mm256_setzero_si256();
    let mask = match W {
        1 => _mm256_movemask_epi8(_mm256_cmpeq_epi8(vector, zero)),
        2 => {
            let equal = _mm256_cmpeq_epi16(vector, zero);
            let halves = _mm_packs_epi16(_mm256_castsi256_si128(equal), _mm256_extracti128_si256::<1>(equal));
            _mm_movemask_epi8(halves)
        }
        4 => _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(vector, zero))),
        _ => _mm256_movemask_pd(_mm256_castsi256_pd(_mm256_cmpeq_epi64(vector, zero))),
    };
    mask as u32
}

//! RLE with AVX-512: one test a vector finds zeros, and runs are copied by vectors.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::portable::Sections;
use super::{Counts, vector};
use crate::Avx512;
use crate::cpu::{array, load512};

pub(super) fn encode<const W: usize>(_: Avx512, raw: &[u8], coded: &mut [u8]) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { encode_with::<W>(raw, coded) }
}

pub(super) fn count<const W: usize>(_: Avx512, raw: &[u8]) -> Counts {
    // SAFETY: as above.
    unsafe { count_with::<W>(raw) }
}

pub(super) fn decode<const W: usize>(_: Avx512, sections: Sections<'_>, raw: &mut [u8]) {
    // SAFETY: as above.
    unsafe { decode_with::<W>(sections, raw) }
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
fn encode_with<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    vector::encode::<W>(raw, coded, |window| zeros::<W>(window))
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
fn count_with<const W: usize>(raw: &[u8]) -> Counts {
    vector::count::<W>(raw, |window| zeros::<W>(window))
}

#[target_feature(enable = "avx512f,avx512bw,bmi1,bmi2,lzcnt,popcnt")]
fn decode_with<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    vector::decode::<W>(sections, raw);
}

/// Which of 64 elements are zero.
#[inline]
#[target_feature(enable = "avx512f,avx512bw")]
fn zeros<const W: usize>(window: &[u8]) -> u64 {
    let mut mask = 0;
    for i in 0..W {
        let vector = load512(array(&window[64 * i..]));
        let zeros = match W {
            1 => _mm512_testn_epi8_mask(vector, vector),
            2 => u64::from(_mm512_testn_epi16_mask(vector, vector)),
            4 => u64::from(_mm512_testn_epi32_mask(vector, vector)),
            _ => u64::from(_mm512_testn_epi64_mask(vector, vector)),
        };
        mask |= zeros << (64 / W * i);
    }
    mask
}

//! ZCOMP with AVX-512: the paper's instructions are a compare, a compress and an expand here.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Condition, HeaderSink, Lane, Source, Vector, ZcompError};
use crate::Avx512;
use crate::cpu::{array_mut, compress512, expand512, load512, load512_partial, non_zeros512, store512};

pub(super) fn store<const W: usize>(
    _: Avx512,
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    // SAFETY: the token says that this machine has the instructions.
    unsafe { store_vectors::<W>(lane, condition, vectors, headers, data) }
}

pub(super) fn load<const W: usize>(
    _: Avx512,
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    // SAFETY: as above.
    unsafe { load_vectors::<W>(headers, data, vectors) }
}

#[target_feature(enable = "avx512bw,avx512vbmi2,popcnt")]
fn store_vectors<const W: usize>(
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    let (mut headers, mut at) = (HeaderSink::new(headers), 0);
    for vector in vectors {
        let vector = load512(vector);
        let mask = kept::<W>(lane, condition, vector);
        at = headers.put(mask, 8 / W, data, at);
        store512(array_mut(&mut data[at..]), compress512(W, mask, vector));
        at += W * mask.count_ones() as usize;
    }
    at
}

#[target_feature(enable = "avx512bw,avx512vbmi2,bmi2,popcnt")]
fn load_vectors<const W: usize>(
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    let mut source = Source::new(headers, data);
    for vector in vectors {
        let (mask, start) = source.next(8 / W, W)?;
        let stored = match data[start..].first_chunk() {
            Some(front) => load512(front),
            None => load512_partial(&data[start..]),
        };
        store512(vector, expand512(W, mask, stored));
    }
    Ok(source.at)
}

/// One bit per element that is not dropped. Floats are compared as integers: what is positive there is above
/// zero or NaN, and of the negative ones NaN has the larger magnitudes.
#[inline]
#[target_feature(enable = "avx512bw")]
fn kept<const W: usize>(lane: Lane, condition: Condition, vector: __m512i) -> u64 {
    let zero = _mm512_setzero_si512();
    let above = |limit: __m512i, vector| match W {
        1 => _mm512_cmpgt_epi8_mask(vector, limit),
        2 => u64::from(_mm512_cmpgt_epi16_mask(vector, limit)),
        4 => u64::from(_mm512_cmpgt_epi32_mask(vector, limit)),
        _ => u64::from(_mm512_cmpgt_epi64_mask(vector, limit)),
    };
    match (condition, lane) {
        (Condition::EqZ, _) => non_zeros512(W, vector),
        (Condition::LteZ, Lane::I8 | Lane::I32) => above(zero, vector),
        (Condition::LteZ, Lane::F16 | Lane::F32 | Lane::F64) => {
            let (magnitude, infinity) = match W {
                2 => (_mm512_set1_epi16(0x7fff), _mm512_set1_epi16(0x7c00)),
                4 => (_mm512_set1_epi32(0x7fff_ffff), _mm512_set1_epi32(0x7f80_0000)),
                _ => (_mm512_set1_epi64(i64::MAX), _mm512_set1_epi64(0x7ff << 52)),
            };
            above(zero, vector) | above(infinity, _mm512_and_si512(vector, magnitude))
        }
    }
}

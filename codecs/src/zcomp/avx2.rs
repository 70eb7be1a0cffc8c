//! ZCOMP with AVX2: a vector is one to eight groups of eight elements.

// The entry points promise the instructions that their token stands for.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::{Condition, HeaderSink, Lane, Source, VECTOR_LEN, Vector, ZcompError};
use crate::Avx2;
use crate::cpu::groups::{GROUP, GROUP_LEN, compress, expand, lane_mask, zero_lanes};
use crate::cpu::{array, load256};

pub(super) fn store<const W: usize>(
    _: Avx2,
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
    _: Avx2,
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    // SAFETY: as above.
    unsafe { load_vectors::<W>(headers, data, vectors) }
}

#[target_feature(enable = "avx2,popcnt")]
fn store_vectors<const W: usize>(
    lane: Lane,
    condition: Condition,
    vectors: &[Vector],
    headers: Option<&mut [u8]>,
    data: &mut [u8],
) -> usize {
    let (mut headers, mut at) = (HeaderSink::new(headers), 0);
    for vector in vectors {
        let mask = kept::<W>(lane, condition, vector);
        at = headers.put(mask, 8 / W, data, at);
        for (group, mask) in vector.chunks_exact(GROUP * W).zip(mask.to_le_bytes()) {
            if at + GROUP_LEN <= data.len() {
                compress::<W>(mask, group, &mut data[at..at + GROUP_LEN]);
            } else {
                // The last groups of the last vector: there is room for the elements, not for the overshoot.
                let mut room = [0; GROUP_LEN];
                compress::<W>(mask, group, &mut room);
                let len = W * mask.count_ones() as usize;
                data[at..at + len].copy_from_slice(&room[..len]);
            }
            at += W * mask.count_ones() as usize;
        }
    }
    at
}

#[target_feature(enable = "avx2,popcnt")]
fn load_vectors<const W: usize>(
    headers: Option<&[u8]>,
    data: &[u8],
    vectors: &mut [Vector],
) -> Result<usize, ZcompError> {
    let mut source = Source::new(headers, data);
    for vector in vectors {
        let (mask, mut at) = source.next(8 / W, W)?;
        for (group, mask) in vector.chunks_exact_mut(GROUP * W).zip(mask.to_le_bytes()) {
            let next = at + W * mask.count_ones() as usize;
            let mut padded = [0; GROUP_LEN];
            let stored = match data.get(at..at + GROUP_LEN) {
                Some(stored) => stored,
                None => {
                    padded[..next - at].copy_from_slice(&data[at..next]);
                    &padded
                }
            };
            expand::<W>(mask, stored, group);
            at = next;
        }
    }
    Ok(source.at)
}

/// One bit per element that is not dropped. Floats are compared as integers: what is positive there is above
/// zero or NaN, and of the negative ones NaN has the larger magnitudes.
#[inline]
#[target_feature(enable = "avx2")]
fn kept<const W: usize>(lane: Lane, condition: Condition, vector: &Vector) -> u64 {
    let halves = [load256(array(vector)), load256(array(&vector[VECTOR_LEN / 2..]))];
    let zero = _mm256_setzero_si256();
    lane_mask::<W>(halves.map(|half| match (condition, lane) {
        (Condition::EqZ, _) => _mm256_xor_si256(zero_lanes::<W>(half), _mm256_set1_epi8(-1)),
        (Condition::LteZ, Lane::I8 | Lane::I32) => above::<W>(half, zero),
        (Condition::LteZ, Lane::F16 | Lane::F32 | Lane::F64) => {
            let (magnitude, infinity) = match W {
                2 => (_mm256_set1_epi16(0x7fff), _mm256_set1_epi16(0x7c00)),
                4 => (_mm256_set1_epi32(0x7fff_ffff), _mm256_set1_epi32(0x7f80_0000)),
                _ => (_mm256_set1_epi64x(i64::MAX), _mm256_set1_epi64x(0x7ff << 52)),
            };
            let nan = above::<W>(_mm256_and_si256(half, magnitude), infinity);
            _mm256_or_si256(above::<W>(half, zero), nan)
        }
    }))
}

#[inline]
#[target_feature(enable = "avx2")]
fn above<const W: usize>(half: __m256i, limit: __m256i) -> __m256i {
    match W {
        1 => _mm256_cmpgt_epi8(half, limit),
        2 => _mm256_cmpgt_epi16(half, limit),
        4 => _mm256_cmpgt_epi32(half, limit),
        _ => _mm256_cmpgt_epi64(half, limit),
    }
}

//! The commonest symbols of a sample.

use std::arch::x86_64::*;

use super::lanes::{load, store};
use crate::cpu::load512_partial;
use crate::xp::table::MAX_SAMPLES;
use crate::xp::vector::{RANKED, Ranked};

/// See [`Vectors::rank`](crate::xp::vector::Vectors::rank).
#[target_feature(enable = "avx512bw,bmi2,popcnt")]
pub(super) fn rank(counts: &[u8]) -> Ranked {
    let mut keys = [0u32; MAX_SAMPLES + 64];
    let mut found = 0;
    let sixteen = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    for (block, counts) in counts.chunks(64).enumerate() {
        let here = load512_partial(counts);
        if _mm512_test_epi8_mask(here, here) == 0 {
            continue;
        }
        for quarter in 0..4 {
            let here = match quarter {
                0 => _mm512_castsi512_si128(here),
                1 => _mm512_extracti32x4_epi32::<1>(here),
                2 => _mm512_extracti32x4_epi32::<2>(here),
                _ => _mm512_extracti32x4_epi32::<3>(here),
            };
            let here = _mm512_slli_epi32::<16>(_mm512_cvtepu8_epi32(here));
            let seen = _mm512_test_epi32_mask(here, here);
            let first = 0xffff - (64 * block + 16 * quarter) as i32;
            let here = _mm512_or_si512(here, _mm512_sub_epi32(_mm512_set1_epi32(first), sixteen));
            assert!(found <= MAX_SAMPLES, "{found} symbols in a sample");
            // SAFETY: behind those of a whole sample are 64 places.
            unsafe { store(keys.as_mut_ptr().add(found).cast(), _mm512_maskz_compress_epi32(seen, here)) };
            found += seen.count_ones() as usize;
        }
    }
    let mut ranked = [0u32; RANKED];
    // Behind the last key are zeros, from the last compress.
    let vectors = found.div_ceil(16);
    for &key in &keys[..found] {
        let mut larger = 0;
        for vector in &keys.as_chunks::<16>().0[..vectors] {
            let larger_here = _mm512_cmpgt_epu32_mask(load_keys(vector), _mm512_set1_epi32(key as i32));
            larger += larger_here.count_ones() as usize;
        }
        if let Some(place) = ranked.get_mut(larger) {
            *place = key;
        }
    }
    Ranked { keys: ranked, found }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn load_keys(keys: &[u32; 16]) -> __m512i {
    // SAFETY: sixteen keys are 64 bytes.
    unsafe { load(keys.as_ptr().cast()) }
}

//! The commonest symbols of a sample.

use std::arch::x86_64::*;

use super::lanes::load;
use crate::xp::table::MAX_SAMPLES;
use crate::xp::vector::{RANKED, Ranked};

/// See [`Vectors::rank`](crate::xp::vector::Vectors::rank).
#[target_feature(enable = "avx2,bmi1,popcnt")]
pub(super) fn rank(counts: &[u8]) -> Ranked {
    let mut keys = [0u32; MAX_SAMPLES + 1];
    let mut found = 0;
    for (i, counts) in counts.as_chunks().0.iter().enumerate() {
        let mut left = u64::from_le_bytes(*counts);
        while left != 0 {
            let byte = left.trailing_zeros() as usize / 8;
            keys[found] = u32::from(counts[byte]) << 16 | (0xffff - (8 * i + byte) as u32);
            found += 1;
            left &= !(0xff << (8 * byte));
        }
    }
    let mut ranked = [0u32; RANKED];
    let vectors = found.div_ceil(8);
    for &key in &keys[..found] {
        let mut larger = 0;
        for vector in &keys.as_chunks::<8>().0[..vectors] {
            // SAFETY: eight keys are 32 bytes.
            let vector = unsafe { load(vector.as_ptr().cast()) };
            let larger_here = _mm256_cmpgt_epi32(vector, _mm256_set1_epi32(key as i32));
            larger += _mm256_movemask_ps(_mm256_castsi256_ps(larger_here)).count_ones() as usize;
        }
        if let Some(place) = ranked.get_mut(larger) {
            *place = key;
        }
    }
    Ranked { keys: ranked, found }
}

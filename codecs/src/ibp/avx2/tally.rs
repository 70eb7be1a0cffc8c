//! Counting over a sample, half a row at a time.

use std::arch::x86_64::*;

use super::VECTOR;
use crate::cpu::{load256, store256};
use crate::ibp::counts::{BATCH, Counts, LOWEST_BITS};
use crate::ibp::levels::STEPS;
use crate::ibp::tally::{Participants, ROW_LEN, SampleRow, Thresholds, eights, fours};

/// Thresholds whose counters all have a register.
const AT_ONCE: usize = 8;

#[target_feature(enable = "avx2")]
pub(super) fn set_bits(rows: &[SampleRow]) -> Counts {
    let lowest = _mm256_set1_epi64x(LOWEST_BITS as i64);
    let mut sums = Counts::none(ROW_LEN);
    for batch in rows.chunks(BATCH) {
        sums.tensors += batch.len() as u64;
        let mut counters = [[0; ROW_LEN]; 8];
        for half in 0..ROW_LEN / VECTOR {
            let mut counts = [_mm256_setzero_si256(); 8];
            for row in batch {
                let mut row = vector(row, half);
                for count in &mut counts {
                    *count = _mm256_add_epi8(*count, _mm256_and_si256(row, lowest));
                    row = _mm256_srli_epi64::<1>(row);
                }
            }
            counters.iter_mut().zip(counts).for_each(|(to, count)| store(to, half, count));
        }
        for (bit, counters) in counters.into_iter().enumerate() {
            sums.add(bit, counters);
        }
    }
    sums
}

#[target_feature(enable = "avx2")]
pub(super) fn participants(thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    let (mut four_counts, mut eight_counts) = ([[0; ROW_LEN]; STEPS], [[0; ROW_LEN]; STEPS]);
    for half in 0..ROW_LEN / VECTOR {
        let usual = vector(&thresholds.majority, half);
        for first in (0..STEPS).step_by(AT_ONCE) {
            let masks: [__m256i; AT_ONCE] =
                std::array::from_fn(|step| vector(&thresholds.masks[first + step], half));
            let mut counts = [_mm256_setzero_si256(); AT_ONCE];
            for row in rows {
                let dissent = _mm256_xor_si256(vector(row, half), usual);
                for (count, mask) in counts.iter_mut().zip(masks) {
                    let none = _mm256_cmpeq_epi32(_mm256_and_si256(dissent, mask), _mm256_setzero_si256());
                    *count = _mm256_sub_epi32(*count, none);
                }
            }
            four_counts[first..].iter_mut().zip(counts).for_each(|(to, count)| store(to, half, count));
            let mut counts = [_mm256_setzero_si256(); AT_ONCE];
            for row in rows {
                let dissent = _mm256_xor_si256(vector(row, half), usual);
                for (count, mask) in counts.iter_mut().zip(masks) {
                    let none = _mm256_cmpeq_epi64(_mm256_and_si256(dissent, mask), _mm256_setzero_si256());
                    *count = _mm256_sub_epi64(*count, none);
                }
            }
            eight_counts[first..].iter_mut().zip(counts).for_each(|(to, count)| store(to, half, count));
        }
    }
    Participants { fours: four_counts.each_ref().map(fours), eights: eight_counts.each_ref().map(eights) }
}

/// A half of a row.
#[inline]
#[target_feature(enable = "avx2")]
fn vector(row: &SampleRow, half: usize) -> __m256i {
    let (halves, _) = row.as_chunks::<VECTOR>();
    load256(&halves[half])
}

#[inline]
#[target_feature(enable = "avx2")]
fn store(row: &mut SampleRow, half: usize, vector: __m256i) {
    let (halves, _) = row.as_chunks_mut::<VECTOR>();
    store256(&mut halves[half], vector);
}

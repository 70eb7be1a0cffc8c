//! Counting over a sample, a row at a time.

use std::arch::x86_64::*;

use crate::cpu::{load512, store512};
use crate::ibp::counts::{BATCH, Counts, LOWEST_BITS};
use crate::ibp::levels::STEPS;
use crate::ibp::tally::{Participants, ROW_LEN, SampleRow, Thresholds, eights, fours};

#[target_feature(enable = "avx512bw")]
pub(super) fn set_bits(rows: &[SampleRow]) -> Counts {
    let lowest = _mm512_set1_epi64(LOWEST_BITS as i64);
    let mut sums = Counts::none(ROW_LEN);
    for batch in rows.chunks(BATCH) {
        sums.tensors += batch.len() as u64;
        let mut counters = [_mm512_setzero_si512(); 8];
        for row in batch {
            let mut row = load512(row);
            for counter in &mut counters {
                *counter = _mm512_add_epi8(*counter, _mm512_and_si512(row, lowest));
                row = _mm512_srli_epi64::<1>(row);
            }
        }
        for (bit, counter) in counters.into_iter().enumerate() {
            sums.add(bit, bytes(counter));
        }
    }
    sums
}

#[target_feature(enable = "avx512bw")]
pub(super) fn participants(thresholds: &Thresholds, rows: &[SampleRow]) -> Participants {
    let usual = load512(&thresholds.majority);
    let masks = thresholds.masks.each_ref().map(|mask| load512(mask));
    let one = _mm512_set1_epi32(1);
    let mut four_counts = [_mm512_setzero_si512(); STEPS];
    for row in rows {
        let dissent = _mm512_xor_si512(load512(row), usual);
        for (count, mask) in four_counts.iter_mut().zip(masks) {
            *count = _mm512_mask_add_epi32(*count, _mm512_testn_epi32_mask(dissent, mask), *count, one);
        }
    }
    let one = _mm512_set1_epi64(1);
    let mut eight_counts = [_mm512_setzero_si512(); STEPS];
    for row in rows {
        let dissent = _mm512_xor_si512(load512(row), usual);
        for (count, mask) in eight_counts.iter_mut().zip(masks) {
            *count = _mm512_mask_add_epi64(*count, _mm512_testn_epi64_mask(dissent, mask), *count, one);
        }
    }
    Participants {
        fours: four_counts.map(|count| fours(&bytes(count))),
        eights: eight_counts.map(|count| eights(&bytes(count))),
    }
}

#[inline]
#[target_feature(enable = "avx512bw")]
fn bytes(vector: __m512i) -> [u8; ROW_LEN] {
    let mut bytes = [0; ROW_LEN];
    store512(&mut bytes, vector);
    bytes
}

//! Fitting a codebook to a buffer whose structure nobody knows, in less time than it takes to code it.

use super::codebook::{Codebook, Granule};
use super::levels::{Levels, STEPS, smallest};
use super::tally::{Participants, ROW_LEN, SampleRow, Thresholds, eights, fours, participants, set_bits};
use crate::Cpu;

/// Length in bytes of the tensors that a buffer is tried as beside whole rows: any element, the same everywhere.
const ELEMENT_LEN: usize = 8;

/// The fewest and the most rows that are looked at.
const ROWS: (usize, usize) = (64, 1024);
/// One row in so many is looked at.
const SAMPLED_PART: usize = 64;
/// Rows of a buffer that is too short for a codebook of whole rows.
const SHORT: usize = 512;

/// The codebook with which a frame of `raw` is shortest, of those with tensors of 64 or 8 bytes; `None` if there
/// is nothing to gain. Looks at a sample of up to 64 KiB, and of no more than `sample_len` bytes, but of 4 KiB at least.
pub(super) fn fit_buffer(cpu: Cpu, raw: &[u8], sample_len: usize) -> Option<Codebook> {
    let (rows, _) = raw.as_chunks::<ROW_LEN>();
    let wanted = (rows.len() / SAMPLED_PART).min(sample_len / ROW_LEN).clamp(ROWS.0, ROWS.1);
    // Odd, lest the sample fall in step with the data.
    let stride = (rows.len() / wanted).max(1) | 1;
    let sample: Vec<SampleRow> = rows.iter().step_by(stride).copied().collect();
    if sample.is_empty() {
        return None;
    }
    let counts = set_bits(cpu, &sample);
    let tensor_lens = if rows.len() < SHORT { &[ELEMENT_LEN][..] } else { &[ROW_LEN, ELEMENT_LEN] };
    let mut shortest = (raw.len() as u64, None);
    for &tensor_len in tensor_lens {
        let levels = Levels::of(&counts.folded(tensor_len));
        let thresholds = levels.thresholds();
        let participants = participants(cpu, &thresholds, &sample);
        for granule in [Granule::Eight, Granule::Four] {
            let (step, bits) = smallest(coded_bits(granule, &thresholds, &participants, sample.len()));
            let sample_bits = 8 * sample.as_flattened().len() as u128;
            let coded_len = (u128::from(bits) * raw.len() as u128 / sample_bits) as u64;
            let frame_len = coded_len + 16 + Codebook::body_len(tensor_len, 1) as u64;
            if frame_len < shortest.0 {
                let invariants = levels.invariants(granule.bytes(), step);
                shortest = (frame_len, Some((granule, tensor_len, invariants)));
            }
        }
    }
    let (granule, tensor_len, invariants) = shortest.1?;
    Codebook::new(granule, tensor_len, vec![invariants]).ok()
}

/// Bits of the code of so many rows at each threshold.
fn coded_bits(
    granule: Granule,
    thresholds: &Thresholds,
    participants: &Participants,
    rows: usize,
) -> [u64; STEPS] {
    let granules = rows * ROW_LEN / granule.bytes();
    let whole = (granules * (8 * granule.bytes() + 1)) as u64;
    std::array::from_fn(|step| {
        let mask = &thresholds.masks[step];
        let saved: u64 = match granule {
            Granule::Four => {
                let granules = fours(mask).into_iter().zip(participants.fours[step]);
                granules.map(|(mask, count)| u64::from(mask.count_ones()) * u64::from(count)).sum()
            }
            Granule::Eight => {
                let granules = eights(mask).into_iter().zip(participants.eights[step]);
                granules.map(|(mask, count)| u64::from(mask.count_ones()) * count).sum()
            }
        };
        whole - saved
    })
}

//! Fitting a codebook to a buffer whose structure nobody knows, in less time than it takes to code it.

use super::codebook::{Codebook, Granule};
use super::counts::Counts;
use super::levels::{Levels, STEPS, smallest};

/// Length in bytes of the tensors that a buffer is tried as first; a multiple of any element.
const ROW_LEN: usize = 64;
/// Length in bytes of the tensors that it is tried as next: any element, the same everywhere.
const ELEMENT_LEN: usize = 8;

/// The fewest and the most rows that are looked at.
const ROWS: (usize, usize) = (64, 1024);
/// One row in so many is looked at.
const SAMPLED_PART: usize = 64;
/// Rows of a buffer that is too short for a codebook of whole rows.
const SHORT: usize = 512;

/// The codebook with which a frame of `raw` is shortest, of those with tensors of 64 or 8 bytes; `None` if there
/// is nothing to gain. Looks at a sample of up to 64 KiB.
pub(super) fn fit_buffer(raw: &[u8]) -> Option<Codebook> {
    let rows = raw.len() / ROW_LEN;
    let wanted = (rows / SAMPLED_PART).clamp(ROWS.0, ROWS.1);
    // Odd, lest the sample fall in step with the data.
    let stride = (rows / wanted).max(1) | 1;
    let (rows_there, _) = raw.as_chunks::<ROW_LEN>();
    let sample: Vec<[u8; ROW_LEN]> = rows_there.iter().step_by(stride).copied().collect();
    if sample.is_empty() {
        return None;
    }
    let counts = Counts::of(ROW_LEN, sample.iter().map(<[u8; ROW_LEN]>::as_slice));
    let tensor_lens = if rows < SHORT { &[ELEMENT_LEN][..] } else { &[ROW_LEN, ELEMENT_LEN] };
    let mut shortest = (raw.len() as u64, None);
    for &tensor_len in tensor_lens {
        let levels = Levels::of(&counts.folded(tensor_len));
        for (granule, histogram) in histograms(&levels, sample.as_flattened()) {
            let (step, bits) = smallest(coded_bits(&levels, granule, &histogram));
            let sample_bits = 8 * sample.as_flattened().len() as u128;
            let coded_len = (u128::from(bits) * raw.len() as u128 / sample_bits) as u64;
            let invariants = levels.invariants(granule.bytes(), step);
            let codebook = Codebook::new(granule, tensor_len, vec![invariants]).ok()?;
            let frame_len = coded_len + 16 + codebook.to_bytes().len() as u64;
            if frame_len < shortest.0 {
                shortest = (frame_len, Some(codebook));
            }
        }
    }
    shortest.1
}

/// For a granule, how many of the sample's participate from each threshold on; the last number counts those that
/// never do.
type Histogram = [u64; STEPS + 1];

/// The histograms of each granule of a tensor, for granules of either length.
fn histograms(levels: &Levels, sample: &[u8]) -> [(Granule, Vec<Histogram>); 2] {
    let words = levels.tensor_len() / 4;
    let (mut fours, mut eights) = (vec![[0; STEPS + 1]; words], vec![[0; STEPS + 1]; words / 2]);
    let tables: Vec<[u8; 256]> = (0..levels.tensor_len()).map(|index| table(levels, index)).collect();
    for tensor in sample.chunks_exact(levels.tensor_len()) {
        let pairs = tensor.as_chunks::<8>().0.iter().zip(tables.as_chunks::<8>().0);
        for (i, (bytes, tables)) in pairs.enumerate() {
            let level = |index: usize| tables[index][usize::from(bytes[index])];
            let low = level(0).max(level(1)).max(level(2)).max(level(3));
            let high = level(4).max(level(5)).max(level(6)).max(level(7));
            fours[2 * i][usize::from(low)] += 1;
            fours[2 * i + 1][usize::from(high)] += 1;
            eights[i][usize::from(low.max(high))] += 1;
        }
    }
    [(Granule::Eight, eights), (Granule::Four, fours)]
}

/// For each value of byte `index` the first threshold at which no invariant bit of it is another than in most
/// tensors: the highest level of those that are.
fn table(levels: &Levels, index: usize) -> [u8; 256] {
    let mut by_dissent = [0u8; 256];
    for dissent in 1..256usize {
        let lowest = dissent.trailing_zeros() as usize;
        by_dissent[dissent] = by_dissent[dissent & (dissent - 1)].max(levels.byte(index)[lowest]);
    }
    let majority = usize::from(levels.majority(index));
    std::array::from_fn(|value| by_dissent[value ^ majority])
}

/// Bits of the code of the sample at each threshold.
fn coded_bits(levels: &Levels, granule: Granule, histograms: &[Histogram]) -> [u64; STEPS] {
    let len = granule.bytes();
    std::array::from_fn(|step| {
        let bits = histograms.iter().enumerate().map(|(i, histogram)| {
            let bytes = len * i..len * (i + 1);
            let saved = bytes.map(|index| u64::from(levels.mask(index, step).count_ones())).sum::<u64>();
            let participating = histogram[..=step].iter().sum::<u64>();
            let all = histogram.iter().sum::<u64>();
            all * (8 * len as u64 + 1) - participating * saved
        });
        bits.sum()
    })
}

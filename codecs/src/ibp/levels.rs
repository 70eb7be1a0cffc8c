//! How far each bit of a tensor stays invariant as the threshold rises.

use super::codebook::Invariants;
use super::counts::Counts;
use super::tally::{ROW_LEN, Thresholds};

/// The thresholds θ that a fit tries, in thousandths: a bit is invariant if at least that share of the tensors
/// agree on it. Steps are finest where the best one usually lies.
pub const THRESHOLDS: [u64; STEPS] =
    [500, 550, 600, 650, 700, 750, 800, 825, 850, 875, 900, 925, 950, 975, 990, 1000];

/// How many thresholds there are.
pub(super) const STEPS: usize = 16;

/// What most tensors have, and which bits of it are invariant at each threshold: ever fewer.
pub(super) struct Levels {
    /// By byte of the tensor.
    majority: Vec<u8>,
    /// By threshold, then by byte of the tensor.
    masks: [Vec<u8>; STEPS],
}

impl Levels {
    pub(super) fn of(counts: &Counts) -> Self {
        let mut majority = vec![0; counts.ones.len() / 8];
        let mut masks: [Vec<u8>; STEPS] = std::array::from_fn(|_| majority.clone());
        // How many tensors may have another bit.
        let most = THRESHOLDS.map(|threshold| (1000 - threshold) * counts.tensors / 1000);
        for bit in 0..counts.ones.len() {
            let (byte, place) = (bit / 8, bit % 8);
            majority[byte] |= u8::from(counts.majority(bit)) << place;
            let dissenters = counts.dissenters(bit);
            let level = most.partition_point(|&most| dissenters <= most);
            // Here at the last threshold at which it is invariant; at those before it below.
            if let Some(last) = level.checked_sub(1) {
                masks[last][byte] |= 1 << place;
            }
        }
        for step in (1..STEPS).rev() {
            let (lower, upper) = masks.split_at_mut(step);
            lower[step - 1].iter_mut().zip(&upper[0]).for_each(|(lower, upper)| *lower |= upper);
        }
        Self { majority, masks }
    }

    /// Bytes of a tensor.
    pub(super) fn tensor_len(&self) -> usize {
        self.majority.len()
    }

    /// What most tensors have in byte `index`.
    pub(super) fn majority(&self, index: usize) -> u8 {
        self.majority[index]
    }

    /// The invariant bits of byte `index` at threshold number `step`.
    pub(super) fn mask(&self, index: usize, step: usize) -> u8 {
        self.masks[step][index]
    }

    /// The same of all bytes, over and over for as long as a row is.
    ///
    /// # Panics
    /// If that is no whole number of tensors.
    pub(super) fn thresholds(&self) -> Thresholds {
        let row = |tensor: &Vec<u8>| {
            let mut row = [0; ROW_LEN];
            let (tensors, rest) = (row.chunks_exact_mut(tensor.len()), ROW_LEN % tensor.len());
            assert_eq!(rest, 0, "whole tensors");
            tensors.for_each(|part| part.copy_from_slice(tensor));
            row
        };
        Thresholds { majority: row(&self.majority), masks: self.masks.each_ref().map(row) }
    }

    /// The invariant bits at threshold number `step`, none of them behind the last whole granule.
    pub(super) fn invariants(&self, granule: usize, step: usize) -> Invariants {
        let whole = self.tensor_len() - self.tensor_len() % granule;
        let mask = |index| if index < whole { self.mask(index, step) } else { 0 };
        let mask: Vec<u8> = (0..self.tensor_len()).map(mask).collect();
        let bitval = mask.iter().zip(&self.majority).map(|(mask, majority)| mask & majority).collect();
        Invariants { mask, bitval }
    }
}

/// Index and value of the smallest size, the last of several.
pub(super) fn smallest(sizes: [u64; STEPS]) -> (usize, u64) {
    let mut best = (0, sizes[0]);
    for (step, &size) in sizes.iter().enumerate() {
        if size <= best.1 {
            best = (step, size);
        }
    }
    best
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_by_hand() {
        // Of ten tensors, bit 0 is set in all, bit 1 in nine, bit 2 in five, bit 3 in one, bit 4 in two.
        let mut counts = Counts { ones: vec![0; 8], tensors: 10 };
        counts.ones[..5].copy_from_slice(&[10, 9, 5, 1, 2]);
        let levels = Levels::of(&counts);
        assert_eq!(levels.majority(0), 0b0000_0111);
        // Up to 1.0, 0.9 (number 10), 0.5 (0), 0.9, 0.8 (6).
        let masks: Vec<u8> = (0..STEPS).map(|step| levels.mask(0, step)).collect();
        assert_eq!(masks[0], 0b1111_1111);
        assert_eq!(masks[1..=6], [0b1111_1011; 6]);
        assert_eq!(masks[7..=10], [0b1110_1011; 4]);
        assert_eq!(masks[11..], [0b1110_0001; 5]);
        assert_eq!(levels.invariants(1, 10), Invariants { mask: vec![0b1110_1011], bitval: vec![0b11] });
    }
}

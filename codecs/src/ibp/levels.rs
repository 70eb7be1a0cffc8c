//! How far each bit of a tensor stays invariant as the threshold rises.

use super::codebook::Invariants;
use super::counts::Counts;

/// The thresholds θ that a fit tries, in thousandths: a bit is invariant if at least that share of the tensors
/// agree on it. Steps are finest where the best one usually lies.
pub const THRESHOLDS: [u64; STEPS] =
    [500, 550, 600, 650, 700, 750, 800, 825, 850, 875, 900, 925, 950, 975, 990, 1000];

/// How many thresholds there are.
pub(super) const STEPS: usize = 16;

/// What most tensors have, and how many thresholds that holds for.
pub(super) struct Levels {
    /// By byte of the tensor.
    majority: Vec<u8>,
    /// By bit: how many thresholds, from the lowest on, it is invariant at.
    levels: Vec<u8>,
}

impl Levels {
    pub(super) fn of(counts: &Counts) -> Self {
        let bits = 0..counts.ones.len();
        let mut majority = vec![0; counts.ones.len() / 8];
        bits.clone().for_each(|bit| majority[bit / 8] |= u8::from(counts.majority(bit)) << (bit % 8));
        let level = |bit| {
            let dissent = 1000 * counts.dissenters(bit);
            THRESHOLDS.partition_point(|threshold| dissent <= (1000 - threshold) * counts.tensors) as u8
        };
        Self { majority, levels: bits.map(level).collect() }
    }

    /// Bytes of a tensor.
    pub(super) fn tensor_len(&self) -> usize {
        self.majority.len()
    }

    /// What most tensors have in byte `index`.
    pub(super) fn majority(&self, index: usize) -> u8 {
        self.majority[index]
    }

    /// The levels of the bits of byte `index`.
    pub(super) fn byte(&self, index: usize) -> &[u8] {
        &self.levels[8 * index..8 * (index + 1)]
    }

    /// The invariant bits of byte `index` at threshold number `step`.
    pub(super) fn mask(&self, index: usize, step: usize) -> u8 {
        let bits = self.byte(index).iter().enumerate();
        bits.fold(0, |mask, (bit, &level)| mask | u8::from(usize::from(level) > step) << bit)
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
        assert_eq!(levels.byte(0), [16, 11, 1, 11, 7, 16, 16, 16]);
        assert_eq!(levels.mask(0, 10), 0b1110_1011);
        assert_eq!(levels.invariants(1, 10), Invariants { mask: vec![0b1110_1011], bitval: vec![0b11] });
    }
}

//! Random numbers from a seed that a failing test prints.

use std::time::Duration;

/// SplitMix64.
pub(super) struct Rng(u64);

impl Rng {
    /// Prints the seed, which the test harness shows if the test fails.
    pub(super) fn new(seed: u64) -> Self {
        println!("seed {seed}");
        Self(seed)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Less than `bound`.
    pub(super) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(super) fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    pub(super) fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.index(from.len())]
    }

    pub(super) fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    pub(super) fn micros(&mut self, below: u64) -> Duration {
        Duration::from_micros(self.below(below))
    }

    /// Bytes that compress well, a little, or not at all.
    pub(super) fn data(&mut self, len: usize) -> Vec<u8> {
        match self.below(4) {
            0 => vec![self.next() as u8; len],
            1 => (0..len as u32 / 4 + 1).flat_map(u32::to_le_bytes).take(len).collect(),
            2 => (0..len).map(|_| if self.one_in(4) { self.next() as u8 } else { 0 }).collect(),
            _ => (0..len).map(|_| self.next() as u8).collect(),
        }
    }
}

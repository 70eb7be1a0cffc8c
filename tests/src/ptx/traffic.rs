//! What was executed, and what went to and from memory.

use super::instruction::LANES;

/// Bytes of a sector, the least that global memory moves.
pub const SECTOR_LEN: u64 = 32;

/// Bytes of a word of a bank of shared memory, and how many banks there are.
const BANK_WIDTH: u64 = 4;
const BANKS: usize = 32;

/// What a launch took.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// How often a warp executed each instruction of the kernel.
    pub executed: Vec<u64>,
    /// How often a lane did.
    pub lanes: Vec<u64>,
    /// From global memory.
    pub loads: Traffic,
    /// To global memory, atomics included.
    pub stores: Traffic,
    /// Cycles that accesses to shared memory take: one, or more where lanes want several words of a bank.
    pub shared_cycles: u64,
}

/// Accesses in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Bytes that lanes asked for.
    pub bytes: u64,
    /// Sectors that accesses of warps touched, each access for itself.
    pub sectors: u64,
}

impl Counts {
    pub(super) fn new(instructions: usize) -> Self {
        Self { executed: vec![0; instructions], lanes: vec![0; instructions], ..Self::default() }
    }

    /// Instructions that warps executed.
    #[must_use]
    pub fn instructions(&self) -> u64 {
        self.executed.iter().sum()
    }
}

impl Traffic {
    /// Counts the accesses of the lanes of a warp to `len` bytes each, on multiples of `len` up to 16.
    pub(super) fn add(&mut self, addresses: &[u64], len: u64) {
        let mut sectors = [0; LANES];
        let sectors = &mut sectors[..addresses.len()];
        for (sector, address) in sectors.iter_mut().zip(addresses) {
            *sector = address / SECTOR_LEN;
        }
        self.bytes += len * addresses.len() as u64;
        self.sectors += distinct(sectors);
    }
}

/// The cycles that accesses of the lanes of a warp to `len` bytes of shared memory each take: so many lanes that they
/// ask for 128 bytes go at a time, and of these one word of each bank. `is_atomic` ones go one after another also
/// where they are to the same word.
pub(super) fn shared_cycles(addresses: &[u64], len: u64, is_atomic: bool) -> u64 {
    let words = (len / BANK_WIDTH).max(1);
    let lanes_at_a_time = BANKS / words as usize;
    let cycles = |lanes: &[u64]| {
        let mut wanted: Vec<u64> = lanes
            .iter()
            .flat_map(|address| (0..words).map(move |word| address / BANK_WIDTH + word))
            .collect();
        wanted.sort_unstable();
        if !is_atomic {
            wanted.dedup();
        }
        let mut of_bank = [0; BANKS];
        wanted.iter().for_each(|word| of_bank[*word as usize % BANKS] += 1);
        of_bank.into_iter().max().unwrap_or(0)
    };
    addresses.chunks(lanes_at_a_time).map(cycles).sum()
}

fn distinct(numbers: &mut [u64]) -> u64 {
    numbers.sort_unstable();
    let changes = numbers.windows(2).filter(|pair| pair[0] != pair[1]).count();
    changes as u64 + u64::from(!numbers.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(stride: u64) -> Vec<u64> {
        (0..LANES as u64).map(|lane| 4096 + lane * stride).collect()
    }

    #[test]
    fn sectors_are_those_that_a_warp_touches() {
        for (stride, len, sectors) in [(4, 4, 4), (1, 1, 1), (16, 16, 16), (32, 4, 32), (0, 4, 1), (2, 2, 2)]
        {
            let mut traffic = Traffic::default();
            traffic.add(&addresses(stride), len);
            assert_eq!(traffic, Traffic { bytes: 32 * len, sectors }, "{stride}");
        }
    }

    #[test]
    fn banks_are_32_words_wide() {
        let cycles = |stride, len| shared_cycles(&addresses(stride), len, false);
        assert_eq!(cycles(4, 4), 1);
        assert_eq!(cycles(8, 4), 2);
        assert_eq!(cycles(128, 4), 32);
        assert_eq!(cycles(132, 4), 1);
        assert_eq!(cycles(0, 4), 1);
        assert_eq!(cycles(1, 1), 1);
        assert_eq!(cycles(8, 8), 2);
        assert_eq!(cycles(16, 16), 4);
        assert_eq!(shared_cycles(&addresses(0), 4, true), 32);
    }
}

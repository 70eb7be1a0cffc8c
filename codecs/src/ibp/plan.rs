//! The invariant bits of a cluster, laid out for the coders.

use super::codebook::{Granule, Invariants};
use super::lines::Lines;
use super::portable::{runs, word_of};

/// The invariant bits of a cluster. A *phase* is a place in the tensor in bytes, always that of a granule.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes of a granule.
    pub(super) granule: usize,
    /// Bytes of a tensor's whole granules.
    pub(super) period: usize,
    /// The tables by byte: number [`MASKS`](Self::MASKS), [`BITVALS`](Self::BITVALS), and those of the fields.
    pub(super) lines: Lines,
    /// Bits that each granule saves if it participates, and 64 more from the first on.
    pub(super) savings: Vec<u8>,
    /// What brings the kept bits of a granule together: 1, 2, 3, 4 or 8 fields.
    pub(super) gather: Fields,
    /// The inverse: 1 to 4 fields.
    pub(super) scatter: Fields,
}

/// Fields of up to eight bits, of which a byte of a tensor is made: as many for each byte. A field has two tables:
/// where in the granule its eight bits start, modulo 64, and which of them count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fields {
    /// Number of the first table.
    pub(super) first: usize,
    /// How many fields there are.
    pub(super) count: usize,
}

impl Plan {
    /// Number of the table of invariant bits.
    pub(super) const MASKS: usize = 0;
    /// Number of the table of their values.
    pub(super) const BITVALS: usize = 1;

    pub(super) fn new(granule: Granule, Invariants { mask, bitval }: &Invariants) -> Self {
        let granule = granule.bytes();
        let period = mask.len() - mask.len() % granule;
        let (mask, bitval) = (&mask[..period], &bitval[..period]);
        let keeps = || mask.chunks_exact(granule).map(|mask| !word_of(mask) & all(granule));
        let saved: Vec<u8> =
            mask.chunks_exact(granule).map(|mask| word_of(mask).count_ones() as u8).collect();
        let gathers = field_tables(granule, keeps().map(gather_steps), &[1, 2, 3, 4, 8]);
        let scatters = field_tables(granule, keeps().map(scatter_steps), &[1, 2, 3, 4]);
        let gather = Fields { first: 2, count: gathers.len() / 2 };
        let scatter = Fields { first: 2 + gathers.len(), count: scatters.len() / 2 };
        let tables = [mask, bitval].into_iter();
        let tables = tables.chain(gathers.iter().chain(&scatters).map(Vec::as_slice));
        let savings = saved.iter().copied().cycle().take(if period == 0 { 0 } else { saved.len() + 64 });
        Self { granule, period, lines: Lines::new(tables), savings: savings.collect(), gather, scatter }
    }

    /// The phase behind a granule.
    #[inline]
    pub(super) fn next(&self, phase: usize) -> usize {
        let next = phase + self.granule;
        if next < self.period { next } else { 0 }
    }

    /// The invariant bits of a granule.
    #[inline]
    pub(super) fn mask(&self, phase: usize) -> u64 {
        self.word(Self::MASKS, phase)
    }

    /// Their values.
    #[inline]
    pub(super) fn bitval(&self, phase: usize) -> u64 {
        self.word(Self::BITVALS, phase)
    }

    /// The bits of a granule that vary.
    #[inline]
    pub(super) fn keep(&self, phase: usize) -> u64 {
        !self.mask(phase) & self.all()
    }

    /// Every bit of a granule.
    #[inline]
    pub(super) fn all(&self) -> u64 {
        all(self.granule)
    }

    #[inline]
    fn word(&self, table: usize, phase: usize) -> u64 {
        word_of(&self.lines[table][phase..phase + self.granule])
    }

    /// How many bits a granule saves if it participates.
    #[inline]
    pub(super) fn saved(&self, phase: usize) -> usize {
        usize::from(self.savings[phase / self.granule])
    }
}

/// Every bit of a granule.
const fn all(granule: usize) -> u64 {
    if granule == 8 { u64::MAX } else { u32::MAX as u64 }
}

/// A stretch of bits that moves from one place in a granule to another, and does not leave a byte there.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    to: u32,
    len: u32,
}

/// How the ones of `keep` move together.
fn gather_steps(keep: u64) -> Vec<Step> {
    let (mut steps, mut count) = (Vec::new(), 0);
    for (start, len) in runs(keep) {
        let mut done = 0;
        while done < len {
            let to = count + done;
            let piece = (8 - to % 8).min(len - done);
            steps.push(Step { from: start + done, to, len: piece });
            done += piece;
        }
        count += len;
    }
    steps
}

/// How bits that are together move to the ones of `keep`.
fn scatter_steps(keep: u64) -> Vec<Step> {
    let (mut steps, mut count) = (Vec::new(), 0);
    for byte in 0..8 {
        for (start, len) in runs(keep >> (8 * byte) & 0xff) {
            steps.push(Step { from: count, to: 8 * byte + start, len });
            count += len;
        }
    }
    steps
}

/// The tables of as few fields as will do for these steps of each granule, out of the numbers `allowed`: the n-th
/// step into a byte goes to the n-th field.
fn field_tables(granule: usize, steps: impl Iterator<Item = Vec<Step>>, allowed: &[usize]) -> Vec<Vec<u8>> {
    let steps: Vec<Vec<Step>> = steps.collect();
    let len = granule * steps.len();
    let mut tables: Vec<Vec<u8>> = Vec::new();
    let mut used = vec![0; len];
    for (i, step) in steps.iter().enumerate().flat_map(|(i, steps)| steps.iter().map(move |step| (i, step))) {
        let byte = granule * i + (step.to / 8) as usize;
        if 2 * used[byte] == tables.len() {
            tables.extend([vec![0; len], vec![0; len]]);
        }
        tables[2 * used[byte]][byte] = (step.from.wrapping_sub(step.to % 8) % 64) as u8;
        tables[2 * used[byte] + 1][byte] = ((0xff >> (8 - step.len)) << (step.to % 8)) as u8;
        used[byte] += 1;
    }
    let needed = tables.len() / 2;
    let count = allowed.iter().copied().find(|&count| count >= needed).unwrap_or(needed);
    tables.resize(2 * count, vec![0; len]);
    tables
}

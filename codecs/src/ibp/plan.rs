//! The invariant bits of a cluster, laid out for the coders.

use std::ops::Deref;

use super::codebook::{Granule, Invariants};
use super::portable::{runs, word_of};

/// A table that goes on from its start behind its end, so that a vector can be read from any place in it.
#[derive(Debug)]
pub(super) struct Wrapped(Vec<u8>);

impl Wrapped {
    /// How far the table goes on.
    const OVERHANG: usize = 64;

    fn new(table: &[u8]) -> Self {
        let len = if table.is_empty() { 0 } else { table.len() + Self::OVERHANG };
        Self(table.iter().copied().cycle().take(len).collect())
    }

    /// Where entry `index` is: 64 bytes from there on are the table's.
    ///
    /// # Panics
    /// If the table has no such entry.
    #[inline]
    pub(super) fn place(&self, index: usize) -> *const u8 {
        self.0[index..index + Self::OVERHANG].as_ptr()
    }
}

impl Deref for Wrapped {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

/// The invariant bits of a cluster. A *phase* is a place in the tensor in bytes, always that of a granule.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes of a granule.
    pub(super) granule: usize,
    /// Bytes of a tensor's whole granules.
    pub(super) period: usize,
    /// The invariant bits, repeated from the start behind the end.
    pub(super) masks: Wrapped,
    /// Their values, likewise.
    pub(super) bitvals: Wrapped,
    /// Bits that each granule saves if it participates, likewise, but by granule.
    pub(super) savings: Wrapped,
    /// What brings the kept bits of a granule together, in as many steps as one of its bytes needs.
    pub(super) gather: Vec<Fields>,
    /// The inverse.
    pub(super) scatter: Vec<Fields>,
}

/// One field of up to eight bits for each byte of a tensor, repeated from the start behind the end.
#[derive(Debug)]
pub(super) struct Fields {
    /// Where in the granule the eight bits start, modulo 64, that the byte is made of.
    pub(super) starts: Wrapped,
    /// Which of them count.
    pub(super) keeps: Wrapped,
}

impl Plan {
    pub(super) fn new(granule: Granule, Invariants { mask, bitval }: &Invariants) -> Self {
        let granule = granule.bytes();
        let period = mask.len() - mask.len() % granule;
        let masks = Wrapped::new(&mask[..period]);
        let saved: Vec<u8> =
            mask[..period].chunks_exact(granule).map(|mask| word_of(mask).count_ones() as u8).collect();
        let keeps = || mask[..period].chunks_exact(granule).map(|mask| !word_of(mask) & all(granule));
        Self {
            granule,
            period,
            masks,
            bitvals: Wrapped::new(&bitval[..period]),
            savings: Wrapped::new(&saved),
            gather: fields(granule, keeps().map(gather_steps)),
            scatter: fields(granule, keeps().map(scatter_steps)),
        }
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
        word_of(&self.masks[phase..phase + self.granule])
    }

    /// Their values.
    #[inline]
    pub(super) fn bitval(&self, phase: usize) -> u64 {
        word_of(&self.bitvals[phase..phase + self.granule])
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

/// The steps of each granule, as few fields as will do: the n-th step into a byte goes to the n-th of them.
fn fields(granule: usize, steps: impl Iterator<Item = Vec<Step>>) -> Vec<Fields> {
    let steps: Vec<Vec<Step>> = steps.collect();
    let len = granule * steps.len();
    let mut fields: Vec<[Vec<u8>; 2]> = Vec::new();
    let mut used = vec![0; len];
    for (i, step) in steps.iter().enumerate().flat_map(|(i, steps)| steps.iter().map(move |step| (i, step))) {
        let byte = granule * i + (step.to / 8) as usize;
        if used[byte] == fields.len() {
            fields.push([vec![0; len], vec![0; len]]);
        }
        let [starts, keeps] = &mut fields[used[byte]];
        starts[byte] = (step.from.wrapping_sub(step.to % 8) % 64) as u8;
        keeps[byte] = ((0xff >> (8 - step.len)) << (step.to % 8)) as u8;
        used[byte] += 1;
    }
    let wrap =
        |[starts, keeps]: [Vec<u8>; 2]| Fields { starts: Wrapped::new(&starts), keeps: Wrapped::new(&keeps) };
    fields.into_iter().map(wrap).collect()
}

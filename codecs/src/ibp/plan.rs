//! The invariant bits of a cluster, laid out for the coders.

#[cfg(target_arch = "x86_64")]
use std::sync::OnceLock;

#[cfg(target_arch = "x86_64")]
use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512;
use super::codebook::{Granule, Invariants};
use super::lines::Lines;
use super::portable::word_of;
use crate::Cpu;

/// The invariant bits of a cluster, with the tables of one instruction set. A *phase* is a place in the tensor in
/// bytes, always that of a granule.
#[derive(Debug)]
pub(super) struct Plan {
    /// Bytes of a granule.
    pub(super) granule: usize,
    /// Bytes of a tensor's whole granules.
    pub(super) period: usize,
    /// The tables by byte: number [`MASKS`](Self::MASKS), [`BITVALS`](Self::BITVALS), and from
    /// [`OTHERS`](Self::OTHERS) on those of the instruction set.
    pub(super) lines: Lines,
    /// Bits that each granule saves if it participates, and 64 more from the first on.
    pub(super) savings: Vec<u8>,
    /// AVX2 moves the kept bits of a granule by runs, so many at most; `None` if there are more than pay.
    pub(super) runs: Option<usize>,
    /// AVX-512 brings the kept bits of a granule together by 1, 2, 3, 4 or 8 fields.
    pub(super) gather: Fields,
    /// The inverse: 1 to 4 fields.
    pub(super) scatter: Fields,
    /// What AVX-512 knows of whole tensors; worked out when it is first needed, for frames never do.
    #[cfg(target_arch = "x86_64")]
    row: OnceLock<avx512::Row>,
}

/// Fields of up to eight bits, of which a byte of a tensor is made: as many for each byte. A field has two tables:
/// where in the granule its eight bits start, modulo 64, and which of them count.
#[derive(Clone, Copy, Debug, Default)]
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
    /// Number of the first table that is not the same for all.
    pub(super) const OTHERS: usize = 2;

    pub(super) fn new(cpu: Cpu, granule: Granule, Invariants { mask, bitval }: &Invariants) -> Self {
        let granule = granule.bytes();
        let period = mask.len() - mask.len() % granule;
        let masks: Vec<u64> = mask.chunks_exact(granule).map(word_of).collect();
        let saved: Vec<u8> = masks.iter().map(|mask| mask.count_ones() as u8).collect();
        let savings = saved.iter().copied().cycle().take(if period == 0 { 0 } else { saved.len() + 64 });
        let mut plan = Self {
            granule,
            period,
            lines: Lines::default(),
            savings: savings.collect(),
            runs: None,
            gather: Fields::default(),
            scatter: Fields::default(),
            #[cfg(target_arch = "x86_64")]
            row: OnceLock::new(),
        };
        let mut tables = vec![mask[..period].to_vec(), bitval[..period].to_vec()];
        plan.add_tables(cpu, &masks, &mut tables);
        plan.lines = Lines::new(tables.iter().map(Vec::as_slice));
        plan
    }

    /// Adds the tables of an instruction set for granules with these masks.
    #[cfg_attr(not(target_arch = "x86_64"), allow(unused_variables))]
    fn add_tables(&mut self, cpu: Cpu, masks: &[u64], tables: &mut Vec<Vec<u8>>) {
        match cpu {
            Cpu::Portable => {}
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(_) => self.runs = avx2::add_tables(self.granule, masks, tables),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(_) => {
                [self.gather, self.scatter] = avx512::add_tables(self.granule, masks, tables);
            }
        }
    }

    /// What AVX-512 knows of whole tensors.
    #[cfg(target_arch = "x86_64")]
    #[inline]
    pub(super) fn row(&self) -> &avx512::Row {
        self.row.get_or_init(|| avx512::Row::new(self))
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
pub(super) const fn all(granule: usize) -> u64 {
    if granule == 8 { u64::MAX } else { u32::MAX as u64 }
}

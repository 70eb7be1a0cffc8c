//! Rows to put into tables.

use mgcomp_codecs::ibp::{Codebook, Granule, Invariants};
use mgcomp_codecs::{Cpu, Isa};
use mgcomp_transport::table::{Sample, Table, TableOptions};

use crate::random::Random;

/// A row of small numbers of 32 bits, or now and then of anything.
pub(crate) fn row(random: &mut Random, len: usize) -> Vec<u8> {
    let wild = random.below(6) == 0;
    (0..len)
        .map(|i| if wild || i % 4 == 0 || random.below(90) == 0 { random.bits() as u8 } else { 0x3f })
        .collect()
}

pub(crate) fn rows(random: &mut Random, count: usize, len: usize) -> Vec<u8> {
    (0..count).flat_map(|_| row(random, len)).collect()
}

/// Looks at all rows, on this instruction set, with so many threads.
pub(crate) fn options(cpu: Cpu, clusters: usize, threads: usize) -> TableOptions {
    TableOptions { clusters, sample: Sample::All, threads, cpu, ..TableOptions::default() }
}

/// Every instruction set of this machine.
pub(crate) fn cpus() -> Vec<(Isa, Cpu)> {
    Cpu::available().map(|cpu| (cpu.isa(), cpu)).collect()
}

/// Rows of 10 bytes: two granules of 4 and a tail of 2. The high nibble of byte 0 is 3, byte 1 is 12, byte 7 is 40.
pub(crate) fn small_codebook() -> Codebook {
    let mask = vec![0xf0, 0xff, 0, 0, 0, 0, 0, 0xff, 0, 0];
    let bitval = vec![0x30, 0x12, 0, 0, 0, 0, 0, 0x40, 0, 0];
    Codebook::new(Granule::Four, 10, vec![Invariants { mask, bitval }]).unwrap()
}

/// Three rows for that codebook: of the first both granules match, of the second one, of the last none. The second would
/// not get shorter by it, so both are kept as they are.
pub(crate) const SMALL_ROWS: [u8; 30] = [
    0x35, 0x12, 0xab, 0xcd, 0x01, 0x02, 0x03, 0x40, 0x77, 0x88, //
    0x35, 0x12, 0xab, 0xcd, 0x01, 0x02, 0x03, 0x41, 0x77, 0x88, //
    0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a,
];

/// The first of them as it is stored: participation; 4 + 16 kept bits 5, ab, cd; then 24: 01, 02, 03; half a byte unused;
/// the tail.
pub(crate) const SMALL_STORED: [u8; 9] = [0b11, 0xb5, 0xda, 0x1c, 0x20, 0x30, 0x00, 0x77, 0x88];

pub(crate) fn small_table() -> Table {
    Table::with_codebook(SMALL_ROWS.to_vec(), small_codebook(), &TableOptions::default()).unwrap()
}

/// All rows of a table, one after the other.
pub(crate) fn all<M: AsRef<[u8]> + Sync>(table: &Table<M>) -> Vec<u8> {
    let mut out = vec![0; table.raw_bytes() as usize];
    let indices: Vec<u64> = (0..table.rows()).collect();
    table.gather(&indices, &mut out).unwrap();
    out
}

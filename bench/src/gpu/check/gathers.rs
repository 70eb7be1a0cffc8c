//! Rows of packed tables, gathered from memory of the host: those that the CPU gathers, bit for bit. Damaged rows are refused
//! exactly where the CPU refuses them, and nothing outside is touched either way.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{
    Device, GatherRows, PackedRows, PinnedBytes, RowReader, RowReport, Stream, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::ibp::{Form, Granule, Packer};
use mgcomp_codecs::{Cpu, Element};
use mgcomp_transport::table::{Sample, Table, TableOptions};

use super::case;
use super::error::{CheckError, compare, expect_len};
use super::guarded::Guarded;
use super::rig::Scratch;
use super::{Extent, Lab};
use crate::data::Random;

/// Rows of a table, at the most.
const ROWS: usize = 60;
/// Length of a row in bytes, at the most.
const MAX_ROW_LEN: usize = 3000;

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut random = Random::new(effort.seed.rotate_left(29) ^ u64::from(algorithm.number()));
    let scratch = Scratch::of_len(device, stream, workspace_len(ChunkSize::SMALL, &[]))?;
    let mut extent = Extent::default();
    for number in 0..effort.cases {
        let mut rows = Rows::random(device, stream, number, &mut random)?;
        for is_damaged in [false, true] {
            if is_damaged {
                rows.damage(&mut random);
            }
            extent.add(1, rows.gather(device, stream, &scratch, &mut random)?);
        }
        scratch.check(stream, &format_args!("table {number}"))?;
    }
    Ok(extent)
}

/// A table, in memory that can be damaged.
struct Rows {
    case: String,
    row_len: usize,
    count: usize,
    packer: Packer,
    reader: RowReader,
    slots: PinnedBytes,
    packed: Vec<u8>,
    clusters: Vec<u8>,
}

impl Rows {
    fn random(
        device: &Device,
        stream: &Stream,
        number: usize,
        random: &mut Random,
    ) -> Result<Self, CheckError> {
        let row_len = if random.percent(50) { 1 + random.below(200) } else { 1 + random.below(MAX_ROW_LEN) };
        let (count, clusters) = (12 + random.below(ROWS - 12), 1 + random.below(3));
        let case = format!("table {number} ({count} rows of {row_len} bytes, {clusters} clusters)");
        let granule = if random.percent(50) { Granule::Four } else { Granule::Eight };
        let options =
            TableOptions { granule: Some(granule), clusters, sample: Sample::All, ..TableOptions::default() };
        let table = Table::build(alike(row_len, count, random), row_len, &options)
            .map_err(|source| CheckError::Table { case: case.clone(), source })?;
        let mut slots = device.pinned_bytes(table.slots().len())?;
        slots.as_mut().copy_from_slice(table.slots());
        Ok(Self {
            case,
            row_len,
            count,
            packer: Packer::on(Cpu::active(), table.codebook().clone()),
            reader: device.row_reader(stream, table.codebook())?,
            slots,
            packed: table.packed_mask().to_vec(),
            clusters: table.row_clusters().to_vec(),
        })
    }

    fn damage(&mut self, random: &mut Random) {
        for _ in 0..1 + random.below(4) {
            let row = random.below(self.count);
            let at = row * self.row_len + random.below(self.row_len.min(40));
            match random.below(3) {
                0 => self.slots.as_mut()[at] ^= 1 << random.below(8),
                1 => self.packed[row / 8] ^= 1 << (row % 8),
                _ => {
                    if let Some(cluster) = self.clusters.get_mut(row) {
                        *cluster = random.bits() as u8;
                    }
                }
            }
        }
    }

    /// Gathers rows by chance; returns how many bytes these are.
    fn gather(
        &self,
        device: &Device,
        stream: &Stream,
        scratch: &Scratch,
        random: &mut Random,
    ) -> Result<u64, CheckError> {
        let case = &self.case;
        let beyond = usize::from(random.percent(20));
        let indices: Vec<u64> =
            (0..random.below(100)).map(|_| random.below(self.count + beyond) as u64).collect();
        let bytes: Vec<u8> = indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        let len = (indices.len() * self.row_len) as u64;
        let guarded = |what, content: &[u8]| Guarded::new(device, stream, what, content, 0);
        let indices_there = guarded("the indices", &bytes)?;
        let packed = guarded("the bits of the rows", &self.packed)?;
        let clusters = guarded("the clusters of the rows", &self.clusters)?;
        let out = Guarded::poisoned(device, stream, "the rows", len, random.below(16) as u64)?;
        let report = Guarded::poisoned(device, stream, "the report", RowReport::LEN, 0)?;
        let has_clusters = self.packer.codebook().clusters().len() > 1;
        let table = PackedRows {
            slots: &self.slots,
            packed: packed.region(),
            clusters: has_clusters.then(|| clusters.region()),
            cache: None,
        };
        let wanted =
            GatherRows { indices: indices_there.region(), out: out.region(), report: report.region() };
        self.reader.gather(stream, &mut scratch.workspace(), &table, &wanted)?;

        let report = report.read(stream, case)?;
        let report = RowReport::from_bytes(report.first_chunk().expect("as long as it was made"));
        self.judge(&indices, &report, &out.read(stream, case)?)?;
        indices_there.read(stream, case)?;
        packed.read(stream, case)?;
        clusters.read(stream, case)?;
        Ok(len)
    }

    /// Compares what came with what the CPU makes of each row.
    fn judge(&self, indices: &[u64], report: &RowReport, out: &[u8]) -> Result<(), CheckError> {
        let (mut first_wrong, mut stored) = (None, 0);
        for ((position, &index), out) in (0..).zip(indices).zip(out.chunks(self.row_len)) {
            let mut row = vec![0; self.row_len];
            match self.unpack(index, &mut row) {
                Some(len) => {
                    compare(&format_args!("{}, position {position}", self.case), "the rows", out, &row)?;
                    stored += len;
                }
                None => first_wrong = first_wrong.or(Some(position)),
            }
        }
        let (case, got) = (self.case.clone(), report.status);
        match first_wrong {
            None if got.code != 0 => Err(CheckError::Refused { case, got }),
            Some(_) if got.code == 0 => Err(CheckError::Accepted { case }),
            Some(position) => expect_len(&case, "the way to the first wrong row", got.chunk, position),
            None => expect_len(&case, "all that was read", report.stored_bytes, stored),
        }
    }

    /// The stored length of a row, if the CPU takes it.
    fn unpack(&self, index: u64, row: &mut [u8]) -> Option<usize> {
        let at = usize::try_from(index).ok().filter(|&at| at < self.count)?;
        let slot = &self.slots.as_ref()[at * self.row_len..][..self.row_len];
        let is_packed = self.packed[at / 8] >> (at % 8) & 1 == 1;
        let cluster = self.clusters.get(at).copied().unwrap_or(0);
        let form = if is_packed { Form::Packed { cluster } } else { Form::Raw };
        self.packer.unpack(form, slot, row).ok()
    }
}

/// Rows that share bits, but for some bytes by chance.
fn alike(row_len: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let first = case::bytes(row_len, Element::F32, random);
    let masks: Vec<u8> = (0..row_len).map(|_| [0xff, 0xf0, 0x81, 0][random.below(4)]).collect();
    let mut rows = Vec::with_capacity(row_len * count);
    for _ in 0..count {
        let is_stray = random.percent(20);
        for (byte, mask) in first.iter().zip(&masks) {
            let mask = if is_stray && random.percent(10) { 0 } else { *mask };
            rows.push(byte & mask | random.bits() as u8 & !mask);
        }
    }
    rows
}

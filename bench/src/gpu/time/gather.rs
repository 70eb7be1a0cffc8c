//! Rows of a table in pinned memory of the host, gathered by the device: packed, beside the same rows as they are, which
//! the same kernel reads there.

use mgcomp_codecs::device::{Buffer, Device, GatherRows, RowReport, Stream, Workspace, workspace_len};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::ibp::{Codebook, Granule, Invariants};
use mgcomp_transport::table::{DeviceTable, Gathered as Read, Table, TableError, TableOptions};

use super::TimeError;
use super::clock::{Clock, median};
use crate::data::Random;
use crate::gather::rows::{Rows, chosen_saving};
use crate::gpu::report::{Gathered, rounded};

/// How much is saved of rows, as in the paper's microbenchmark.
pub(super) const SAVINGS: [u32; 3] = [0, 50, 90];
/// Bytes of a row.
pub(super) const ROW_LEN: usize = 1024;

/// Times gathers of `count` rows of as many, by chance.
pub(super) fn time(
    device: &Device,
    saved_percent: u32,
    count: usize,
    rounds: usize,
) -> Result<Gathered, TimeError> {
    let rows = chosen_saving(ROW_LEN, saved_percent, ROW_LEN * count);
    let clock = Clock::new(device)?;
    let packed = DeviceTable::build(device, &clock.stream, &rows.bytes, ROW_LEN, &TableOptions::default())?;
    let plain = plain(device, &clock.stream, &rows)?;
    let mut contest = Contest::new(device, clock, &rows, count)?;
    let read = contest.check(&packed)?;
    contest.check(&plain)?;
    let mut times = [Vec::new(), Vec::new()];
    // The first round warms up.
    for round in 0..=rounds {
        for (table, times) in [&plain, &packed].into_iter().zip(&mut times) {
            let seconds = contest.time(table)?;
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    contest.check(&packed)?;
    let bytes = (count * ROW_LEN) as f64;
    let [plain_seconds, packed_seconds] = times.map(|mut times| median(&mut times).max(1e-12));
    let table = packed.table();
    Ok(Gathered {
        dataset: rows.name,
        row_bytes: ROW_LEN,
        rows: count,
        rounds,
        saved_percent: rounded(100.0 - 100.0 * table.stored_bytes() as f64 / table.raw_bytes() as f64),
        link_bytes_per_byte: rounded(read.link_bytes as f64 / bytes),
        plain_gbps: rounded(bytes / plain_seconds / 1e9),
        packed_gbps: rounded(bytes / packed_seconds / 1e9),
        speed_up: rounded(plain_seconds / packed_seconds),
    })
}

/// A table of the rows that saves nothing.
fn plain(device: &Device, stream: &Stream, rows: &Rows) -> Result<DeviceTable, TimeError> {
    let mut memory = device.pinned_bytes(rows.bytes.len())?;
    memory.as_mut().copy_from_slice(&rows.bytes);
    let wrong = |error: TableError| TimeError::Table(Box::new(error.into()));
    let nothing = Invariants { mask: vec![0; ROW_LEN], bitval: vec![0; ROW_LEN] };
    let codebook =
        Codebook::new(Granule::Eight, ROW_LEN, vec![nothing]).map_err(|error| wrong(error.into()))?;
    let table = Table::with_codebook(memory, codebook, &TableOptions::default()).map_err(wrong)?;
    Ok(DeviceTable::new(device, stream, table)?)
}

/// Rows that are gathered again and again.
struct Contest<'a> {
    clock: Clock,
    rows: &'a Rows,
    order: Vec<u64>,
    indices: Buffer,
    out: Buffer,
    report: Buffer,
    workspace: Workspace<'static>,
}

impl<'a> Contest<'a> {
    fn new(device: &Device, clock: Clock, rows: &'a Rows, count: usize) -> Result<Self, TimeError> {
        let mut random = Random::new(3);
        let order: Vec<u64> = (0..count).map(|_| random.below(count) as u64).collect();
        let bytes: Vec<u8> = order.iter().flat_map(|index| index.to_le_bytes()).collect();
        let indices = device.alloc(bytes.len() as u64)?;
        clock.stream.upload(&bytes, indices.region())?;
        let workspace = device.workspace(&clock.stream, workspace_len(ChunkSize::SMALL, &[]))?;
        let (out, report) = (device.alloc((count * ROW_LEN) as u64)?, device.alloc(RowReport::LEN)?);
        Ok(Self { clock, rows, order, indices, out, report, workspace })
    }

    /// Seconds of a gather.
    fn time(&mut self, table: &DeviceTable) -> Result<f64, TimeError> {
        let Self { clock, indices, out, report, workspace, .. } = self;
        let wanted = GatherRows { indices: indices.region(), out: out.region(), report: report.region() };
        let time = clock.time(|stream| table.gather(stream, workspace, &wanted).map_err(TimeError::from))?;
        Ok(time.as_secs_f64())
    }

    /// Fails unless every row comes, bit for bit.
    fn check(&mut self, table: &DeviceTable) -> Result<Read, TimeError> {
        self.clock.stream.zero(self.out.region())?;
        self.time(table)?;
        let Self { clock, indices, out, report, .. } = self;
        let wanted = GatherRows { indices: indices.region(), out: out.region(), report: report.region() };
        let read = table.gathered(&clock.stream, &wanted)?;
        let mut got = vec![0; self.out.region().len() as usize];
        self.clock.stream.download(self.out.region(), &mut got)?;
        let expected =
            self.order.iter().flat_map(|&index| &self.rows.bytes[index as usize * ROW_LEN..][..ROW_LEN]);
        match got.iter().zip(expected).position(|(got, wanted)| got != wanted) {
            Some(offset) => Err(TimeError::Gather { rows: self.rows.name.clone(), offset }),
            None => Ok(read),
        }
    }
}

//! Gathers over a link that is simulated, and without one.

use std::time::{Duration, Instant};

use mgcomp_transport::simulated::SimulatedLink;
use mgcomp_transport::table::{Gathered, Table, TableError};

use super::rows::Rows;
use crate::data::Random;
use crate::error::BenchError;
use crate::timing::race;

/// Series of indices that take turns, so that a gather does not meet the rows of the last one.
const BATCHES: usize = 16;

/// What a gather of a batch takes, on average over all batches.
pub(super) struct Times {
    /// Bytes of the rows of a batch.
    pub(super) raw_bytes: u64,
    /// Bytes that a batch of plain rows moves over the link, in aligned pieces; and of packed ones.
    pub(super) plain_link_bytes: u64,
    pub(super) link_bytes: u64,
    /// Plain rows over the link.
    pub(super) plain: Duration,
    /// Packed rows over the link.
    pub(super) packed: Duration,
    /// The same without a link: only the cores' part.
    pub(super) plain_local: Duration,
    pub(super) packed_local: Duration,
}

impl Times {
    /// 10⁹ bytes of rows per second.
    pub(super) fn gbps(&self, time: Duration) -> f64 {
        self.raw_bytes as f64 / time.as_nanos().max(1) as f64
    }

    pub(super) fn speed_up(&self) -> f64 {
        self.plain.as_secs_f64() / self.packed.as_secs_f64()
    }

    /// Speed relative to a link that is never waited for by anything.
    pub(super) fn of_ideal(&self, link: &SimulatedLink) -> f64 {
        link.shaping().duration(self.link_bytes).as_secs_f64() / self.packed.as_secs_f64()
    }
}

/// One way to have the rows of a batch.
#[derive(Clone, Copy)]
struct Way<'a> {
    table: &'a Table,
    /// What each batch moves over the link, if there is one.
    link_bytes: Option<&'a [u64]>,
}

/// Times gathers of `batch` rows by chance from `plain`, whose rows are all raw, and from `packed`, whose are not. Each gather
/// is checked before.
pub(super) fn measure(
    rows: &Rows,
    [plain, packed]: [&Table; 2],
    batch: usize,
    link: &SimulatedLink,
    budget: Duration,
) -> Result<Times, BenchError> {
    let mut random = Random::new(7);
    let count = plain.rows() as usize;
    let series = |random: &mut Random| (0..batch).map(|_| random.below(count) as u64).collect();
    let batches: Vec<Vec<u64>> = (0..BATCHES).map(|_| series(&mut random)).collect();
    let mut out = vec![0; batch * rows.row_len];
    let failed = |source| BenchError::Table { data: rows.name.clone(), source };
    let mut check = |table: &Table| -> Result<Vec<u64>, BenchError> {
        let bytes =
            batches.iter().map(|indices| checked(rows, table, indices, &mut out).map(|g| g.link_bytes));
        bytes.collect()
    };
    let bytes = [check(plain)?, check(packed)?];

    let way = |table, link_bytes| Way { table, link_bytes };
    let ways = [
        way(plain, Some(&bytes[0][..])),
        way(packed, Some(&bytes[1][..])),
        way(plain, None),
        way(packed, None),
    ];
    let mut next = 0;
    let times = race(&ways, budget, |way, calls| {
        let started = Instant::now();
        for _ in 0..calls {
            next = (next + 1) % BATCHES;
            way.gather(&batches[next], next, link, &mut out)?;
        }
        Ok(started.elapsed())
    });
    let times = times.map_err(failed)?;
    let mean = |bytes: &[u64]| bytes.iter().sum::<u64>() / BATCHES as u64;
    Ok(Times {
        raw_bytes: (batch * rows.row_len) as u64,
        plain_link_bytes: mean(&bytes[0]),
        link_bytes: mean(&bytes[1]),
        plain: times[0],
        packed: times[1],
        plain_local: times[2],
        packed_local: times[3],
    })
}

impl Way<'_> {
    fn gather(
        self,
        indices: &[u64],
        batch: usize,
        link: &SimulatedLink,
        out: &mut [u8],
    ) -> Result<(), TableError> {
        // The bytes cross while rows that are there already are decoded, as a device does with a row per warp.
        let arrival = self.link_bytes.map(|bytes| link.reserve(bytes[batch]));
        self.table.gather(indices, std::hint::black_box(out))?;
        if let Some(arrival) = arrival {
            arrival.wait();
        }
        Ok(())
    }
}

/// A gather whose every byte is compared.
fn checked(rows: &Rows, table: &Table, indices: &[u64], out: &mut [u8]) -> Result<Gathered, BenchError> {
    out.fill(0xa5);
    let gathered =
        table.gather(indices, out).map_err(|source| BenchError::Table { data: rows.name.clone(), source })?;
    for (&index, got) in indices.iter().zip(out.chunks_exact(rows.row_len)) {
        if got != &rows.bytes[index as usize * rows.row_len..][..rows.row_len] {
            return Err(BenchError::WrongRow { data: rows.name.clone(), row: index });
        }
    }
    Ok(gathered)
}

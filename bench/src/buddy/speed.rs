//! How fast a pool is written and read.

use std::time::{Duration, Instant};

use mgcomp_transport::buddy::{BuddyPool, Form, Target};

use super::BuddyBenchError;
use super::measure::{Forms, Row};
use super::snapshot::Snapshot;
use crate::data;
use crate::error::BenchError;
use crate::timing::{Buffer, memcpy, race};

/// The threshold whose targets are taken.
const THRESHOLD: u8 = 30;

/// Of each form the snapshot that shrinks most under it, but for those that are almost nothing.
#[derive(Default)]
pub(super) struct Candidates {
    best: [Option<(Snapshot, Form, Target)>; 2],
}

/// What was measured of one form.
pub(super) struct Speed {
    pub(super) label: String,
    pub(super) bytes: usize,
    pub(super) form: Form,
    pub(super) target: Target,
    pub(super) write_gbps: f64,
    pub(super) read_gbps: f64,
    pub(super) memcpy_gbps: f64,
}

#[derive(Clone, Copy)]
enum Operation {
    Write,
    Read,
    Memcpy,
}

impl Candidates {
    /// Takes `snapshot` for a form whose target is higher than that of the one taken before, up to 4.
    pub(super) fn offer(&mut self, snapshot: Snapshot, rows: &[Row]) {
        let target_of = |forms| {
            let row = rows.iter().find(|row| row.forms == forms && row.threshold == THRESHOLD);
            row.map(|row| (row.choice.form, row.choice.target)).filter(|(_, target)| *target <= Target::Four)
        };
        let mut snapshot = Some(snapshot);
        for (forms, best) in [Forms::Bpc, Forms::Xp].into_iter().zip(&mut self.best) {
            let before = best.as_ref().map_or(Target::One, |(_, _, target)| *target);
            if let Some((form, target)) = target_of(forms)
                && target > before
                && let Some(snapshot) = snapshot.take()
            {
                *best = Some((snapshot, form, target));
            }
        }
    }

    pub(super) fn measure(self, bytes: usize, budget: Duration) -> Result<Vec<Speed>, BenchError> {
        let candidates = self.best.into_iter().flatten();
        candidates.map(|(snapshot, form, target)| measure(&snapshot, (form, target), bytes, budget)).collect()
    }
}

fn measure(
    snapshot: &Snapshot,
    (form, target): (Form, Target),
    bytes: usize,
    budget: Duration,
) -> Result<Speed, BenchError> {
    let buffer = || Buffer::new(bytes).map_err(|source| BenchError::Buffer { bytes, source });
    let (mut raw, mut out) = (buffer()?, buffer()?);
    data::tile(&snapshot.bytes, snapshot.element.width_bytes(), &mut raw);
    let times = times(&raw, &mut out, form, target, budget);
    let [write, read, memcpy] =
        times.map_err(|source| BenchError::Buddy { label: snapshot.label.clone(), source })?;
    let gbps = |time: Duration| bytes as f64 / time.as_secs_f64() / 1e9;
    Ok(Speed {
        label: snapshot.label.clone(),
        bytes,
        form,
        target,
        write_gbps: gbps(write),
        read_gbps: gbps(read),
        memcpy_gbps: gbps(memcpy),
    })
}

/// The best times of a write, a read and a copy, after what was read has been compared with what was written.
fn times(
    raw: &[u8],
    out: &mut [u8],
    form: Form,
    target: Target,
    budget: Duration,
) -> Result<[Duration; 3], BuddyBenchError> {
    let len = raw.len() as u64;
    let footprint = form.footprint(len, target);
    let mut pool = BuddyPool::new(footprint.device_bytes + footprint.metadata_bytes, footprint.buddy_bytes)?;
    let allocation = pool.alloc_as(len, form, target)?;
    pool.write(allocation, 0..len, raw)?;
    pool.read(allocation, 0..len, out)?;
    if let Some(offset) = out.iter().zip(raw).position(|(back, raw)| back != raw) {
        return Err(BuddyBenchError::RoundTrip { offset });
    }
    let operations = [Operation::Write, Operation::Read, Operation::Memcpy];
    let best = race(&operations, budget, |operation, calls| -> Result<Duration, BuddyBenchError> {
        let start = Instant::now();
        for _ in 0..calls {
            match operation {
                Operation::Write => pool.write(allocation, 0..len, raw)?,
                Operation::Read => pool.read(allocation, 0..len, out)?,
                Operation::Memcpy => return Ok(memcpy(raw, out, 1, calls)),
            }
        }
        Ok(start.elapsed())
    })?;
    Ok([best[0], best[1], best[2]])
}

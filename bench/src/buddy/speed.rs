//! How fast a pool is written and read.

use std::rc::Rc;
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
    best: [Option<(Rc<Snapshot>, Form, Target)>; 2],
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
        // Both forms may take it.
        let snapshot = Rc::new(snapshot);
        for (forms, best) in [Forms::Bpc, Forms::Xp].into_iter().zip(&mut self.best) {
            let before = best.as_ref().map_or(Target::One, |(_, _, target)| *target);
            if let Some((form, target)) = target_of(forms)
                && target > before
            {
                *best = Some((snapshot.clone(), form, target));
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

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Element;

    use super::super::measure;
    use super::super::snapshot::Class;
    use super::*;

    #[test]
    fn a_snapshot_may_be_the_best_of_both_forms() {
        // Every other float is zero, and the others begin alike: both forms find something.
        let float = |i: u32| if i.is_multiple_of(2) { 0.0 } else { 1.0 + (i % 64) as f32 / 64.0 };
        let bytes = (0..20_000).flat_map(|i| float(i).to_le_bytes()).collect();
        let snapshot = Snapshot { label: "x".into(), class: Class::Other, element: Element::F32, bytes };
        let rows = measure::measure(&snapshot).unwrap();
        let mut candidates = Candidates::default();
        candidates.offer(snapshot, &rows);
        let speeds = candidates.measure(64 << 10, Duration::from_nanos(1)).unwrap();
        assert_eq!(speeds.iter().map(|speed| speed.label.as_str()).collect::<Vec<_>>(), ["x", "x"]);
        assert_ne!(speeds[0].form, speeds[1].form);
    }
}

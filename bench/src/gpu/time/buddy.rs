//! Entries written to and read from buddy memory in pinned memory of the host, beside a copy in device memory.

use mgcomp_codecs::device::{Buffer, Device, EntryReport, Region, Stream, Workspace, workspace_len};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_transport::buddy::{Allocation, DeviceBuddyError, DeviceBuddyPool, Target};

use super::TimeError;
use super::clock::{Clock, median};
use crate::data::Random;
use crate::gpu::report::{Buddied, rounded};

/// How many of a hundred entries do not fit their slots.
pub(super) const OVERFLOWS: [u32; 3] = [0, 10, 30];
const TARGET: Target = Target::Two;
/// Bytes of an entry.
pub(super) const ENTRY_LEN: usize = 128;

/// Times writes and reads of an allocation of `bytes`, of whose entries so many by chance do not fit.
pub(super) fn time(
    device: &Device,
    overflow_percent: u32,
    bytes: usize,
    rounds: usize,
) -> Result<Buddied, TimeError> {
    let raw = entries(bytes, overflow_percent);
    let mut contest = Contest::new(device, &raw)?;
    contest.check(&raw)?;
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    // The first round warms up.
    for round in 0..=rounds {
        for (way, times) in [Way::Copy, Way::Write, Way::Read].into_iter().zip(&mut times) {
            let seconds = contest.time(way)?;
            if round > 0 {
                times.push(seconds);
            }
        }
    }
    contest.check(&raw)?;
    let stats = contest.pool.stats(&contest.clock.stream)?;
    let [copy, write, read] = times.map(|mut times| median(&mut times).max(1e-12));
    let gbps = |seconds: f64| rounded(bytes as f64 / seconds / 1e9);
    Ok(Buddied {
        target: TARGET.name(),
        bytes,
        rounds,
        overflow_percent: rounded(100.0 * stats.overflowing_entries as f64 / stats.entries as f64),
        capacity: rounded(stats.effective_capacity()),
        copy_gbps: gbps(copy),
        write_gbps: gbps(write),
        read_gbps: gbps(read),
        write_of_copy: rounded(copy / write),
        read_of_copy: rounded(copy / read),
    })
}

/// Entries of small differences, which fit half their room, and entries by chance, which do not.
fn entries(bytes: usize, overflow_percent: u32) -> Vec<u8> {
    let mut random = Random::new(11);
    let mut raw = Vec::with_capacity(bytes + ENTRY_LEN);
    while raw.len() < bytes {
        let is_noise = random.percent(overflow_percent as usize);
        let mut word = random.bits() as u32;
        for _ in 0..ENTRY_LEN / 4 {
            let bits = random.bits() as u32;
            word = if is_noise { bits } else { word.wrapping_add(bits & 0xff) };
            raw.extend(word.to_le_bytes());
        }
    }
    raw.truncate(bytes);
    raw
}

#[derive(Clone, Copy)]
enum Way {
    Copy,
    Write,
    Read,
}

/// An allocation that is written and read again and again.
struct Contest {
    clock: Clock,
    pool: DeviceBuddyPool,
    allocation: Allocation,
    from: Buffer,
    to: Buffer,
    report: Buffer,
    workspace: Workspace<'static>,
}

impl Contest {
    fn new(device: &Device, raw: &[u8]) -> Result<Self, TimeError> {
        let (clock, len) = (Clock::new(device)?, raw.len() as u64);
        let room = len / 2 + len / 256 + 4096;
        let mut pool = DeviceBuddyPool::new(device, room, room)?;
        let allocation = pool.alloc(&clock.stream, len, TARGET)?;
        let (from, to, report) = (device.alloc(len)?, device.alloc(len)?, device.alloc(EntryReport::LEN)?);
        clock.stream.upload(raw, from.region())?;
        let workspace = device.workspace(&clock.stream, workspace_len(ChunkSize::SMALL, &[]))?;
        Ok(Self { clock, pool, allocation, from, to, report, workspace })
    }

    /// Seconds of one way.
    fn time(&mut self, way: Way) -> Result<f64, TimeError> {
        let Self { clock, pool, allocation, from, to, report, workspace } = self;
        let (from, to, report): (Region<'_>, Region<'_>, _) = (from.region(), to.region(), report.region());
        let enqueue = |stream: &Stream| -> Result<(), TimeError> {
            match way {
                Way::Copy => stream.copy(from, to)?,
                Way::Write => pool.enqueue_write(stream, workspace, *allocation, 0, from, report)?,
                Way::Read => pool.enqueue_read(stream, workspace, *allocation, 0, to, report)?,
            }
            Ok(())
        };
        Ok(clock.time(enqueue)?.as_secs_f64())
    }

    /// Fails unless what was written comes back, bit for bit.
    fn check(&mut self, raw: &[u8]) -> Result<(), TimeError> {
        for way in [Way::Write, Way::Read] {
            self.clock.stream.zero(self.to.region())?;
            self.time(way)?;
            self.pool.moved(&self.clock.stream, self.report.region())?;
        }
        let mut got = vec![0; raw.len()];
        self.clock.stream.download(self.to.region(), &mut got)?;
        match got.iter().zip(raw).position(|(got, wanted)| got != wanted) {
            Some(offset) => Err(TimeError::Buddy { offset }),
            None => Ok(()),
        }
    }
}

impl From<DeviceBuddyError> for TimeError {
    fn from(error: DeviceBuddyError) -> Self {
        match error {
            DeviceBuddyError::Device(error) => error.into(),
            error => Self::Pool(Box::new(error)),
        }
    }
}

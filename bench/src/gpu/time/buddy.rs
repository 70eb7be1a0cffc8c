//! Entries written to and read from buddy memory in pinned memory of the host, beside a copy in device memory.

use mgcomp_codecs::device::{Buffer, Device, EntryReport, Region, Stream, Workspace, workspace_len};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::buddy::{Allocation, DeviceBuddyError, DeviceBuddyPool, Form, Target};

use super::TimeError;
use super::clock::{Clock, median};
use crate::data::Random;
use crate::gpu::report::{Buddied, rounded};

/// How many of a hundred entries do not fit their slots.
pub(super) const OVERFLOWS: [u32; 3] = [0, 10, 30];
/// Bytes that an allocation has a multiple of.
pub(super) const LINE_LEN: usize = 128;

/// What is timed.
#[derive(Clone, Copy)]
pub(super) struct Subject {
    /// Whose kernels these are.
    pub(super) algorithm: Algorithm,
    pub(super) form: Form,
    target: Target,
}

pub(super) const SUBJECTS: [Subject; 2] = [
    Subject { algorithm: Algorithm::Bpc, form: Form::Bpc, target: Target::Two },
    Subject { algorithm: Algorithm::Xp, form: Form::Xp(Element::Bf16), target: Target::FourThirds },
];

/// Times writes and reads of an allocation of `bytes`, of whose entries so many by chance do not fit.
pub(super) fn time(
    device: &Device,
    subject: Subject,
    overflow_percent: u32,
    bytes: usize,
    rounds: usize,
) -> Result<Buddied, TimeError> {
    let raw = entries(subject.form, bytes, overflow_percent);
    let mut contest = Contest::new(device, subject, &raw)?;
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
        form: subject.form.name(),
        target: subject.target.name(),
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

/// Entries that fit their slots: of BPC words of small differences, of XP floats of few exponents; and entries by chance,
/// which do not.
fn entries(form: Form, bytes: usize, overflow_percent: u32) -> Vec<u8> {
    let mut random = Random::new(11);
    let mut raw = Vec::with_capacity(bytes + form.entry_len());
    while raw.len() < bytes {
        let is_noise = random.percent(overflow_percent as usize);
        let mut word = random.bits() as u32;
        for _ in 0..form.entry_len() / 4 {
            let bits = random.bits();
            word = match form {
                _ if is_noise => bits as u32,
                Form::Bpc => word.wrapping_add(bits as u32 & 0xff),
                _ => u32::from(float(bits as u32)) << 16 | u32::from(float((bits >> 32) as u32)),
            };
            raw.extend(word.to_le_bytes());
        }
    }
    raw.truncate(bytes);
    raw
}

/// The bits of a bf16 below 1, of any sign and fraction; each exponent is twice as common as the next lower one.
fn float(bits: u32) -> u16 {
    let exponent = 126 - (bits >> 8).trailing_ones();
    let [sign, fraction] = [bits >> 7 & 1, bits & 0x7f];
    (sign << 15 | exponent << 7 | fraction) as u16
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
    fn new(device: &Device, Subject { form, target, .. }: Subject, raw: &[u8]) -> Result<Self, TimeError> {
        let (clock, len) = (Clock::new(device)?, raw.len() as u64);
        let footprint = form.footprint(len, target);
        let room = footprint.device_bytes + footprint.metadata_bytes;
        let mut pool = DeviceBuddyPool::new(device, room, footprint.buddy_bytes)?;
        let allocation = pool.alloc_as(&clock.stream, len, form, target)?;
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

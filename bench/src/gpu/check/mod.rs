//! What must hold before anything is timed: kernels equal the CPU's codecs, bit for bit.

mod case;
mod damage;
mod entries;
mod error;
mod gathers;
mod graphs;
mod guarded;
mod hostile;
mod large;
mod peers;
mod reductions;
mod rig;
mod round_trips;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, Stream};

use super::report::{Checked, Report};
use crate::error::BenchError;
use error::CheckError;
pub(super) use peers::{Peer, config as copy_config};

/// How much is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Buffers in each check of each algorithm.
    pub(super) cases: usize,
    /// Bytes of the one large buffer.
    pub(super) large_bytes: usize,
    /// How often a recorded copy is repeated.
    pub(super) replays: usize,
    pub(super) seed: u64,
}

/// Where checks run.
struct Lab<'a> {
    device: &'a Device,
    stream: Stream,
    effort: Effort,
}

/// What a check went through.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Extent {
    buffers: usize,
    bytes: u64,
}

impl Extent {
    fn add(&mut self, buffers: usize, bytes: u64) {
        self.buffers += buffers;
        self.bytes += bytes;
    }
}

/// Goes through one thing that must hold for an algorithm.
type Check = fn(&Lab<'_>, Algorithm) -> Result<Extent, CheckError>;

/// Every check of kernels, with its name.
const KERNELS: [(&str, Check); 4] = [
    ("round trips", round_trips::check),
    ("one large buffer", large::check),
    ("graphs", graphs::check),
    ("hostile frames", hostile::check),
];

/// Of the tables of IBP.
const GATHERS: [(&str, Check); 1] = [("gathers of rows", gathers::check)];

/// Of buddy memory, whose entries are BPC's or XP's.
const ENTRIES: [(&str, Check); 1] = [("entries in buddy memory", entries::check)];

/// Of what the library makes of kernels that passed these. It has no guards around its memory, so others might harm it.
const COPIES: [(&str, Check); 2] = [("peer copies", peers::copies), ("repeated copies", peers::repeated)];

/// Checks the kernels of `algorithms`, and that of reductions if `reduces`, and reports each check. An error of the device ends it, because nothing can
/// be said of what would come after.
pub(super) fn run(
    device: &Device,
    algorithms: &[Algorithm],
    reduces: bool,
    effort: Effort,
    report: &mut Report,
) -> Result<(), BenchError> {
    let lab = Lab { device, stream: device.stream()?, effort };
    let (mut failed, mut checks) = (0, 0);
    for &algorithm in algorithms {
        let others = match algorithm {
            Algorithm::Ibp => &GATHERS[..],
            Algorithm::Bpc | Algorithm::Xp => &ENTRIES[..],
            _ => &[],
        };
        let wrong = lab.check(algorithm, &KERNELS, report)? + lab.check(algorithm, others, report)?;
        (failed, checks) = (failed + wrong, checks + KERNELS.len() + others.len());
        if wrong == 0 {
            failed += lab.check(algorithm, &COPIES, report)?;
            checks += COPIES.len();
        }
    }
    if reduces {
        failed += usize::from(!lab.report("reduce", "reductions", reductions::check(&lab), report)?);
        checks += 1;
    }
    match failed {
        0 => Ok(()),
        _ => Err(BenchError::Checks { failed, checks }),
    }
}

impl Lab<'_> {
    /// Goes through `checks`; returns how many failed.
    fn check(
        &self,
        algorithm: Algorithm,
        checks: &[(&'static str, Check)],
        report: &mut Report,
    ) -> Result<usize, BenchError> {
        let mut failed = 0;
        for &(name, check) in checks {
            failed += usize::from(!self.report(algorithm.name(), name, check(self, algorithm), report)?);
        }
        Ok(failed)
    }

    /// Reports what came of a check of the kernels of this name; returns whether they passed.
    fn report(
        &self,
        kernels: &'static str,
        check: &'static str,
        result: Result<Extent, CheckError>,
        report: &mut Report,
    ) -> Result<bool, BenchError> {
        let (extent, error) = match result {
            Ok(extent) => (extent, None),
            Err(error) => (Extent::default(), Some(error)),
        };
        report.checked(Checked {
            check,
            algorithm: kernels,
            passed: error.is_none(),
            buffers: extent.buffers,
            bytes: extent.bytes,
            error: error.as_ref().map(ToString::to_string),
        })?;
        match error {
            Some(CheckError::Device(error)) => Err(error.into()),
            error => Ok(error.is_none()),
        }
    }
}

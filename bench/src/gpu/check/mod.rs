//! What must hold before anything is timed: kernels equal the CPU's codecs, bit for bit.

mod case;
mod damage;
mod error;
mod graphs;
mod guarded;
mod hostile;
mod large;
mod rig;
mod round_trips;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, Stream};

use super::report::{Checked, Report};
use crate::error::BenchError;
use error::CheckError;

/// How much is checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Effort {
    /// Buffers in each check of each algorithm.
    pub(super) cases: usize,
    /// Bytes of the one large buffer.
    pub(super) large_bytes: usize,
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

/// Every check, with its name.
const CHECKS: [(&str, Check); 4] = [
    ("round trips", round_trips::check),
    ("one large buffer", large::check),
    ("graphs", graphs::check),
    ("hostile frames", hostile::check),
];

/// Checks the kernels of `algorithms` and reports each check. An error of the device ends it, because nothing can
/// be said of what would come after.
pub(super) fn run(
    device: &Device,
    algorithms: &[Algorithm],
    effort: Effort,
    report: &mut Report,
) -> Result<(), BenchError> {
    let lab = Lab { device, stream: device.stream()?, effort };
    let mut failed = 0;
    for &algorithm in algorithms {
        for (name, check) in CHECKS {
            let result = check(&lab, algorithm);
            let (extent, error) = match result {
                Ok(extent) => (extent, None),
                Err(error) => (Extent::default(), Some(error)),
            };
            report.checked(Checked {
                check: name,
                algorithm: algorithm.name(),
                passed: error.is_none(),
                buffers: extent.buffers,
                bytes: extent.bytes,
                error: error.as_ref().map(ToString::to_string),
            })?;
            if let Some(CheckError::Device(error)) = error {
                return Err(error.into());
            }
            failed += usize::from(error.is_some());
        }
    }
    match failed {
        0 => Ok(()),
        _ => Err(BenchError::Checks { failed, checks: algorithms.len() * CHECKS.len() }),
    }
}

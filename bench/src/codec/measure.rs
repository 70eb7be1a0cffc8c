//! One row: a candidate against memcpy, its answers checked.

use std::time::Duration;

use mgcomp_codecs::frame::Options;

use super::plan::Combination;
use super::subject::Subject;
use crate::error::BenchError;
use crate::timing::{Blocks, Buffer, Candidate, CandidateError, Framed, memcpy, race};

/// Where a combination is measured: the data, and a place of the same size to copy and to decode to.
pub(super) struct Place {
    pub(super) raw: Buffer,
    pub(super) out: Buffer,
    /// After how many bytes `raw` repeats itself.
    pub(super) tile_len: usize,
}

/// Best times of one call on the whole buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Times {
    pub(super) memcpy: Duration,
    pub(super) encode: Duration,
    pub(super) decode: Duration,
    /// None for libraries, which have no way.
    pub(super) estimate: Option<Duration>,
    pub(super) sample: Option<Duration>,
}

/// What was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Measured {
    pub(super) coded_len: u64,
    /// What the sampled estimator takes that for.
    pub(super) sampled_len: Option<u64>,
    pub(super) times: Times,
}

/// Times `combination` for about `budget`.
pub(super) fn measure(
    combination: &Combination<'_>,
    place: &mut Place,
    checksum: bool,
    budget: Duration,
) -> Result<Measured, BenchError> {
    let candidate = candidate(combination, place, checksum).map_err(|source| failed(combination, source))?;
    let mut contest = Contest { combination, candidate, place, is_checked: false, sampled_len: None };
    let mut operations = vec![Operation::Memcpy, Operation::Encode, Operation::Decode];
    if matches!(combination.subject, Subject::Codec(_)) {
        operations.extend([Operation::Estimate, Operation::Sample]);
    }
    let best = race(&operations, budget, |operation, calls| contest.time(operation, calls))?;
    let of = |operation| operations.iter().position(|&o| o == operation).map(|at| best[at]);
    let always = |operation| of(operation).unwrap_or_default();
    let times = Times {
        memcpy: always(Operation::Memcpy),
        encode: always(Operation::Encode),
        decode: always(Operation::Decode),
        estimate: of(Operation::Estimate),
        sample: of(Operation::Sample),
    };
    Ok(Measured { coded_len: contest.candidate.coded_len(), sampled_len: contest.sampled_len, times })
}

fn candidate(
    combination: &Combination<'_>,
    place: &Place,
    checksum: bool,
) -> Result<Box<dyn Candidate>, CandidateError> {
    let Combination { bytes, item, threads, subject, cpu } = *combination;
    match (subject, cpu) {
        (Subject::Codec(algorithm), Some(cpu)) => {
            let options = Options { checksum, ..Options::for_len(bytes) };
            Ok(Box::new(Framed::new(cpu, algorithm, item.element, bytes, options, threads)?))
        }
        (Subject::Library(library), _) => Ok(Box::new(Blocks::new(library, bytes, place.tile_len, threads))),
        (Subject::Codec(_), None) => unreachable!("the plan gives every codec an instruction set"),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operation {
    Memcpy,
    Encode,
    Decode,
    Estimate,
    Sample,
}

/// A candidate while it is timed.
struct Contest<'a> {
    combination: &'a Combination<'a>,
    candidate: Box<dyn Candidate>,
    place: &'a mut Place,
    /// Whether what was decoded has been compared.
    is_checked: bool,
    sampled_len: Option<u64>,
}

impl Contest<'_> {
    fn time(&mut self, operation: Operation, calls: usize) -> Result<Duration, BenchError> {
        match operation {
            Operation::Memcpy => {
                let Place { raw, out, .. } = &mut *self.place;
                Ok(memcpy(raw, out, self.combination.threads, calls))
            }
            Operation::Encode => self
                .candidate
                .encode(&self.place.raw, calls)
                .map_err(|source| failed(self.combination, source)),
            Operation::Decode => self.decode(calls),
            Operation::Estimate => self.estimate(calls),
            Operation::Sample => {
                let Some((time, len)) = self.candidate.sample(&self.place.raw, calls) else {
                    unreachable!("libraries are not asked for estimates");
                };
                self.sampled_len = Some(len);
                Ok(time)
            }
        }
    }

    fn decode(&mut self, calls: usize) -> Result<Duration, BenchError> {
        let Place { raw, out, .. } = &mut *self.place;
        if !self.is_checked {
            // memcpy left the right answer there.
            out.iter_mut().zip(raw.iter()).for_each(|(out, raw)| *out = !raw);
        }
        let time = match self.candidate.decode(out, calls) {
            Ok(time) => time,
            Err(source) => return Err(failed(self.combination, source)),
        };
        if !self.is_checked && raw[..] != out[..] {
            let offset = raw.iter().zip(out.iter()).position(|(raw, out)| raw != out).unwrap_or_default();
            let (path, algorithm) = (self.combination.item.path.clone(), self.combination.subject.name());
            return Err(BenchError::RoundTrip { path, algorithm, offset });
        }
        self.is_checked = true;
        Ok(time)
    }

    fn estimate(&mut self, calls: usize) -> Result<Duration, BenchError> {
        let Some((time, estimated)) = self.candidate.estimate(&self.place.raw, calls) else {
            unreachable!("libraries are not asked for estimates");
        };
        let coded = self.candidate.coded_len();
        if estimated != coded {
            let (path, algorithm) = (self.combination.item.path.clone(), self.combination.subject.name());
            return Err(BenchError::Estimate { path, algorithm, estimated, coded });
        }
        Ok(time)
    }
}

fn failed(combination: &Combination<'_>, source: CandidateError) -> BenchError {
    let Combination { item, subject, .. } = combination;
    BenchError::Candidate { path: item.path.clone(), algorithm: subject.name(), source }
}

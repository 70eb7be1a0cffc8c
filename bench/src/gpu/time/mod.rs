//! How fast subjects are, each beside a copy in device memory.

mod buddy;
mod clock;
mod contest;
mod error;
mod gather;
mod kernels;
mod link;
mod offload;
mod peer;
mod place;
mod reduce;

use std::fmt::Display;
use std::path::Path;
use std::time::Instant;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{Device, Stream};

use super::check::Peer;
use super::data::{Dataset, datasets};
use super::nvcomp::{Batch, Library, Method as Compressor, NvcompError};
use super::report::{Report, Seconds, Timed};
use crate::codec::{Data, home};
use crate::error::{BenchError, report as report_error};
pub(super) use clock::{Clock, median};
use contest::{Contest, Subject};
pub(crate) use error::TimeError;
use kernels::Kernels;
pub(super) use place::Place;

pub(super) use contest::{Operation, Subject as TimedSubject};

/// Sizes where nobody asks for others.
const SIZES: [usize; 8] = [64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20, 64 << 20, TABLE_BYTES, 1 << 30];
/// The size at which every subject is timed on all data.
const TABLE_BYTES: usize = 256 << 20;

/// What is to be timed.
pub(super) struct Plan<'a> {
    pub(super) algorithms: &'a [Algorithm],
    /// Without any, some.
    pub(super) bytes: &'a [usize],
    pub(super) data: &'a [Data],
    /// Where the samples are, which are timed without any.
    pub(super) samples: &'a Path,
    pub(super) rounds: usize,
    /// When to begin with no more buffers.
    pub(super) until: Option<Instant>,
    pub(super) nvcomp: Result<Library, NvcompError>,
    /// The least size for which to time the ways to the host and back, and to other devices; none = not at all.
    pub(super) links_from: Option<usize>,
    /// Rows of each gather from the host; 0: none is timed.
    pub(super) gather_rows: usize,
    /// Lines of 128 bytes of allocations in buddy memory; 0: none is timed.
    pub(super) buddy_entries: usize,
    /// Whether reductions are timed.
    pub(super) reduces: bool,
}

impl Plan<'_> {
    /// Whether an algorithm is timed on data of a set, in buffers of a size: on what it is for, and on
    /// everything at one size; on what flags name.
    fn takes(&self, algorithm: Algorithm, dataset: &Dataset, bytes: usize) -> bool {
        let is_home = home(algorithm) == dataset.element && !is_by_chance(dataset);
        !self.data.is_empty() || !self.bytes.is_empty() || bytes == TABLE_BYTES || is_home
    }

    /// Whether `what` is still to be timed; if not, that is reported.
    fn has_time(&self, report: &mut Report, what: impl Display) -> Result<bool, BenchError> {
        let is_late = self.until.is_some_and(|until| Instant::now() >= until);
        if is_late {
            report.skipped(&what.to_string(), "the time is up (--seconds)")?;
        }
        Ok(!is_late)
    }

    fn sizes(&self) -> Vec<usize> {
        if self.bytes.is_empty() { SIZES.to_vec() } else { self.bytes.to_vec() }
    }
}

/// Whether it is none of the samples that stand for what an algorithm is for.
fn is_by_chance(dataset: &Dataset) -> bool {
    !dataset.label.ends_with(".bin")
}

/// Times everything in `plan`. What cannot be timed is reported, and the rest is timed all the same, unless the
/// device is lost.
pub(super) fn run(device: &Device, plan: &Plan<'_>, report: &mut Report) -> Result<(), BenchError> {
    let datasets = datasets(plan.data, plan.samples)?;
    if let Err(why) = &plan.nvcomp
        && !matches!(why, NvcompError::NotAsked)
    {
        report.skipped("nvCOMP", &why.to_string())?;
    }
    let (mut failed, mut rows) = (0, 0);
    for bytes in plan.sizes() {
        for dataset in &datasets {
            let algorithms: Vec<Algorithm> =
                plan.algorithms.iter().copied().filter(|a| plan.takes(*a, dataset, bytes)).collect();
            if algorithms.is_empty()
                || !plan.has_time(report, format_args!("{}, {bytes} bytes", dataset.label))?
            {
                continue;
            }
            let mut bench = Bench { device, plan, report, dataset, bytes, failed: 0, rows: 0 };
            bench.run(&algorithms)?;
            failed += bench.failed;
            rows += bench.rows;
        }
    }
    if plan.links_from.is_some() {
        for peer in Peer::all(device)? {
            rows += 1;
            let short = peer::time_short((device, &peer), plan.rounds);
            let what = ("copies below the gate", format!("to {}", peer.name), peer::SHORT_BYTES);
            let short = timed(report, what, short, &mut failed)?;
            short.map_or(Ok(()), |short| report.short_copied(short))?;
        }
    }
    if plan.gather_rows > 0 && plan.algorithms.contains(&Algorithm::Ibp) {
        for saved_percent in gather::SAVINGS {
            rows += 1;
            let dataset = format!("rows with {saved_percent} % saved");
            let gathered = gather::time(device, saved_percent, plan.gather_rows, plan.rounds);
            let gathered = timed(report, ("gather", dataset, gather::ROW_LEN), gathered, &mut failed)?;
            gathered.map_or(Ok(()), |gathered| report.gathered(gathered))?;
        }
    }
    for subject in buddy::SUBJECTS {
        if plan.buddy_entries == 0 || !plan.algorithms.contains(&subject.algorithm) {
            continue;
        }
        let bytes = plan.buddy_entries * buddy::LINE_LEN;
        for overflow_percent in buddy::OVERFLOWS {
            rows += 1;
            let dataset = format!("entries of {} of which {overflow_percent} % overflow", subject.form);
            let buddied = buddy::time(device, subject, overflow_percent, bytes, plan.rounds);
            let buddied = timed(report, ("buddy memory", dataset, bytes), buddied, &mut failed)?;
            buddied.map_or(Ok(()), |buddied| report.buddied(buddied))?;
        }
    }
    for bytes in plan.sizes().into_iter().filter(|_| plan.reduces) {
        for (datatype, ranks) in reduce::SUBJECTS {
            let dataset = format!("{ranks} ranks of {datatype}");
            if !plan.has_time(report, format_args!("sum, {dataset}, {bytes} bytes"))? {
                continue;
            }
            rows += 1;
            let reduced = reduce::time(device, (datatype, ranks), bytes, plan.rounds);
            let reduced = timed(report, ("sum", dataset, bytes), reduced, &mut failed)?;
            reduced.map_or(Ok(()), |reduced| report.reduced(reduced))?;
        }
    }
    if failed > 0 { Err(BenchError::IncompleteRows { failed, rows }) } else { Ok(()) }
}

/// What was timed, or none: if it cannot be, that is reported, and so is a failure, which counts. Fails if the device is
/// lost.
fn timed<T>(
    report: &mut Report,
    (subject, dataset, bytes): (&'static str, String, usize),
    result: Result<T, TimeError>,
    failed: &mut usize,
) -> Result<Option<T>, BenchError> {
    match result {
        Ok(figures) => return Ok(Some(figures)),
        Err(error) if error.is_no_failure() => {
            report.skipped(&format!("{subject}, {dataset}"), &error.to_string())?;
        }
        Err(source) => {
            let is_lost = source.is_lost();
            let error = BenchError::Time { subject, dataset, bytes, source };
            if is_lost {
                return Err(error);
            }
            report_error(&error);
            *failed += 1;
        }
    }
    Ok(None)
}

/// The timing of one buffer.
struct Bench<'a> {
    device: &'a Device,
    plan: &'a Plan<'a>,
    report: &'a mut Report,
    dataset: &'a Dataset,
    bytes: usize,
    failed: usize,
    rows: usize,
}

impl Bench<'_> {
    fn run(&mut self, algorithms: &[Algorithm]) -> Result<(), BenchError> {
        let place = match Place::new(self.device, self.dataset, self.bytes) {
            Ok(place) => place,
            Err(error) => return self.without("all subjects", error),
        };
        let mut by_kernels = Vec::with_capacity(algorithms.len());
        for &algorithm in algorithms {
            let seconds = self.time(&place, algorithm.name(), |device, stream, place| {
                Kernels::new(device, stream, algorithm, place)
            })?;
            by_kernels.push((algorithm, seconds));
        }
        if let Ok(library) = &self.plan.nvcomp {
            for method in Compressor::ALL {
                self.time(&place, method.name(), |device, stream, place| {
                    Batch::new(library, method, device, stream, place)
                })?;
            }
        }
        if self.plan.links_from.is_some_and(|least| self.bytes >= least) {
            for (algorithm, seconds) in by_kernels {
                if home(algorithm) != self.dataset.element {
                    continue;
                }
                self.rows += 1;
                match link::time(self.device, algorithm, self.dataset, &place, self.plan.rounds) {
                    Ok(linked) => self.report.linked(linked)?,
                    Err(error) => self.without(algorithm.name(), error)?,
                }
                self.rows += 1;
                match offload::time(self.device, algorithm, self.dataset, &place, self.plan.rounds) {
                    Ok(offloaded) => self.report.offloaded(offloaded)?,
                    Err(error) => self.without(algorithm.name(), error)?,
                }
                for peer in Peer::all(self.device)? {
                    self.rows += 1;
                    let ends = (self.device, &peer);
                    let codec = (algorithm, seconds);
                    match peer::time(ends, codec, self.dataset, &place, self.plan.rounds) {
                        Ok(copied) => self.report.peer_copied(copied)?,
                        Err(error) => self.without(algorithm.name(), error)?,
                    }
                }
            }
        }
        Ok(())
    }

    /// Times one subject and reports it. Returns what it took, if it can be timed.
    fn time<S: Subject>(
        &mut self,
        place: &Place,
        name: &'static str,
        make: impl FnOnce(&Device, &Stream, &Place) -> Result<S, TimeError>,
    ) -> Result<Option<Seconds>, BenchError> {
        self.rows += 1;
        let run = || {
            let clock = Clock::new(self.device)?;
            let mut subject = make(self.device, &clock.stream, place)?;
            Contest::new(clock, place, &mut subject).run(self.plan.rounds)
        };
        let result = run();
        match result {
            Ok(outcome) => {
                self.report.timed(self.row(name, &outcome))?;
                Ok(Some(outcome.seconds))
            }
            Err(error) => self.without(name, error).map(|()| None),
        }
    }

    fn row(&self, name: &'static str, outcome: &contest::Outcome) -> Timed {
        let empty = Timed {
            subject: name,
            is_library: outcome.is_library,
            dataset: self.dataset.label.clone(),
            element: self.dataset.element.name(),
            bytes: self.bytes,
            buffers: outcome.sets,
            method: outcome.method,
            rounds: self.plan.rounds,
            coded_bytes: outcome.coded_bytes as f64 / outcome.sets as f64,
            ratio: 0.0,
            copy_us: 0.0,
            encode_us: 0.0,
            decode_us: 0.0,
            estimate_us: None,
            copy_gbps: 0.0,
            encode_gbps: 0.0,
            decode_gbps: 0.0,
            estimate_gbps: None,
            encode_fraction: 0.0,
            decode_fraction: 0.0,
            estimate_fraction: None,
        };
        empty.with_times(outcome.seconds)
    }

    /// Reports what could not be timed. Too little memory or a way that a library does not go is no failure; a
    /// lost device is the end.
    fn without(&mut self, subject: &'static str, source: TimeError) -> Result<(), BenchError> {
        let (dataset, bytes) = (self.dataset.label.clone(), self.bytes);
        if source.is_no_failure() {
            return self.report.skipped(&format!("{subject}, {dataset}, {bytes} bytes"), &source.to_string());
        }
        let is_lost = source.is_lost();
        let error = BenchError::Time { subject, dataset, bytes, source };
        if is_lost {
            return Err(error);
        }
        report_error(&error);
        self.failed += 1;
        Ok(())
    }
}

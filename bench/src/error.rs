//! What can go wrong in a bench, and the one place that prints it.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use mgcomp_codecs::CpuError;
use mgcomp_codecs::device::DeviceError;
use mgcomp_codecs::frame::FrameError;
use mgcomp_plot::PlotError;
use mgcomp_selector::PaperConfigError;
use mgcomp_transport::calibrate::CalibrateError;
use mgcomp_transport::copy::offload::OffloadError;
use mgcomp_transport::link::ShapingError;
use mgcomp_transport::table::TableError;

use crate::breakeven::ResultsError;
use crate::buddy::BuddyBenchError;
use crate::codec::CountError;
#[cfg(target_os = "linux")]
use crate::gpu::SharedError;
use crate::gpu::TimeError;
use crate::link::LinkBenchError;
use crate::paper::TraceError;
use crate::scale::RatesError;
use crate::select;
use crate::timing::CandidateError;

/// Why a file, or all of them, could not be measured. The source, if any, says why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BenchError {
    #[error("cannot read {}", .path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("cannot read {}: it is neither a regular file nor a folder", .path.display())]
    NotReadable { path: PathBuf },
    #[error("cannot measure {}: it is empty", .path.display())]
    Empty { path: PathBuf },
    #[error("{} has no files to measure", .path.display())]
    NoFiles { path: PathBuf },
    #[error(
        "none of the {files} files is of a kind that a sequence is cut from: floats of bf16, floats of up to 32 bits with many zeros, indices of u32 or u64, noise; name files themselves to have a sequence of each"
    )]
    NoKind { files: usize },
    #[error("{} is no list of tensors", .path.display())]
    Corpus { path: PathBuf, source: serde_json::Error },
    #[error("{}: entry {index} names {file:?}, which is no file inside that folder", .path.display())]
    Outside { path: PathBuf, index: usize, file: String },
    #[error("{}: entry {index} ({file}) has the unknown dtype {dtype:?}", .path.display())]
    Dtype { path: PathBuf, index: usize, file: String, dtype: String },
    #[error("cannot frame {} with {algorithm}", .path.display())]
    Frame { path: PathBuf, algorithm: &'static str, source: FrameError },
    #[error("{algorithm} is not lossless on {}: byte {offset} came back different", .path.display())]
    RoundTrip { path: PathBuf, algorithm: &'static str, offset: usize },
    #[error("{algorithm} failed on {}", .path.display())]
    Candidate { path: PathBuf, algorithm: &'static str, source: CandidateError },
    #[error("{algorithm} estimates {} wrongly: {estimated} bytes; its frame has {coded}", .path.display())]
    Estimate { path: PathBuf, algorithm: &'static str, estimated: u64, coded: u64 },
    #[error("the daemon")]
    Daemon(#[source] io::Error),
    #[error("the daemon does not start")]
    DaemonStart(#[from] mgcomp_daemon::DaemonError),
    #[error("the daemon says: {}", .0.message())]
    Status(#[from] tonic::Status),
    #[error("of {processes} processes the daemon sees {seen}")]
    NotSeen { processes: u32, seen: u32 },
    #[error("lambda {lambda_gbps} was set, but is neither kept nor gone by")]
    NotKept { lambda_gbps: f64 },
    #[error("no control page: MGCOMP=off, or the system gives no memory file")]
    NoPage,
    #[error("{expected} transfers were made, but the page counts {got}")]
    Miscounted { expected: u64, got: u64 },
    #[error("none of the {files} files holds one of the elements asked for")]
    NoElement { files: usize },
    #[error("buffers of {bytes} bytes need {needed} bytes of memory; {available} are available")]
    Memory { bytes: usize, needed: u64, available: u64 },
    #[error("cannot have a buffer of {bytes} bytes")]
    Buffer { bytes: usize, source: io::Error },
    #[error(transparent)]
    Count(#[from] CountError),
    #[error("{data} is no table")]
    Table { data: String, source: TableError },
    #[error("row {row} of {data} was gathered wrongly")]
    WrongRow { data: String, row: u64 },
    #[error(transparent)]
    Shaping(#[from] ShapingError),
    #[error(transparent)]
    Cpu(#[from] CpuError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("{failed} of {checks} checks failed: nothing is timed")]
    Checks { failed: usize, checks: usize },
    #[error("--{flag} cannot be used with {with}")]
    NoUse { flag: &'static str, with: &'static str },
    #[error("--{flag} is not for devices")]
    NotOnDevices { flag: &'static str },
    #[error("{subject} cannot be timed on {} bytes of {dataset}", .bytes)]
    Time { subject: &'static str, dataset: String, bytes: usize, source: TimeError },
    #[cfg(target_os = "linux")]
    #[error("memory of the device in another process, by {means}, is not as it should be")]
    Shared { means: &'static str, source: SharedError },
    #[error("{label} cannot be measured")]
    Buddy { label: String, source: BuddyBenchError },
    #[error("{link} cannot be measured with messages of {bytes} bytes")]
    Link { link: &'static str, bytes: usize, source: LinkBenchError },
    #[error("{} has {got} bytes; its shape {shape:?} takes {needed}", .path.display())]
    Shape { path: PathBuf, shape: Vec<usize>, needed: usize, got: usize },
    #[error("{map} cannot be offloaded with {algorithm}")]
    Offload { map: String, algorithm: &'static str, source: OffloadError },
    #[error("{} is no trace", .path.display())]
    Trace { path: PathBuf, source: TraceError },
    #[error("cannot take the rates of a codec from {}", .path.display())]
    Rates { path: PathBuf, source: RatesError },
    #[error("cannot take times from {}", .path.display())]
    Results { path: PathBuf, source: ResultsError },
    #[error(transparent)]
    Phases(#[from] PaperConfigError),
    #[error(transparent)]
    Select(#[from] select::ArgError),
    #[error(transparent)]
    Calibrate(#[from] CalibrateError),
    #[error("a policy chose {algorithm}, which was not measured")]
    NotMeasured { algorithm: &'static str },
    #[error("cannot write {}", .path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Plot(#[from] PlotError),
    #[error("cannot write standard output")]
    Stdout(#[source] io::Error),
    #[error("{failed} of {files} files could not be measured")]
    Incomplete { failed: usize, files: usize },
    #[error("{failed} of {rows} rows could not be measured")]
    IncompleteRows { failed: usize, rows: usize },
}

impl BenchError {
    /// Whether the reader of our standard output went away, which is its right and no failure of ours.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Prints what went wrong, if anything, and says what the process is to return: 0, 1 for a failure, or 2 for
/// wrong usage, as clap does.
pub(crate) fn exit_code(result: Result<(), BenchError>) -> ExitCode {
    match result {
        Err(error) if !error.is_broken_pipe() => {
            report(&error);
            let is_usage = matches!(
                error,
                BenchError::Cpu(_) | BenchError::NoUse { .. } | BenchError::Phases(_) | BenchError::Select(_)
            );
            if is_usage { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
        _ => ExitCode::SUCCESS,
    }
}

/// A text that may quote files and their names, which may be called what a terminal takes for an order: control characters become U+FFFD.
pub(crate) fn printable(text: &str) -> String {
    text.replace(|c: char| c.is_control() && c != '\n', "\u{fffd}")
}

/// Writes what a reader should know, but is no failure, to standard error.
pub(crate) fn note(text: &str) {
    let _ = writeln!(io::stderr(), "mgcomp-bench: {}", printable(text));
}

/// Writes `error` and its causes to standard error. That it may be closed is no reason to stop.
pub(crate) fn report(error: &BenchError) {
    let mut text = format!("mgcomp-bench: {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        // Some errors quote their cause already.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    let _ = writeln!(io::stderr(), "{}", printable(&text));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_takes_for_an_order_is_not_printed() {
        assert_eq!(printable("a\u{1b}]0;x\u{7}b\nc"), "a\u{fffd}]0;x\u{fffd}b\nc");
    }
}

//! What can go wrong in a bench, and the one place that prints it.

use std::error::Error;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::frame::FrameError;

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
    #[error("{} is no list of tensors", .path.display())]
    Corpus { path: PathBuf, source: serde_json::Error },
    #[error("{}: entry {index} names {file:?}, which is no file inside that folder", .path.display())]
    Outside { path: PathBuf, index: usize, file: String },
    #[error("{}: entry {index} ({file}) has the unknown dtype {dtype:?}", .path.display())]
    Dtype { path: PathBuf, index: usize, file: String, dtype: String },
    #[error("cannot frame {} with {algorithm}", .path.display())]
    Frame { path: PathBuf, algorithm: Algorithm, source: FrameError },
    #[error("{algorithm} is not lossless on {}: byte {offset} came back different", .path.display())]
    RoundTrip { path: PathBuf, algorithm: Algorithm, offset: usize },
    #[error("cannot write standard output")]
    Stdout(#[source] io::Error),
    #[error("{failed} of {files} files could not be measured")]
    Incomplete { failed: usize, files: usize },
}

impl BenchError {
    /// Whether the reader of our standard output went away, which is its right and no failure of ours.
    fn is_broken_pipe(&self) -> bool {
        matches!(self, Self::Stdout(source) if source.kind() == io::ErrorKind::BrokenPipe)
    }
}

/// Prints what went wrong, if anything, and says what the process is to return: 0, or 1 for a failure.
/// (clap returns 2 for wrong usage.)
pub(crate) fn exit_code(result: Result<(), BenchError>) -> ExitCode {
    match result {
        Err(error) if !error.is_broken_pipe() => {
            report(&error);
            ExitCode::FAILURE
        }
        _ => ExitCode::SUCCESS,
    }
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
    let _ = writeln!(io::stderr(), "{text}");
}

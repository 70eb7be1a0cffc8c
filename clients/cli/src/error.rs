//! What can go wrong in a command, and the one place that prints it.

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use mgcomp_codecs::CacheFolderError;
use mgcomp_codecs::device::DeviceError;
use mgcomp_codecs::frame::{FrameError, WorkersError};

use mgcomp_transport::buddy::ProfileError;
use mgcomp_transport::calibrate::{CalibrateError, SpeedsFileError};
use mgcomp_transport::node::PeerState;

use crate::client::ClientError;
use crate::demo::DemoError;
use crate::perf::PerfError;

/// Why a command failed. Every variant names the file; its source, if any, says why.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CliError {
    #[error("cannot read {name}")]
    Read { name: String, source: io::Error },
    #[error("cannot read {name}: it is a directory or a device, not a file")]
    NotReadable { name: String },
    #[error("cannot read {name}: it is empty, so there is nothing to do")]
    Empty { name: String },
    #[error("cannot read {name}: it has more than {limit_bytes} bytes, the most that one frame holds")]
    TooLong { name: String, limit_bytes: u64 },
    #[error("cannot write {name}")]
    Write { name: String, source: io::Error },
    #[error("cannot write {name}: it is a directory or a device, not a file")]
    NotWritable { name: String },
    #[error("cannot write {name}: that is the name of a folder, not of a file")]
    NoFileName { name: String },
    #[error("cannot write {name}: it is a link that leads nowhere")]
    Nowhere { name: String },
    #[error("cannot write {name}: there is no folder {folder}")]
    NoFolder { name: String, folder: String },
    #[error("cannot write {name}: it exists already; --force overwrites it")]
    Exists { name: String },
    #[error("cannot write {name}: it is the input as well")]
    SameFile { name: String },
    #[error("cannot compress {name}")]
    Encode { name: String, source: FrameError },
    #[error("cannot compress {name}: no memory for a frame of up to {needed_bytes} bytes")]
    Memory { name: String, needed_bytes: usize },
    #[error("cannot decode {name}")]
    Decode { name: String, source: FrameError },
    #[error("cannot compress")]
    Threads(#[source] WorkersError),
    #[error("cannot time the codecs")]
    Calibrate(#[from] CalibrateError),
    #[error("cannot use the device")]
    Device(#[from] DeviceError),
    #[error("cannot keep the speeds")]
    Speeds { source: SpeedsFileError },
    #[error("cannot keep the speeds")]
    Cache(#[from] CacheFolderError),
    #[error("no folder to keep the speeds in: set MGCOMP_CACHE or HOME, or name a file with --output")]
    NoCache,
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("there is no command {name:?}")]
    NoCommand { name: String },
    #[error("demo")]
    Demo(#[from] DemoError),
    #[error("perf")]
    Perf(#[from] PerfError),
    #[error("cannot profile {name}")]
    Profile { name: String, source: ProfileError },
    #[error("{name} is damaged: {damaged} of {chunks} chunks do not decode, the first of them")]
    Damaged { name: String, damaged: usize, chunks: usize, source: FrameError },
    #[error(
        "{name} cannot be checked without codebook {id:#018x}, which it only names: {unchecked} of {chunks} chunks need it"
    )]
    Unchecked { name: String, unchecked: usize, chunks: usize, id: u64 },
}

impl CliError {
    /// Whether it is of the command line alone: a word that stands for nothing, or flags that do not go together.
    fn is_usage(&self) -> bool {
        match self {
            Self::NoCommand { .. } => true,
            Self::Client(error) => matches!(error, ClientError::Address { .. } | ClientError::InClear { .. }),
            Self::Perf(error) => error.is_usage(),
            _ => false,
        }
    }

    /// Whether the reader of our standard output went away, which is its right and no failure of ours.
    /// (Other outputs are regular files, which give no such error.)
    fn is_broken_pipe(&self) -> bool {
        match self {
            Self::Write { source, .. } => source.kind() == io::ErrorKind::BrokenPipe,
            Self::Perf(PerfError::Data(error)) => error.is_broken_pipe(),
            _ => false,
        }
    }
}

/// Prints what went wrong, if anything, and says what the process is to return: 0, 1 for a failure, or 2 for wrong usage, as
/// clap does for what it finds by itself.
pub(crate) fn exit_code(result: Result<(), CliError>) -> ExitCode {
    match result {
        Err(error) if !error.is_broken_pipe() => {
            note(&format!("mgcomp: {}", with_causes(&error)));
            if error.is_usage() { ExitCode::from(2) } else { ExitCode::FAILURE }
        }
        _ => ExitCode::SUCCESS,
    }
}

/// Why a rank has no session with another one, of which this is the state.
pub(crate) fn no_session(state: &PeerState) -> String {
    match state {
        PeerState::Over(error) => error.to_string(),
        PeerState::Greeting | PeerState::Open => "it did not come in time".to_owned(),
    }
}

/// Writes a line to standard error. That it may be closed is no reason to stop.
pub(crate) fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// `error` and its causes, with `: ` between them.
pub(crate) fn with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let why = error.to_string();
        // Some errors quote their cause already.
        if !text.ends_with(&why) {
            text = format!("{text}: {why}");
        }
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_appended_once() {
        let source = io::Error::from(io::ErrorKind::NotFound);
        let why = source.to_string();
        let error = CliError::Read { name: "x.bin".into(), source };
        assert_eq!(with_causes(&error), format!("cannot read x.bin: {why}"));

        // This error's text ends in its cause's.
        let source =
            mgcomp_codecs::frame::Header::parse(&[b'M', b'G', 1, 13, 0, 0, 14, 0, 0, 0, 0, 0, 0, 0, 0, 0])
                .unwrap_err();
        let error = CliError::Decode { name: "x.mgc".into(), source };
        let text = with_causes(&error);
        assert!(text.starts_with("cannot decode x.mgc: byte 3: unknown algorithm \"13\""), "{text}");
        assert_eq!(text.matches("unknown algorithm").count(), 1, "{text}");
    }

    #[test]
    fn flags_that_do_not_go_together_are_wrong_usage() {
        assert!(CliError::from(PerfError::Sizes { min: 2, max: 1 }).is_usage());
        assert!(CliError::from(ClientError::InClear { address: "http://x:1".into() }).is_usage());
        assert!(!CliError::from(PerfError::Wrong { wrong: 1 }).is_usage());
        assert!(!CliError::from(ClientError::Nowhere).is_usage());
    }

    #[test]
    fn a_broken_pipe_is_no_failure() {
        let error = |kind: io::ErrorKind| CliError::Write { name: "-".into(), source: kind.into() };
        assert!(error(io::ErrorKind::BrokenPipe).is_broken_pipe());
        assert!(!error(io::ErrorKind::StorageFull).is_broken_pipe());
    }
}

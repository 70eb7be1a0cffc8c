//! What can go wrong while ranks are measured.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_codecs::device::DeviceError;
use mgcomp_plot::PlotError;
use mgcomp_transport::communicator::{CommunicatorError, Datatype, Operation};
use mgcomp_transport::link::tcp::RankFileError;
use mgcomp_transport::link::{LinkError, ShapingError};
use mgcomp_transport::message::Rank;
use mgcomp_transport::nccl::NcclError;
use mgcomp_transport::node::{NodeError, PeerState};
use mgcomp_transport::region::RegionError;
use mgcomp_transport::session::TransferError;

use super::common::{Difference, Told};
use crate::error::{CliError, no_session};

/// Why nothing more is measured.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum PerfError {
    #[error("--min {min} is more than --max {max}")]
    Sizes { min: usize, max: usize },
    #[error("{op} computes, and {element} is nothing to compute with")]
    NoNumbers { op: &'static str, element: Element },
    #[error("mpirun says how many ranks there are, and its link is as fast as it is")]
    OfMpi,
    #[error("{link} does not join processes that this one starts")]
    NoProcesses { link: &'static str },
    #[cfg(feature = "mpi")]
    #[error("MPI was started before")]
    MpiStarted,
    #[cfg(feature = "mpi")]
    #[error(transparent)]
    Mpi(#[from] mgcomp_transport::link::mpi::MpiError),
    #[cfg(feature = "mpi")]
    #[error("one rank has nobody to talk to: start several with mpirun -np N")]
    Alone,
    #[error("--rank {rank}: the rank file names {ranks} ranks, which count from 0")]
    NoRank { rank: u32, ranks: u32 },
    #[error("a rank file is for --link tcp, not for {link}")]
    RankFileLink { link: &'static str },
    #[error("several connections are for --link tcp, not for {link}")]
    ConnectionsLink { link: &'static str },
    #[error("over {link} codecs run on devices: --codec-threads is for other links")]
    CodecThreadsLink { link: &'static str },
    #[error("{link} is as fast as it is: --link-gbps makes loopback, shm and tcp slower")]
    NotSlower { link: &'static str },
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("NCCL, as it is called here, has no {op}: {instead}")]
    NotOfNccl { op: &'static str, instead: &'static str },
    #[error("NCCL has no {operation} of {datatype}; with --ordered there is one")]
    NoNumbersOfNccl { operation: Operation, datatype: Datatype },
    #[error(
        "--ordered is for --link nccl, not for {link}, where reductions are always in the order of the ranks"
    )]
    OrderedLink { link: &'static str },
    #[error("NCCL takes memory of devices, and there is none")]
    NoDevice,
    #[error("no communicator of NCCL can be made")]
    NoNccl(#[from] NcclError),
    #[error("rank {rank}")]
    Nccl { rank: u32, source: NcclError },
    #[error("buffers for {ranks} ranks here need {needed} bytes of memory; {available} are available")]
    Memory { ranks: u32, needed: u64, available: u64 },
    #[error("cannot measure with {}: it is no regular file, so not every rank could read it", .path.display())]
    NoFile { path: PathBuf },
    #[error("cannot measure with {}: its {len} bytes are not one {values}", .path.display())]
    Short { path: PathBuf, len: usize, values: &'static str },
    #[error(transparent)]
    Data(#[from] Box<CliError>),
    #[error(transparent)]
    Shaping(#[from] ShapingError),
    #[error(transparent)]
    RankFile(#[from] RankFileError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("cannot start a rank")]
    Node(#[from] NodeError),
    #[error("cannot open memory to the other ranks")]
    Region(#[from] RegionError),
    #[error("rank {rank} has no session with rank {peer}: {}", no_session(.state))]
    NotConnected { rank: Rank, peer: Rank, state: PeerState },
    #[error(
        "rank {other} was started with other flags or other data than rank {rank}: {}",
        Told { rank: *rank, other: *other, differences }
    )]
    Disagree { rank: u32, other: u32, differences: Vec<Difference> },
    #[error("rank {rank}")]
    Communicator { rank: u32, source: CommunicatorError },
    #[error("rank {rank}")]
    Transfer { rank: u32, source: TransferError },
    #[error("{wrong} values are not what they must be")]
    Wrong { wrong: u64 },
    #[error("rank {rank}: {what} is not over after {limit:?} (--timeout)")]
    Late { rank: u32, what: String, limit: Duration },
    #[error("no thread to watch over the time")]
    Watchdog(#[source] io::Error),
    #[error("rank {0} panicked")]
    Panicked(u32),
    #[error("rank {rank} cannot be run as a process")]
    Process { rank: u32, source: io::Error },
    #[error("rank {rank} has ended ({status})")]
    Ended { rank: u32, status: ExitStatus },
    #[error("rank {rank} failed: {text}")]
    Rank { rank: u32, text: String },
    #[error("rank {rank} said something unexpected: {line:?}")]
    Answer { rank: u32, line: String },
    #[error("this command is run by `mgcomp perf` alone; its input is not what that sends: {0:?}")]
    Input(String),
    #[error("no random bytes for the job secret")]
    Random(#[source] io::Error),
    #[error(transparent)]
    Plot(#[from] PlotError),
}

impl PerfError {
    /// Whether flags do not go together, which [`Args::check`](super::Args::check) finds, or name a rank that there is not.
    pub(crate) fn is_usage(&self) -> bool {
        matches!(
            self,
            Self::Sizes { .. }
                | Self::NoNumbers { .. }
                | Self::OfMpi
                | Self::NoRank { .. }
                | Self::RankFileLink { .. }
                | Self::ConnectionsLink { .. }
                | Self::CodecThreadsLink { .. }
                | Self::NotSlower { .. }
                | Self::NotOfNccl { .. }
                | Self::NoNumbersOfNccl { .. }
                | Self::OrderedLink { .. }
        )
    }

    /// Whether it says only that a connection is gone, and not why.
    pub(super) fn is_of_connection(&self) -> bool {
        match self {
            Self::Communicator { .. } | Self::Transfer { .. } | Self::NotConnected { .. } => true,
            // What NCCL says of a rank that is gone.
            Self::Nccl { source, .. } => {
                matches!(source, NcclError::Call { .. } | NcclError::TimedOut { .. })
            }
            _ => false,
        }
    }
}

impl From<CliError> for PerfError {
    fn from(error: CliError) -> Self {
        Self::Data(Box::new(error))
    }
}

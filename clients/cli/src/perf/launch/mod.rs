//! How ranks come to be and find each other.

mod by_hand;
pub(crate) mod child;
#[cfg(target_os = "linux")]
mod ipc;
mod memory;
#[cfg(feature = "mpi")]
mod mpi;
mod nccl;
mod processes;
#[cfg(target_os = "linux")]
mod shm;
mod tcp;
mod threads;

use super::data::Data;
use super::error::PerfError;
use super::measure::{Run, Sink};
use super::member::{End, Look, Member};
use super::options::Args;

/// Bytes that may be queued for one peer.
const QUEUE_BYTES: u64 = 1 << 30;

/// What joins the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LinkKind {
    Loopback,
    #[cfg(target_os = "linux")]
    Shm,
    Tcp,
    /// From device to device, between processes.
    #[cfg(target_os = "linux")]
    Cuda,
    /// The same between threads.
    CudaThreads,
    Nccl,
    #[cfg(feature = "mpi")]
    Mpi,
}

impl LinkKind {
    pub(super) const ALL: &'static [Self] = &[
        Self::Loopback,
        #[cfg(target_os = "linux")]
        Self::Shm,
        Self::Tcp,
        #[cfg(target_os = "linux")]
        Self::Cuda,
        Self::CudaThreads,
        Self::Nccl,
        #[cfg(feature = "mpi")]
        Self::Mpi,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            #[cfg(target_os = "linux")]
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            #[cfg(target_os = "linux")]
            Self::Cuda => "cuda",
            Self::CudaThreads => "cuda-threads",
            Self::Nccl => "nccl",
            #[cfg(feature = "mpi")]
            Self::Mpi => "mpi",
        }
    }

    /// Whether ranks that mpirun has started use it.
    pub(super) fn is_mpi(self) -> bool {
        self.name() == "mpi"
    }

    /// Whether it joins devices, so that buffers are there without being asked for.
    pub(super) fn is_of_devices(self) -> bool {
        matches!(self.name(), "cuda" | "cuda-threads" | "nccl")
    }

    /// Whether payloads of devices go into windows of others, where that works.
    pub(super) fn has_windows(self) -> bool {
        self.name() == "cuda"
    }

    /// Whether it can be made slower than it is.
    pub(super) fn can_be_slower(self) -> bool {
        !self.is_of_devices() && !self.is_mpi()
    }

    /// For headings.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "threads over loopback",
            #[cfg(target_os = "linux")]
            Self::Shm => "processes over shared memory",
            Self::Tcp => "processes over TCP",
            #[cfg(target_os = "linux")]
            Self::Cuda => "processes, from device to device",
            Self::CudaThreads => "threads, from device to device",
            Self::Nccl => "processes over NCCL",
            #[cfg(feature = "mpi")]
            Self::Mpi => "processes over MPI",
        }
    }
}

/// Measures as `args` say. Returns how many values were wrong.
pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    match (args.link, &args.rank_file, args.rank) {
        (_, Some(rank_file), Some(rank)) => by_hand::run(args, rank_file, rank, sink),
        (LinkKind::Loopback | LinkKind::CudaThreads, ..) => threads::run(args, sink),
        #[cfg(feature = "mpi")]
        (LinkKind::Mpi, ..) => mpi::run(args, sink),
        _ => processes::run(args, sink),
    }
}

/// What every rank does once it has its end of a link; returns how many values were wrong.
fn take_part(args: &Args, data: &Data, end: End, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    take_part_with(args, data, end, &mut || Ok(()), sink)
}

/// The same for one that can look after the others.
fn take_part_with(
    args: &Args,
    data: &Data,
    end: End,
    look: Look<'_>,
    sink: &mut Sink<'_>,
) -> Result<u64, PerfError> {
    let member = Member::join(end, args, look)?;
    Run::new(args, data, member)?.all(sink)
}

//! How ranks come to be and find each other.

mod by_hand;
pub(crate) mod child;
mod memory;
#[cfg(feature = "mpi")]
mod mpi;
mod processes;
#[cfg(target_os = "linux")]
mod shm;
mod tcp;
mod threads;

use mgcomp_transport::link::Link;
use mgcomp_transport::message::Secret;

use super::data::Data;
use super::error::PerfError;
use super::measure::{Run, Sink};
use super::member::Member;
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
    #[cfg(feature = "mpi")]
    Mpi,
}

impl LinkKind {
    pub(super) const ALL: &'static [Self] = &[
        Self::Loopback,
        #[cfg(target_os = "linux")]
        Self::Shm,
        Self::Tcp,
        #[cfg(feature = "mpi")]
        Self::Mpi,
    ];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            #[cfg(target_os = "linux")]
            Self::Shm => "shm",
            Self::Tcp => "tcp",
            #[cfg(feature = "mpi")]
            Self::Mpi => "mpi",
        }
    }

    /// Whether ranks that mpirun has started use it.
    pub(super) fn is_mpi(self) -> bool {
        self.name() == "mpi"
    }

    /// For headings.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "threads over loopback",
            #[cfg(target_os = "linux")]
            Self::Shm => "processes over shared memory",
            Self::Tcp => "processes over TCP",
            #[cfg(feature = "mpi")]
            Self::Mpi => "processes over MPI",
        }
    }
}

/// Measures as `args` say. Returns how many values were wrong.
pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    match (args.link, &args.rank_file, args.rank) {
        (_, Some(rank_file), Some(rank)) => by_hand::run(args, rank_file, rank, sink),
        (LinkKind::Loopback, ..) => threads::run(args, sink),
        #[cfg(feature = "mpi")]
        (LinkKind::Mpi, ..) => mpi::run(args, sink),
        _ => processes::run(args, sink),
    }
}

/// Takes part as the rank that `link` belongs to, from its start to its end.
fn take_part(
    args: &Args,
    data: &Data,
    link: Box<dyn Link>,
    secret: Secret,
    local_ranks: u32,
    sink: &mut Sink<'_>,
) -> Result<u64, PerfError> {
    let member = Member::join(link, secret, args, local_ranks)?;
    Run::new(args, data, member)?.all(sink)
}

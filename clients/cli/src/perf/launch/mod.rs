//! How ranks come to be and find each other.

mod by_hand;
pub(crate) mod child;
mod memory;
mod processes;
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
    Shm,
    Tcp,
}

impl LinkKind {
    pub(super) const ALL: [Self; 3] = [Self::Loopback, Self::Shm, Self::Tcp];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Shm => "shm",
            Self::Tcp => "tcp",
        }
    }

    /// For headings.
    pub(super) const fn describe(self) -> &'static str {
        match self {
            Self::Loopback => "threads over loopback",
            Self::Shm => "processes over shared memory",
            Self::Tcp => "processes over TCP",
        }
    }
}

/// Measures as `args` say. Returns how many values were wrong.
pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    match (args.link, &args.rank_file, args.rank) {
        (_, Some(rank_file), Some(rank)) => by_hand::run(args, rank_file, rank, sink),
        (LinkKind::Loopback, ..) => threads::run(args, sink),
        (LinkKind::Shm | LinkKind::Tcp, ..) => processes::run(args, sink),
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

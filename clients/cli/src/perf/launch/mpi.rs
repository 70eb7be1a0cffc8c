//! Ranks that `mpirun` has started, joined by the messages of MPI.

use mgcomp_transport::link::Link;
use mgcomp_transport::link::mpi::{Mpi, MpiConfig};
use mpi::Threading;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::options::Args;
use super::{End, QUEUE_BYTES, memory, take_part};

pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    // Ends MPI when it is dropped, after all else here.
    let (universe, _) = mpi::initialize_with_threading(Threading::Multiple).ok_or(PerfError::MpiStarted)?;
    let world = universe.world();
    let config = MpiConfig { queue_bytes: QUEUE_BYTES, ..MpiConfig::default() };
    let link = Mpi::new(&world, config)?;
    let (position, secret, local_ranks) = (link.position(), link.secret(), link.ranks_here());
    let ranks = position.ranks;
    if ranks < 2 {
        return Err(PerfError::Alone);
    }
    // Only its own: those beside it may have theirs already, and then that is not available.
    memory::check(args, ranks as usize, 1)?;
    let data = args.load(ranks as usize)?;
    let room = args.room(position.rank.0)?;
    let end = End { link: Box::new(link), secret, room, local_ranks, nccl: None, ways: None };
    take_part(args, &data, end, sink)
}

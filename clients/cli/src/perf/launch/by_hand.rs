//! One rank of several that were started by hand, which find each other by a rank file.

use std::path::Path;

use mgcomp_transport::link::tcp::RankFile;
use mgcomp_transport::message::Rank;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::options::Args;
use super::{End, memory, take_part, tcp};

pub(super) fn run(args: &Args, rank_file: &Path, rank: u32, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    let rank_file = RankFile::read(rank_file)?;
    let (ranks, secret) = (rank_file.ranks(), rank_file.secret);
    if rank >= ranks {
        return Err(PerfError::NoRank { rank, ranks });
    }
    // Only its own: those beside it may have theirs already, and then that is not available.
    memory::check(args, ranks as usize, 1)?;
    let data = args.load(ranks as usize)?;
    // Of the devices of this machine; which ranks are on others nobody knows here.
    let room = args.room(rank)?;
    let local_ranks = rank_file.ranks_beside(Rank(rank));
    let link = tcp::link_by_hand(rank_file, rank, args)?;
    take_part(args, &data, End { link, secret, room, local_ranks, nccl: None, ways: None }, sink)
}

//! Ranks as threads of this process, over the loopback link or from device to device.

use std::thread;

use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::Cuda;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::message::Secret;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::options::Args;
use super::{End, LinkKind, QUEUE_BYTES, memory, take_part};
use crate::room::Room;

pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    let ranks = args.ranks();
    memory::check(args, ranks as usize, ranks)?;
    let data = args.load(ranks as usize)?;
    let mut ends = ends(args, ranks)?.into_iter();
    let root = ends.next();
    thread::scope(|scope| {
        let take_part = |end, sink: &mut Sink<'_>| take_part(args, &data, end, sink);
        let others: Vec<_> = ends.map(|end| scope.spawn(move || take_part(end, &mut |_| Ok(())))).collect();
        // A rank that fails ends its sessions, and with them what the others do.
        let own = root.map_or(Ok(0), |end| take_part(end, sink));
        let joined = others.into_iter().zip(1..);
        let others =
            joined.map(|(other, rank)| other.join().unwrap_or(Err(PerfError::Panicked(rank))).map(drop));
        let others: Vec<Result<(), PerfError>> = others.collect();
        first_cause(own, others)
    })
}

/// What rank 0 came to, where all the others came to an end as well; else what says why one did not.
fn first_cause(own: Result<u64, PerfError>, others: Vec<Result<(), PerfError>>) -> Result<u64, PerfError> {
    let mut failed: Vec<PerfError> = others.into_iter().filter_map(Result::err).collect();
    let wrong = match own {
        Ok(wrong) => Some(wrong),
        Err(error) => {
            failed.insert(0, error);
            None
        }
    };
    // What became of the connections does not say why.
    let cause = failed.iter().position(|error| !error.is_of_connection()).unwrap_or(0);
    match (wrong, failed.is_empty()) {
        (Some(wrong), true) => Ok(wrong),
        _ => Err(failed.swap_remove(cause)),
    }
}

/// What each rank starts with.
fn ends(args: &Args, ranks: u32) -> Result<Vec<End>, PerfError> {
    // Nobody else can reach these links, so their secret need not be one.
    let secret = Secret::new([0; 16]);
    let end = |(link, room)| End { link, secret, room, local_ranks: ranks, nccl: None, ways: None };
    let rooms = (0..ranks).map(|rank| room(args, rank)).collect::<Result<Vec<Room>, PerfError>>()?;
    Ok(links(args, &rooms)?.into_iter().zip(rooms).map(end).collect())
}

fn links(args: &Args, rooms: &[Room]) -> Result<Vec<Box<dyn Link>>, PerfError> {
    if args.link == LinkKind::CudaThreads {
        let devices = rooms.iter().map(|room| room.device().cloned()).collect();
        let links = Cuda::fabric_with_queue(devices, QUEUE_BYTES)?;
        return Ok(links.into_iter().map(|link| Box::new(link) as _).collect());
    }
    let links = Loopback::fabric(rooms.len() as u32, args.shaping()?)?;
    Ok(links.into_iter().map(|link| Box::new(link) as _).collect())
}

/// Ranks that are joined by their devices have one each.
fn room(args: &Args, rank: u32) -> Result<Room, PerfError> {
    match args.devices() {
        Some(devices) if args.link == LinkKind::CudaThreads => Ok(Room::on(devices.open_apart(rank)?)?),
        _ => args.room(rank),
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::message::Rank;
    use mgcomp_transport::node::PeerState;

    use super::*;

    #[test]
    fn what_says_why_comes_before_what_became_of_connections() {
        let gone =
            |rank| PerfError::NotConnected { rank: Rank(rank), peer: Rank(2), state: PeerState::Greeting };
        let said = |own, others| first_cause(own, others).map_err(|error| error.to_string());
        assert_eq!(said(Ok(3), vec![Ok(()), Ok(())]), Ok(3));
        let panicked = PerfError::Panicked(2).to_string();
        let others = vec![Err(gone(1)), Err(PerfError::Panicked(2))];
        assert_eq!(said(Err(gone(0)), others), Err(panicked.clone()));
        assert_eq!(said(Ok(0), vec![Ok(()), Err(PerfError::Panicked(2))]), Err(panicked));
        assert_eq!(said(Err(gone(0)), vec![Err(gone(1)), Ok(())]), Err(gone(0).to_string()));
        assert_eq!(said(Ok(0), vec![Err(gone(1))]), Err(gone(1).to_string()));
    }
}

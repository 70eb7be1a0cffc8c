//! Ranks as threads of this process, over the loopback link or from device to device.

use std::{iter, thread};

use mgcomp_transport::link::Link;
use mgcomp_transport::link::cuda::Cuda;
use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::message::Secret;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::options::Args;
use super::{End, LinkKind, QUEUE_BYTES, memory, take_part};
use crate::ranks;
use crate::room::Room;

pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    let count = args.ranks();
    memory::check(args, count as usize, count)?;
    let data = args.load(count as usize)?;
    let mut ends = ends(args, count)?.into_iter();
    let root = ends.next();
    thread::scope(|scope| {
        let take_part = |end, sink: &mut Sink<'_>| take_part(args, &data, end, sink);
        let others: Vec<_> = ends.map(|end| scope.spawn(move || take_part(end, &mut |_| Ok(())))).collect();
        // A rank that fails ends its sessions, and with them what the others do.
        let own = root.map_or(Ok(0), |end| take_part(end, sink));
        // What is wrong anywhere is counted by rank 0.
        let others = others
            .into_iter()
            .zip(1..)
            .map(|(other, rank)| other.join().unwrap_or(Err(PerfError::Panicked(rank))).map(|_| 0));
        let wrong = ranks::all_or_cause(iter::once(own).chain(others), PerfError::is_of_connection)?;
        Ok(wrong.into_iter().sum())
    })
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

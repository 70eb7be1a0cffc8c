//! Ranks as threads of this process, over the loopback link.

use std::thread;

use mgcomp_transport::link::loopback::Loopback;
use mgcomp_transport::message::Secret;

use super::super::error::PerfError;
use super::super::measure::Sink;
use super::super::options::Args;
use super::{memory, take_part};

pub(super) fn run(args: &Args, sink: &mut Sink<'_>) -> Result<u64, PerfError> {
    let ranks = args.ranks();
    memory::check(args, ranks as usize, ranks)?;
    let data = args.load(ranks as usize)?;
    // Nobody else can reach a loopback fabric, so its secret need not be one.
    let secret = Secret::new([0; 16]);
    let mut links = Loopback::fabric(ranks, args.shaping()?)?.into_iter();
    let root = links.next();
    thread::scope(|scope| {
        let take_part =
            |link, sink: &mut Sink<'_>| take_part(args, &data, Box::new(link), secret, ranks, sink);
        let others: Vec<_> =
            links.map(|link| scope.spawn(move || take_part(link, &mut |_| Ok(())))).collect();
        // A rank that fails ends its sessions, and with them what the others do.
        let own = root.map_or(Ok(0), |link| take_part(link, sink));
        let joined = others.into_iter().zip(1..);
        let others: Result<Vec<u64>, PerfError> =
            joined.map(|(other, rank)| other.join().unwrap_or(Err(PerfError::Panicked(rank)))).collect();
        own.and_then(|wrong| others.map(|_| wrong))
    })
}

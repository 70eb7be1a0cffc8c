//! Everything that a communicator does, over MPI and over loopback.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Block, Communicator, Datatype, Operation};
use mgcomp_transport::memory::{HostBuffer, HostSlice};
use mpi::collective::SystemOperation;
use mpi::traits::CommunicatorCollectives;

use super::under::Job;
use crate::common::fabric::Fabric;
use crate::common::job::{config, nodes};
use crate::common::{noise, ramp};

pub(super) fn collectives_give_the_bits_of_loopback(job: &Job) {
    for policy in ["fixed:none", "adaptive"] {
        let world = job.communicator(policy);
        let (rank, ranks) = (world.rank() as usize, world.size());
        let over_mpi = series(&world);
        // On a busy machine, what was started may be given up.
        let is_done =
            is_done_when_left(job, world) || (0..4).any(|_| is_done_when_left(job, job.communicator(policy)));
        assert!(is_done, "given up each time");

        let worlds: Vec<_> = nodes(Fabric::loopback(), ranks, "fixed:none", &config())
            .into_iter()
            .map(Communicator::world)
            .collect();
        let over_loopback: Vec<_> = thread::scope(|scope| {
            let threads: Vec<_> = worlds.iter().map(|world| scope.spawn(|| series(world))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(over_mpi.len(), over_loopback[rank].len());
        for ((name, len, got), (_, _, expected)) in over_mpi.iter().zip(&over_loopback[rank]) {
            assert!(got == expected, "{name} of {len} bytes on rank {rank} of {ranks}, {policy}");
        }
    }
}

pub(super) fn two_ranks_do_too(job: &Job) {
    collectives_give_the_bits_of_loopback(job);
}

/// What each operation left in its buffer, and of how many bytes it was.
type Results = Vec<(&'static str, usize, Vec<u8>)>;

fn series(world: &Communicator) -> Results {
    let mut results = Results::new();
    for len in [0, 8, 4096, 9000, 200_000, (2 << 20) + 24] {
        messages(world, len, &mut results);
        moving(world, len, &mut results);
        combining(world, len, &mut results);
        in_place(world, len, &mut results);
    }
    world.barrier().unwrap();
    results
}

/// What was started is done when its communicator is gone: whoever drops that may be the one who lets MPI go on. Returns whether it was done
/// on all ranks. None may have given it up before the time for that.
fn is_done_when_left(job: &Job, world: Communicator) -> bool {
    let (send, ranks) = (own(&world, 9000), world.size());
    let all = HostBuffer::zeroed(9000 * ranks as usize);
    drop(world.start_all_gather(&send.all(), &all.all(), Element::U32));
    let started = Instant::now();
    drop(world);
    let is_late = started.elapsed() >= Duration::from_secs(2);
    let expected: Vec<u8> = (0..ranks).flat_map(|rank| ramp(rank * 77_777, 9000)).collect();
    let is_given_up = all.all().to_vec() != expected;
    let (own, mut any) = ([u8::from(is_given_up), u8::from(is_late)], [0; 2]);
    job.world.all_reduce_into(&own, &mut any, SystemOperation::max());
    assert!(any != [1, 0], "given up at once");
    any[0] == 0
}

/// Bytes that differ from rank to rank and compress.
fn own(world: &Communicator, len: usize) -> HostBuffer {
    HostBuffer::from(ramp(world.rank() * 77_777, len))
}

fn messages(world: &Communicator, len: usize, results: &mut Results) {
    let (rank, ranks) = (world.rank(), world.size());
    let (next, before) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
    let into = HostBuffer::zeroed(len);
    let send = own(world, len);
    let got = world.send_receive((next, &send.all()), (before, &into.all()), 5, Element::U32);
    assert_eq!(got, Ok(len as u64));
    results.push(("send_receive", len, into.all().to_vec()));
    // Asked about instead of waited for.
    let into = HostBuffer::zeroed(len);
    let mut receiving = world.start_receive(next, 6, &into.all()).unwrap();
    let mut sending = world.start_send(before, 6, &send.all(), Element::U32).unwrap();
    crate::common::wait_until("a message is there", || receiving.is_finished() && sending.is_finished());
    results.push(("send, receive", len, into.all().to_vec()));
}

fn moving(world: &Communicator, len: usize, results: &mut Results) {
    let ranks = world.size() as usize;
    let root = (len as u32 / 8) % world.size();
    let send = own(world, len);
    let all = || HostBuffer::from(ramp(world.rank() * 1000, len * ranks));
    let mut keep = |name, buffer: &HostBuffer| results.push((name, len, buffer.all().to_vec()));

    let shared = own(world, len);
    world.broadcast(root, &shared.all(), Element::U32).unwrap();
    keep("broadcast", &shared);
    let gathered = all();
    world.gather(root, &send.all(), &gathered.all(), Element::U32).unwrap();
    keep("gather", &gathered);
    let scattered = HostBuffer::zeroed(len);
    world.scatter(root, &all().all(), &scattered.all(), Element::U32).unwrap();
    keep("scatter", &scattered);
    let gathered = all();
    world.start_all_gather(&send.all(), &gathered.all(), Element::U32).wait().unwrap();
    keep("all_gather", &gathered);
    let exchanged = all();
    world.all_to_all(&all().all(), &exchanged.all(), Element::U32).unwrap();
    keep("all_to_all", &exchanged);

    // Blocks of 0, len, 2 len … bytes, with a gap before each.
    let lens: Vec<usize> = (0..ranks).map(|rank| rank * len).collect();
    let place = |rank: usize| lens[..rank].iter().sum::<usize>() + rank + 1;
    let blocks: Vec<Block> =
        lens.iter().enumerate().map(|(rank, &len)| Block { offset: place(rank), len }).collect();
    let room = HostBuffer::zeroed(place(ranks));
    world
        .all_gather_v(&own(world, lens[world.rank() as usize]).all(), &room.all(), &blocks, Element::U8)
        .unwrap();
    keep("all_gather_v", &room);
    let block = HostBuffer::zeroed(lens[world.rank() as usize]);
    world.scatter_v(root, &room.all(), &blocks, &block.all(), Element::U8).unwrap();
    keep("scatter_v", &block);
    let room = HostBuffer::zeroed(place(ranks));
    world.gather_v(root, &block.all(), &room.all(), &blocks, Element::U8).unwrap();
    keep("gather_v", &room);
}

fn combining(world: &Communicator, len: usize, results: &mut Results) {
    let ranks = world.size() as usize;
    let send = HostBuffer::from(noise(world.rank().into(), len * ranks));
    for (datatype, operation) in [
        (Datatype::F32, Operation::Sum),
        (Datatype::Bf16, Operation::Avg),
        (Datatype::F16, Operation::Max),
        (Datatype::I64, Operation::Min),
    ] {
        let result = HostBuffer::zeroed(len * ranks);
        world.all_reduce(&send.all(), &result.all(), datatype, operation).unwrap();
        results.push(("all_reduce", len, result.all().to_vec()));
        let at_root = HostBuffer::zeroed(if world.rank() == 0 { len * ranks } else { 0 });
        world.reduce(0, &send.all(), &at_root.all(), datatype, operation).unwrap();
        results.push(("reduce", len, at_root.all().to_vec()));
        let block = HostBuffer::zeroed(len);
        world.reduce_scatter(&send.all(), &block.all(), datatype, operation).unwrap();
        results.push(("reduce_scatter", len, block.all().to_vec()));
    }
}

/// What may be done in place: a member's block is part of the buffer of all, or there is but one buffer.
fn in_place(world: &Communicator, len: usize, results: &mut Results) {
    let ranks = world.size() as usize;
    let root = world.size() - 1;
    let sum = (Datatype::U32, Operation::Sum);
    let all = || HostBuffer::from(ramp(world.rank() * 1000, len * ranks));
    let mut keep = |name, what: &dyn Fn(&HostBuffer, &HostSlice)| {
        let buffer = all();
        let block = buffer.all().part(world.rank() as usize * len, len).unwrap();
        what(&buffer, &block);
        results.push((name, len, buffer.all().to_vec()));
    };
    keep("all_gather", &|all, own| world.all_gather(own, &all.all(), Element::U32).unwrap());
    keep("gather", &|all, own| world.gather(root, own, &all.all(), Element::U32).unwrap());
    keep("scatter", &|all, own| world.scatter(root, &all.all(), own, Element::U32).unwrap());
    keep("all_to_all", &|all, _| world.all_to_all(&all.all(), &all.all(), Element::U32).unwrap());
    keep("all_reduce", &|all, _| world.all_reduce(&all.all(), &all.all(), sum.0, sum.1).unwrap());
    keep("reduce", &|all, _| world.reduce(root, &all.all(), &all.all(), sum.0, sum.1).unwrap());
    keep("reduce_scatter", &|all, own| world.reduce_scatter(&all.all(), own, sum.0, sum.1).unwrap());
}

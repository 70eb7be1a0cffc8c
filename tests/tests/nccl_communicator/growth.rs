//! Calls that are longer than all before them.

use std::time::Duration;

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{Datatype, Operation};
use mgcomp_transport::nccl::{Message, NcclCommunicator, NcclConfig, NcclError, Reductions};

use crate::rig::{Gate, Place, RANKS, config, on_ranks, with_nccl};

/// Bytes of a rank: each call needs more room than the one before, for frames on both sides and for numbers to be combined.
const LENS: [u64; 3] = [20_000, 1_200_000, 3_000_000];

/// Ranks are threads of a process, whose devices have each other's memory. So whoever frees some may wait for what the others'
/// devices do, and these for this rank.
#[test]
fn nothing_is_freed_for_a_longer_call() {
    with_nccl("growth::nothing_is_freed_for_a_longer_call", 71, |stub, _| {
        let together = Gate::new(2);
        // The second time, whoever frees memory waits.
        for is_strict in [1, 0] {
            stub.set("strict_free", is_strict);
            on_ranks(
                2,
                |_| NcclConfig { reductions: Reductions::Ordered, ..config("fixed:zvc") },
                |world, place| {
                    let mut world = world.unwrap();
                    let (rank, stream) = (world.rank(), &place.stream);
                    let peer = Place::open(1 - rank);
                    assert!(place.device.reach(&peer.device).unwrap());
                    let raw = |rank: u32| data::bytes(Kind::Sparse, LENS[2] as usize, rank.into());
                    let (from, all) = (place.holding(&raw(rank)), place.room(2 * raw(rank).len()));
                    let numbers = place.holding(&vec![1; raw(rank).len()]);
                    together.pass_after(|| stub.fail(Some("cuMemFree_v2"), 0, 0));
                    for len in LENS {
                        let (own, into) = (from.slice(0..len), all.slice(0..2 * len));
                        let sent = world.all_gather(stream, own, into, Element::U32).unwrap();
                        assert!(sent.stored_bytes < sent.raw_bytes, "{sent:?}");
                        let both = (numbers.slice(0..len), numbers.slice(0..len));
                        world.all_reduce(stream, both, Datatype::U8, Operation::Sum).unwrap();
                    }
                    world.wait(stream).unwrap();
                    together.pass_after(|| {
                        assert_eq!(stub.count("calls"), 0, "memory was freed");
                        stub.fail(None, 0, 0);
                    });
                    assert!(place.bytes_of(all.region()) == [raw(0), raw(1)].concat());
                    // The shortest were combined three times, the longest once.
                    let sums = place.bytes_of(numbers.region());
                    assert!((sums[0], sums[1_000_000], sums[2_000_000]) == (8, 4, 2), "{:?}", &sums[..4]);
                },
            );
        }
    });
}

/// A frame that leaves lies where it was made, not where others come.
#[test]
fn no_room_is_made_for_a_frame_of_one_s_own() {
    with_nccl("growth::no_room_is_made_for_a_frame_of_one_s_own", 72, |stub, _| {
        let together = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let (rank, stream) = (world.rank(), &place.stream);
                let len = 7_000_000;
                let (zeros, all) = (place.room(len as usize), place.room(2 * len as usize));
                let raw = data::bytes(Kind::Sparse, len as usize, 5);
                let region = if rank == 0 { place.holding(&raw) } else { place.room(raw.len()) };
                // There is room for all that may leave from here on, and for short frames that come.
                world.all_gather(stream, zeros.region(), all.region(), Element::U32).unwrap();
                world.wait(stream).unwrap();
                together.pass_after(|| stub.fail(Some("cuMemAlloc_v2"), 0, 0));
                let sent = world.broadcast(stream, 0, region.region(), Element::U32).unwrap();
                world.wait(stream).unwrap();
                let long_frame = (1 << 20)..len;
                assert!(rank != 0 || long_frame.contains(&sent.stored_bytes), "{sent:?}");
                together.pass_after(|| {
                    assert_eq!(stub.count("calls"), 1, "for what comes to rank 1");
                    stub.fail(None, 0, 0);
                });
                assert!(place.bytes_of(region.region()) == raw);
            },
        );
    });
}

/// Ranks do `work` where whoever allocates or loads kernels waits for what devices do that share memory with it, which for the
/// ranks' are all: one that another rank waits for there would not go on before the limit. Higher ranks take longer for it.
fn where_allocations_wait(
    (test, seed): (&str, u64),
    config: impl Fn(u32) -> NcclConfig + Sync,
    work: impl Fn(&mut NcclCommunicator, &Place, &Gate) + Sync,
) {
    with_nccl(test, seed, |stub, _| {
        let places: Vec<_> = (0..RANKS).map(Place::open).collect();
        for (place, peer) in places.iter().flat_map(|a| places.iter().map(move |b| (a, b))) {
            assert!(place.device.reach(&peer.device).unwrap());
        }
        stub.set("alloc_ms", 5);
        let ready = Gate::new(RANKS);
        // Long for what is done here, and short for who waits in vain.
        let limit = Duration::from_secs(20);
        on_ranks(
            RANKS,
            |rank| NcclConfig { limit, ..config(rank) },
            |world, place| work(&mut world.unwrap(), place, &ready),
        );
        stub.set("alloc_ms", 0);
    });
}

/// Each rank encodes with kernels of its own.
fn with_own_codec(rank: u32) -> NcclConfig {
    config(["fixed:zvc", "fixed:bdi", "fixed:xp"][rank as usize])
}

fn raw(rank: u32) -> Vec<u8> {
    data::bytes(Kind::Sparse, LENS[1] as usize, rank.into())
}

#[test]
fn nobody_allocates_while_others_wait_for_its_settings() {
    let test = "growth::nobody_allocates_while_others_wait_for_its_settings";
    where_allocations_wait((test, 72), with_own_codec, |world, _, _| {
        assert_eq!(world.size(), RANKS);
    });
}

#[test]
fn nobody_allocates_while_others_wait_in_a_collective() {
    let test = "growth::nobody_allocates_while_others_wait_in_a_collective";
    where_allocations_wait((test, 73), with_own_codec, |world, place, ready| {
        let (rank, stream, ranks) = (world.rank(), &place.stream, u64::from(RANKS));
        let (from, all) = (place.holding(&raw(rank)), place.room(RANKS as usize * LENS[1] as usize));
        ready.pass();
        for len in &LENS[..2] {
            let into = all.slice(0..ranks * len);
            let sent = world.all_gather(stream, from.slice(0..*len), into, Element::U32).unwrap();
            assert!(sent.stored_bytes < sent.raw_bytes, "{sent:?}");
        }
        world.wait(stream).unwrap();
        assert!(place.bytes_of(all.region()) == [raw(0), raw(1), raw(2)].concat());
    });
}

/// What goes around is longer on one rank each time, which needs more room then than the others do.
#[test]
fn nobody_allocates_while_others_wait_in_an_exchange() {
    let test = "growth::nobody_allocates_while_others_wait_in_an_exchange";
    where_allocations_wait((test, 74), with_own_codec, |world, place, ready| {
        let (rank, stream) = (world.rank(), &place.stream);
        let (next, last) = ((rank + 1) % RANKS, (rank + RANKS - 1) % RANKS);
        let (own, theirs) = (place.holding(&raw(rank)), place.room(LENS[1] as usize));
        ready.pass();
        for longest in (0..RANKS).rev() {
            let len_of = |rank| if rank == longest { LENS[1] } else { LENS[0] };
            let send = Message::Send { to: next, from: own.slice(0..len_of(rank)) };
            let to = theirs.slice(0..len_of(last));
            let sent = world.exchange(stream, &[send, Message::Receive { from: last, to }], Element::U32);
            assert!(sent.is_ok_and(|sent| sent.stored_bytes < sent.raw_bytes));
        }
        // And one way, from one rank to another: who sends is done when the other one finds room.
        for (from, to) in [(0, 1), (1, 0)] {
            if rank == from {
                world.send(stream, to, own.region(), Element::U32).unwrap();
            } else if rank == to {
                world.receive(stream, from, theirs.region(), Element::U32).unwrap();
            }
        }
        world.wait(stream).unwrap();
        let whose = [1, 0, 1][rank as usize];
        assert!(place.bytes_of(theirs.region()) == raw(whose));
    });
}

/// The numbers go by plain calls, for which nobody waits on the host.
#[test]
fn nobody_allocates_while_others_wait_in_a_reduction() {
    let test = "growth::nobody_allocates_while_others_wait_in_a_reduction";
    let ordered = |_| NcclConfig { reductions: Reductions::Ordered, ..config("fixed:none") };
    where_allocations_wait((test, 75), ordered, |world, place, ready| {
        let stream = &place.stream;
        // Shares differ by a number, and so does whether the first room of 1 MiB is long enough for three of them.
        let len = (1 << 20) - 15;
        let numbers = place.holding(&vec![1; len]);
        let both = (numbers.region(), numbers.region());
        ready.pass();
        for _ in 0..2 {
            world.all_reduce(stream, both, Datatype::U8, Operation::Sum).unwrap();
        }
        world.wait(stream).unwrap();
        assert!(place.bytes_of(numbers.region()) == vec![9; len]);
    });
}

/// One that has found no room, say, and whose end NCCL does not tell of.
#[test]
fn who_does_not_come_is_waited_for_up_to_the_limit() {
    with_nccl("growth::who_does_not_come_is_waited_for_up_to_the_limit", 76, |_, nccl| {
        nccl.set("silent", 1);
        let over = Gate::new(2);
        let limit = Duration::from_secs(8);
        let ends = on_ranks(
            2,
            |_| NcclConfig { limit, ..config("fixed:zvc") },
            |world, place| {
                let mut world = world.unwrap();
                let (from, into) = (place.room(20_000), place.room(40_000));
                let end = match world.rank() {
                    0 => world.all_gather(&place.stream, from.region(), into.region(), Element::U32),
                    _ => {
                        world.abort();
                        Err(NcclError::Aborted)
                    }
                };
                over.pass();
                end.unwrap_err()
            },
        );
        let what = "the other ranks of this process";
        assert_eq!(ends, [NcclError::TimedOut { what, limit }, NcclError::Aborted]);
    });
}

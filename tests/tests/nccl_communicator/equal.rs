//! Every operation leaves the bytes that it is to leave, whatever the policy and the length.

use mgcomp_codecs::Element;
use mgcomp_tests::data::{self, Kind};
use mgcomp_transport::communicator::{Block, Datatype, Operation};
use mgcomp_transport::nccl::{Message, NcclCommunicator, Sent};

use crate::rig::{Gate, LEAST, Place, RANKS, config, on_ranks, with_nccl};

const LENS: [usize; 6] = [0, 1, LEAST as usize - 1, LEAST as usize, 10_001, 70_003];

fn raw(rank: u32, len: usize) -> Vec<u8> {
    // One rank has what no codec shortens.
    let kind = if rank == 1 { Kind::Dense } else { Kind::Sparse };
    data::bytes(kind, len, u64::from(rank))
}

fn all(len: usize) -> Vec<u8> {
    (0..RANKS).flat_map(|rank| raw(rank, len)).collect()
}

/// Whether what was sent is as short as it should be.
fn check_sent(sent: Sent, rank: u32, len: usize, policy: &str) {
    assert_eq!(sent.raw_bytes, len as u64);
    if policy == "adaptive" {
        return assert!(sent.stored_bytes <= sent.raw_bytes);
    }
    let is_shorter = policy == "fixed:xp" && rank != 1 && len as u64 >= LEAST;
    assert_eq!(
        sent.stored_bytes < sent.raw_bytes,
        is_shorter,
        "{policy}, {len} bytes of rank {rank}: {sent:?}"
    );
}

/// Runs `operation` on each rank under each policy: it says what it was left with, and what it should be.
fn compare(test: &str, seed: u64, operation: fn(&mut NcclCommunicator, &Place, usize, &str)) {
    with_nccl(test, seed, |_, _| {
        for policy in ["fixed:none", "fixed:xp", "adaptive"] {
            on_ranks(
                RANKS,
                |_| config(policy),
                |world, place| {
                    let mut world = world.unwrap();
                    for len in LENS {
                        operation(&mut world, place, len, policy);
                    }
                },
            );
        }
    });
}

#[test]
fn broadcast() {
    compare("equal::broadcast", 1, |world, place, len, policy| {
        for root in 0..RANKS {
            let buffer = place.holding(&raw(world.rank(), len));
            let sent = world.broadcast(&place.stream, root, buffer.region(), Element::F32).unwrap();
            if world.rank() == root {
                check_sent(sent, root, len, policy);
            }
            world.wait(&place.stream).unwrap();
            assert!(place.bytes_of(buffer.region()) == raw(root, len), "{policy}, {len} bytes of {root}");
        }
    });
}

#[test]
fn all_gather() {
    compare("equal::all_gather", 2, |world, place, len, policy| {
        let rank = world.rank();
        let (from, into) = (place.holding(&raw(rank, len)), place.room(3 * len));
        let sent = world.all_gather(&place.stream, from.region(), into.region(), Element::F32).unwrap();
        check_sent(sent, rank, len, policy);
        assert!(place.bytes_of(into.region()) == all(len), "{policy}, {len} bytes");
        // In place.
        place.stream.zero(into.region()).unwrap();
        let own = into.slice(u64::from(rank) * len as u64..u64::from(rank + 1) * len as u64);
        place.stream.copy(from.region(), own).unwrap();
        world.all_gather(&place.stream, own, into.region(), Element::F32).unwrap();
        world.wait(&place.stream).unwrap();
        assert!(place.bytes_of(into.region()) == all(len), "{policy}, {len} bytes in place");
    });
}

#[test]
fn all_gather_of_different_lengths() {
    compare("equal::all_gather_of_different_lengths", 3, |world, place, len, policy| {
        let lens = [len, len / 3, 2 * len];
        let mut end = 7;
        let blocks = lens.map(|len| {
            end += len + 5;
            Block { offset: end - len, len }
        });
        let rank = world.rank() as usize;
        let (from, into) = (place.holding(&raw(rank as u32, lens[rank])), place.room(end));
        place.stream.zero(into.region()).unwrap();
        let into = (into.region(), &blocks[..]);
        world.all_gather_v(&place.stream, from.region(), into, Element::F32).unwrap();
        world.wait(&place.stream).unwrap();
        let mut expected = vec![0; end];
        for (rank, block) in (0..).zip(blocks) {
            expected[block.offset..block.offset + block.len].copy_from_slice(&raw(rank, block.len));
        }
        assert!(place.bytes_of(into.0) == expected, "{policy}, {len} bytes");
    });
}

#[test]
fn all_to_all() {
    compare("equal::all_to_all", 4, |world, place, len, policy| {
        let rank = world.rank() as usize;
        let (from, into) = (place.holding(&all(len)), place.room(3 * len));
        let sent = world.all_to_all(&place.stream, from.region(), into.region(), Element::F32).unwrap();
        world.wait(&place.stream).unwrap();
        assert_eq!(sent.raw_bytes, 2 * len as u64, "what goes to others");
        assert!(place.bytes_of(into.region()) == raw(rank as u32, len).repeat(3), "{policy}, {len} bytes");
        // Part i of rank r has (r + 2 i + 1) parts of the length.
        let count = |from: usize, to: usize| (from + 2 * to + 1) * len / 7;
        let parts = |counts: [usize; 3]| {
            let mut end = 0;
            counts.map(|len| {
                end += len;
                Block { offset: end - len, len }
            })
        };
        let (out, back) =
            (parts([0, 1, 2].map(|to| count(rank, to))), parts([0, 1, 2].map(|from| count(from, rank))));
        let bytes: Vec<u8> = (0..3).flat_map(|to| raw(rank as u32, count(rank, to))).collect();
        let expected: Vec<u8> = (0..3).flat_map(|from| raw(from, count(from as usize, rank))).collect();
        let (from, into) = (place.holding(&bytes), place.room(expected.len()));
        let (from, into) = ((from.region(), &out[..]), (into.region(), &back[..]));
        world.all_to_all_v(&place.stream, from, into, Element::F32).unwrap();
        world.wait(&place.stream).unwrap();
        assert!(place.bytes_of(into.0) == expected, "{policy}, about {len} bytes");
    });
}

#[test]
fn gather_and_scatter() {
    compare("equal::gather_and_scatter", 5, |world, place, len, policy| {
        let rank = world.rank();
        for root in [0, 2] {
            let own = place.holding(&raw(rank, len));
            let whole = place.room(if rank == root { 3 * len } else { 0 });
            world.gather(&place.stream, root, (own.region(), whole.region()), Element::F32).unwrap();
            let back = place.room(len);
            world.scatter(&place.stream, root, (whole.region(), back.region()), Element::F32).unwrap();
            world.wait(&place.stream).unwrap();
            if rank == root {
                assert!(place.bytes_of(whole.region()) == all(len), "{policy}, {len} bytes to {root}");
            }
            assert!(place.bytes_of(back.region()) == raw(rank, len), "{policy}, {len} bytes from {root}");
        }
    });
}

#[test]
fn messages() {
    compare("equal::messages", 6, |world, place, len, policy| {
        let (rank, next, last) = (world.rank(), (world.rank() + 1) % RANKS, (world.rank() + 2) % RANKS);
        let (first, second) = (place.holding(&raw(rank, len)), place.holding(&raw(rank + 10, len / 2)));
        let [a, b, own] = [place.room(len), place.room(len / 2), place.room(len)];
        // Around the ring, two messages at once, and one for oneself.
        let messages = [
            Message::Send { to: next, from: first.region() },
            Message::Receive { from: last, to: a.region() },
            Message::Send { to: rank, from: first.region() },
            Message::Receive { from: rank, to: own.region() },
            Message::Send { to: next, from: second.region() },
            Message::Receive { from: last, to: b.region() },
        ];
        let sent = world.exchange(&place.stream, &messages, Element::F32).unwrap();
        assert_eq!(sent.raw_bytes, (len + len / 2) as u64);
        world.wait(&place.stream).unwrap();
        assert!(place.bytes_of(a.region()) == raw(last, len), "{policy}, {len} bytes");
        assert!(place.bytes_of(b.region()) == raw(last + 10, len / 2), "{policy}, {len} bytes");
        assert!(place.bytes_of(own.region()) == raw(rank, len), "{policy}, {len} bytes to oneself");
        // One way.
        match rank {
            0 => check_sent(
                world.send(&place.stream, 2, first.region(), Element::F32).unwrap(),
                0,
                len,
                policy,
            ),
            2 => world.receive(&place.stream, 0, a.region(), Element::F32).unwrap(),
            _ => {}
        }
        world.wait(&place.stream).unwrap();
        if rank == 2 {
            assert!(place.bytes_of(a.region()) == raw(0, len), "{policy}, {len} bytes, one way");
        }
    });
}

#[test]
fn reductions_are_those_of_nccl() {
    with_nccl("equal::reductions_are_those_of_nccl", 7, |_, _| {
        on_ranks(
            RANKS,
            |_| config("fixed:xp"),
            |world, place| {
                let mut world = world.unwrap();
                let rank = world.rank();
                let numbers =
                    |factor: i32| -> Vec<u8> { (0..3000).flat_map(|i| (i * factor).to_le_bytes()).collect() };
                let from = place.holding(&numbers(rank as i32 + 1));
                let (into, share) = (place.room(12_000), place.room(4000));
                let both = (from.region(), into.region());
                world.all_reduce(&place.stream, both, Datatype::I32, Operation::Sum).unwrap();
                world.wait(&place.stream).unwrap();
                assert!(place.bytes_of(into.region()) == numbers(6));
                let both = (from.region(), share.region());
                world.reduce_scatter(&place.stream, both, Datatype::I32, Operation::Max).unwrap();
                world.wait(&place.stream).unwrap();
                let own = rank as usize * 4000..(rank as usize + 1) * 4000;
                assert!(place.bytes_of(share.region()) == numbers(3)[own]);
            },
        );
    });
}

#[test]
fn what_does_not_shrink_is_soon_plain() {
    with_nccl("equal::what_does_not_shrink_is_soon_plain", 8, |_, nccl| {
        let met = Gate::new(2);
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                met.pass_after(|| nccl.set("version", 22809)); // counts from here
                let buffer = place.holding(&raw(1, 20_000));
                for _ in 0..9 {
                    world.broadcast(&place.stream, 0, buffer.region(), Element::U32).unwrap();
                }
                world.wait(&place.stream).unwrap();
                assert!(place.bytes_of(buffer.region()) == raw(1, 20_000));
            },
        );
        // Three of them with headers: an operation more on each rank.
        assert_eq!(nccl.begun(), 2 * (9 + 3));
    });
}

#[test]
fn room_grows_when_nothing_uses_it() {
    with_nccl("equal::room_grows_when_nothing_uses_it", 9, |_, _| {
        on_ranks(
            2,
            |_| config("fixed:zvc"),
            |world, place| {
                let mut world = world.unwrap();
                let rank = u64::from(world.rank());
                // Rooms have 1 MiB at first. Nobody waits between the calls.
                let calls = [100_000, 1_100_000, 2_200_000].map(|len| {
                    let from = place.holding(&data::bytes(Kind::Sparse, len, rank));
                    (len, from, place.room(2 * len))
                });
                for (_, from, into) in &calls {
                    let sent = world.all_gather(&place.stream, from.region(), into.region(), Element::U32);
                    assert!(sent.unwrap().stored_bytes < from.region().len());
                }
                world.wait(&place.stream).unwrap();
                for (len, _, into) in &calls {
                    let expected = [0, 1].map(|rank| data::bytes(Kind::Sparse, *len, rank)).concat();
                    assert!(place.bytes_of(into.region()) == expected, "{len} bytes");
                }
            },
        );
    });
}

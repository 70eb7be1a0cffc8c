//! Wrong arguments, order, and members that give up.

use std::sync::Barrier;

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Block, Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Limits, Status};
use mgcomp_transport::node::NodeConfig;
use mgcomp_transport::session::TransferError;

use super::{buffer_of, bytes_of, on_all, on_all_with};
use crate::common::fabric::Fabric;
use crate::common::job::{config, nodes};
use crate::common::{wait_until, watched};

#[test]
fn wrong_arguments_are_named_and_break_nothing() {
    watched(|| {
        on_all(Fabric::loopback(), 2, "adaptive", |world| {
            let buffer = |len| HostBuffer::zeroed(len).all();
            let u8 = Element::U8;
            assert_eq!(world.send(2, 0, &buffer(1), u8), Err(CommunicatorError::Rank { rank: 2, ranks: 2 }));
            assert_eq!(
                world.broadcast(9, &buffer(1), u8),
                Err(CommunicatorError::Rank { rank: 9, ranks: 2 })
            );
            let what = "the buffer to gather into";
            let error = world.all_gather(&buffer(10), &buffer(19), u8);
            assert_eq!(error, Err(CommunicatorError::Length { what, got: 19, expected: 20 }));
            let error = world.all_to_all(&buffer(21), &buffer(21), u8);
            assert_eq!(
                error,
                Err(CommunicatorError::Length { what: "the buffer to send", got: 21, expected: 20 })
            );
            let blocks = |pairs: &[(usize, usize)]| -> Vec<Block> {
                pairs.iter().map(|&(offset, len)| Block { offset, len }).collect()
            };
            let gather = |pairs: &[(usize, usize)]| {
                world.all_gather_v(&buffer(pairs[0].1), &buffer(20), &blocks(pairs), u8).unwrap_err()
            };
            assert_eq!(gather(&[(0, 5)]), CommunicatorError::Blocks { got: 1, ranks: 2 });
            let outside = CommunicatorError::BlockOutside { block: 1, offset: 16, len: 5, buffer_len: 20 };
            assert_eq!(gather(&[(0, 5), (16, 5)]), outside);
            let outside =
                CommunicatorError::BlockOutside { block: 1, offset: usize::MAX, len: 5, buffer_len: 20 };
            assert_eq!(gather(&[(0, 5), (usize::MAX, 5)]), outside);
            assert_eq!(gather(&[(4, 5), (0, 5)]), CommunicatorError::BlocksOverlap { first: 1, second: 0 });

            let numbers = HostBuffer::zeroed(20);
            let part = |offset, len| numbers.all().part(offset, len).unwrap();
            let reduce = |send, receive| world.all_reduce(&send, &receive, Datatype::F32, Operation::Sum);
            assert_eq!(reduce(part(0, 12), part(4, 12)), Err(CommunicatorError::Overlap));
            let scatter = |pairs: &[(usize, usize)]| {
                let own = HostBuffer::zeroed(pairs[world.rank() as usize].1);
                let sum = (Datatype::F32, Operation::Sum);
                world.reduce_scatter_v(&part(0, 20), &blocks(pairs), &own.all(), sum.0, sum.1)
            };
            let overlap = CommunicatorError::BlocksOverlap { first: 1, second: 0 };
            assert_eq!(scatter(&[(4, 8), (0, 8)]), Err(overlap), "results are where others are owed theirs");
            let width = CommunicatorError::Width { len: 10, datatype: Datatype::F32 };
            assert_eq!(reduce(part(0, 10), part(10, 10)), Err(width));
            assert_eq!(world.all_gather(&part(3, 10), &part(0, 20), u8), Err(CommunicatorError::Overlap));

            // In place, blocks that are received lie where those that are sent do.
            let [straight, crossed] = [[(0, 10), (10, 10)], [(10, 10), (0, 10)]].map(|pairs| blocks(&pairs));
            let error = world.all_to_all_v(&part(0, 20), &straight, &part(0, 20), &crossed, u8);
            assert_eq!(error, Err(CommunicatorError::Overlap));
            assert_eq!(world.all_to_all(&part(0, 12), &part(4, 12), u8), Err(CommunicatorError::Overlap));

            // The root's own block lies across its place, in somebody else's, or in bytes that no block has. Others see nothing
            // of that, and go on to what comes next.
            let spaced = blocks(&[(0, 4), (6, 4)]);
            for offset in [2, 6, 10].into_iter().filter(|_| world.rank() == 0) {
                let (own, all) = (part(offset, 4), part(0, 20));
                assert_eq!(world.gather_v(0, &own, &all, &spaced, u8), Err(CommunicatorError::Overlap));
                assert_eq!(world.scatter_v(0, &all, &spaced, &own, u8), Err(CommunicatorError::Overlap));
            }

            // All said no before anything was sent.
            let all = HostBuffer::zeroed(20);
            world.all_gather(&buffer_of(world.rank(), 10).all(), &all.all(), u8).unwrap();
            assert_eq!(all.all().to_vec(), [bytes_of(0, 10), bytes_of(1, 10)].concat());
        });
    });
}

#[test]
fn members_that_do_not_agree_on_lengths_hear_of_it() {
    watched(|| {
        let worlds: Vec<_> = nodes(Fabric::loopback(), 2, "adaptive", &config())
            .into_iter()
            .map(Communicator::world)
            .collect();
        // The others' block is shorter or longer than what either expects.
        let block = |rank: u32| if rank == 0 { 1000 } else { 999 };
        std::thread::scope(|scope| {
            for world in &worlds {
                scope.spawn(move || {
                    let len = block(world.rank());
                    let (send, all) = (buffer_of(world.rank(), len), HostBuffer::zeroed(2 * len));
                    let error = world.all_gather(&send.all(), &all.all(), Element::U8).unwrap_err();
                    if world.rank() == 0 {
                        let expected = CommunicatorError::WrongLength { rank: 1, got: 999, expected: 1000 };
                        assert_eq!(error, expected);
                    } else {
                        assert!(matches!(error, CommunicatorError::Transfer(_)), "{error:?}");
                    }
                    let later = world.barrier();
                    assert!(matches!(later, Err(CommunicatorError::Broken(_))), "{later:?}");
                });
            }
        });
    });
}

/// Which way a collective goes depends on its length: of these, one member's is long and the others' are short, or the other way
/// round.
#[test]
fn members_whose_lengths_lie_on_two_sides_of_a_limit_hear_of_it() {
    type Collective = fn(&Communicator, &HostBuffer) -> Result<(), CommunicatorError>;
    let all_reduce: Collective =
        |world, numbers| world.all_reduce(&numbers.all(), &numbers.all(), Datatype::F32, Operation::Sum);
    let reduce: Collective = |world, numbers| {
        let result = HostBuffer::zeroed(numbers.len());
        world.reduce(0, &numbers.all(), &result.all(), Datatype::F32, Operation::Sum)
    };
    let broadcast: Collective = |world, bytes| world.broadcast(0, &bytes.all(), Element::U8);
    let cases = [
        (2, all_reduce, 128 << 10),
        (3, all_reduce, 48 << 10),
        (2, reduce, 16 << 10),
        (3, broadcast, 64 << 10),
    ];
    watched(move || {
        for (ranks, collective, limit) in cases {
            for (first, others) in [(limit, limit + 4), (limit + 4, limit)] {
                on_all(Fabric::loopback(), ranks, "adaptive", move |world| {
                    let len = if world.rank() == 0 { first } else { others };
                    let ended = collective(world, &HostBuffer::zeroed(len)).and_then(|()| world.barrier());
                    let which =
                        format!("rank {} of {ranks}, {first} and {others} bytes: {ended:?}", world.rank());
                    assert!(
                        ended.is_err_and(|error| !matches!(error, CommunicatorError::Length { .. })),
                        "{which}"
                    );
                });
            }
        }
    });
}

#[test]
fn members_that_no_longer_agree_on_lengths_hear_of_it() {
    watched(|| {
        // Behind the first broadcast of a length, members tell each other what it took.
        on_all(Fabric::loopback(), 2, "adaptive", |world| {
            let broadcast = |len| {
                let buffer = buffer_of(0, len);
                world.broadcast(0, &buffer.all(), Element::U8).and_then(|()| world.barrier())
            };
            assert_eq!(broadcast(20_000), Ok(()));
            let error = broadcast(if world.rank() == 0 { 20_000 } else { 30_000 }).unwrap_err();
            if world.rank() == 1 {
                let expected = CommunicatorError::WrongLength { rank: 0, got: 20_000, expected: 30_000 };
                assert_eq!(error, expected);
            }
            assert!(matches!(world.barrier(), Err(CommunicatorError::Broken(_))));
        });
    });
}

#[test]
fn a_pair_that_does_not_agree_in_place_hears_of_it() {
    watched(|| {
        for (short, long) in [(999, 1000), (600_000, 2_000_000)] {
            on_all(Fabric::loopback(), 2, "adaptive", |world| {
                let block = |offset, len| Block { offset, len };
                let len = if world.rank() == 0 { long } else { short };
                let (own, other) = (block(0, 10), block(10, len));
                let both = if world.rank() == 0 { [own, other] } else { [other, own] };
                let buffer = buffer_of(world.rank(), len + 10);
                let error =
                    world.all_to_all_v(&buffer.all(), &both, &buffer.all(), &both, Element::U8).unwrap_err();
                let is_clear = matches!(
                    error,
                    CommunicatorError::WrongLength { .. }
                        | CommunicatorError::Transfer(
                            TransferError::BufferTooSmall { .. } | TransferError::GivenUp { .. }
                        )
                );
                assert!(is_clear, "{short} and {long}, rank {}: {error:?}", world.rank());
                assert!(matches!(world.barrier(), Err(CommunicatorError::Broken(_))));
            });
        }
    });
}

#[test]
fn who_only_waits_hears_that_another_member_has_given_up() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            let worlds: Vec<_> =
                nodes(fabric, 4, "adaptive", &config()).into_iter().map(Communicator::world).collect();
            std::thread::scope(|scope| {
                for world in &worlds {
                    scope.spawn(move || {
                        // Rank 2 cannot take its share, which the others wait for.
                        let len = if world.rank() == 2 { 200_000 } else { 300_000 };
                        let buffer = buffer_of(world.rank(), len);
                        let error = world.broadcast(0, &buffer.all(), Element::U8).unwrap_err();
                        let CommunicatorError::Transfer(transfer) = &error else { panic!("{error:?}") };
                        let is_told = matches!(
                            transfer,
                            TransferError::GivenUp { status: Status::ReceiveTooSmall, .. }
                        );
                        assert!(is_told || world.rank() == 2, "rank {}: {error}", world.rank());
                        let later = world.barrier();
                        assert_eq!(later, Err(CommunicatorError::Broken(Box::new(error))));
                        // Messages do not depend on collectives.
                        let (peer, into) = (world.rank() ^ 1, HostBuffer::zeroed(10));
                        let from = buffer_of(world.rank(), 10);
                        let received =
                            world.send_receive((peer, &from.all()), (peer, &into.all()), 1, Element::U8);
                        assert_eq!(received, Ok(10));
                    });
                }
            });
        }
    });
}

#[test]
fn what_was_done_before_is_received_by_who_comes_late() {
    watched(|| {
        // Over this link what is sent is done when it is written.
        let worlds: Vec<_> =
            nodes(Fabric::tcp(), 3, "adaptive", &config()).into_iter().map(Communicator::world).collect();
        let others_have_failed = Barrier::new(3);
        std::thread::scope(|scope| {
            for world in &worlds {
                let others_have_failed = &others_have_failed;
                scope.spawn(move || {
                    // For ranks 0 and 2 all is over before rank 1 begins.
                    if world.rank() == 1 {
                        others_have_failed.wait();
                    }
                    let buffer = buffer_of(world.rank(), 1000);
                    assert_eq!(
                        world.broadcast(0, &buffer.all(), Element::U8),
                        Ok(()),
                        "rank {}",
                        world.rank()
                    );
                    assert_eq!(buffer.all().to_vec(), bytes_of(0, 1000), "rank {}", world.rank());
                    let len = if world.rank() == 2 { 200_000 } else { 300_000 };
                    let error = world.broadcast(0, &buffer_of(world.rank(), len).all(), Element::U8);
                    assert!(matches!(error, Err(CommunicatorError::Transfer(_))), "{error:?}");
                    if world.rank() != 1 {
                        others_have_failed.wait();
                    }
                });
            }
        });
    });
}

#[test]
fn a_group_that_has_failed_lets_go_of_its_buffers() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            on_all(fabric, 3, "adaptive", |world| {
                for _ in 0..3 {
                    let group = world.split(Some(0), 0).unwrap().unwrap();
                    // Rank 2 cannot take its share, which the others wait for.
                    let len = if world.rank() == 2 { 2_000_000 } else { 3_000_000 };
                    let mut buffer = buffer_of(world.rank(), len);
                    group.broadcast(0, &buffer.all(), Element::U8).unwrap_err();
                    wait_until("nobody uses the buffer", || buffer.is_only());
                }
                world.barrier().unwrap();
            });
        }
    });
}

#[test]
fn groups_that_come_and_go_leave_nothing_in_the_sessions() {
    watched(|| {
        // A session has room for four sends and eight offers.
        let limits = Limits { max_transfer_bytes: 64 << 10, window_bytes: 64 << 10, max_in_flight: 8 };
        let config = NodeConfig { limits, ..config() };
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            let moment = std::sync::Barrier::new(3);
            on_all_with(fabric, 3, "fixed:none", &config, |world| {
                for round in 0..32 {
                    let group = world.split(Some(0), 0).unwrap().unwrap();
                    let leaves_first = round % 2 == 0;
                    if world.rank() == 0 {
                        // It never takes part: what the others send to it, nobody receives.
                        let _group = (!leaves_first).then_some(group);
                        moment.wait();
                        moment.wait();
                        continue;
                    }
                    moment.wait();
                    // They do not agree on the length.
                    let (send, all) = (buffer_of(0, 1000 + world.rank() as usize), HostBuffer::zeroed(3006));
                    let all = all.all().part(0, 3 * send.len()).unwrap();
                    group.all_gather(&send.all(), &all, Element::U8).unwrap_err();
                    moment.wait();
                }
                let all = HostBuffer::zeroed(30);
                world.all_gather(&buffer_of(world.rank(), 10).all(), &all.all(), Element::U8).unwrap();
                assert_eq!(
                    all.all().to_vec(),
                    (0..3).flat_map(|rank| bytes_of(rank, 10)).collect::<Vec<_>>()
                );
            });
        }
    });
}

#[test]
fn collectives_that_do_not_wait_keep_their_order() {
    watched(|| {
        on_all(Fabric::loopback(), 3, "adaptive", |world| {
            let results: Vec<_> = (0..8).map(|_| HostBuffer::zeroed(3 * 40_000)).collect();
            let mut requests: Vec<_> = (0..8)
                .map(|turn| {
                    let send = buffer_of(10 * turn as u32 + world.rank(), 40_000);
                    world.start_all_gather(&send.all(), &results[turn].all(), Element::U32)
                })
                .collect();
            // One that waits comes after them.
            world.barrier().unwrap();
            requests.iter_mut().for_each(|request| assert!(request.is_finished()));
            requests.into_iter().rev().for_each(|request| request.wait().unwrap());
            for (turn, result) in results.iter().enumerate() {
                let expected = (0..3).flat_map(|rank| bytes_of(10 * turn as u32 + rank, 40_000));
                assert!(result.all().to_vec() == expected.collect::<Vec<_>>(), "turn {turn}");
            }
        });
    });
}

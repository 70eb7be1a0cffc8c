//! Members that leave, and what they leave behind.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::{Communicator, CommunicatorError, Datatype, Operation};
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::{Limits, Rank, Status};
use mgcomp_transport::node::{Node, NodeConfig};
use mgcomp_transport::session::TransferError;

use super::{buffer_of, bytes_of, on_all_with};
use crate::common::fabric::Fabric;
use crate::common::job::{config, nodes, wait_until_over};
use crate::common::{HANGS, wait_until, watched};

/// Its node lives on, and so do the messages between ranks.
#[test]
fn who_leaves_keeps_nobody_waiting() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp(), Fabric::shm()] {
            let nodes: Vec<_> = nodes(fabric, 3, "adaptive", &config()).into_iter().map(Arc::new).collect();
            let worlds: Vec<_> = nodes.iter().map(|node| Communicator::world(node.clone())).collect();
            thread::scope(|scope| {
                for world in worlds {
                    scope.spawn(move || {
                        let rank = world.rank();
                        world.barrier().unwrap();
                        let waiting = world.start_barrier();
                        if rank == 2 {
                            // It takes part in this one, and in none that comes after it.
                            return waiting.wait().unwrap();
                        }
                        waiting.wait().unwrap();
                        let error = world.barrier().unwrap_err();
                        let CommunicatorError::Transfer(TransferError::GivenUp { peer, status }) = error
                        else {
                            panic!("rank {rank}: {error:?}");
                        };
                        // Who hears of it tells the others, too.
                        assert!(
                            peer != Rank(rank) && status == Status::Closing,
                            "rank {rank}: {peer:?} {status:?}"
                        );
                        assert!(matches!(world.barrier(), Err(CommunicatorError::Broken(_))));
                        let (mine, others) = (buffer_of(rank, 1000), HostBuffer::zeroed(1000));
                        let sending = world.start_send(1 - rank, 7, &mine.all(), Element::U8).unwrap();
                        assert_eq!(world.receive(1 - rank, 7, &others.all()), Ok(1000));
                        sending.wait().unwrap();
                        assert!(others.all().to_vec() == bytes_of(1 - rank, 1000));
                    });
                }
            });
        }
    });
}

#[test]
fn who_only_sends_hears_that_another_has_left() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp(), Fabric::shm()] {
            let nodes: Vec<_> = nodes(fabric, 2, "adaptive", &config()).into_iter().map(Arc::new).collect();
            let [root, leaving] = [0, 1].map(|rank| Communicator::world(nodes[rank].clone()));
            drop(leaving);
            let bytes = buffer_of(0, 1000);
            // What is sent before the other one is heard of is nobody's.
            let ended = wait_for(|| root.broadcast(0, &bytes.all(), Element::U8).err());
            let left = TransferError::GivenUp { peer: Rank(1), status: Status::Closing };
            assert_eq!(ended, CommunicatorError::Transfer(left));
        }
    });
}

/// What there is some time.
fn wait_for<T>(mut what: impl FnMut() -> Option<T>) -> T {
    let mut found = None;
    wait_until("it is there", || {
        found = what();
        found.is_some()
    });
    found.unwrap()
}

#[test]
fn what_who_leaves_has_sent_is_received_by_who_comes_late() {
    watched(|| {
        let narrow = NodeConfig { limits: Limits { window_bytes: 64 << 10, ..config().limits }, ..config() };
        for (fabric, config) in
            [(Fabric::tcp(), &config()), (Fabric::shm(), &config()), (Fabric::tcp(), &narrow)]
        {
            on_all_with(fabric, 3, "adaptive", config, |world| {
                for round in 0..40 {
                    let group = world.split(Some(0), 0).unwrap().unwrap();
                    let all = HostBuffer::zeroed(3 * 5000);
                    if group.rank() == round % 3 {
                        thread::sleep(Duration::from_millis(3)); // most have left by now
                    }
                    let gathered = group.gather(
                        round % 3,
                        &buffer_of(group.rank(), 5000).all(),
                        &all.all(),
                        Element::U8,
                    );
                    assert_eq!(gathered, Ok(()), "round {round}, rank {}", group.rank());
                    if group.rank() == round % 3 {
                        let expected: Vec<u8> = (0..3).flat_map(|rank| bytes_of(rank, 5000)).collect();
                        assert!(all.all().to_vec() == expected, "round {round}");
                    }
                }
            });
        }
    });
}

/// Its session ends, which says nothing of the collective.
#[test]
fn who_has_done_its_part_may_go_while_another_is_late() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp(), Fabric::shm()] {
            let worlds = nodes(fabric, 3, "adaptive", &config()).into_iter().map(Communicator::world);
            let [root, late, leaving] = worlds.collect::<Vec<_>>().try_into().unwrap();
            let all = HostBuffer::zeroed(3 * 5000);
            let gather = |world: &Communicator| {
                let mine = buffer_of(world.rank(), 5000);
                world.start_gather(0, &mine.all(), &all.all(), Element::U8)
            };
            let mut waiting = gather(&root);
            gather(&leaving).wait().unwrap();
            drop(leaving);
            wait_until_over(root.node(), Rank(2));
            assert!(!waiting.is_finished());
            gather(&late).wait().unwrap();
            assert_eq!(waiting.wait(), Ok(()));
            let expected: Vec<u8> = (0..3).flat_map(|rank| bytes_of(rank, 5000)).collect();
            assert!(all.all().to_vec() == expected);
        }
    });
}

#[test]
fn a_node_has_one_communicator_of_all_ranks() {
    watched(|| {
        let nodes: Vec<_> =
            nodes(Fabric::loopback(), 2, "adaptive", &config()).into_iter().map(Arc::new).collect();
        let first: Vec<_> = nodes.iter().map(|node| Communicator::world(node.clone())).collect();
        let second = Communicator::world(nodes[0].clone());
        let refused = Err(CommunicatorError::SecondWorld);
        assert_eq!(second.barrier(), refused);
        drop(second);
        // The first one hears nothing of that.
        thread::scope(|scope| {
            for world in &first {
                scope.spawn(|| world.barrier().unwrap());
            }
        });
        drop(first);
        assert_eq!(Communicator::world(nodes[1].clone()).barrier(), refused);
    });
}

#[test]
fn what_was_started_is_done_when_its_communicator_is_gone() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            let started = Instant::now();
            // Two seconds are little on a busy machine.
            while !is_done_when_its_communicator_is_gone(fabric) {
                assert!(started.elapsed() < HANGS, "what was started is given up each time");
            }
        }
    });
}

/// Returns whether it was done everywhere. Nobody may have given it up before the time for that.
fn is_done_when_its_communicator_is_gone(fabric: Fabric) -> bool {
    let nodes: Vec<_> = nodes(fabric, 3, "adaptive", &config()).into_iter().map(Arc::new).collect();
    let moment = Barrier::new(3);
    let leave = &|node: &Arc<Node>| {
        let world = Communicator::world(node.clone());
        let (send, mut all) = (buffer_of(world.rank(), 5000), HostBuffer::zeroed(3 * 5000));
        moment.wait(); // from here on they have two seconds
        drop(world.start_all_gather(&send.all(), &all.all(), Element::U8));
        let started = Instant::now();
        drop(world);
        let took = started.elapsed();
        assert_eq!(Arc::strong_count(node), 1, "somebody has the node");
        let expected = (0..3).flat_map(|rank| bytes_of(rank, 5000));
        let is_done = all.all().to_vec() == expected.collect::<Vec<_>>();
        wait_until("nobody uses the buffer", || all.is_only());
        (is_done, took)
    };
    let left: Vec<(bool, Duration)> = thread::scope(|scope| {
        let threads: Vec<_> = nodes.iter().map(|node| scope.spawn(move || leave(node))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let are_done = left.iter().all(|(is_done, _)| *is_done);
    let is_late = left.iter().any(|(_, took)| *took >= Duration::from_secs(2));
    assert!(are_done || is_late, "given up at once: {left:?}");
    are_done
}

#[test]
fn what_others_do_not_take_part_in_is_given_up_with_its_communicator() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            let nodes: Vec<_> = nodes(fabric, 2, "adaptive", &config()).into_iter().map(Arc::new).collect();
            let [leaving, other] = [0, 1].map(|rank| Communicator::world(nodes[rank].clone()));
            let mut buffer = buffer_of(0, 100_000);
            drop(leaving.start_barrier());
            drop(leaving.start_broadcast(1, &buffer.all(), Element::U8));
            drop(leaving);
            assert_eq!(Arc::strong_count(&nodes[0]), 1, "somebody has the node");
            wait_until("nobody uses the buffer", || buffer.is_only());
            // What the barrier sends is here, but not what the next operation waits for.
            let given_up = Err(CommunicatorError::Transfer(TransferError::GivenUp {
                peer: Rank(0),
                status: Status::Closing,
            }));
            let first = other.barrier();
            assert!(first == Ok(()) || first == given_up, "{first:?}");
            let second = other.broadcast(0, &buffer.all(), Element::U8);
            let broken = |first: Result<(), _>| Err(CommunicatorError::Broken(Box::new(first.unwrap_err())));
            assert_eq!(second, if first.is_ok() { given_up } else { broken(first) });
        }
    });
}

#[test]
fn a_request_keeps_its_communicator() {
    watched(|| {
        let worlds = nodes(Fabric::loopback(), 2, "adaptive", &config()).into_iter().map(Communicator::world);
        let [first, second] = worlds.collect::<Vec<_>>().try_into().unwrap();
        let buffer = buffer_of(0, 100_000);
        let waiting = first.start_broadcast(1, &buffer.all(), Element::U8);
        drop(first);
        let from = buffer_of(1, 100_000);
        second.broadcast(1, &from.all(), Element::U8).unwrap();
        assert_eq!(waiting.wait(), Ok(()));
        assert!(buffer.all().to_vec() == bytes_of(1, 100_000));
    });
}

#[test]
fn a_member_that_goes_ends_the_collectives_of_all() {
    watched(|| {
        for fabric in [Fabric::loopback(), Fabric::tcp()] {
            let mut worlds: Vec<_> =
                nodes(fabric, 3, "adaptive", &config()).into_iter().map(Communicator::world).collect();
            let leaving = worlds.pop().unwrap();
            thread::scope(|scope| {
                for world in &worlds {
                    scope.spawn(move || {
                        let buffer = buffer_of(world.rank(), 3 << 20);
                        let error =
                            world.all_reduce(&buffer.all(), &buffer.all(), Datatype::F32, Operation::Sum);
                        assert!(matches!(error, Err(CommunicatorError::Transfer(_))), "{error:?}");
                        let later = world.start_barrier().wait();
                        assert!(matches!(later, Err(CommunicatorError::Broken(_))), "{later:?}");
                        // Messages do not depend on collectives.
                        let (peer, into) = (1 - world.rank(), HostBuffer::zeroed(10));
                        let from = buffer_of(world.rank(), 10);
                        let received =
                            world.send_receive((peer, &from.all()), (peer, &into.all()), 1, Element::U8);
                        assert_eq!(received, Ok(10));
                    });
                }
                drop(leaving);
            });
        }
    });
}

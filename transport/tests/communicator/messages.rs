//! Messages by tag.

use mgcomp_codecs::Element;
use mgcomp_transport::communicator::CommunicatorError;
use mgcomp_transport::memory::HostBuffer;
use mgcomp_transport::message::Limits;
use mgcomp_transport::node::NodeConfig;
use mgcomp_transport::session::TransferError;

use super::{buffer_of, bytes_of, on_all, on_all_with};
use crate::common::fabric::Fabric;
use crate::common::job::config;
use crate::common::{LIMITS, wait_until, watched};

/// Longer messages travel in parts of this length.
const PART: usize = 512 << 10;

pub(super) fn messages_of_every_length_arrive(fabric: Fabric) {
    on_all(fabric, 2, "adaptive", |world| {
        let (own, peer) = (world.rank(), 1 - world.rank());
        for len in [0, 1, 4095, PART - 1, PART, PART + 1, 3 * PART, 3 * PART + 5] {
            for room in [len, len + 1, len + 2 * PART] {
                let into = HostBuffer::from(vec![0xee; room]);
                let send = buffer_of(own, len);
                let received = world.send_receive((peer, &send.all()), (peer, &into.all()), 7, Element::U32);
                assert_eq!(received, Ok(len as u64));
                let mut expected = bytes_of(peer, len);
                expected.resize(room, 0xee);
                assert!(into.all().to_vec() == expected, "{len} bytes in {room}");
            }
        }
    });
}

pub(super) fn messages_that_are_too_long_are_lost_alone(fabric: Fabric) {
    on_all(fabric, 2, "fixed:bdi", |world| {
        let cases = [
            (10, 9),
            (PART, 100),
            (PART, PART - 1),
            (PART + 1, 0),
            (PART + 5, PART),
            (3 * PART, 2 * PART + 1),
        ];
        for (len, room) in cases {
            if world.rank() == 0 {
                // The sender hears of what found no room.
                let error = world.send(1, 3, &buffer_of(0, len).all(), Element::U32).unwrap_err();
                assert!(
                    matches!(error, CommunicatorError::Transfer(TransferError::Refused { .. })),
                    "{error}"
                );
                world.send(1, 3, &buffer_of(5, 100).all(), Element::U32).unwrap();
                continue;
            }
            let into = HostBuffer::zeroed(room);
            let error = world.receive(0, 3, &into.all()).unwrap_err();
            let expected = CommunicatorError::Truncated { len: len as u64, capacity: room as u64 };
            assert_eq!(error, expected, "{len} bytes in {room}");
            let next = HostBuffer::zeroed(100);
            assert_eq!(world.receive(0, 3, &next.all()), Ok(100));
            assert_eq!(next.all().to_vec(), bytes_of(5, 100), "after {len} bytes in {room}");
        }
    });
}

pub(super) fn tags_are_told_apart_and_kept_in_order(fabric: Fabric) {
    on_all(fabric, 3, "adaptive", |world| {
        let (own, ranks) = (world.rank(), world.size());
        let peers: Vec<u32> = (0..ranks).filter(|&rank| rank != own).collect();
        let len = |peer: u32, tag: u32, turn: u32| (100 * peer + 10 * tag + turn) as usize * 777;
        let mut sends = Vec::new();
        for &peer in &peers {
            for (tag, turn) in [(0, 0), (1, 0), (0, 1), (u32::MAX, 0)] {
                let from = buffer_of(own, len(own, tag % 7, turn));
                sends.push(world.start_send(peer, tag, &from.all(), Element::U8).unwrap());
            }
        }
        for &peer in &peers {
            for (tag, turn) in [(u32::MAX, 0), (1, 0), (0, 0), (0, 1)] {
                let len = len(peer, tag % 7, turn);
                let into = HostBuffer::zeroed(len);
                assert_eq!(world.receive(peer, tag, &into.all()), Ok(len as u64), "tag {tag} of {peer}");
                assert!(into.all().to_vec() == bytes_of(peer, len), "tag {tag} of {peer}");
            }
        }
        for mut send in sends {
            crate::common::wait_until("a send that was received is finished", || send.is_finished());
            send.wait().unwrap();
        }
        // A receive that is asked about goes on by that.
        let (next, before) = ((own + 1) % ranks, (own + ranks - 1) % ranks);
        let into = HostBuffer::zeroed(3 * PART);
        let mut receive = world.start_receive(before, 9, &into.all()).unwrap();
        assert!(!receive.is_finished());
        world.barrier().unwrap();
        let send = world.start_send(next, 9, &buffer_of(own, 2 * PART).all(), Element::U32).unwrap();
        crate::common::wait_until("the message is there", || receive.is_finished());
        assert_eq!(receive.wait(), Ok(2 * PART as u64));
        assert!(into.all().part(0, 2 * PART).unwrap().to_vec() == bytes_of(before, 2 * PART));
        send.wait().unwrap();
    });
}

pub(super) fn messages_are_received_in_any_order(fabric: Fabric) {
    const LEN: usize = 8 * PART;
    // A window holds a message and a half.
    let config = NodeConfig { limits: Limits { window_bytes: 12 << 20, ..LIMITS }, ..config() };
    on_all_with(fabric, 2, "adaptive", &config, |world| {
        if world.rank() == 0 {
            let send = |tag| world.start_send(1, tag, &buffer_of(tag, LEN).all(), Element::U32).unwrap();
            let sends: Vec<_> = (1..7).map(send).collect();
            sends.into_iter().for_each(|send| send.wait().unwrap());
        } else {
            for tag in (1..7).rev() {
                let into = HostBuffer::zeroed(LEN);
                assert_eq!(world.receive(0, tag, &into.all()), Ok(LEN as u64), "tag {tag}");
                assert!(into.all().to_vec() == bytes_of(tag, LEN), "tag {tag}");
            }
        }
    });
}

pub(super) fn messages_that_are_not_received_yet_hold_up_no_collective(fabric: Fabric) {
    const MESSAGES: u32 = 100;
    // Far fewer are taken before they are received, sent or offered.
    let config = NodeConfig { limits: Limits { max_in_flight: 4, ..LIMITS }, ..config() };
    on_all_with(fabric, 2, "adaptive", &config, |world| {
        if world.rank() == 0 {
            let send = |tag| world.start_send(1, tag, &buffer_of(tag, 1000).all(), Element::U32).unwrap();
            let sends: Vec<_> = (0..MESSAGES).map(send).collect();
            world.barrier().unwrap();
            return sends.into_iter().for_each(|send| send.wait().unwrap());
        }
        world.barrier().unwrap();
        for tag in 0..MESSAGES {
            let into = HostBuffer::zeroed(1000);
            assert_eq!(world.receive(0, tag, &into.all()), Ok(1000), "tag {tag}");
            assert!(into.all().to_vec() == bytes_of(tag, 1000), "tag {tag}");
        }
    });
}

pub(super) fn receives_of_one_tag_get_messages_in_order_however_they_are_waited_for(fabric: Fabric) {
    const LENS: [usize; 5] = [2 * PART, 10, PART + 1, PART, 3 * PART];
    on_all(fabric, 2, "adaptive", |world| {
        if world.rank() == 0 {
            world.barrier().unwrap();
            let send = |(tag, len)| world.start_send(1, 5, &buffer_of(tag, len).all(), Element::U32).unwrap();
            let sends: Vec<_> = (0..).zip(LENS).map(send).collect();
            return sends.into_iter().for_each(|send| send.wait().unwrap());
        }
        // The last is waited for first, and one is dropped before its message has come.
        let into = LENS.map(|_| HostBuffer::zeroed(3 * PART));
        let mut receives: Vec<_> =
            into.iter().map(|into| world.start_receive(0, 5, &into.all()).unwrap()).collect();
        drop(receives.remove(2));
        world.barrier().unwrap();
        for at in [4, 3, 1, 0] {
            let receive = receives.pop().unwrap();
            assert_eq!(receive.wait(), Ok(LENS[at] as u64), "message {at}");
        }
        for (rank, (into, len)) in (0..).zip(into.iter().zip(LENS)) {
            crate::common::wait_until("it is there", || {
                into.all().part(0, len).unwrap().to_vec() == bytes_of(rank, len)
            });
        }
    });
}

pub(super) fn threads_that_send_with_one_tag_do_not_mix_their_messages(fabric: Fabric) {
    const EACH: usize = 20;
    const LEN: usize = 2 * PART + 12;
    on_all(fabric, 2, "adaptive", |world| {
        if world.rank() == 0 {
            std::thread::scope(|scope| {
                for thread in 0..3 {
                    let from = buffer_of(thread, LEN).all();
                    scope.spawn(move || {
                        (0..EACH).for_each(|_| world.send(1, 5, &from, Element::U32).unwrap());
                    });
                }
            });
            return;
        }
        let (expected, mut came) = ([0, 1, 2].map(|thread| bytes_of(thread, LEN)), [0; 3]);
        for _ in 0..3 * EACH {
            let into = HostBuffer::zeroed(LEN);
            assert_eq!(world.receive(0, 5, &into.all()), Ok(LEN as u64));
            let got = into.all().to_vec();
            let whose = expected.iter().position(|message| *message == got);
            came[whose.expect("a message of several threads")] += 1;
        }
        assert_eq!(came, [EACH; 3]);
    });
}

#[test]
fn messages_to_oneself_are_refused_before_anything_is_sent() {
    watched(|| {
        on_all(Fabric::loopback(), 2, "adaptive", |world| {
            let (own, peer) = (world.rank(), 1 - world.rank());
            let (from, into) = (buffer_of(own, 100), HostBuffer::zeroed(200).all());
            let exchange = |to, from_rank| {
                world.send_receive((to, &from.all()), (from_rank, &into), 3, Element::U8).err()
            };
            let mut errors = Vec::new();
            if own == 0 {
                errors.push(exchange(peer, own));
                world.barrier().unwrap();
                // The first that it sends with this tag.
                world.send(peer, 3, &from.all().part(0, 50).unwrap(), Element::U8).unwrap();
            } else {
                let mut receive = world.start_receive(peer, 3, &into).unwrap();
                world.barrier().unwrap();
                wait_until("a message is there", || receive.is_finished());
                assert_eq!(receive.wait(), Ok(50));
            }
            errors.push(exchange(own, peer));
            errors.push(world.start_send(own, 3, &from.all(), Element::U8).err());
            errors.push(world.start_receive(own, 3, &into).err());
            let refused = Some(CommunicatorError::Own { rank: own });
            assert!(errors.iter().all(|error| *error == refused), "{errors:?}");
        });
    });
}

#[test]
fn a_ring_of_one_member_copies() {
    watched(|| {
        on_all(Fabric::loopback(), 1, "adaptive", |world| {
            for len in [0, 1, PART + 1] {
                let (from, into) = (buffer_of(3, len), HostBuffer::from(vec![0xee; len + 2]));
                let received = world.send_receive((0, &from.all()), (0, &into.all()), 7, Element::U32);
                assert_eq!(received, Ok(len as u64));
                let expected = [bytes_of(3, len), vec![0xee; 2]].concat();
                assert!(into.all().to_vec() == expected, "{len} bytes");
            }
            let buffer = buffer_of(3, 100);
            let part = |offset, len| buffer.all().part(offset, len).unwrap();
            let copy = |from, into| world.send_receive((0, &from), (0, &into), 7, Element::U8);
            assert_eq!(
                copy(part(0, 60), part(60, 40)),
                Err(CommunicatorError::Truncated { len: 60, capacity: 40 })
            );
            assert_eq!(copy(part(0, 60), part(30, 60)), Err(CommunicatorError::Overlap));
            assert_eq!(copy(part(0, 60), part(0, 100)), Ok(60));
            assert_eq!(buffer.all().to_vec(), bytes_of(3, 100));
        });
    });
}

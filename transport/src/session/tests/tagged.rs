//! Tagged sends: who gets what, in which order, and what does not fit.

use super::solo::{Solo, receive, send, zeroed};
use super::world::World;
use super::*;
use crate::memory::HostBuffer;

/// A tagged send of tag 1 as bytes.
fn message(id: u8, payload: &[u8]) -> Vec<u8> {
    let header = [0x60, 0, id << 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, payload.len() as u8];
    [&header[..], payload].concat()
}

#[test]
fn sends_leave_in_order_though_their_jobs_do_not_finish_in_order() {
    let mut solo = Solo::open(WIDE);
    (0..3).for_each(|n| solo.submit(n, send(&[n as u8], 1)));
    for (job, sent) in [(2, vec![]), (0, vec![0]), (0, vec![1, 2])] {
        let job = solo.jobs.remove(job).unwrap();
        solo.work_on(job);
        let expected: Vec<_> = sent.into_iter().map(|n| message(n, &[n])).collect();
        assert_eq!(solo.take_sent(), expected);
    }
}

#[test]
fn a_send_that_cannot_be_encoded_does_not_hold_up_later_ones() {
    let mut solo = Solo::open(WIDE);
    (0..3).for_each(|n| solo.submit(n, send(&[n as u8], 1)));
    let jobs: Vec<_> = solo.jobs.drain(..).collect();
    for job in &jobs[1..] {
        solo.work_on(job.clone());
    }
    assert!(solo.take_sent().is_empty());
    let Action::Encode { job, .. } = jobs[0] else { panic!("{:?}", jobs[0]) };
    solo.session.encoded(job, Err(Status::Internal));
    solo.carry_out();
    assert_eq!(solo.take_sent(), [message(1, &[1]), message(2, &[2])]);
    assert_eq!(solo.delivered, [(0, Err(TransferError::Encode(Status::Internal)))]);
}

#[test]
fn arrivals_wait_for_receives_and_receives_for_arrivals_each_in_order() {
    let mut solo = Solo::open(WIDE);
    let buffers: Vec<_> = (0..4).map(|_| zeroed(2)).collect();
    solo.hear_bytes(&message(0, b"a"));
    solo.hear_bytes(&message(1, b"b"));
    assert!(solo.jobs.is_empty() && solo.take_sent().is_empty());
    (0..4).for_each(|n| solo.submit(n as u64, receive(1, &buffers[n])));
    solo.hear_bytes(&message(2, b"c"));
    solo.hear_bytes(&message(3, b"d"));
    // Jobs finish backwards; what was matched stays matched.
    while let Some(job) = solo.jobs.pop_back() {
        solo.work_on(job);
    }
    assert_eq!(solo.delivered, [(3, Ok(1)), (2, Ok(1)), (1, Ok(1)), (0, Ok(1))]);
    let acks = [[0x40, 0, 0x30, 0], [0x40, 0, 0x20, 0], [0x40, 0, 0x10, 0], [0x40, 0, 0x00, 0]];
    assert_eq!(solo.take_sent(), acks);
    let bytes: Vec<_> = buffers.iter().map(crate::memory::HostSlice::to_vec).collect();
    assert_eq!(bytes, [[b'a', 0], [b'b', 0], [b'c', 0], [b'd', 0]]);
    assert!(solo.session.is_idle());
}

#[test]
fn only_the_same_tag_matches() {
    let mut solo = Solo::open(WIDE);
    let tags = [0, 2, u64::MAX, 1 << 32, 1 << 63 | 1];
    tags.iter().for_each(|&tag| solo.submit(tag, receive(tag, &zeroed(1))));
    solo.hear_bytes(&message(0, b"a"));
    assert!(solo.jobs.is_empty());
    solo.submit(1, receive(1, &zeroed(1)));
    solo.work();
    assert_eq!(solo.delivered, [(1, Ok(1))]);
}

#[test]
fn both_sides_are_told_that_a_receive_is_too_small() {
    for receive_first in [true, false] {
        let mut world = World::open(1, WIDE);
        let into = HostBuffer::from(vec![9; 4]).all();
        let next = zeroed(9);
        let receives = |world: &mut World| {
            world.submit(1, 1, receive(5, &into));
            world.submit(1, 2, receive(5, &next));
        };
        if receive_first {
            receives(&mut world);
        }
        world.submit(0, 1, send(b"12345", 5));
        world.submit(0, 2, send(b"6789", 5));
        world.run();
        if !receive_first {
            receives(&mut world);
            world.run();
        }
        let refused = TransferError::Refused { peer: Rank(1), status: Status::ReceiveTooSmall };
        let too_small = TransferError::BufferTooSmall { peer: Rank(0), len: 5, capacity: 4 };
        assert_eq!(world.result(0, 1), Some(&Err(refused)));
        assert_eq!(world.result(1, 1), Some(&Err(too_small)));
        assert_eq!((world.result(0, 2), world.result(1, 2)), (Some(&Ok(4)), Some(&Ok(4))));
        assert_eq!(into.to_vec(), [9; 4]);
        assert_eq!(next.to_vec(), *b"6789\0\0\0\0\0");
        world.assert_idle();
    }
}

#[test]
fn nothing_can_be_sent_and_received() {
    let mut world = World::open(2, WIDE);
    world.submit(0, 1, send(b"", 5));
    world.submit(1, 1, receive(5, &zeroed(0)));
    world.submit(1, 2, send(b"", 5));
    world.submit(0, 2, receive(5, &zeroed(8)));
    world.run();
    assert!([(0, 1), (1, 1), (1, 2), (0, 2)].iter().all(|&(end, id)| world.result(end, id) == Some(&Ok(0))));
    world.assert_idle();
}

#[test]
fn a_send_longer_than_this_side_takes_is_answered_with_a_status() {
    let mut solo = Solo::open(Limits { max_transfer_bytes: 4, ..WIDE });
    solo.submit(1, receive(1, &zeroed(10)));
    solo.hear_bytes(&message(0, b"12345"));
    assert_eq!(solo.take_sent(), [[0x40, 0, 0, 4]]);
    // It did not use up the receive.
    solo.hear_bytes(&message(1, b"1234"));
    solo.work();
    assert_eq!(solo.delivered, [(1, Ok(4))]);
}

#[test]
fn many_tags_wait_and_leave_nothing_behind() {
    let mut world = World::open(4, WIDE);
    let tag = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let buffers: Vec<_> = (0..5000).map(|_| zeroed(8)).collect();
    (0..5000).for_each(|n| world.submit(0, n, send(&n.to_le_bytes(), tag(n))));
    world.run();
    assert!(world.ends[0].delivered.is_empty());
    for n in (0..5000).rev() {
        world.submit(1, n, receive(tag(n), &buffers[n as usize]));
    }
    world.run();
    for n in 0..5000 {
        assert_eq!((world.result(0, n), world.result(1, n)), (Some(&Ok(8)), Some(&Ok(8))));
        assert_eq!(buffers[n as usize].to_vec(), n.to_le_bytes());
    }
    world.assert_idle();
}

#[test]
fn raw_bytes_that_were_asked_for_have_a_place_to_go() {
    let mut solo = Solo::open(WIDE);
    let (first, second) = (HostBuffer::zeroed(100), HostBuffer::zeroed(30));
    let raw = |id, tag, length| {
        Header::TaggedSend(TaggedSend {
            id: MessageId(id),
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag: Tag(tag),
            length,
        })
    };
    assert!(solo.session.landing(&raw(0, 5, 80), 80).is_none(), "nobody has asked for it yet");
    for (id, buffer) in [(0, &first), (1, &second)] {
        solo.submit(id, Request::Receive { tag: Tag(5), into: Payload::from_memory(buffer.all()) });
    }
    let place = solo.session.landing(&raw(0, 5, 80), 80).unwrap();
    assert!(place.is_same(&first.slice(0..80).unwrap()));
    assert!(solo.session.landing(&raw(0, 5, 101), 101).is_none(), "longer than the receive");
    assert!(solo.session.landing(&raw(0, 6, 80), 80).is_none(), "another tag");
    let mut narrow = Solo::open(Limits { max_transfer_bytes: 79, ..WIDE });
    let receive = Request::Receive { tag: Tag(5), into: Payload::from_memory(HostBuffer::zeroed(100).all()) };
    narrow.submit(0, receive);
    assert!(narrow.session.landing(&raw(0, 5, 79), 79).is_some());
    assert!(narrow.session.landing(&raw(0, 5, 80), 80).is_none(), "it will be refused as too long");
    let coded = TaggedSend {
        id: MessageId(0),
        algorithm: Algorithm::Bdi,
        continued: false,
        unawaited: false,
        tag: Tag(5),
        length: 80,
    };
    assert!(solo.session.landing(&Header::TaggedSend(coded), 80).is_none(), "to be decoded");
    // When the first has come, the place is that of the second.
    solo.hear(raw(0, 5, 80), &[7; 80]);
    let place = solo.session.landing(&raw(1, 5, 30), 30).unwrap();
    assert!(place.is_same(&second.all()));

    // The second piece of a read of two.
    const PIECE: u32 = 1 << 16;
    let into = HostBuffer::zeroed(PIECE as usize + 10);
    solo.submit(
        2,
        Request::Read { from: Address::new(1, 0), into: Payload::from_memory(into.all()), raw: false },
    );
    let asked: Vec<_> = solo.sent.iter().filter_map(|sent| Header::parse(sent).ok()).collect();
    let ids: Vec<_> = asked
        .iter()
        .filter_map(|(header, _)| match header {
            Header::ReadRequest(request) => Some(request.id),
            _ => None,
        })
        .collect();
    let answer = |id, algorithm| Header::DataReady(DataReady { id, algorithm, status: Status::Good });
    let place = solo.session.landing(&answer(ids[1], Algorithm::None), 10).unwrap();
    assert!(place.is_same(&into.slice(PIECE as usize..PIECE as usize + 10).unwrap()));
    assert!(solo.session.landing(&answer(ids[1], Algorithm::None), 9).is_none(), "not all of it");
    assert!(solo.session.landing(&answer(ids[1], Algorithm::Zvc), 10).is_none());
    assert!(solo.session.landing(&answer(MessageId(999), Algorithm::None), 10).is_none());
    // What the peer writes by itself is checked before it touches anything.
    let write = crate::message::WriteRequest {
        id: MessageId(9),
        address: Address::new(1, 0),
        length: 10,
        algorithm: Algorithm::None,
    };
    assert!(solo.session.landing(&Header::WriteRequest(write), 10).is_none());
    solo.close(SessionError::Closed);
    assert!(solo.session.landing(&answer(ids[1], Algorithm::None), 10).is_none(), "the session is over");
}

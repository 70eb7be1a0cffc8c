//! Messages of several sends: one receive gets all of them, and the next one the next message.

use super::solo::{Solo, receive, send, zeroed};
use super::world::World;
use super::*;
use crate::memory::{HostBuffer, HostSlice};
use crate::message::{Fetch, Offer, OfferAck, WriteAck};

const TAG: u64 = 1;

/// A raw send of the peer, or one that the message goes on behind.
fn part(id: u8, payload: &[u8], continued: bool) -> Vec<u8> {
    let flags = u8::from(continued) << 4;
    let header = [0x60, 0, id << 4, flags, 0, 0, 0, 0, 0, 0, 0, TAG as u8, 0, 0, 0, payload.len() as u8];
    [&header[..], payload].concat()
}

/// What a program submits for one part of a message.
fn sent(bytes: &[u8], goes_on: bool) -> Request {
    let Request::Send { from, element, tag, completion, .. } = send(bytes, TAG) else { panic!("no send") };
    Request::Send { from, element, tag, completion, part_of: Some(6), continued: goes_on, window: None }
}

fn bytes(slices: &[HostSlice]) -> Vec<Vec<u8>> {
    slices.iter().map(HostSlice::to_vec).collect()
}

#[test]
fn the_parts_of_a_message_are_for_one_receive_and_the_next_message_for_the_next() {
    let messages = [part(0, b"ab", true), part(1, b"c", true), part(2, b"de", false), part(3, b"f", false)];
    // Receives come before all of them, between them, or last.
    for at in 0..=4 {
        let mut solo = Solo::open(WIDE);
        let into = [zeroed(6), zeroed(6)];
        messages[..at].iter().for_each(|message| solo.hear_bytes(message));
        (0..2).for_each(|n| solo.submit(n as u64, receive(TAG, &into[n])));
        messages[at..].iter().for_each(|message| solo.hear_bytes(message));
        // The last to come is the first to be decoded: the second message, and the first one with its first part.
        while let Some(job) = solo.jobs.pop_back() {
            assert!(solo.delivered.len() < 2);
            solo.work_on(job);
        }
        assert_eq!(solo.delivered, [(1, Ok(1)), (0, Ok(5))], "receives after {at}");
        assert_eq!(bytes(&into), [b"abcde\0", b"f\0\0\0\0\0"]);
        assert_eq!(solo.take_sent().len(), 4, "each send is answered");
        assert!(solo.session.is_idle());
    }
}

#[test]
fn parts_come_to_their_place_whether_they_are_sent_or_offered() {
    // What has no room at the receiver is offered: here a part of more than 10 bytes, or what comes behind 30.
    let limits = Limits { max_transfer_bytes: 10, window_bytes: 30, max_in_flight: 5 };
    for seed in 0..100 {
        let mut world = World::new(seed, [config(0, limits), config(1, limits)]);
        let lens = [9, 25, 0, 10, 3, 17, 1];
        let message: Vec<u8> = (1..=lens.iter().sum::<usize>() as u8).collect();
        let mut left = &message[..];
        let mut parts = Vec::new();
        for len in lens {
            let (part, rest) = left.split_at(len);
            parts.push(part);
            left = rest;
        }
        let into = [zeroed(100), zeroed(5)];
        let receives = |world: &mut World| {
            (0..2).for_each(|n| world.submit(1, n as u64, receive(TAG, &into[n])));
        };
        if seed % 2 == 0 {
            receives(&mut world);
        }
        for (n, part) in (0..).zip(&parts) {
            world.submit(0, n, sent(part, n < 6));
        }
        world.submit(0, 7, sent(b"next", false));
        if seed % 2 == 1 {
            world.run();
            receives(&mut world);
        }
        world.run();
        assert_eq!((world.result(1, 0), world.result(1, 1)), (Some(&Ok(65)), Some(&Ok(4))), "seed {seed}");
        assert_eq!((&into[0].to_vec()[..65], &into[1].to_vec()[..]), (&message[..], &b"next\0"[..]));
        (0..8).for_each(|n| assert!(world.result(0, n).unwrap().is_ok()));
        world.assert_idle();
    }
}

#[test]
fn a_part_that_cannot_be_encoded_is_offered_in_its_place() {
    let mut solo = Solo::open(WIDE);
    for (n, bytes) in (0..).zip([&b"ab"[..], b"cd", b"ef"]) {
        solo.submit(n, sent(bytes, n < 2));
    }
    let second = solo.jobs.remove(1).unwrap();
    let Action::Encode { job, .. } = second else { panic!("{second:?}") };
    solo.session.encoded(job, Err(Status::Internal));
    solo.work();
    let offered = Offer { offer: OfferId(0), continued: true, tag: Tag(TAG), length: 2 };
    let headers = solo.take_headers();
    let [Header::TaggedSend(first), Header::Offer(offer), Header::TaggedSend(last)] = headers[..] else {
        panic!("{headers:?}")
    };
    assert_eq!((first.continued, offer, last.continued), (true, offered, false));
    // What fails once more is known to both.
    for (id, ends) in [(7, Err(Status::Internal)), (8, Ok(()))] {
        let fetch = Fetch { id: MessageId(id), offer: OfferId(0), offset: 0, length: 2 };
        solo.hear(Header::Fetch(fetch), b"");
        let Some(Action::Encode { job, source, element, .. }) = solo.jobs.pop_front() else {
            panic!("no job")
        };
        let encoded = ends.and_then(|()| codec::encode_payload(&source, element, Algorithm::None));
        solo.session.encoded(job, encoded);
        solo.carry_out();
        let answer = solo.take_sent().remove(0);
        let Ok((Header::DataReady(ready), len)) = Header::parse(&answer) else { panic!("{answer:?}") };
        assert_eq!((ready.id, ready.status.is_good()), (MessageId(id), ends.is_ok()));
        assert_eq!(&answer[len..], if ends.is_ok() { &b"cd"[..] } else { b"" });
    }
    for id in [first.id, last.id] {
        solo.hear(Header::WriteAck(WriteAck { id, status: Status::Good }), b"");
    }
    solo.hear(Header::OfferAck(OfferAck { status: Status::Good, offer: OfferId(0) }), b"");
    solo.delivered.sort_by_key(|(id, _)| *id);
    assert_eq!(solo.delivered, [(0, Ok(2)), (1, Ok(2)), (2, Ok(2))]);
    assert!(solo.session.is_idle());
}

#[test]
fn what_a_receive_has_no_room_for_is_refused_and_the_next_message_is_whole() {
    let mut world = World::open(1, WIDE);
    let into = [HostBuffer::from(vec![9; 4]).all(), zeroed(4)];
    (0..2).for_each(|n| world.submit(1, n as u64, receive(TAG, &into[n])));
    for (n, bytes) in (0..).zip([&b"abc"[..], b"de", b"f", b"gh"]) {
        world.submit(0, n, sent(bytes, n < 3));
    }
    world.submit(0, 4, sent(b"next", false));
    world.run();
    // Its length is that of all parts.
    let too_small = TransferError::BufferTooSmall { peer: Rank(0), len: 8, capacity: 4 };
    assert_eq!((world.result(1, 0), world.result(1, 1)), (Some(&Err(too_small)), Some(&Ok(4))));
    let refused = Err(TransferError::Refused { peer: Rank(1), status: Status::ReceiveTooSmall });
    let results: Vec<_> = (0..5).map(|n| world.result(0, n).unwrap().clone()).collect();
    assert_eq!(results, [Ok(3), refused.clone(), refused.clone(), refused, Ok(4)]);
    assert_eq!(bytes(&into), [b"abc\x09", b"next"]);
    world.assert_idle();
}

#[test]
fn lengths_beyond_all_numbers_are_only_too_long() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, receive(TAG, &zeroed(4)));
    for (number, continued) in [(1, true), (2, true), (3, false)] {
        let offer = Offer { offer: OfferId(number), continued, tag: Tag(TAG), length: u64::MAX };
        solo.hear(Header::Offer(offer), b"");
    }
    let too_small = TransferError::BufferTooSmall { peer: Rank(1), len: u64::MAX, capacity: 4 };
    assert_eq!(solo.delivered, [(0, Err(too_small))]);
    assert!(solo.session.is_idle());
}

#[test]
fn a_message_that_is_not_whole_ends_with_the_session() {
    for asked_before in [true, false] {
        for is_decoding in [true, false] {
            let mut solo = Solo::open(WIDE);
            let into = zeroed(9);
            if asked_before {
                solo.submit(0, receive(TAG, &into));
            }
            solo.hear_bytes(&part(0, b"ab", true));
            if !is_decoding {
                solo.work();
            }
            solo.close(SessionError::Closed);
            if !asked_before {
                solo.submit(0, receive(TAG, &into));
            }
            let error = TransferError::Session { peer: Rank(1), error: SessionError::Closed };
            // Its memory is in use until what has come is decoded.
            assert_eq!(solo.delivered.is_empty(), !solo.jobs.is_empty());
            assert_eq!(solo.jobs.is_empty(), asked_before && !is_decoding);
            solo.work();
            assert_eq!(solo.delivered, [(0, Err(error.clone()))]);
            solo.submit(1, receive(TAG, &zeroed(9)));
            assert_eq!(solo.delivered[1..], [(1, Err(error))]);
            assert!(solo.session.is_idle());
        }
    }
}

#[test]
fn a_whole_message_is_there_after_the_session() {
    let mut solo = Solo::open(WIDE);
    solo.hear_bytes(&part(0, b"ab", true));
    solo.hear_bytes(&part(1, b"c", false));
    solo.hear_bytes(&part(2, b"d", true));
    solo.close(SessionError::Closed);
    let into = zeroed(3);
    solo.submit(0, receive(TAG, &into));
    solo.submit(1, receive(TAG, &zeroed(3)));
    solo.work();
    assert_eq!((solo.delivered[0].clone(), into.to_vec()), ((0, Ok(3)), b"abc".to_vec()));
    assert!(solo.delivered.len() == 2 && solo.delivered[1].1.is_err() && solo.session.is_idle());
}

#[test]
fn a_group_that_ends_ends_what_has_begun() {
    // A member's message in an operation of group 5, as no member sends it.
    let tag = 0x8000_0580_0000_0003_u64;
    let begun = |id: u8| {
        let header = [&[0x60, 0, id << 4, 0x10][..], &tag.to_be_bytes(), &[0, 0, 0, 1, 7]];
        header.concat()
    };
    let mut solo = Solo::open(WIDE);
    solo.submit(0, receive(tag, &zeroed(2)));
    solo.hear_bytes(&begun(0));
    solo.session.end_group(GroupOver { group: 5, status: Status::Internal, is_orderly: false }, false);
    solo.carry_out();
    assert!(solo.delivered.is_empty(), "it is being decoded");
    solo.work();
    let given_up = TransferError::GivenUp { peer: Rank(0), status: Status::Internal };
    assert_eq!(solo.delivered, [(0, Err(given_up))]);
    assert!(solo.session.is_idle());
}

#[test]
fn raw_parts_land_behind_each_other() {
    let mut solo = Solo::open(WIDE);
    let into = zeroed(100);
    solo.submit(0, receive(TAG, &into));
    solo.hear_bytes(&part(0, b"abc", true));
    let header = Header::parse(&part(1, &[0; 40], false)).unwrap().0;
    let place = solo.session.landing(&header, 40).unwrap();
    assert!(place.is_same(&into.part(3, 40).unwrap()));
    assert!(solo.session.landing(&header, 98).is_none(), "there are 97 left");
    assert!(solo.session.landing(&header, 39).is_none(), "it says 40");
    assert!(solo.session.landing(&header, 41).is_none());
}

/// A read whose bytes are being decoded is the library's until they are, however the session ends.
#[test]
fn memory_that_is_being_written_is_told_to_be_free_only_after_that() {
    let mut solo = Solo::open(Limits { max_transfer_bytes: 4, ..WIDE });
    solo.submit(0, super::solo::read(Address::new(0, 0), &zeroed(8)));
    solo.hear_bytes(&[0x20, 0, 0, 0, 1, 2, 3, 4]);
    solo.hear_bytes(&[0x20, 0, 0x10, 0, 5, 6, 7, 8]);
    assert_eq!(solo.jobs.len(), 2);
    solo.close(SessionError::Closed);
    for left in [2, 1] {
        assert!(solo.delivered.is_empty(), "{left} pieces are being decoded");
        let job = solo.jobs.pop_back().unwrap();
        solo.work_on(job);
    }
    let error = TransferError::Session { peer: Rank(1), error: SessionError::Closed };
    assert_eq!(solo.delivered, [(0, Err(error))]);
    assert!(solo.session.is_idle());
}

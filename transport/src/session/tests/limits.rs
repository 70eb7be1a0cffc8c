//! What the peer takes at once is used to the full and never exceeded; `World` watches the messages.

use std::collections::HashSet;

use super::solo::{Solo, read, receive, send, write, zeroed};
use super::world::World;
use super::*;
use crate::message::{Fetch, Offer};
use crate::session::requester::longest_message;

fn id(header: &Header) -> u16 {
    match header {
        Header::ReadRequest(ReadRequest { id, .. }) => id.0,
        other => panic!("{other:?}"),
    }
}

fn data(id: u16) -> Header {
    Header::DataReady(DataReady { id: MessageId(id), algorithm: Algorithm::None, status: Status::Good })
}

#[test]
fn requests_in_flight_reach_the_limit_and_stay_there() {
    for max_in_flight in [2, 3, 7] {
        let mut world = World::open(1, Limits { max_in_flight, ..WIDE });
        let (_, address) = world.register(1, vec![1; 10]);
        (0..200).for_each(|n| world.submit(0, n, read(address, &zeroed(10))));
        (200..400).for_each(|n| world.submit(0, n, write(b"0123456789", address)));
        world.run();
        assert!((0..400).all(|n| world.result(0, n) == Some(&Ok(10))));
        assert_eq!(world.traffic[0].peak.requests, max_in_flight as usize);
        world.assert_idle();
    }
}

#[test]
fn bytes_in_flight_reach_the_window_of_each_lane_and_stay_there() {
    // Pieces of 10 bytes, the length of the longest transfer, fill a window of 100.
    let limits = Limits { max_transfer_bytes: 10, window_bytes: 100, ..WIDE };
    let mut world = World::open(2, limits);
    let (_, address) = world.register(1, vec![1; 1005]);
    world.submit(0, 0, read(address, &zeroed(1005)));
    (1..100).for_each(|n| world.submit(0, n, send(b"0123456789", n)));
    (1..100).for_each(|n| world.submit(1, n, receive(n, &zeroed(10))));
    world.run();
    assert_eq!(world.result(0, 0), Some(&Ok(1005)));
    assert!((1..100).all(|n| world.result(0, n) == Some(&Ok(10))));
    assert_eq!(world.traffic[0].peak.bytes, [100, 100]);
    assert_eq!(world.traffic[0].asked, [101, 0, 10, 0]);
    // What found no window was offered, and fetched by the receives.
    assert_eq!((world.traffic[0].offered, world.traffic[1].asked), (89, [0, 0, 0, 89]));
    world.assert_idle();
}

#[test]
fn a_window_smaller_than_the_longest_transfer_cuts_pieces() {
    let limits = Limits { max_transfer_bytes: 1000, window_bytes: 7, ..WIDE };
    let mut world = World::open(3, limits);
    let (region, address) = world.register(1, vec![1; 100]);
    let into = zeroed(50);
    world.submit(0, 1, read(address, &into));
    world.submit(0, 2, write(&[9; 50], address.checked_add(50).unwrap()));
    world.run();
    assert_eq!((world.result(0, 1), world.result(0, 2)), (Some(&Ok(50)), Some(&Ok(50))));
    assert_eq!(into.to_vec(), [1; 50]);
    assert_eq!(region.all().to_vec(), [[1; 50], [9; 50]].concat());
    assert_eq!(world.traffic[0].asked, [8, 8, 0, 0]);
    assert_eq!(world.traffic[0].peak.bytes, [7, 0]);
}

#[test]
fn pieces_of_one_byte() {
    let mut world =
        World::new(4, [config(0, WIDE), config(1, WIDE)].map(|c| SessionConfig { piece_bytes: 1, ..c }));
    let (_, address) = world.register(1, (0..=255).collect());
    let into = zeroed(256);
    world.submit(0, 1, read(address, &into));
    world.run();
    assert_eq!(world.result(0, 1), Some(&Ok(256)));
    assert_eq!(into.to_vec(), (0..=255).collect::<Vec<u8>>());
    assert_eq!(world.traffic[0].asked, [256, 0, 0, 0]);
}

#[test]
fn pieces_are_cut_where_they_should_be() {
    // 70,001 bytes in pieces of 30,000 that run over the end of a region number.
    let mut solo = Solo::open_with(
        SessionConfig { piece_bytes: 30_000, ..config(0, WIDE) },
        Greeting { limits: WIDE, ..greeting(1, WIDE) },
    );
    let start = Address::new(2, u32::MAX - 39_999);
    solo.submit(0, read(start, &zeroed(70_001)));
    let piece = |id, address, length| {
        Header::ReadRequest(ReadRequest { id: MessageId(id), address, length, raw: false })
    };
    let expected = [
        piece(0, start, 30_000),
        piece(1, Address::new(2, u32::MAX - 9_999), 30_000),
        piece(2, Address::new(3, 20_000), 10_001),
    ];
    assert_eq!(solo.take_headers(), expected);
}

#[test]
fn what_is_asked_for_is_no_longer_than_this_side_takes() {
    // The peer takes more, but an answer longer than that ends the session on links that hold it to the limits.
    let own = Limits { max_transfer_bytes: 10, ..WIDE };
    let config = SessionConfig { piece_bytes: 1 << 20, ..config(0, own) };
    let mut solo = Solo::open_with(config, greeting(1, WIDE));
    solo.submit(0, read(Address::new(0, 0), &zeroed(25)));
    let asked = |header: Header| match header {
        Header::ReadRequest(ReadRequest { length, .. }) | Header::Fetch(Fetch { length, .. }) => length,
        other => panic!("{other:?}"),
    };
    assert_eq!(solo.take_headers().into_iter().map(asked).collect::<Vec<_>>(), [10, 10, 5]);
    solo.submit(1, receive(1, &zeroed(25)));
    solo.hear(Header::Offer(Offer { offer: OfferId(0), continued: false, tag: Tag(1), length: 25 }), b"");
    assert_eq!(solo.take_headers().into_iter().map(asked).collect::<Vec<_>>(), [10, 10, 5]);
}

#[test]
fn messages_have_a_length_of_32_bits_whatever_a_peer_takes() {
    let longest = |max_transfer_bytes, window_bytes| {
        longest_message(Limits { max_transfer_bytes, window_bytes, max_in_flight: 2 })
    };
    // 2³² − 65 bytes and a header of 64.
    assert_eq!(longest(u32::MAX, u64::MAX), 4_294_967_231);
    assert_eq!(longest(u32::MAX - 64, u64::MAX), 4_294_967_231);
    assert_eq!(longest(u32::MAX - 65, u64::MAX), 4_294_967_230);
    assert_eq!(longest(u32::MAX, 7), 7);
}

#[test]
fn sends_that_nobody_receives_do_not_hold_up_reads_and_writes() {
    // Full by number of requests, full by bytes.
    let limits = [Limits { max_in_flight: 2, ..WIDE }, Limits { window_bytes: 20, ..WIDE }];
    for limits in limits {
        let mut world = World::open(5, limits);
        let (_, address) = world.register(1, vec![6; 100]);
        (0..50).for_each(|n| world.submit(0, n, send(b"0123456789", n)));
        world.run_for(Duration::from_secs(60));
        let into = zeroed(100);
        world.submit(0, 100, read(address, &into));
        world.submit(0, 101, write(&[5; 100], address));
        world.run();
        assert_eq!((world.result(0, 100), world.result(0, 101)), (Some(&Ok(100)), Some(&Ok(100))));
        assert!(world.ends[0].delivered.len() == 2 && world.ends[0].session.is_open());
        (0..50).for_each(|n| world.submit(1, n, receive(n, &zeroed(10))));
        world.run();
        assert!((0..50).all(|n| world.result(0, n) == Some(&Ok(10))));
        world.assert_idle();
    }
}

#[test]
fn a_long_read_does_not_hold_up_sends() {
    let mut solo = Solo::open(Limits { max_transfer_bytes: 1, max_in_flight: 3, ..WIDE });
    solo.submit(0, read(Address::new(0, 0), &zeroed(1000)));
    solo.submit(1, send(b"x", 1));
    solo.submit(2, send(b"y", 1));
    assert_eq!(solo.take_sent().len(), 3);
    solo.hear_bytes(&[0x20, 0, 0, 0, 0xaa]);
    solo.work();
    assert_eq!(solo.take_sent(), [[0x60, 0, 0x30, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'x']]);
    // The next one that is free goes to the read again.
    solo.hear_bytes(&[0x20, 0, 0x10, 0, 0xaa]);
    solo.work();
    assert_eq!(solo.take_headers().iter().map(id).collect::<Vec<_>>(), [4]);
}

#[test]
fn every_id_can_be_in_flight_and_none_is_used_twice() {
    let mut solo = Solo::open(WIDE);
    (0..70_000).for_each(|n| solo.submit(n, read(Address::new(0, 0), &zeroed(1))));
    let ids: Vec<u16> = solo.take_headers().iter().map(id).collect();
    assert_eq!(ids.len(), 65_536);
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), 65_536);
    // Which ids are free, the answers say.
    for free in [777u16, 0, 65_535, 40_000] {
        solo.hear(data(free), &[0xcc]);
        assert!(solo.take_sent().is_empty(), "the bytes are not decoded yet");
        solo.work();
        assert_eq!(solo.take_headers().iter().map(id).collect::<Vec<_>>(), [free]);
    }
    assert_eq!(solo.delivered.len(), 4);
    // There is no id for a probe, so the next thing is the end.
    let deadline = solo.session.deadline().unwrap();
    assert_eq!(deadline, solo.now + Duration::from_secs(9));
    solo.wait(Duration::from_secs(3));
    assert_eq!((solo.take_sent().len(), solo.session.deadline()), (0, Some(deadline)));
    solo.wait(Duration::from_secs(6));
    solo.assert_over(SessionError::Silent(Duration::from_secs(9)), None);
    assert_eq!(solo.delivered.len(), 70_000);
}

#[test]
fn ids_wrap_around_and_skip_those_in_flight() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, read(Address::new(0, 0), &zeroed(1))); // id 0, never answered
    solo.take_sent();
    for n in 1..200_000u64 {
        solo.submit(n, read(Address::new(0, 0), &zeroed(0)));
        let id = id(&solo.take_headers()[0]);
        assert_eq!(u64::from(id), (n - 1) % 65_535 + 1);
        solo.hear(data(id), b"");
        solo.work();
    }
    assert_eq!(solo.delivered.len(), 199_999);
}

#[test]
fn a_probe_keeps_its_id() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, receive(1, &zeroed(1)));
    solo.wait(Duration::from_secs(3));
    assert_eq!(solo.take_headers().iter().map(id).collect::<Vec<_>>(), [0]);
    for n in 1..70_000u64 {
        solo.submit(n, read(Address::new(0, 0), &zeroed(0)));
        let id = id(&solo.take_headers()[0]);
        assert_ne!(id, 0, "request {n}");
        solo.hear(data(id), b"");
        solo.work();
    }
    assert_eq!(solo.delivered.len(), 69_999);
}

#[test]
fn a_request_id_may_be_used_twice() {
    let mut solo = Solo::open(Limits { max_in_flight: 2, ..WIDE });
    solo.submit(4, read(Address::new(0, 0), &zeroed(1)));
    solo.submit(4, read(Address::new(0, 0), &zeroed(2)));
    for (id, payload) in [(0x00, &[1][..]), (0x10, &[1, 2])] {
        solo.hear_bytes(&[&[0x20, 0, id, 0], payload].concat());
        solo.work();
    }
    assert_eq!(solo.delivered, [(4, Ok(1)), (4, Ok(2))]);
    assert!(solo.session.is_idle());
}

#[test]
fn what_is_encoded_goes_out_before_the_next_piece_is() {
    let mut solo = Solo::open(WIDE);
    solo.session.submit(RequestId(0), write(&[7; 3 << 16], Address::new(1, 0x1000)), solo.now);
    for piece in 0..3 {
        let Some(Action::Encode { job, source, .. }) = solo.session.poll_action() else {
            panic!("piece {piece}: nothing to encode")
        };
        assert_eq!(source.capacity(), 1 << 16);
        solo.session.encoded(job, Ok((Algorithm::None, source)));
        let next = solo.session.poll_action();
        assert!(matches!(next, Some(Action::Send { .. })), "piece {piece}: {next:?}");
    }
    assert!(solo.session.poll_action().is_none());
}

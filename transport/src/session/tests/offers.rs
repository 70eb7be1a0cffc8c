//! Sends that find no window are offered: whatever is received next, it comes, and nothing is held for the others.

use super::solo::{Solo, read, receive, send, zeroed};
use super::world::World;
use super::*;
use crate::memory::{HostBuffer, HostSlice};
use crate::message::{Fetch, Offer, OfferAck, TaggedSend};

/// Takes ten bytes of sends unasked, in one message at most.
const NARROW: Limits = Limits { max_transfer_bytes: 10, window_bytes: 10, max_in_flight: 8 };

fn offer(number: u32, tag: u64, length: u64) -> Header {
    Header::Offer(Offer { offer: OfferId(number), continued: false, tag: Tag(tag), length })
}

fn fetch(id: u16, number: u32, offset: u64, length: u32) -> Header {
    Header::Fetch(Fetch { id: MessageId(id), offer: OfferId(number), offset, length })
}

fn ack(number: u32, status: Status) -> Header {
    Header::OfferAck(OfferAck { status, offer: OfferId(number) })
}

fn data(id: u16, status: Status) -> Header {
    Header::DataReady(DataReady { id: MessageId(id), algorithm: Algorithm::None, status })
}

/// An open session that has offered `bytes` as number 0, and a first send of ten other bytes that fills the window.
fn offering(bytes: &[u8]) -> Solo {
    let mut solo = Solo::open(NARROW);
    solo.submit(0, send(&[0xee; 10], 9));
    solo.work();
    solo.submit(1, send(bytes, 4));
    let headers = solo.take_headers();
    assert_eq!((headers.len(), headers[1]), (2, offer(0, 4, bytes.len() as u64)));
    assert!(solo.jobs.is_empty(), "nothing is encoded before it is wanted");
    solo
}

/// An open session that fetches a hundred bytes, which it was offered as number 3, in ten pieces of which eight are
/// under way, under the ids 0 to 7.
fn fetching() -> (Solo, HostSlice) {
    let (mut solo, into) = (Solo::open(NARROW_ANSWERS), zeroed(100));
    solo.submit(1, receive(4, &into));
    solo.hear(offer(3, 4, 100), b"");
    let expected: Vec<_> = (0..8).map(|n| fetch(n, 3, u64::from(n) * 10, 10)).collect();
    assert_eq!(solo.take_headers(), expected);
    (solo, into)
}

/// As [`NARROW`], with a wider window.
const NARROW_ANSWERS: Limits = Limits { window_bytes: 100, ..NARROW };

#[test]
fn receives_in_any_order_get_what_is_theirs() {
    const SENDS: u64 = 60;
    for seed in 0..200 {
        let mut world = World::open(seed, Limits { max_in_flight: [4, 64][seed as usize % 2], ..NARROW });
        world.reorder = seed % 4 == 3;
        let lens: Vec<_> = (0..SENDS).map(|_| world.rng.pick(&[0, 1, 9, 10, 11, 35])).collect();
        let buffers: Vec<_> = lens.iter().map(|&len| zeroed(len)).collect();
        let mut order: Vec<u64> = (0..SENDS).rev().collect();
        if seed % 2 == 1 {
            (1..order.len()).for_each(|i| order.swap(i, world.rng.index(i + 1)));
        }
        // As many may wait as are offered at once: 64, or 4 whose receives come in the order of the sends.
        if world.traffic[0].limits().max_in_flight == 4 {
            order.sort();
        }
        for n in 0..SENDS {
            world.submit(0, n, send(&vec![n as u8 + 1; lens[n as usize]], n));
        }
        world.run();
        for n in order {
            world.submit(1, n, receive(n, &buffers[n as usize]));
            world.run();
            let expected = Some(&Ok(lens[n as usize] as u64));
            assert_eq!((world.result(0, n), world.result(1, n)), (expected, expected), "seed {seed}");
            assert_eq!(buffers[n as usize].to_vec(), vec![n as u8 + 1; lens[n as usize]]);
        }
        assert!(world.traffic[0].offered > 20 && world.traffic[0].peak.bytes[1] <= 10);
        world.assert_idle();
    }
}

#[test]
fn sends_of_one_tag_stay_in_order_whether_offered_or_not() {
    let mut world = World::open(5, NARROW);
    let lens = [4, 30, 3, 0, 11, 2, 10];
    for (n, len) in (0..).zip(lens) {
        world.submit(0, n, send(&vec![n as u8 + 1; len], 6));
    }
    world.run();
    assert_eq!(world.traffic[0].offered, 3, "30, 11 and, with 9 bytes on the way, 10");
    for (n, len) in (0..).zip(lens) {
        let into = zeroed(30);
        world.submit(1, n, receive(6, &into));
        world.run();
        assert_eq!(world.result(1, n), Some(&Ok(len as u64)));
        assert_eq!(into.to_vec()[..len], vec![n as u8 + 1; len]);
    }
    world.assert_idle();
}

#[test]
fn a_send_of_any_length_is_fetched_in_pieces() {
    let mut world = World::open(6, NARROW_ANSWERS);
    let bytes: Vec<u8> = (0..1005u32).map(|n| (n % 251) as u8).collect();
    let (small, into) = (zeroed(1004), zeroed(2000));
    [&small, &into].into_iter().zip(0..).for_each(|(into, id)| world.submit(1, id, receive(6, into)));
    (0..2).for_each(|id| world.submit(0, id, send(&bytes, 6)));
    world.run();
    let refused = TransferError::Refused { peer: Rank(1), status: Status::ReceiveTooSmall };
    assert_eq!((world.result(0, 0), world.result(0, 1)), (Some(&Err(refused)), Some(&Ok(1005))));
    let too_small = TransferError::BufferTooSmall { peer: Rank(0), len: 1005, capacity: 1004 };
    assert_eq!((world.result(1, 0), world.result(1, 1)), (Some(&Err(too_small)), Some(&Ok(1005))));
    assert_eq!(small.to_vec(), [0; 1004], "nothing was fetched for it");
    assert_eq!(into.to_vec()[..1005], bytes);
    assert_eq!((world.traffic[1].asked[3], world.traffic[1].peak.bytes[0]), (101, 80), "eight at once");
    world.assert_idle();
}

#[test]
fn offers_keep_their_turn_behind_what_is_being_encoded() {
    let mut solo = Solo::open(NARROW);
    solo.submit(0, send(&[1; 10], 4));
    solo.submit(1, send(&[2; 10], 4));
    assert!(solo.take_sent().is_empty());
    // The peer cannot know of it yet.
    let mut early = Solo::open(NARROW);
    early.submit(0, send(&[1; 10], 4));
    early.submit(1, send(&[2; 10], 4));
    early.hear(fetch(0, 0, 0, 10), b"");
    early.assert_over(Violation::NoSuchOffer(OfferId(0)), Some(Status::Protocol));
    solo.work();
    let tagged = TaggedSend {
        id: MessageId(0),
        algorithm: Algorithm::None,
        continued: false,
        unawaited: false,
        tag: Tag(4),
        length: 10,
    };
    assert_eq!(solo.take_headers(), [Header::TaggedSend(tagged), offer(0, 4, 10)]);
}

#[test]
fn an_offer_is_fetched_as_often_as_the_peer_likes() {
    let mut solo = offering(b"0123456789abcde");
    let pieces = [(0, 10, &b"0123456789"[..]), (10, 5, b"abcde"), (0, 10, b"0123456789"), (15, 0, b"")];
    for (id, (offset, length, bytes)) in (7..).zip(pieces) {
        solo.hear(fetch(id, 0, offset, length), b"");
        solo.work();
        assert_eq!(solo.take_sent(), [[&*data(id, Status::Good).encode(), bytes].concat()]);
    }
    solo.hear(ack(0, Status::Good), b"");
    assert_eq!(solo.delivered, [(1, Ok(15))]);
    // It is answered: nothing is there to be fetched any more, and nothing to be answered.
    for late in [fetch(7, 0, 0, 1), ack(0, Status::Good)] {
        let mut solo = offering(b"x");
        solo.hear(ack(0, Status::Good), b"");
        assert_eq!(solo.delivered, [(1, Ok(1))]);
        solo.hear(late, b"");
        solo.assert_over(Violation::NoSuchOffer(OfferId(0)), Some(Status::Protocol));
    }
}

#[test]
fn fetches_of_what_is_not_offered_get_nothing() {
    for (offset, length, status) in
        [(0, 11, 4), (6, 10, 2), (15, 1, 2), (16, 0, 2), (u64::MAX, 1, 2), (u64::MAX, u32::MAX, 4)]
    {
        let mut solo = offering(b"0123456789abcde");
        solo.hear(fetch(7, 0, offset, length), b"");
        assert!(solo.jobs.is_empty());
        assert_eq!(solo.take_headers(), [data(7, Status::from_code(status))], "{length} bytes from {offset}");
        solo.assert_works();
    }
    // No offer has that number; a send that went out by itself has not either.
    for number in [1, 9, u32::MAX] {
        let mut solo = offering(b"x");
        solo.hear(fetch(7, number, 0, 1), b"");
        solo.assert_over(Violation::NoSuchOffer(OfferId(number)), Some(Status::Protocol));
    }
    let mut solo = Solo::open(WIDE);
    solo.submit(0, send(b"x", 1));
    solo.work();
    solo.hear(fetch(7, 0, 0, 1), b"");
    solo.assert_over(Violation::NoSuchOffer(OfferId(0)), Some(Status::Protocol));
}

#[test]
fn fetches_count_against_the_limits() {
    let limits = Limits { max_in_flight: 2, ..NARROW };
    let flood = |bytes| {
        let mut solo = Solo::open(limits);
        solo.submit(0, send(&[1; 50], 4)); // longer than one message may be
        (0..3).for_each(|id| solo.hear(fetch(id, 0, 0, bytes), b""));
        solo
    };
    flood(4).assert_over(Violation::TooManyRequests { limit: 2 }, Some(Status::Protocol));
    let exceeded = Violation::WindowExceeded { in_flight: 12, limit: 10 };
    flood(6).assert_over(exceeded, Some(Status::Protocol));
}

#[test]
fn an_offer_is_not_answered_while_bytes_of_it_are_owed() {
    let mut solo = offering(b"x");
    solo.hear(fetch(7, 0, 0, 1), b"");
    solo.hear(ack(0, Status::Good), b"");
    solo.assert_over(Violation::OfferInUse(OfferId(0)), Some(Status::Protocol));
    assert_eq!(solo.delivered.len(), 2);
    assert!(solo.delivered.iter().all(|(_, result)| result.is_err()));
}

#[test]
fn answers_need_an_offer() {
    for number in [0, 1, u32::MAX] {
        let mut solo = Solo::open(WIDE);
        solo.submit(0, send(b"x", 1)); // has the id 0, but is no offer
        solo.work();
        solo.hear(ack(number, Status::Good), b"");
        solo.assert_over(Violation::NoSuchOffer(OfferId(number)), Some(Status::Protocol));
    }
}

#[test]
fn a_sender_hears_why_its_offer_was_not_taken() {
    for code in [4, 6, 11, 13, 200] {
        let (mut solo, status) = (offering(b"x"), Status::from_code(code));
        solo.hear(ack(0, status), b"");
        assert_eq!(solo.delivered, [(1, Err(TransferError::Refused { peer: Rank(1), status }))]);
        solo.assert_works();
    }
}

#[test]
fn more_offers_than_announced_end_the_session() {
    let mut solo = Solo::open(NARROW);
    (0..8).for_each(|number| solo.hear(offer(number, u64::from(number), u64::MAX), b""));
    assert!(solo.session.is_open() && solo.take_sent().is_empty() && solo.jobs.is_empty());
    // What is answered makes room.
    solo.submit(1, receive(5, &zeroed(3)));
    assert_eq!(solo.take_headers(), [ack(5, Status::ReceiveTooSmall)]);
    solo.hear(offer(5, 5, 1), b"");
    assert!(solo.session.is_open());
    solo.hear(offer(8, 5, 1), b"");
    solo.assert_over(Violation::TooManyOffers { limit: 8 }, Some(Status::Protocol));
    assert!(solo.session.is_idle());

    let mut solo = Solo::open(NARROW);
    (0..2).for_each(|_| solo.hear(offer(7, 1, 1), b""));
    solo.assert_over(Violation::OfferInUse(OfferId(7)), Some(Status::Protocol));
}

#[test]
fn this_side_offers_no_more_than_the_peer_takes() {
    let mut solo = Solo::open(NARROW);
    (0..30).for_each(|n| solo.submit(n, send(&[n as u8; 20], n)));
    let told = |solo: &mut Solo| solo.take_headers().len();
    // Of eight, one is left to operations of groups, and one by these.
    assert_eq!(told(&mut solo), 7);
    solo.submit(50, send(&[0; 20], OF_GROUP));
    assert_eq!(solo.take_headers(), [offer(7, OF_GROUP, 20)]);
    solo.submit(51, send(&[0; 20], OF_GROUP));
    assert_eq!(told(&mut solo), 0);
    solo.hear(ack(3, Status::Good), b"");
    assert_eq!(solo.take_headers(), [offer(8, OF_GROUP, 20)]);
    solo.hear(ack(7, Status::Good), b"");
    assert_eq!(solo.take_headers(), [offer(9, 7, 20)]);
    solo.hear(ack(8, Status::Good), b"");
    assert_eq!(told(&mut solo), 0);
    // Reads go on, and so do short sends once their turn comes.
    solo.submit(100, read(Address::new(0, 0), &zeroed(1)));
    assert_eq!(told(&mut solo), 1);
    for number in [0, 1, 2, 4, 5, 6, 9] {
        solo.hear(ack(number, Status::Good), b"");
    }
    assert_eq!((told(&mut solo), solo.delivered.len()), (7, 10));
}

#[test]
fn a_fetched_offer_is_answered_when_all_of_it_is_there() {
    let (mut solo, into) = fetching();
    (0..8).for_each(|id| solo.hear(data(id, Status::Good), &[id as u8; 10]));
    solo.work();
    assert_eq!(solo.take_headers(), [fetch(8, 3, 80, 10), fetch(9, 3, 90, 10)]);
    (8..10).for_each(|id| solo.hear(data(id, Status::Good), &[id as u8; 10]));
    assert!(solo.take_sent().is_empty() && solo.delivered.is_empty(), "not decoded yet");
    solo.work();
    assert_eq!(solo.take_headers(), [ack(3, Status::Good)]);
    assert_eq!(solo.delivered, [(1, Ok(100))]);
    assert_eq!(into.to_vec(), (0..10).flat_map(|n| [n; 10]).collect::<Vec<_>>());
    assert!(solo.session.is_idle());
}

#[test]
fn a_fetch_that_fails_fails_both_ends_once_nothing_is_under_way() {
    let refused = |status| TransferError::Refused { peer: Rank(1), status };
    let unusable = |status| TransferError::Unusable { peer: Rank(1), status };
    let cases = [
        (data(2, Status::Internal), &b""[..], refused(Status::Internal), Status::Internal),
        (data(2, Status::Good), b"short", unusable(Status::BadPayload), Status::BadPayload),
    ];
    for (answer, payload, error, told) in cases {
        let (mut solo, _) = fetching();
        solo.hear(answer, payload);
        solo.work();
        assert!(solo.take_sent().is_empty() && solo.delivered.is_empty());
        (0..8).filter(|&id| id != 2).for_each(|id| solo.hear(data(id, Status::Good), &[0; 10]));
        solo.work();
        assert_eq!(solo.take_headers(), [ack(3, told)], "what was not asked for yet never is");
        assert_eq!(solo.delivered, [(1, Err(error))]);
        assert!(solo.session.is_idle());
        solo.assert_works();
    }
}

#[test]
fn more_than_was_fetched_ends_the_session() {
    let (mut solo, _) = fetching();
    solo.hear(data(0, Status::Good), &[0; 11]);
    solo.assert_over(Violation::PayloadTooLong { payload_len: 11, length: 10 }, Some(Status::Protocol));
    let (mut solo, _) = fetching();
    (0..2).for_each(|_| solo.hear(data(0, Status::Good), &[0; 10]));
    solo.assert_over(Violation::NoSuchRequest(MessageId(0)), Some(Status::Protocol));
}

#[test]
fn raw_bytes_that_are_fetched_have_a_place_to_go() {
    let (buffer, mut solo) = (HostBuffer::zeroed(100), Solo::open(NARROW_ANSWERS));
    solo.submit(1, Request::Receive { tag: Tag(4), into: Payload::from_memory(buffer.all()) });
    solo.hear(offer(0, 4, 95), b"");
    let place = solo.session.landing(&data(2, Status::Good), 10).unwrap();
    assert!(place.is_same(&buffer.slice(20..30).unwrap()));
    assert!(solo.session.landing(&data(2, Status::Good), 11).is_none());
}

#[test]
fn an_end_at_any_stage_fails_both_requests() {
    let over = || TransferError::Session { peer: Rank(1), error: SessionError::Closed };
    let (mut solo, _) = fetching();
    solo.close(SessionError::Closed);
    assert_eq!(solo.delivered, [(1, Err(over()))]);
    assert!(solo.session.is_idle());
    let mut solo = offering(b"x");
    solo.hear(fetch(7, 0, 0, 1), b"");
    solo.close(SessionError::Closed);
    assert_eq!(solo.delivered, [(0, Err(over())), (1, Err(over()))]);
    solo.work(); // the bytes that were fetched come too late
    assert!(solo.session.is_idle());

    // A sender that goes while its bytes are fetched, and one that is silent.
    for seed in 0..50 {
        let mut world = World::open(seed, NARROW_ANSWERS);
        world.submit(1, 1, receive(6, &zeroed(900)));
        world.submit(0, 1, send(&[5; 900], 6));
        let time = world.rng.micros(6000);
        world.run_for(time);
        let error = if seed % 2 == 0 { SessionError::Closed } else { SessionError::Silent(Duration::ZERO) };
        world.ends[0].session.close(error);
        world.carry_out();
        world.run_for(Duration::from_secs(30));
        for end in 0..2 {
            assert!(world.ends[end].session.is_idle() && world.ends[end].closed.is_some(), "seed {seed}");
            assert_eq!(world.ends[end].delivered.len(), 1);
        }
    }
}

#[test]
fn who_has_offered_notices_that_nobody_is_there() {
    let mut solo = offering(b"x");
    solo.wait(Duration::from_secs(3));
    assert!(matches!(solo.take_headers()[..], [Header::ReadRequest(ReadRequest { length: 0, .. })]));
    solo.wait(Duration::from_secs(6));
    solo.assert_over(SessionError::Silent(Duration::from_secs(9)), None);
    let (mut solo, _) = fetching();
    solo.wait(Duration::from_secs(9));
    solo.assert_over(SessionError::Silent(Duration::from_secs(9)), None);
    assert_eq!(solo.delivered.len(), 1);
}

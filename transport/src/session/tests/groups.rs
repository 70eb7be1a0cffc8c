//! Groups that are over: nothing of their operations is kept, whatever the peer goes on to send.

use super::solo::{Solo, receive, send, zeroed};
use super::world::{End, World};
use super::*;
use crate::memory::HostBuffer;
use crate::message::{Fetch, GivingUp, Offer, OfferAck, OperationId, TaggedSend, WriteAck};

/// The tag of an operation of group 5, and those of a message in it, of an operation of group 6, and of a program without groups.
const TAG: u64 = 0x8000_0580_0000_0003;
const OTHERS: [u64; 3] = [0x8000_0500_0000_0003, 0x8000_0680_0000_0003, 3];
const GROUP: u32 = 5;
const WHY: Status = Status::DeviceLost;
/// Takes ten bytes of sends unasked.
const NARROW: Limits = Limits { max_transfer_bytes: 10, window_bytes: 20, max_in_flight: 8 };

/// An operation of it was given up.
const OVER: GroupOver = GroupOver { group: GROUP, status: WHY, is_orderly: false };

fn given_up() -> TransferError {
    TransferError::GivenUp { peer: Rank(0), status: WHY }
}

fn sent(id: u16, tag: u64, length: u32) -> Header {
    let (id, tag, algorithm) = (MessageId(id), Tag(tag), Algorithm::None);
    Header::TaggedSend(TaggedSend { id, algorithm, continued: false, unawaited: true, tag, length })
}

fn offered(number: u32, tag: u64, length: u64) -> Header {
    Header::Offer(Offer { offer: OfferId(number), continued: false, tag: Tag(tag), length })
}

fn ack(id: u16, status: Status) -> Header {
    Header::WriteAck(WriteAck { id: MessageId(id), status })
}

fn offer_ack(number: u32, status: Status) -> Header {
    Header::OfferAck(OfferAck { status, offer: OfferId(number) })
}

/// The peer gives an operation of `group` up, by message `id`.
fn says_so(id: u16, group: u32) -> Header {
    let operation = OperationId::default();
    sent(id, GivingUp { group, operation, status: Status::Internal }.tag().0, 0)
}

impl Solo {
    fn end_group(&mut self, goes_on: bool) {
        self.session.end_group(OVER, goes_on);
        self.carry_out();
    }
}

#[test]
fn what_waits_for_the_peer_ends_and_its_memory_is_free() {
    let mut solo = Solo::open(WIDE);
    let mut buffer = HostBuffer::zeroed(9);
    solo.submit(1, receive(TAG, &buffer.all()));
    solo.submit(2, receive(TAG + 1, &buffer.all()));
    let into = zeroed(1);
    OTHERS.iter().zip(3..).for_each(|(&tag, id)| solo.submit(id, receive(tag, &into)));
    solo.end_group(false);
    solo.delivered.sort_by_key(|&(id, _)| id);
    assert_eq!(solo.delivered, [(1, Err(given_up())), (2, Err(given_up()))]);
    assert!(buffer.is_only());
    // What is of no operation of this group goes on.
    for (&tag, id) in OTHERS.iter().zip(0..) {
        solo.hear(sent(id, tag, 1), b"x");
    }
    solo.work();
    assert_eq!(solo.delivered[2..], [3, 4, 5].map(|id| (id, Ok(1))));
    assert!(solo.session.is_idle());
}

#[test]
fn what_has_come_and_what_still_comes_is_answered_until_the_peer_gives_up_too() {
    let mut solo = Solo::open(NARROW);
    solo.hear(sent(0, TAG, 10), &[1; 10]);
    solo.hear(offered(0, TAG, 1000), b"");
    OTHERS[..2].iter().zip(1..).for_each(|(&tag, id)| solo.hear(sent(id, tag, 1), b"x"));
    assert!(solo.take_sent().is_empty());
    solo.end_group(true);
    assert_eq!(solo.take_headers(), [ack(0, WHY), offer_ack(0, WHY)]);
    // As much as fits many times into the window.
    for number in 1..100 {
        solo.hear(sent(3, TAG + u64::from(number % 3), 10), &[1; 10]);
        solo.hear(offered(number, TAG, 1000), b"");
        assert_eq!(solo.take_headers(), [ack(3, WHY), offer_ack(number, WHY)]);
    }
    // Other groups are no affair of this one's; what gives up is for no receive, be the group over or not.
    solo.hear(says_so(3, GROUP + 1), b"");
    assert_eq!(solo.take_headers(), [ack(3, Status::Good)]);
    solo.hear(sent(3, TAG, 1), b"x");
    assert_eq!(solo.take_headers(), [ack(3, WHY)]);
    solo.hear(says_so(3, GROUP), b"");
    assert_eq!(solo.take_headers(), [ack(3, Status::Good)]);
    OTHERS[..2].iter().zip(1..).for_each(|(&tag, id)| solo.submit(id, receive(tag, &zeroed(1))));
    solo.work();
    assert_eq!(solo.delivered, [(1, Ok(1)), (2, Ok(1))]);
    assert!(solo.session.is_idle(), "nothing is remembered: {:?}", solo.session);
}

#[test]
fn sends_that_wait_never_leave_and_those_that_were_offered_are_let_go() {
    let mut solo = Solo::open(NARROW);
    let mut buffer = HostBuffer::zeroed(30);
    let of = |len| Payload::from_memory(buffer.all().part(0, len).unwrap());
    let post = |from, tag| Request::Send {
        from,
        element: Element::U8,
        tag: Tag(tag),
        completion: Completion::Local,
        part_of: None,
        continued: false,
        window: None,
    };
    // One is sent, one about to be, and seven are offered; five wait. One offer is left to what is of no group.
    solo.submit(0, post(of(10), TAG));
    solo.work();
    solo.submit(1, post(of(10), TAG));
    (2..14).for_each(|id| solo.submit(id, post(of(30), TAG)));
    solo.submit(14, send(b"abc", 7));
    solo.end_group(false);
    solo.delivered.sort_by_key(|&(id, _)| id);
    let ended: Vec<_> = (2..14).map(|id| (id, Err(given_up()))).collect();
    assert_eq!(solo.delivered, ended);
    solo.work();
    let mut expected = vec![sent(0, TAG, 10), sent(1, TAG, 10)];
    expected.extend((0..7).map(|number| offered(number, TAG, 30)));
    expected.push(offered(7, 7, 3));
    assert_eq!(solo.take_headers(), expected);
    // Only the two are still read.
    (0..2).for_each(|id| solo.session.written(MessageId(id)));
    solo.carry_out();
    solo.sent.clear();
    assert!(buffer.is_only());
    // The peer may want an offer all the same.
    let fetch = Header::Fetch(Fetch { id: MessageId(9), offer: OfferId(3), offset: 0, length: 10 });
    solo.hear(fetch, b"");
    let refused = DataReady { id: MessageId(9), algorithm: Algorithm::None, status: WHY };
    assert_eq!(solo.take_headers(), [Header::DataReady(refused)]);
    (0..2).for_each(|id| solo.hear(ack(id, WHY), b""));
    (0..7).for_each(|number| solo.hear(offer_ack(number, WHY), b""));
    assert!(solo.take_headers().is_empty());
    solo.hear(offer_ack(7, Status::Good), b"");
    assert_eq!(solo.delivered[14..], [(14, Ok(3))], "0 and 1 were written");
    assert!(solo.session.is_idle(), "{:?}", solo.session);
}

#[test]
fn what_was_sent_before_a_group_is_left_arrives() {
    let mut solo = Solo::open(NARROW);
    let buffer = HostBuffer::zeroed(30);
    (0..3).for_each(|id| solo.submit(id, send(&[7; 10], TAG)));
    solo.submit(3, receive(TAG, &buffer.all()));
    solo.hear(sent(0, TAG + 1, 1), b"x");
    solo.session.end_group(GroupOver { is_orderly: true, ..OVER }, true);
    solo.carry_out();
    solo.work();
    // What it waits for comes to nothing, and what has come is turned away; what it has sent leaves: two fill the window.
    assert_eq!(solo.delivered, [(3, Err(given_up()))]);
    let mut headers = solo.take_headers();
    headers.retain(|header| *header != ack(0, WHY));
    let awaited = |id| {
        let Header::TaggedSend(send) = sent(id, TAG, 10) else { unreachable!("it is one") };
        Header::TaggedSend(TaggedSend { unawaited: false, ..send })
    };
    assert_eq!(headers, [awaited(0), awaited(1), offered(0, TAG, 10)]);
    // The peer has all of it.
    (0..2).for_each(|id| solo.hear(ack(id, Status::Good), b""));
    let fetch = Header::Fetch(Fetch { id: MessageId(9), offer: OfferId(0), offset: 0, length: 10 });
    solo.hear(fetch, b"");
    solo.work();
    let fetched = DataReady { id: MessageId(9), algorithm: Algorithm::None, status: Status::Good };
    assert_eq!(solo.take_headers(), [Header::DataReady(fetched)]);
    solo.hear(offer_ack(0, Status::Good), b"");
    assert_eq!(solo.delivered[1..], [(0, Ok(10)), (1, Ok(10)), (2, Ok(10))]);
}

#[test]
fn a_fetch_goes_no_further() {
    // Four pieces of two are under way, or none.
    for under_way in [2, 0] {
        let mut solo = Solo::open(NARROW);
        let blocking = Address::new(1, 0);
        if under_way == 0 {
            solo.submit(9, super::solo::read(blocking, &zeroed(20)));
        }
        let mut buffer = HostBuffer::zeroed(100);
        solo.submit(1, receive(TAG, &buffer.all()));
        solo.hear(offered(3, TAG, 100), b"");
        solo.take_sent();
        solo.end_group(false);
        let data = |id| {
            let status = Status::Good;
            Header::DataReady(DataReady { id: MessageId(id), algorithm: Algorithm::None, status })
        };
        for id in 0..2 {
            assert_eq!(solo.delivered.len(), usize::from(under_way == 0));
            solo.hear(data(id), &[7; 10]);
            solo.work();
        }
        assert_eq!(solo.delivered[0], (1, Err(given_up())));
        assert_eq!(solo.take_headers(), [offer_ack(3, WHY)]);
        assert!(buffer.is_only() && solo.session.is_idle(), "{:?}", solo.session);
    }
}

#[test]
fn whenever_both_sides_end_nothing_is_left_of_the_group() {
    for seed in 0..200 {
        let mut world = World::open(seed, NARROW);
        let mut buffers: [HostBuffer; 2] = [(); 2].map(|()| HostBuffer::zeroed(100));
        for id in 0..40 {
            let end = world.rng.index(2);
            let len = world.rng.pick(&[0, 1, 10, 11, 100]);
            let (memory, tag) = (buffers[end].all().part(0, len).unwrap(), TAG + world.rng.index(2) as u64);
            let element = Element::U8;
            let request = if world.rng.pick(&[true, false]) {
                receive(tag, &memory)
            } else {
                let from = Payload::from_memory(memory);
                Request::Send {
                    from,
                    element,
                    tag: Tag(tag),
                    completion: Completion::Local,
                    part_of: None,
                    continued: false,
                    window: None,
                }
            };
            let after = world.rng.micros(3000);
            world.plan(after, end, id, request);
        }
        // First one, then the other, at some moment after the last was asked for.
        world.run_for(Duration::from_micros(3000));
        let first = world.rng.index(2);
        for (end, id) in [(first, 100), (1 - first, 101)] {
            let meanwhile = world.rng.micros(400);
            world.run_for(meanwhile);
            let given_up = GivingUp { group: GROUP, operation: OperationId::default(), status: WHY };
            world.submit(end, id, send(b"", given_up.tag().0));
            let End { session, given_up, .. } = &mut world.ends[end];
            session.end_group(OVER, !given_up.contains(&GROUP));
            world.carry_out();
        }
        world.run();
        let answers = world.ends.iter().map(|end| end.delivered.len()).sum::<usize>();
        assert_eq!(answers, 42, "seed {seed}");
        world.assert_idle();
        assert!(buffers.iter_mut().all(HostBuffer::is_only), "seed {seed}");
    }
}

//! Peers that do not look at what they are sent.

use std::thread;
use std::time::{Duration, Instant};

use mgcomp_transport::link::SendError;
use mgcomp_transport::message::Rank;

use crate::ROOMY;
use crate::common::end::{End, numbered};
use crate::common::fabric::Fabric;
use crate::common::wait_until;

/// Bytes of payload of the messages that fill queues.
const LEN: usize = 256 << 10;
const QUEUE: u64 = 2 << 20;
/// What may be on its way beside the queue: what the system keeps, tens of megabytes for each connection, and what the
/// receiver takes unseen.
const ELSEWHERE: u64 = 512 << 20;

/// Sends messages with numbers from 0 on until the queue stays full; returns how many went out.
fn fill(end: &End, to: Rank) -> u64 {
    fill_with(end, to, LEN, (QUEUE + ELSEWHERE) / LEN as u64)
}

/// The same with messages of `len` bytes, of which at most `most` may go out.
fn fill_with(end: &End, to: Rank, len: usize, most: u64) -> u64 {
    let (mut number, mut full_for) = (0, 0);
    while full_for < 200 {
        match end.link.send(to, numbered(number, len)) {
            Ok(_) => {
                number += 1;
                full_for = 0;
            }
            Err(SendError::Full { queued_bytes, limit }) => {
                assert_eq!(limit, QUEUE);
                assert!(
                    queued_bytes <= limit && queued_bytes + len as u64 + 64 + 256 > limit,
                    "{queued_bytes}"
                );
                full_for += 1;
                thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("{error}"),
        }
        assert!(number <= most, "nothing holds the sender back");
    }
    number
}

pub(crate) fn a_peer_that_does_not_look_fills_the_queue(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, QUEUE));
    let sent = fill(&ends[0], Rank(1));
    assert!(sent >= QUEUE / LEN as u64 - 1, "only {sent} messages");
    // Looks at last: nothing is lost, and there is room again.
    (0..sent).for_each(|number| ends[1].expect(Rank(0), number, LEN));
    (0..50).for_each(|number| {
        ends[0].send(Rank(1), &numbered(number, LEN));
        ends[1].expect(Rank(0), number, LEN);
    });
}

/// A message takes memory beside its bytes, so a queue of small ones must not hold as many as its bytes allow.
pub(crate) fn messages_of_no_payload_fill_the_queue_too(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, QUEUE));
    let sent = fill_with(&ends[0], Rank(1), 0, 1_000_000);
    (0..sent).for_each(|number| ends[1].expect(Rank(0), number, 0));
}

pub(crate) fn a_peer_that_does_not_look_at_one_hears_the_others(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(3, QUEUE));
    let sent = fill(&ends[0], Rank(1));
    for number in 0..100 {
        ends[2].send(Rank(1), &numbered(number, 1000)); // to the one who does not look at rank 0's
        ends[1].expect(Rank(2), number, 1000);
        ends[1].send(Rank(0), &numbered(number, 1000)); // the other way
        ends[0].expect(Rank(1), number, 1000);
        ends[0].send(Rank(2), &numbered(number, 1000)); // from the one who is not looked at
        ends[2].expect(Rank(0), number, 1000);
    }
    (0..sent).for_each(|number| ends[1].expect(Rank(0), number, LEN));
}

pub(crate) fn movement_is_seen_and_stalling_too(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    let before = Instant::now();
    ends[0].send(Rank(1), &numbered(0, 1000));
    ends[1].expect(Rank(0), 0, 1000);
    assert!(ends[1].link.moved_since(Rank(0), before), "a message came");
    wait_until("nothing moves any more", || stands_still(&ends[1], Rank(0)));

    // Now a peer that takes nothing: what is sent to it moves for a while, and then no more.
    let mut ends = End::start_all(fabric.links(2, QUEUE));
    let sent = fill(&ends[0], Rank(1));
    wait_until("the stalled peer is noticed", || stands_still(&ends[0], Rank(1)));
    (0..sent).for_each(|number| ends[1].expect(Rank(0), number, LEN));
}

/// Whether nothing moves between `end` and `peer` for a moment.
fn stands_still(end: &End, peer: Rank) -> bool {
    let since = Instant::now();
    thread::sleep(Duration::from_millis(20));
    !end.link.moved_since(peer, since)
}

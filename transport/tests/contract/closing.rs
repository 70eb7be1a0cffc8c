//! Ends, wanted and not.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_transport::link::{LinkError, LinkEvent, Message, SendError};
use mgcomp_transport::message::Rank;
use mgcomp_transport::payload::Payload;

use crate::ROOMY;
use crate::common::end::{End, numbered};
use crate::common::fabric::Fabric;
use crate::common::{HANGS, wait_until};

/// What is still queued so long after the end is given up.
const FLUSH: Duration = Duration::from_secs(2);

pub(crate) fn what_was_queued_comes_before_the_end(fabric: Fabric) {
    let started = Instant::now();
    // Both the side that was connected to and the one that connected.
    for (closing, other) in [(0, 1), (1, 0)] {
        while !comes_before_the_end(fabric, closing, other) {
            assert!(started.elapsed() < HANGS, "what is queued is given up each time");
        }
    }
}

/// Checks what comes before the end. Returns whether all did; on a busy machine the time for that may be over before.
fn comes_before_the_end(fabric: Fabric, closing: usize, other: u32) -> bool {
    // So slow links have less queued, most of it so short that MPI sends it at once.
    let step = |number: u64| if fabric.is_slow && !number.is_multiple_of(10) { 19 } else { 1000 };
    let len = |number| number as usize * step(number);
    let taken = if fabric.is_slow { 180 } else { 0 };
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    (0..200).for_each(|number| ends[closing].send(Rank(other), &numbered(number, len(number))));
    let from = Rank(closing as u32);
    (0..taken).for_each(|number| ends[other as usize].expect(from, number, len(number)));
    let closed = Instant::now();
    ends[closing].link.close(Rank(other));
    let hears = &mut ends[other as usize];
    let early = (taken..200).find_map(|number| hears.expect_or_end(from, number, len(number)));
    let all_came = early.is_none();
    let error = early.unwrap_or_else(|| hears.end_of(from));
    assert_eq!(hears.link.send(from, numbered(0, 1)), Err(SendError::Closed(from)));
    hears.link.close(from); // of no effect
    let is_orderly = all_came && error == LinkError::PeerClosed(from);
    assert!(is_orderly || closed.elapsed() >= FLUSH, "{error:?}");
    is_orderly
}

pub(crate) fn whoever_closes_hears_nothing_more(fabric: Fabric) {
    for (closing, other) in [(0, 1), (1, 0)] {
        let mut ends = End::start_all(fabric.links(2, ROOMY));
        ends[closing].link.close(Rank(other));
        for number in 0..50 {
            // Goes nowhere, whether or not the other side knows yet.
            let _ = ends[other as usize].link.send(Rank(closing as u32), numbered(number, 1000));
        }
        ends[other as usize].expect_closed(Rank(closing as u32));
        let heard = ends.swap_remove(closing).drop_link();
        assert!(heard.is_empty(), "{heard:?}");
    }
}

pub(crate) fn others_go_on_when_two_part(fabric: Fabric) {
    let mut ends = End::start_all(fabric.links(4, ROOMY));
    ends[1].link.close(Rank(2));
    ends[2].expect_closed(Rank(1));
    for (from, to) in [(0, 1), (1, 0), (1, 3), (3, 1), (0, 2), (2, 0), (2, 3), (3, 2), (0, 3), (3, 0)] {
        ends[from].send(Rank(to), &numbered(9, 5000));
        ends[to as usize].expect(Rank(from as u32), 9, 5000);
    }
    // Now one rank goes altogether: the three others hear of it and go on.
    let heard = ends.remove(0).drop_link();
    assert!(heard.is_empty(), "{heard:?}");
    ends.iter_mut().for_each(|end| end.expect_closed(Rank(0)));
    ends[0].send(Rank(3), &numbered(10, 5000));
    ends[2].expect(Rank(1), 10, 5000);
}

pub(crate) fn nothing_goes_to_nobody(fabric: Fabric) {
    let ends = End::start_all(fabric.links(2, ROOMY));
    for nobody in [Rank(0), Rank(2), Rank(u32::MAX)] {
        assert_eq!(ends[0].link.send(nobody, numbered(0, 1)), Err(SendError::Closed(nobody)));
        ends[0].link.close(nobody); // of no effect
    }
    ends[0].link.close(Rank(1));
    assert_eq!(ends[0].link.send(Rank(1), numbered(0, 1)), Err(SendError::Closed(Rank(1))));
}

pub(crate) fn dropped_links_end_and_let_go(fabric: Fabric) {
    let payload = Arc::new(vec![7; 1 << 20]);
    let message = || Message {
        payload: Payload::from_bytes(Bytes::from_owner(Held(payload.clone()))),
        ..numbered(0, 1 << 20)
    };
    // Rank 2 never starts. Nobody looks at anything, and queues are full.
    let mut links = fabric.links(3, 8 << 20);
    let never_started = links.pop();
    let ends: Vec<_> = links.into_iter().map(End::start).collect();
    for (from, to) in [(0, 1), (1, 0), (0, 2), (1, 2)] {
        while ends[from].link.send(Rank(to), message()).is_ok() {}
    }
    for end in ends {
        end.drop_link();
    }
    drop(never_started);
    wait_until("nobody holds a payload", || Arc::strong_count(&payload) == 1);
}

pub(crate) fn a_link_that_never_met_anybody_ends_too(fabric: Fabric) {
    drop(fabric.links(3, ROOMY)); // not even started
    let mut links = fabric.links(3, ROOMY);
    let alone = End::start(links.remove(1));
    drop(links);
    // That its peers went is something that only some links notice.
    let heard = alone.drop_link();
    assert!(!heard.iter().any(|event| matches!(event, LinkEvent::Message { .. })), "{heard:?}");
}

pub(crate) fn what_nobody_took_does_not_reach_the_next_link(fabric: Fabric) {
    // Two ranks go without having started, and meet again by another link; only then the third one has more to say to them.
    let mut links = fabric.links(3, ROOMY);
    let unheard = End::start(links.remove(2));
    drop(links);
    let mut ends = End::start_all(fabric.links(2, ROOMY));
    for number in 0..50 {
        for to in [0, 1] {
            let _ = unheard.link.send(Rank(to), numbered(number, 1000)); // goes nowhere, whether or not it knows yet
        }
        for (from, to) in [(0, 1), (1, 0)] {
            ends[from].send(Rank(to), &numbered(number, 5000));
            ends[to as usize].expect(Rank(from as u32), number, 5000);
        }
    }
    unheard.drop_link();
    ends.swap_remove(0).drop_link();
    ends[0].expect_closed(Rank(0));
}

/// Bytes that tell, by their reference count, whether somebody still has them.
struct Held(Arc<Vec<u8>>);

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

//! Parts of messages wait for earlier ones to be received, but not for ever, and operations of groups do not wait for messages.

use super::rng::Rng;
use super::solo::{Solo, receive, send, zeroed};
use super::world::World;
use super::*;
use crate::memory::HostBuffer;
use crate::message::WriteAck;
use crate::session::Window;

const TAG: u64 = 1;
/// Two parts of three bytes fit, three do not.
const WINDOW: Window = Window { bytes: 8, patience: Duration::from_millis(5) };

/// What a program submits for one part of a message.
fn part(bytes: &[u8], tag: u64, goes_on: bool, paced: Window) -> Request {
    let Request::Send { from, element, tag, completion, .. } = send(bytes, tag) else { panic!("no send") };
    let (part_of, window) = (Some(1), Some(paced));
    Request::Send { from, element, tag, completion, part_of, continued: goes_on, window }
}

/// Submits a message of so many parts of three bytes, whose requests are numbered from `first` on.
fn submit(solo: &mut Solo, first: u64, tag: u64, parts: u64) {
    (0..parts).for_each(|n| solo.submit(first + n, part(b"abc", tag, n + 1 < parts, WINDOW)));
}

/// Encodes all that has begun; the ids of the sends that leave.
fn leaving(solo: &mut Solo) -> Vec<MessageId> {
    solo.work();
    let id = |header| match header {
        Header::TaggedSend(send) => send.id,
        other => panic!("{other:?}"),
    };
    solo.take_headers().into_iter().map(id).collect()
}

/// The peer has received a send.
fn received(solo: &mut Solo, id: MessageId) {
    solo.hear(Header::WriteAck(WriteAck { id, status: Status::Good }), b"");
}

#[test]
fn parts_begin_as_earlier_ones_are_received() {
    let mut solo = Solo::open(WIDE);
    submit(&mut solo, 0, TAG, 5);
    let first = leaving(&mut solo);
    assert_eq!(first.len(), 2, "six bytes of eight");
    for (n, id) in first.iter().enumerate() {
        received(&mut solo, *id);
        assert_eq!(leaving(&mut solo).len(), 1, "one for each that was received: {n}");
    }
    assert_eq!(solo.delivered, [(0, Ok(3)), (1, Ok(3))]);
}

#[test]
fn one_part_begins_however_long_it_is() {
    let mut solo = Solo::open(WIDE);
    (0..2).for_each(|n| solo.submit(n, part(b"longer than the window", TAG, n < 1, WINDOW)));
    let first = leaving(&mut solo);
    assert_eq!(first.len(), 1);
    received(&mut solo, first[0]);
    assert_eq!(leaving(&mut solo).len(), 1);
}

#[test]
fn where_none_is_received_all_goes_when_patience_ends() {
    let mut solo = Solo::open(WIDE);
    submit(&mut solo, 0, TAG, 5);
    let mut sent = leaving(&mut solo);
    solo.submit(9, send(b"x", TAG + 1)); // behind it
    assert_eq!(leaving(&mut solo), []);
    assert_eq!(solo.session.patience_ends(), Some(solo.now + WINDOW.patience));
    assert_eq!(solo.session.deadline(), solo.session.patience_ends());
    solo.wait(WINDOW.patience - Duration::from_nanos(1));
    assert_eq!(leaving(&mut solo), []);
    solo.wait(Duration::from_nanos(1));
    sent.extend(leaving(&mut solo));
    assert_eq!((sent.len(), solo.session.patience_ends()), (6, None));
    sent.into_iter().for_each(|id| received(&mut solo, id));
    assert_eq!(solo.delivered.len(), 6);
    assert!(solo.session.is_idle());
}

#[test]
fn patience_begins_anew_with_each_that_is_received() {
    let mut solo = Solo::open(WIDE);
    submit(&mut solo, 0, TAG, 5);
    let first = leaving(&mut solo);
    solo.wait(Duration::from_millis(3));
    received(&mut solo, first[0]);
    assert_eq!(leaving(&mut solo).len(), 1);
    solo.wait(Duration::from_millis(4));
    assert_eq!(leaving(&mut solo), [], "seven after the first wait, four after this one");
    solo.wait(Duration::from_millis(1));
    assert_eq!(leaving(&mut solo).len(), 2);
}

#[test]
fn a_message_that_nobody_receives_does_not_slow_the_next_ones() {
    let mut solo = Solo::open(WIDE);
    submit(&mut solo, 0, TAG, 5);
    let mut unreceived = leaving(&mut solo);
    solo.wait(WINDOW.patience);
    unreceived.extend(leaving(&mut solo));
    assert_eq!(unreceived.len(), 5);
    // Nothing has been received since, so this one goes as it comes.
    submit(&mut solo, 10, TAG + 1, 3);
    let next = leaving(&mut solo);
    assert_eq!(next.len(), 3);
    next.into_iter().for_each(|id| received(&mut solo, id));
    // This one has the window to itself, also once the first message is received.
    submit(&mut solo, 20, TAG + 1, 5);
    let last = leaving(&mut solo);
    assert_eq!(last.len(), 2);
    received(&mut solo, last[0]);
    assert_eq!(leaving(&mut solo).len(), 1);
    unreceived.into_iter().for_each(|id| received(&mut solo, id));
    assert_eq!(leaving(&mut solo), [], "but for patience, which these renew");
    received(&mut solo, last[1]);
    assert_eq!(leaving(&mut solo).len(), 1);
}

#[test]
fn operations_of_groups_do_not_wait_for_messages() {
    let mut solo = Solo::open(WIDE);
    submit(&mut solo, 0, TAG, 5);
    assert_eq!(leaving(&mut solo).len(), 2);
    solo.submit(5, send(b"message", TAG + 1));
    assert_eq!(leaving(&mut solo), []);
    solo.submit(6, send(b"operation", OF_GROUP));
    solo.work();
    let [Header::TaggedSend(TaggedSend { tag: Tag(OF_GROUP), .. })] = solo.take_headers()[..] else {
        panic!("the operation's alone")
    };
}

#[test]
fn messages_and_operations_of_groups_leave_room_to_each_other() {
    // What waits for receives is of one kind, and what these come after of the other.
    for (waiting, first) in [(TAG, OF_GROUP), (OF_GROUP, TAG)] {
        for (seed, max_in_flight) in (0..20).zip([2, 3, 4, 8, 9, 16, 40].into_iter().cycle()) {
            let mut world =
                World::open(seed, Limits { max_transfer_bytes: 10, window_bytes: 30, max_in_flight });
            let into: Vec<_> = (0..100).map(|_| zeroed(7)).collect();
            (0..100).for_each(|n| world.submit(0, n, send(b"waiting", waiting)));
            let place = zeroed(5);
            world.submit(1, 100, receive(first, &place));
            world.submit(0, 100, send(b"first", first));
            world.run();
            assert_eq!(world.result(1, 100), Some(&Ok(5)), "{first:#x}, {max_in_flight} in flight");
            assert_eq!(place.to_vec(), b"first");
            (0..100).for_each(|n| world.submit(1, n, receive(waiting, &into[n as usize])));
            world.run();
            assert!(into.iter().all(|into| into.to_vec() == b"waiting"));
            (0..=100).for_each(|n| assert!(world.result(0, n).unwrap().is_ok()));
            world.assert_idle();
        }
    }
}

#[test]
fn messages_with_windows_arrive_whenever_they_are_received() {
    for seed in 0..200 {
        let mut rng = Rng::new(seed);
        let limits = if seed % 2 == 0 {
            WIDE
        } else {
            Limits { max_transfer_bytes: 40, window_bytes: 100, max_in_flight: 16 }
        };
        let mut world = World::open(seed, limits);
        let mut expected = Vec::new();
        for end in 0..2 {
            for n in 0..4 {
                let window = Window {
                    bytes: rng.index(100) as u64,
                    patience: Duration::from_micros(rng.index(2000) as u64),
                };
                let lens: Vec<_> = (0..1 + rng.index(8)).map(|_| rng.index(50)).collect();
                let bytes: Vec<u8> = (0..lens.iter().sum::<usize>()).map(|_| rng.index(256) as u8).collect();
                let mut left = &bytes[..];
                let after = rng.micros(2000);
                for (m, &len) in lens.iter().enumerate() {
                    let (now, rest) = left.split_at(len);
                    left = rest;
                    let request = part(now, n, m + 1 < lens.len(), window);
                    world.plan(after, end, n * 100 + m as u64, request);
                }
                let into = HostBuffer::zeroed(bytes.len()).all();
                world.plan(rng.micros(5000), 1 - end, 1000 + n, receive(n, &into));
                expected.push((1 - end, n, into, bytes));
            }
        }
        world.run_for(Duration::from_millis(100));
        for (end, n, into, bytes) in expected {
            assert_eq!(world.result(end, 1000 + n), Some(&Ok(bytes.len() as u64)), "seed {seed}");
            assert_eq!(into.to_vec(), bytes, "seed {seed}");
        }
        world.assert_idle();
    }
}

//! Sends that are done before they are received, and answers that nobody waits for.

use super::solo::{Solo, receive, zeroed};
use super::*;
use crate::memory::HostBuffer;

fn post(bytes: &[u8]) -> Request {
    let from = Payload::from_memory(HostBuffer::from(bytes.to_vec()).all());
    Request::Send {
        from,
        element: Element::U8,
        tag: Tag(1),
        completion: Completion::Local,
        part_of: None,
        continued: false,
        window: None,
    }
}

/// A session that has posted one byte, as message 0.
fn posted() -> Solo {
    let mut solo = Solo::open(WIDE);
    solo.submit(7, post(b"x"));
    let job = solo.jobs.pop_back().unwrap();
    solo.work_on(job);
    let bytes = [0x60, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, b'x'];
    assert_eq!(solo.take_sent(), [bytes], "it says that nobody waits for the answer");
    assert!(solo.delivered.is_empty());
    solo
}

#[test]
fn one_that_is_written_is_done_whatever_the_answer() {
    for status in [0, 11] {
        let mut solo = posted();
        for _ in 0..2 {
            solo.session.written(MessageId(0));
            solo.carry_out();
            assert_eq!(solo.delivered, [(7, Ok(1))]);
        }
        assert!(solo.session.deadline().is_some(), "the peer owes an answer still");
        solo.hear_bytes(&[0x40, 0, 0, status]);
        assert_eq!(solo.delivered.len(), 1);
        assert!(solo.session.is_idle());
    }
}

#[test]
fn one_that_is_written_lets_go_of_its_memory() {
    let mut buffer = HostBuffer::from(vec![5]);
    let from = Payload::from_memory(buffer.all());
    let request = Request::Send {
        from,
        element: Element::U8,
        tag: Tag(1),
        completion: Completion::Local,
        part_of: None,
        continued: false,
        window: None,
    };
    let mut solo = Solo::open(WIDE);
    solo.submit(7, request);
    let job = solo.jobs.pop_back().unwrap();
    solo.work_on(job);
    solo.take_sent();
    solo.session.written(MessageId(0));
    solo.carry_out();
    assert!(buffer.is_only(), "though the answer has not come");
}

#[test]
fn one_that_nobody_says_is_written_is_done_with_the_answer() {
    let mut solo = posted();
    solo.hear_bytes(&[0x40, 0, 0, 0]);
    assert_eq!(solo.delivered, [(7, Ok(1))]);
    solo.session.written(MessageId(0));
    solo.carry_out();
    assert_eq!(solo.delivered.len(), 1);
    assert!(solo.session.is_idle());
}

#[test]
fn one_that_is_written_does_not_fail_with_its_session() {
    let mut solo = posted();
    solo.session.written(MessageId(0));
    solo.close(SessionError::Closed);
    assert_eq!(solo.delivered, [(7, Ok(1))]);
    assert!(solo.session.is_idle());
}

#[test]
fn written_counts_for_posted_sends_alone() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, super::solo::send(b"x", 1));
    let job = solo.jobs.pop_back().unwrap();
    solo.work_on(job);
    solo.session.written(MessageId(0));
    solo.session.written(MessageId(9));
    solo.carry_out();
    assert!(solo.delivered.is_empty(), "to be received first");
}

/// Has the session receive a send of `len` bytes, and returns for each message that it sends whether it may wait.
fn answers(solo: &mut Solo, id: u8, unawaited: u8, len: usize) -> Vec<bool> {
    let header = [0x60, 0, id << 4, unawaited, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, len as u8];
    solo.submit(id.into(), receive(1, &zeroed(len)));
    let (header, payload) = (Header::parse(&header).unwrap().0, Payload::from_bytes(vec![0; len].into()));
    solo.session.on_message(header, payload, &RegionTable::default(), solo.now);
    let Some(Action::Decode { job, .. }) = solo.session.poll_action() else { panic!("nothing to decode") };
    solo.session.decoded(job, Ok(()), DECODE_TIME);
    // First: who waits for the bytes is not to wait for the answer.
    let delivered = solo.session.poll_action();
    assert!(matches!(delivered, Some(Action::Deliver { result: Ok(_), .. })), "{delivered:?}");
    std::iter::from_fn(|| match solo.session.poll_action()? {
        Action::Send { with_next, .. } => Some(with_next),
        other => panic!("{other:?}"),
    })
    .collect()
}

#[test]
fn answers_wait_for_what_is_sent_next_up_to_an_eighth_of_the_limits() {
    // Two of sixteen sends, and ten of eighty bytes.
    let limits = Limits { window_bytes: 80, max_in_flight: 16, ..WIDE };
    let mut solo = Solo::open(limits);
    for first in [0, 3] {
        let waits: Vec<_> = (first..first + 3).flat_map(|id| answers(&mut solo, id, 1, 1)).collect();
        assert_eq!(waits, [true, true, false], "the third takes the others with it");
    }
    for (id, len, waits) in [(6, 6, true), (7, 5, false), (8, 10, true), (9, 0, true), (10, 11, false)] {
        assert_eq!(answers(&mut solo, id, 1, len), [waits], "{len} bytes");
    }
    assert_eq!(answers(&mut solo, 11, 1, 1), [true]);
    assert_eq!(answers(&mut solo, 12, 0, 1), [false], "somebody waits for it");
}

/// Whether what the session wants encoded overlaps with other transfers, of each.
fn overlaps(solo: &mut Solo) -> Vec<bool> {
    let overlaps = |job: Action| match job {
        Action::Encode { overlaps, .. } => overlaps,
        other => panic!("{other:?}"),
    };
    solo.jobs.drain(..).map(overlaps).collect()
}

#[test]
fn parts_of_something_longer_are_known_for_such() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, super::solo::send(b"x", 1));
    let Request::Send { from, element, tag, completion, .. } = post(b"x") else { panic!("no send") };
    solo.submit(
        1,
        Request::Send { from, element, tag, completion, part_of: Some(2), continued: false, window: None },
    );
    assert_eq!(overlaps(&mut solo), [false, true]);
    // Writes are cut into pieces of 65,536 bytes here.
    solo.submit(2, super::solo::write(&[1; 100], Address::new(0, 0)));
    solo.submit(3, super::solo::write(&[1; 65_537], Address::new(0, 0)));
    assert_eq!(overlaps(&mut solo), [false, true, true]);
    let region =
        solo.regions.register(HostBuffer::zeroed(9).all(), Element::U8, crate::region::Access::all());
    for id in 0..2 {
        let read = ReadRequest { id: MessageId(id), address: region.unwrap(), length: 9, raw: false };
        solo.hear(Header::ReadRequest(read), b"");
    }
    assert_eq!(overlaps(&mut solo), [false, true], "the peer wants more before it has the first");
}

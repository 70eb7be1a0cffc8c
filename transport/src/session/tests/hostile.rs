//! A peer that breaks the rules, one after the other.

use super::codec::encode_payload;
use super::solo::{Solo, read, receive, send, write, zeroed};
use super::*;
use crate::memory::HostBuffer;
use crate::message::{Invalid, TaggedSend, WriteAck, WriteRequest};
use crate::region::Access;

const HOME: Address = Address::new(0, 0);

/// An open session with a region of 1,000 sevens.
fn host(limits: Limits) -> (Solo, HostBuffer) {
    let mut solo = Solo::open(limits);
    let region = HostBuffer::from(vec![7; 1000]);
    solo.regions.register(region.all(), Element::U8, Access::all()).unwrap();
    (solo, region)
}

fn read_request(id: u16, length: u32) -> Header {
    Header::ReadRequest(ReadRequest { id: MessageId(id), address: HOME, length, raw: false })
}

fn write_request(id: u16, length: u32, algorithm: Algorithm) -> Header {
    Header::WriteRequest(WriteRequest { id: MessageId(id), address: HOME, length, algorithm })
}

fn tagged_send(id: u16, length: u32, algorithm: Algorithm) -> Header {
    Header::TaggedSend(TaggedSend {
        id: MessageId(id),
        algorithm,
        continued: false,
        unawaited: false,
        tag: Tag(4),
        length,
    })
}

fn data(id: u16, algorithm: Algorithm) -> Header {
    Header::DataReady(DataReady { id: MessageId(id), algorithm, status: Status::Good })
}

fn ack(id: u16) -> Header {
    Header::WriteAck(WriteAck { id: MessageId(id), status: Status::Good })
}

#[track_caller]
fn assert_broken(solo: &mut Solo, violation: Violation) {
    solo.assert_over(violation, Some(Status::Protocol));
}

#[test]
fn answers_need_a_request_of_their_kind() {
    let no_request = |id| Violation::NoSuchRequest(MessageId(id));
    for answer in [data(0, Algorithm::None), ack(0), data(9, Algorithm::None), ack(65_535)] {
        let mut solo = Solo::open(WIDE);
        solo.hear(answer, b"");
        let (Header::DataReady(DataReady { id, .. }) | Header::WriteAck(WriteAck { id, .. })) = answer else {
            unreachable!()
        };
        assert_broken(&mut solo, no_request(id.0));
    }
    // Requests 0: a read; 1: a write; 2: a send; 3 and 4: the same, not sent yet.
    let cases = [
        (ack(0), 0),
        (data(1, Algorithm::None), 1),
        (data(2, Algorithm::None), 2),
        (ack(3), 3),
        (data(3, Algorithm::None), 3),
        (ack(4), 4),
        (ack(5), 5),
    ];
    for (answer, id) in cases {
        let mut solo = Solo::open(WIDE);
        solo.submit(0, read(HOME, &zeroed(4)));
        solo.submit(1, write(b"abcd", HOME));
        solo.submit(2, send(b"abcd", 1));
        solo.work();
        solo.submit(3, write(b"abcd", HOME));
        solo.submit(4, send(b"abcd", 1));
        solo.hear(answer, b"");
        assert_broken(&mut solo, no_request(id));
        assert_eq!(solo.delivered.len(), 5);
    }
}

#[test]
fn a_send_that_is_held_back_cannot_be_answered() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, send(b"first", 1));
    solo.submit(1, send(b"second", 1));
    let second = solo.jobs.pop_back().unwrap();
    solo.work_on(second);
    assert!(solo.take_sent().is_empty());
    solo.hear(ack(1), b"");
    assert_broken(&mut solo, Violation::NoSuchRequest(MessageId(1)));
}

#[test]
fn a_request_is_answered_once() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, read(HOME, &zeroed(4)));
    solo.hear(data(0, Algorithm::None), b"abcd");
    solo.hear(data(0, Algorithm::None), b"abcd"); // the first is being decoded
    assert_broken(&mut solo, Violation::NoSuchRequest(MessageId(0)));

    let mut solo = Solo::open(WIDE);
    solo.submit(0, write(b"abcd", HOME));
    solo.work();
    solo.hear(ack(0), b"");
    solo.hear(ack(0), b"");
    assert_broken(&mut solo, Violation::NoSuchRequest(MessageId(0)));
    assert_eq!(solo.delivered, [(0, Ok(4))]);
}

#[test]
fn an_id_is_in_use_until_the_answer_is_sent() {
    let first = [
        (read_request(5, 8), &b""[..]),
        (write_request(5, 4, Algorithm::None), b"abcd"),
        (tagged_send(5, 4, Algorithm::None), b"abcd"),
    ];
    let second = [(read_request(5, 0), &b""[..]), (tagged_send(5, 0, Algorithm::None), b"")];
    for (first, payload) in first {
        for (second, second_payload) in second {
            let (mut solo, _) = host(WIDE);
            solo.hear(first, payload);
            solo.hear(second, second_payload);
            assert_broken(&mut solo, Violation::IdInUse(MessageId(5)));

            let (mut solo, _) = host(WIDE);
            solo.submit(0, receive(4, &zeroed(4)));
            solo.hear(first, payload);
            solo.work();
            solo.take_sent();
            solo.hear(second, second_payload);
            solo.assert_works();
        }
    }
}

#[test]
fn no_more_requests_than_announced() {
    let (mut solo, _) = host(Limits { max_in_flight: 3, ..WIDE });
    solo.hear(read_request(0, 1), b"");
    solo.hear(write_request(1, 1, Algorithm::None), b"x");
    solo.hear(tagged_send(2, 0, Algorithm::None), b"");
    assert!(solo.session.is_open());
    solo.hear(read_request(3, 0), b"");
    assert_broken(&mut solo, Violation::TooManyRequests { limit: 3 });
}

#[test]
fn no_more_bytes_than_announced_for_each_lane() {
    let limits = Limits { window_bytes: 10, ..WIDE };
    for last in [read_request(9, 1), write_request(9, 1, Algorithm::None), tagged_send(9, 1, Algorithm::None)]
    {
        let (mut solo, _) = host(limits);
        solo.hear(read_request(0, 4), b"");
        solo.hear(write_request(1, 6, Algorithm::None), b"abcdef");
        solo.hear(tagged_send(2, 10, Algorithm::None), b"0123456789");
        solo.hear(read_request(3, 0), b"");
        assert!(solo.session.is_open());
        solo.hear(last, if last.carries_payload() { b"x" } else { b"" });
        assert_broken(&mut solo, Violation::WindowExceeded { in_flight: 11, limit: 10 });
    }
    // A single one may be too much as well.
    let (mut solo, _) = host(limits);
    solo.hear(read_request(0, 11), b"");
    assert_broken(&mut solo, Violation::WindowExceeded { in_flight: 11, limit: 10 });
}

#[test]
fn answered_bytes_leave_the_window() {
    let (mut solo, _) = host(Limits { window_bytes: 10, max_in_flight: 2, ..WIDE });
    solo.submit(0, receive(4, &zeroed(10)));
    for header in
        [read_request(0, 10), write_request(0, 10, Algorithm::None), tagged_send(0, 10, Algorithm::None)]
    {
        solo.hear(header, if header.carries_payload() { b"0123456789" } else { b"" });
        solo.work();
    }
    assert_eq!(solo.delivered, [(0, Ok(10))]);
    solo.assert_works();
}

#[test]
fn payloads_are_no_longer_than_what_they_stand_for() {
    for header in [write_request(0, 4, Algorithm::None), tagged_send(0, 4, Algorithm::Bdi)] {
        let (mut solo, region) = host(WIDE);
        solo.hear(header, b"abcde");
        assert_broken(&mut solo, Violation::PayloadTooLong { payload_len: 5, length: 4 });
        assert!(solo.jobs.is_empty());
        assert_eq!(region.all().to_vec(), [7; 1000]);
    }
    let mut solo = Solo::open(WIDE);
    solo.submit(0, read(HOME, &zeroed(4)));
    solo.hear(data(0, Algorithm::Zvc), b"abcde");
    assert_broken(&mut solo, Violation::PayloadTooLong { payload_len: 5, length: 4 });
}

#[test]
fn what_is_no_message_ends_the_session() {
    let cases: [(&[u8], MessageError); 5] = [
        (&[], MessageError::Incomplete { kind: None, needed: 1, got: 0 }),
        (&[0xb0], Invalid::Type { got: 11 }.into()),
        (
            &[0x40, 0],
            MessageError::Incomplete { kind: Some(crate::message::Kind::WriteAck), needed: 4, got: 2 },
        ),
        (
            &[0x20, 0, 0x0b, 0],
            Invalid::Algorithm { kind: crate::message::Kind::DataReady, bit_offset: 20, got: 11 }.into(),
        ),
        (
            &[0x40, 0, 0, 0, 1],
            Invalid::Trailing { kind: crate::message::Kind::WriteAck, header_len: 4, got: 1 }.into(),
        ),
    ];
    for (bytes, error) in cases {
        let mut solo = Solo::open(WIDE);
        solo.submit(3, receive(1, &zeroed(1)));
        solo.hear_bytes(bytes);
        assert_eq!(solo.delivered.len(), 1);
        solo.assert_over(error, Some(Status::Protocol));
    }
}

/// Payloads for 1,000 bytes that cannot be used, with the status that says so.
fn bad_payloads() -> Vec<(Algorithm, Vec<u8>, u8)> {
    let source = |len| Payload::from_memory(HostBuffer::from(vec![1; len]).all());
    let frame = |len| {
        let (algorithm, payload) = encode_payload(&source(len), Element::U8, Algorithm::Bdi).unwrap();
        assert_eq!(algorithm, Algorithm::Bdi);
        payload.bytes().unwrap().to_vec()
    };
    let mut damaged = frame(1000);
    *damaged.last_mut().unwrap() ^= 1;
    let truncated = frame(1000)[..20].to_vec();
    vec![
        (Algorithm::None, vec![1; 999], 6),
        (Algorithm::None, vec![], 6),
        (Algorithm::Bdi, vec![1; 1000], 6),
        (Algorithm::Bdi, vec![], 6),
        (Algorithm::Bdi, frame(999), 6),
        (Algorithm::Bdi, frame(1001), 6),
        (Algorithm::Zvc, frame(1000), 6),
        (Algorithm::Bdi, damaged, 6),
        (Algorithm::Bdi, truncated, 6),
        (Algorithm::Ibp, frame(1000), 6),
        (Algorithm::Int, frame(1000), 6),
    ]
}

#[test]
fn payloads_that_do_not_decode_fail_the_request_and_nothing_else() {
    for (algorithm, payload, code) in bad_payloads() {
        let (mut solo, region) = host(WIDE);
        let status = Status::from_code(code);
        let unusable = Err(TransferError::Unusable { peer: Rank(1), status });
        let (into, received) = (zeroed(1000), zeroed(1200));

        solo.hear(write_request(0x111, 1000, algorithm), &payload);
        solo.work();
        assert_eq!(solo.take_sent(), [[0x40, 0x11, 0x10, code]], "{algorithm}, {} bytes", payload.len());

        solo.submit(1, receive(4, &received));
        solo.hear(tagged_send(0x222, 1000, algorithm), &payload);
        solo.work();
        assert_eq!(solo.take_sent(), [[0x40, 0x22, 0x20, code]]);

        solo.submit(2, read(HOME, &into));
        solo.hear(data(0, algorithm), &payload);
        solo.work();

        assert_eq!(solo.delivered, [(1, unusable.clone()), (2, unusable)]);
        assert_eq!(region.all().to_vec(), [7; 1000]);
        assert_eq!(into.to_vec(), [0; 1000]);
        assert_eq!(received.to_vec(), [0; 1200]);
        assert!(solo.session.is_idle());
        solo.assert_works();
    }
}

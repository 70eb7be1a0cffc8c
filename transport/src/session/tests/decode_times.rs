//! How long frames took to decode: told, and heard.

use super::codec::encode_payload;
use super::solo::{Solo, read, receive, send, write, zeroed};
use super::*;
use crate::memory::HostBuffer;
use crate::message::{DataReady, DecodeTime, TaggedSend, WriteAck, WriteRequest};
use crate::region::Access;
use crate::session::decode_times::ANSWERS;

const LEN: u32 = 256;

/// A frame of zeros.
fn frame(algorithm: Algorithm) -> Payload {
    let raw = Payload::from_memory(zeroed(LEN as usize));
    let (sent, payload) = encode_payload(&raw, Element::F32, algorithm).unwrap();
    assert_eq!(sent, algorithm);
    payload
}

/// A session that has opened a region of zeros to its peer.
fn with_region() -> (Solo, Address) {
    let mut solo = Solo::open(WIDE);
    let memory = zeroed(LEN as usize);
    let address = solo.regions.register(memory, Element::F32, Access::all()).unwrap();
    (solo, address)
}

fn time(id: u16, answer: bool) -> Header {
    Header::DecodeTime(DecodeTime { id: MessageId(id), answer, nanoseconds: 2500 })
}

fn ack(id: u16) -> Header {
    Header::WriteAck(WriteAck { id: MessageId(id), status: Status::Good })
}

/// The peer writes a payload, as message `id`; returns what the session sends then.
fn written(
    solo: &mut Solo,
    (id, address): (u16, Address),
    (algorithm, payload): (Algorithm, &[u8]),
) -> Vec<Header> {
    let write = WriteRequest { id: MessageId(id), address, length: LEN, algorithm };
    solo.hear(Header::WriteRequest(write), payload);
    solo.work();
    solo.take_headers()
}

#[test]
fn the_time_of_a_write_is_told_before_its_answer() {
    let (mut solo, address) = with_region();
    let zvc = frame(Algorithm::Zvc);
    let sent = written(&mut solo, (7, address), (Algorithm::Zvc, zvc.bytes().unwrap()));
    assert_eq!(sent, [time(7, false), ack(7)]);
    let sent = written(&mut solo, (7, address), (Algorithm::None, &[0; LEN as usize]));
    assert_eq!(sent, [ack(7)], "no codec ran");
    let sent = written(&mut solo, (7, address), (Algorithm::Bdi, zvc.bytes().unwrap()));
    let bad = Header::WriteAck(WriteAck { id: MessageId(7), status: Status::BadPayload });
    assert_eq!(sent, [bad], "it did not decode");
}

#[test]
fn whoever_receives_a_send_has_it_before_its_time_is_told() {
    let mut solo = Solo::open(WIDE);
    let zvc = frame(Algorithm::Zvc);
    let (id, tag) = (MessageId(3), Tag(1));
    let send =
        TaggedSend { id, algorithm: Algorithm::Zvc, continued: false, unawaited: false, tag, length: LEN };
    solo.submit(9, receive(1, &zeroed(LEN as usize)));
    solo.session.on_message(Header::TaggedSend(send), zvc, &RegionTable::default(), solo.now);
    let Some(Action::Decode { job, .. }) = solo.session.poll_action() else { panic!("nothing to decode") };
    solo.session.decoded(job, Ok(()), DECODE_TIME);
    let delivered = solo.session.poll_action();
    assert!(matches!(delivered, Some(Action::Deliver { result: Ok(256), .. })), "{delivered:?}");
    solo.carry_out();
    assert_eq!(solo.take_headers(), [time(3, false), ack(3)]);
}

#[test]
fn the_time_of_what_was_read_is_told_before_its_id_is_used_again() {
    // One read at a time, and one more that waits.
    let mut solo = Solo::open(Limits { max_transfer_bytes: LEN, window_bytes: LEN.into(), max_in_flight: 2 });
    for request in 0..2 {
        solo.submit(request, read(Address::new(0, 0), &zeroed(LEN as usize)));
    }
    let first = solo.take_headers();
    let [Header::ReadRequest(ReadRequest { id, .. })] = first[..] else { panic!("{first:?}") };
    let answer = DataReady { id, algorithm: Algorithm::Zvc, status: Status::Good };
    solo.hear(Header::DataReady(answer), frame(Algorithm::Zvc).bytes().unwrap());
    solo.work();
    let sent = solo.take_headers();
    assert_eq!(sent[0], time(id.0, true));
    assert!(matches!(sent[1..], [Header::ReadRequest(_)]), "{sent:?}");
}

#[test]
fn the_first_times_of_an_algorithm_are_told_and_then_one_in_seventeen() {
    let (mut solo, address) = with_region();
    let [zvc, xp] = [Algorithm::Zvc, Algorithm::Xp].map(|algorithm| (algorithm, frame(algorithm)));
    let mut told = |(algorithm, frame): &(Algorithm, Payload), times: usize| -> Vec<bool> {
        let payload = frame.bytes().unwrap();
        (0..times).map(|_| written(&mut solo, (7, address), (*algorithm, payload)).len() == 2).collect()
    };
    let first = told(&zvc, 51);
    assert!(first[..16].iter().all(|&told| told), "{first:?}");
    // Sixteen were spent and as many earned: one more makes the next, and seventeen the one behind.
    let later: Vec<_> = (16..51).filter(|&at| first[at]).collect();
    assert_eq!(later, [17, 34], "{first:?}");
    // Those of another one are its own first ones.
    assert!(told(&xp, 16).iter().all(|&told| told));
    // What has not come for a while: 16 × 17 others are enough.
    told(&xp, 300);
    let again = told(&zvc, 20);
    assert!(again[..16].iter().all(|&told| told) && again[16..].iter().any(|&told| !told), "{again:?}");
}

#[test]
fn what_the_peer_says_of_a_write_or_send_is_heard_until_that_is_answered() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, write(&[0; LEN as usize], Address::new(0, 0)));
    solo.submit(1, send(&[0; LEN as usize], 5));
    let mut jobs = Vec::new();
    while let Some(action) = solo.jobs.pop_front() {
        let Action::Encode { job, .. } = action else { panic!("{action:?}") };
        solo.session.encoded(job, Ok((Algorithm::Zvc, frame(Algorithm::Zvc))));
        jobs.push(job);
    }
    solo.carry_out();
    let ids: Vec<u16> = solo
        .take_headers()
        .iter()
        .map(|header| match header {
            Header::WriteRequest(write) => write.id.0,
            Header::TaggedSend(send) => send.id.0,
            other => panic!("{other:?}"),
        })
        .collect();
    for &id in &ids {
        solo.hear(time(id, true), b""); // it was no answer
        solo.hear(time(id, false), b"");
    }
    assert_eq!(solo.decoded, [(jobs[0], DECODE_TIME), (jobs[1], DECODE_TIME)]);
    for &id in &ids {
        solo.hear(ack(id), b"");
        solo.hear(time(id, false), b"");
    }
    solo.hear(time(0x7777, false), b"");
    assert_eq!(solo.decoded.len(), 2, "of what is answered, or never was, nothing is heard");
    assert_eq!(solo.delivered.len(), 2);
    solo.assert_works();
    assert!(solo.session.is_idle());
}

#[test]
fn what_the_peer_says_of_the_last_answers_is_heard_once() {
    let (mut solo, address) = with_region();
    let mut jobs = Vec::new();
    let last = ANSWERS as u16;
    for id in 0..last + 2 {
        let read = ReadRequest { id: MessageId(id), address, length: LEN, raw: false };
        solo.hear(Header::ReadRequest(read), b"");
        let Some(Action::Encode { job, .. }) = solo.jobs.pop_front() else { panic!("nothing to encode") };
        // The last one goes raw.
        let raw = || (Algorithm::None, Payload::from_bytes(vec![0; LEN as usize].into()));
        let answer = if id == last + 1 { raw() } else { (Algorithm::Zvc, frame(Algorithm::Zvc)) };
        solo.session.encoded(job, Ok(answer));
        solo.carry_out();
        jobs.push(job);
    }
    for id in [last, 1, 1, 0, last + 1, last + 99] {
        solo.hear(time(id, true), b"");
        solo.hear(time(id, false), b"");
    }
    // So many are remembered, so no longer the first one.
    assert_eq!(solo.decoded, [(jobs[ANSWERS], DECODE_TIME), (jobs[1], DECODE_TIME)]);
    // An id that is used again stands for its last answer.
    let read = ReadRequest { id: MessageId(2), address, length: LEN, raw: false };
    solo.hear(Header::ReadRequest(read), b"");
    let Some(Action::Encode { job, .. }) = solo.jobs.pop_front() else { panic!("nothing to encode") };
    solo.session.encoded(job, Ok((Algorithm::Zvc, frame(Algorithm::Zvc))));
    solo.hear(time(2, true), b"");
    assert_eq!(solo.decoded.last(), Some(&(job, DECODE_TIME)));
    solo.assert_works();
}

#[test]
fn nothing_is_told_after_the_end() {
    let mut solo = Solo::open(WIDE);
    let (id, tag) = (MessageId(3), Tag(1));
    let algorithm = Algorithm::Zvc;
    let send = TaggedSend { id, algorithm, continued: false, unawaited: false, tag, length: LEN };
    solo.submit(9, receive(1, &HostBuffer::zeroed(LEN as usize).all()));
    solo.hear(Header::TaggedSend(send), frame(algorithm).bytes().unwrap());
    solo.close(SessionError::Closed);
    solo.take_sent();
    solo.work();
    assert_eq!(solo.delivered, [(9, Ok(256))]);
    assert_eq!(solo.take_headers(), []);
    assert!(solo.session.is_idle());
}

//! Thousands of random messages and calls: never a panic, and a session that is over or works.

use std::collections::HashMap;

use super::codec::encode_payload;
use super::rng::Rng;
use super::solo::{Solo, read, receive, send, write, zeroed};
use super::*;
use crate::link::LinkError;
use crate::memory::{HostBuffer, HostSlice};
use crate::message::{DecodeTime, Fetch, Offer, OfferAck, TaggedSend, WriteAck, WriteRequest};
use crate::region::Access;

const LIMITS: Limits = Limits { max_transfer_bytes: 64, window_bytes: 600, max_in_flight: 12 };

/// A session that has something to lose: a region that peers may not write.
struct Target {
    solo: Solo,
    closed_region: HostSlice,
    /// How often each request was made.
    made: HashMap<u64, usize>,
    /// Requests of the session that the peer has not answered.
    asked: Vec<Header>,
}

impl Target {
    fn new() -> Self {
        let mut solo = Solo::open(LIMITS);
        let closed_region = HostBuffer::from(vec![0x77; 100]).all();
        let open_region = HostBuffer::zeroed(70).all();
        solo.regions.register(open_region, Element::U8, Access::all()).unwrap();
        solo.regions.register(closed_region.clone(), Element::U8, Access::read_only()).unwrap();
        Self { solo, closed_region, made: HashMap::new(), asked: Vec::new() }
    }

    fn submit(&mut self, rng: &mut Rng) {
        let len = rng.index(150);
        let (id, tag, address) = (rng.below(1000), rng.below(3), Address::new(rng.below(2) as u16, 0));
        let mut request = match rng.below(4) {
            0 => read(address, &zeroed(len)),
            1 => write(&rng.data(len), address),
            2 => send(&rng.data(len), tag),
            _ => receive(tag, &zeroed(len)),
        };
        if rng.one_in(30) {
            // No buffer: a mistake of the program, which must hear of it.
            let no_buffer = Payload::from_bytes(rng.data(len).into());
            let memory = match &mut request {
                Request::Read { into: memory, .. } | Request::Receive { into: memory, .. } => memory,
                Request::Write { from: memory, .. } | Request::Send { from: memory, .. } => memory,
            };
            *memory = no_buffer;
        }
        *self.made.entry(id).or_default() += 1;
        self.solo.submit(id, request);
    }

    /// A message of the peer that makes sense by itself, and mostly here as well.
    fn message(&mut self, rng: &mut Rng) -> Vec<u8> {
        self.asked.extend(self.solo.take_headers());
        if self.asked.is_empty() || rng.one_in(3) {
            return message(rng);
        }
        let asked = self.asked.swap_remove(rng.index(self.asked.len()));
        let status = if rng.one_in(4) { Status::from_code(rng.next() as u8) } else { Status::Good };
        match asked {
            Header::ReadRequest(ReadRequest { id, length, .. }) | Header::Fetch(Fetch { id, length, .. }) => {
                let (algorithm, payload) = payload(rng, length);
                let payload = if status.is_good() { &payload[..] } else { b"" };
                [&*Header::DataReady(DataReady { id, algorithm, status }).encode(), payload].concat()
            }
            Header::WriteRequest(WriteRequest { id, .. }) | Header::TaggedSend(TaggedSend { id, .. }) => {
                Header::WriteAck(WriteAck { id, status }).encode().to_vec()
            }
            Header::Offer(Offer { offer, length, .. }) if rng.one_in(2) => {
                // It is fetched first, and then once more if that is still allowed.
                self.asked.push(asked);
                let id = MessageId(1000 + rng.below(1000) as u16);
                let length = rng.below(length.min(64) + 2) as u32;
                Header::Fetch(Fetch { id, offer, offset: rng.below(3), length }).encode().to_vec()
            }
            Header::Offer(Offer { offer, .. }) => {
                Header::OfferAck(OfferAck { status, offer }).encode().to_vec()
            }
            _ => message(rng),
        }
    }

    /// Does a random job, or has it fail.
    fn work(&mut self, rng: &mut Rng) {
        if self.solo.jobs.is_empty() {
            return;
        }
        let job = self.solo.jobs.remove(rng.index(self.solo.jobs.len())).unwrap();
        match (&job, rng.one_in(10)) {
            (Action::Encode { job, .. }, true) => self.solo.session.encoded(*job, Err(Status::Internal)),
            (Action::Decode { job, .. }, true) => {
                self.solo.session.decoded(*job, Err(Status::Internal), DECODE_TIME);
            }
            _ => self.solo.work_on(job),
        }
    }

    /// Receives what had come before the session was over.
    fn receive_all(&mut self, tag: u64) {
        let failed = |delivered: &[(u64, Result<u64, TransferError>)]| {
            matches!(delivered.last(), Some((_, Err(TransferError::Session { .. }))))
        };
        for id in 1 << 32.. {
            *self.made.entry(id).or_default() += 1;
            self.solo.submit(id, receive(tag, &zeroed(100)));
            self.solo.work();
            if failed(&self.solo.delivered) {
                break;
            }
        }
    }

    /// The session is over and says why, or it works; either way nothing is lost.
    fn finish(mut self) -> bool {
        self.solo.carry_out();
        self.solo.work();
        let survived = self.solo.session.is_open();
        if survived {
            if self.solo.session.responder.may_take_one_more(LIMITS) {
                self.solo.assert_works();
            }
            self.solo.close(SessionError::Closed);
        }
        assert_eq!(self.solo.closed.as_ref(), self.solo.session.error());
        self.solo.work();
        self.solo.session.inbox.arrived_tags().into_iter().for_each(|tag| self.receive_all(tag.0));
        assert!(self.solo.session.is_idle());
        let mut delivered = HashMap::new();
        for &(id, _) in &self.solo.delivered {
            *delivered.entry(id).or_default() += 1;
        }
        assert_eq!(delivered, self.made);
        assert_eq!(self.closed_region.to_vec(), [0x77; 100]);
        survived
    }
}

/// A message that makes sense by itself, though perhaps not here.
fn message(rng: &mut Rng) -> Vec<u8> {
    let id = MessageId(rng.below(300) as u16);
    let address = Address::new(rng.below(3) as u16, rng.pick(&[0, 1, 6, 36, 69, 70, 100, u32::MAX]));
    let length = rng.pick(&[0, 1, 6, 32, 63, 64, 64, 64, 65, u32::MAX]);
    let (algorithm, payload) = payload(rng, length);
    let status = if rng.one_in(3) { Status::from_code(rng.next() as u8) } else { Status::Good };
    let offer = OfferId(rng.below(300) as u32);
    let header = match rng.below(70) {
        0..10 => Header::ReadRequest(ReadRequest { id, address, length, raw: rng.one_in(2) }),
        10 => Header::DataReady(DataReady { id, algorithm, status }),
        11..25 => Header::WriteRequest(WriteRequest { id, address, length, algorithm }),
        25 => Header::WriteAck(WriteAck { id, status }),
        26..40 => Header::TaggedSend(TaggedSend {
            id,
            algorithm,
            continued: rng.one_in(3),
            unawaited: false,
            tag: Tag(rng.below(3)),
            length,
        }),
        60..69 => Header::Offer(Offer {
            offer,
            continued: rng.one_in(3),
            tag: Tag(rng.below(3)),
            length: rng.below(200),
        }),
        69 if rng.one_in(2) => Header::Fetch(Fetch { id, offer, offset: rng.below(100), length }),
        69 => Header::OfferAck(OfferAck { status, offer }),
        40..44 => {
            Header::DecodeTime(DecodeTime { id, answer: rng.one_in(2), nanoseconds: rng.next() as u32 })
        }
        _ if rng.one_in(10) => Header::Hello(Hello::Greeting(greeting(1, LIMITS))),
        _ if rng.one_in(10) => Header::Hello(Hello::refusal(Status::Closing)),
        _ => Header::ReadRequest(ReadRequest { id, address, length: 0, raw: false }),
    };
    let payload = if header.carries_payload() { &payload[..] } else { b"" };
    [&*header.encode(), payload].concat()
}

/// A payload that is as it should be three times in four.
fn payload(rng: &mut Rng, length: u32) -> (Algorithm, Vec<u8>) {
    let raw = HostBuffer::from(rng.data(length.min(64) as usize)).all();
    let wanted = rng.pick(&Algorithm::ALL);
    let (mut algorithm, coded) = encode_payload(&Payload::from_memory(raw), Element::U8, wanted).unwrap();
    let mut payload = coded.bytes().unwrap().to_vec();
    match rng.below(12) {
        0 => payload.truncate(rng.index(payload.len() + 1)),
        1 => algorithm = rng.pick(&Algorithm::ALL),
        2 if rng.one_in(5) => payload.push(0),
        _ => {}
    }
    (algorithm, payload)
}

/// Calls `happen` up to 60 times on each of `sessions` sessions; returns how many survived.
fn survivors(seed: u64, sessions: u64, happen: impl Fn(&mut Target, &mut Rng)) -> u64 {
    let mut rng = Rng::new(seed);
    let mut survivors = 0;
    for _ in 0..sessions {
        let mut target = Target::new();
        for _ in 0..60 {
            happen(&mut target, &mut rng);
        }
        survivors += u64::from(target.finish());
    }
    println!("{survivors} of {sessions} survived");
    survivors
}

#[test]
fn sessions_survive_what_is_allowed_and_end_well_otherwise() {
    let survived = survivors(1, 4000, |target, rng| match rng.below(4) {
        0 => target.submit(rng),
        1 => {
            let message = target.message(rng);
            target.solo.hear_bytes(&message);
        }
        _ => target.work(rng),
    });
    assert!((1..4000).contains(&survived), "{survived}");
}

#[test]
fn damaged_messages_end_a_session_or_do_not() {
    let survived = survivors(2, 3000, |target, rng| {
        let mut bytes = target.message(rng);
        for _ in 0..rng.below(4) {
            let bit = rng.index(bytes.len() * 8);
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        target.submit(rng);
        if rng.one_in(8) {
            target.solo.hear_bytes(&bytes);
        }
        target.work(rng);
        target.work(rng);
    });
    assert!((1..3000).contains(&survived), "{survived}");
}

#[test]
fn noise_ends_a_session() {
    survivors(3, 2000, |target, rng| {
        let len = rng.index(100);
        let bytes: Vec<u8> = (0..len).map(|_| rng.next() as u8).collect();
        target.solo.hear_bytes(&bytes);
    });
}

#[test]
fn everything_may_be_called_at_any_time() {
    survivors(4, 4000, |target, rng| {
        let start = target.solo.now;
        let sometime = |rng: &mut Rng| start + Duration::from_millis(rng.below(4000));
        match rng.below(40) {
            0 => target.solo.session.on_activity(sometime(rng)),
            1 => target.solo.session.on_activity(start - Duration::from_secs(1)),
            2..5 => {
                target.solo.now = sometime(rng);
                target.solo.session.on_time(target.solo.now);
            }
            5 => target.solo.session.encoded(JobId(1000 + rng.below(9)), Err(Status::Internal)),
            6 => target.solo.session.decoded(JobId(1000 + rng.below(9)), Ok(()), DECODE_TIME),
            7 if rng.one_in(10) => target.solo.close(reason(rng)),
            8 if rng.one_in(10) => target.solo.session.on_malformed(MessageError::Version { got: 10 }),
            9..15 => {
                let message = target.message(rng);
                target.solo.hear_bytes(&message);
            }
            15..28 => target.submit(rng),
            _ => target.work(rng),
        }
        let session = &target.solo.session;
        assert_eq!(session.is_open(), session.error().is_none());
        assert!(session.is_open() || session.deadline().is_none());
    });
}

fn reason(rng: &mut Rng) -> SessionError {
    match rng.below(4) {
        0 => SessionError::Closed,
        1 => LinkError::StartedTwice.into(),
        2 => SessionError::PeerRefused(Status::from_code(rng.below(20) as u8)),
        _ => SessionError::Silent(Duration::MAX),
    }
}

#[test]
fn a_job_that_ends_as_another_kind_of_job_does_no_harm() {
    let mut solo = Solo::open(WIDE);
    solo.submit(0, write(b"ab", Address::new(0, 0)));
    solo.submit(1, receive(1, &zeroed(1)));
    solo.hear_bytes(&[0x60, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 9]);
    for action in solo.jobs.clone() {
        match action {
            Action::Encode { job, .. } => solo.session.decoded(job, Ok(()), DECODE_TIME),
            Action::Decode { job, .. } => solo.session.encoded(job, Err(Status::Internal)),
            other => panic!("{other:?}"),
        }
    }
    solo.assert_works();
    solo.work();
    solo.close(SessionError::Closed);
    let error = TransferError::Session { peer: Rank(1), error: SessionError::Closed };
    assert_eq!(solo.delivered, [(0, Err(error))]);
}

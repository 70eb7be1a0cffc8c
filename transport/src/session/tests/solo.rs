//! One session, rank 0, and a test that plays its peer, its codecs and the clock.

use std::collections::VecDeque;

use bytes::Bytes;

use super::codec::{decode_payload, encode_payload};
use super::*;
use crate::memory::{HostBuffer, HostSlice};

pub(super) struct Solo {
    pub(super) session: Session,
    pub(super) regions: RegionTable,
    pub(super) now: Instant,
    /// Messages that the session has sent, as bytes.
    pub(super) sent: VecDeque<Vec<u8>>,
    /// Codec work that waits.
    pub(super) jobs: VecDeque<Action>,
    pub(super) delivered: Vec<(u64, Result<u64, TransferError>)>,
    /// What the peer has said of frames.
    pub(super) decoded: Vec<(JobId, Duration)>,
    pub(super) closed: Option<SessionError>,
}

impl Solo {
    /// A session that has just been made; its greeting is in `sent`.
    pub(super) fn new(config: SessionConfig) -> Self {
        let now = Instant::now();
        let mut solo = Self {
            session: Session::new(config, now),
            regions: RegionTable::default(),
            now,
            sent: VecDeque::new(),
            jobs: VecDeque::new(),
            delivered: Vec::new(),
            decoded: Vec::new(),
            closed: None,
        };
        solo.carry_out();
        solo
    }

    /// An open session; the limits are those of both sides.
    pub(super) fn open(limits: Limits) -> Self {
        Self::open_with(config(0, limits), greeting(1, limits))
    }

    pub(super) fn open_with(config: SessionConfig, peer: Greeting) -> Self {
        let mut solo = Self::new(config);
        solo.hear(Header::Hello(Hello::Greeting(peer)), b"");
        assert!(solo.session.is_open());
        solo.sent.clear();
        solo
    }

    /// The peer sends a message.
    pub(super) fn hear(&mut self, header: Header, payload: &[u8]) {
        self.hear_bytes(&[&*header.encode(), payload].concat());
    }

    /// The peer sends bytes.
    pub(super) fn hear_bytes(&mut self, message: &[u8]) {
        match Header::parse(message) {
            Ok((header, header_len)) => {
                let payload = Payload::from_bytes(Bytes::copy_from_slice(&message[header_len..]));
                self.session.on_message(header, payload, &self.regions, self.now);
            }
            Err(error) => self.session.on_malformed(error),
        }
        self.carry_out();
    }

    pub(super) fn submit(&mut self, id: u64, request: Request) {
        self.session.submit(RequestId(id), request, self.now);
        self.carry_out();
    }

    /// Time passes; the session is told.
    pub(super) fn wait(&mut self, time: Duration) {
        self.now += time;
        self.session.on_time(self.now);
        self.carry_out();
    }

    pub(super) fn close(&mut self, error: SessionError) {
        self.session.close(error);
        self.carry_out();
    }

    /// Does codec work, all that there is, without compression.
    pub(super) fn work(&mut self) {
        while let Some(job) = self.jobs.pop_front() {
            self.work_on(job);
        }
    }

    pub(super) fn work_on(&mut self, job: Action) {
        match job {
            Action::Encode { job, source, element, .. } => {
                self.session.encoded(job, encode_payload(&source, element, Algorithm::None));
            }
            Action::Decode { job, algorithm, payload, destination, .. } => {
                let result = decode_payload(algorithm, &payload, &destination);
                self.session.decoded(job, result, DECODE_TIME);
            }
            other => panic!("no work: {other:?}"),
        }
        self.carry_out();
    }

    /// The messages sent since this was last asked.
    pub(super) fn take_sent(&mut self) -> Vec<Vec<u8>> {
        self.sent.drain(..).collect()
    }

    /// As [`take_sent`](Self::take_sent), headers only.
    pub(super) fn take_headers(&mut self) -> Vec<Header> {
        self.sent.drain(..).map(|message| Header::parse(&message).unwrap().0).collect()
    }

    /// The session is over because of `error`, and its last message was a refusal with `farewell`, or none.
    #[track_caller]
    pub(super) fn assert_over(&mut self, error: impl Into<SessionError>, farewell: Option<Status>) {
        let error = error.into();
        assert_eq!(self.session.error(), Some(&error));
        assert_eq!(self.closed, Some(error));
        assert!(!self.session.is_open());
        assert_eq!(self.session.deadline(), None);
        let refusal = |bytes: &Vec<u8>| match Header::parse(bytes).unwrap().0 {
            Header::Hello(Hello::Refusal(refusal)) => Some(refusal.status()),
            _ => None,
        };
        assert_eq!(self.sent.back().and_then(refusal), farewell);
    }

    /// The session still does what it is asked.
    pub(super) fn assert_works(&mut self) {
        assert!(self.session.is_open(), "{:?}", self.session.error());
        self.sent.clear();
        let id = MessageId(0xfff0);
        self.hear(
            Header::ReadRequest(ReadRequest { id, address: Address::new(9, 9), length: 0, raw: false }),
            b"",
        );
        assert_eq!(self.take_sent(), [[0x2f, 0xff, 0x00, 0x00]]);
    }

    pub(super) fn carry_out(&mut self) {
        while let Some(action) = self.session.poll_action() {
            match action {
                Action::Send { header, payload, .. } => {
                    let payload = payload.bytes().unwrap();
                    self.sent.push_back([&*header.encode(), payload].concat());
                }
                Action::Deliver { request, result } => self.delivered.push((request.0, result)),
                Action::Close { error } => assert!(self.closed.replace(error).is_none(), "closed twice"),
                // The world of two ends, or a node, looks after these.
                Action::Acknowledged { .. } | Action::GivenUp(_) => {}
                Action::Decoded { job, took } => self.decoded.push((job, took)),
                job => self.jobs.push_back(job),
            }
        }
    }
}

pub(super) fn zeroed(len: usize) -> HostSlice {
    HostBuffer::zeroed(len).all()
}

pub(super) fn read(from: Address, into: &HostSlice) -> Request {
    Request::Read { from, into: Payload::from_memory(into.clone()), raw: false }
}

pub(super) fn write(bytes: &[u8], to: Address) -> Request {
    let from = Payload::from_memory(HostBuffer::from(bytes.to_vec()).all());
    Request::Write { from, element: Element::U8, to }
}

pub(super) fn send(bytes: &[u8], tag: u64) -> Request {
    let from = Payload::from_memory(HostBuffer::from(bytes.to_vec()).all());
    Request::Send {
        from,
        element: Element::U8,
        tag: Tag(tag),
        completion: Completion::Remote,
        part_of: None,
        continued: false,
        window: None,
    }
}

pub(super) fn receive(tag: u64, into: &HostSlice) -> Request {
    Request::Receive { tag: Tag(tag), into: Payload::from_memory(into.clone()) }
}

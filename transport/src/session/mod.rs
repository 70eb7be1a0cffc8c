//! What two ranks say to each other, as a state machine.
//!
//! A [`Session`] does no I/O and has no clock: it is told what happened (a message came, a job is done, time
//! has passed) and answers with [`Action`]s. It sees payloads only as descriptors. So it can be tested in
//! virtual time, and whoever carries the actions out may use the CPU or a GPU.

mod action;
mod answering;
mod asking;
mod config;
mod decode_times;
mod error;
mod groups;
mod inbox;
mod lanes;
mod life;
mod offers;
mod pace;
mod parts;
mod queue;
mod request;
mod requester;
mod responder;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::time::{Duration, Instant};

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, ElementSet};
use rustc_hash::FxHashMap;

pub use action::{Action, Decoded, Encoded, JobId, Purpose, Stream};
pub use config::SessionConfig;
pub use decode_times::ToldTimes;
pub use error::{SessionError, TransferError, Violation};
pub use groups::GroupOver;
pub use pace::Window;
pub use request::{Completion, Request, RequestId};

use self::decode_times::DecodeTimes;
use self::inbox::{Inbox, Posted};
use self::parts::Messages;
use self::queue::Queue;
use self::request::Owner;
use self::requester::Requester;
use self::responder::Responder;
use crate::memory::HostSlice;
use crate::message::{
    DataReady, Greeting, Header, Hello, Limits, MessageError, MessageId, OfferId, Status, TaggedSend,
};
use crate::payload::Payload;
use crate::region::RegionTable;

/// One side of the conversation between two ranks.
#[derive(Debug)]
pub struct Session {
    config: SessionConfig,
    phase: Phase,
    /// When the peer was last heard, or last began to owe something.
    heard: Instant,
    /// The latest time that this side was told, which it is not when codecs are done.
    now: Instant,
    requester: Requester,
    responder: Responder,
    inbox: Inbox,
    messages: Messages,
    /// Requests that fail once what is being decoded for them is.
    ending: Vec<Ending>,
    /// Groups that this side takes no part in any more while the peer may, and why.
    groups_over: HashMap<u32, Status>,
    jobs: FxHashMap<JobId, Job>,
    next_job: u64,
    actions: Queue,
    /// Something was encoded that is still to be sent.
    has_encoded: bool,
    /// Answers, and bytes that they are for, that go out with what is sent next.
    held_acks: (u32, u64),
    decode_times: DecodeTimes,
}

/// A greeting that may take for ever is awaited until `None`.
#[derive(Debug)]
enum Phase {
    Greeting {
        until: Option<Instant>,
    },
    /// What the peer takes and understands.
    Open {
        limits: Limits,
        algorithms: AlgorithmSet,
        elements: ElementSet,
    },
    Over(SessionError),
}

/// What a piece of codec work is for.
#[derive(Debug)]
enum Job {
    /// The bytes of a write or send of ours.
    EncodePiece(MessageId),
    /// The answer to a read of the peer.
    EncodeAnswer(MessageId),
    /// The answer to a fetch of the peer.
    EncodeFetched { id: MessageId, offer: OfferId },
    /// What a read or fetch of ours brought.
    DecodePiece(MessageId),
    /// A write of the peer.
    DecodeWrite(MessageId),
    /// A send of the peer, for this receive of ours.
    DecodeSend { id: MessageId, unawaited: bool, receive: Owner, length: u32 },
    /// What a read or fetch of ours brought, for the request of this place in `ending`.
    DecodeLate(usize),
}

/// A request that the end of the session has ended, while bytes of it were being decoded.
#[derive(Debug)]
struct Ending {
    owner: Owner,
    /// Pieces of it.
    decoding: usize,
    error: TransferError,
}

impl Session {
    /// A session that greets its peer. `now` is the time by the clock that all later calls use.
    #[must_use]
    pub fn new(config: SessionConfig, now: Instant) -> Self {
        let hello = Hello::Greeting(Greeting {
            secret: config.secret,
            rank: config.local,
            ranks: config.ranks,
            limits: config.limits,
            algorithms: AlgorithmSet::supported(),
            elements: ElementSet::all(),
        });
        let mut session = Self {
            phase: Phase::Greeting { until: now.checked_add(config.greeting_timeout) },
            config,
            heard: now,
            now,
            requester: Requester::default(),
            responder: Responder::default(),
            inbox: Inbox::default(),
            messages: Messages::default(),
            ending: Vec::new(),
            groups_over: HashMap::new(),
            jobs: FxHashMap::default(),
            next_job: 0,
            actions: Queue::default(),
            has_encoded: false,
            held_acks: (0, 0),
            decode_times: DecodeTimes::default(),
        };
        session.send(Header::Hello(hello), Payload::empty());
        session
    }

    /// The next thing to do, or `None` until something happens.
    pub fn poll_action(&mut self) -> Option<Action> {
        // What is encoded goes out before the next piece is, which may take as long as to send it.
        if self.has_encoded {
            if let Some(action) = self.actions.pop_other() {
                return Some(action);
            }
            self.has_encoded = false;
        }
        self.actions.pop()
    }

    /// Whether the hellos were exchanged and the session has not ended.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// Why the session ended, if it has.
    #[must_use]
    pub fn error(&self) -> Option<&SessionError> {
        match &self.phase {
            Phase::Over(error) => Some(error),
            _ => None,
        }
    }

    /// When the peer was last heard, or last began to owe something.
    #[must_use]
    pub fn last_heard(&self) -> Instant {
        self.heard
    }

    /// Takes in a request of the program. It is answered by one [`Action::Deliver`], in any order.
    pub fn submit(&mut self, id: RequestId, request: Request, now: Instant) {
        self.now = now;
        if let Phase::Over(error) = &self.phase {
            let error = error.clone();
            return self.submit_late(id, request, error);
        }
        if let Err(error) = self.check(&request) {
            self.deliver((id, Err(error)));
            return;
        }
        if !self.waits_for_peer() {
            self.heard = now; // until now the peer had nothing to say
        }
        match request {
            Request::Receive { tag, into } => {
                if let Some(posted) = self.receive_arrived(tag, Posted { request: id, into, begun: None }) {
                    self.inbox.post(tag, posted);
                }
            }
            _ => self.requester.submit(id.into(), request),
        }
        self.start_pieces();
    }

    /// Takes in a message of the peer. `regions` is what this rank has registered.
    pub fn on_message(&mut self, header: Header, payload: Payload, regions: &RegionTable, now: Instant) {
        (self.heard, self.now) = (now, now);
        let handled = match (&self.phase, header) {
            (Phase::Over(_), _) => return,
            (_, Header::Hello(hello)) => self.on_hello(hello),
            (Phase::Greeting { .. }, _) => Err(Violation::BeforeHello.into()),
            (Phase::Open { .. }, Header::ReadRequest(request)) => self.on_read(request, regions),
            (Phase::Open { .. }, Header::WriteRequest(request)) => self.on_write(request, payload, regions),
            (Phase::Open { .. }, Header::TaggedSend(send)) => self.on_send(send, payload),
            (Phase::Open { .. }, Header::Offer(offer)) => self.on_offer(offer),
            (Phase::Open { .. }, Header::Fetch(fetch)) => self.on_fetch(fetch),
            (Phase::Open { .. }, Header::OfferAck(answer)) => self.on_offer_ack(answer),
            (Phase::Open { .. }, Header::DataReady(answer)) => self.on_data(answer, payload),
            (Phase::Open { .. }, Header::WriteAck(answer)) => self.on_ack(answer),
            (Phase::Open { .. }, Header::DecodeTime(time)) => {
                self.on_decode_time(time);
                Ok(())
            }
        };
        match handled {
            Ok(()) => self.start_pieces(),
            Err(error) => self.close(error),
        }
    }

    /// Where the payload of a message that is coming, `len` bytes, is to be put: what the program has asked for goes
    /// there without a detour, if it comes raw. What the peer writes by itself does not.
    #[must_use]
    pub fn landing(&self, header: &Header, len: u64) -> Option<HostSlice> {
        let Phase::Open { .. } = self.phase else { return None };
        let place = match *header {
            Header::DataReady(DataReady { id, algorithm: Algorithm::None, .. }) => {
                let (memory, piece) = self.requester.awaited(id)?;
                memory.part(piece.offset, u64::from(piece.length))?
            }
            // One that is not as long as it says is bad, one that is too long is refused, and nobody's memory is to hold either.
            Header::TaggedSend(TaggedSend { tag, algorithm: Algorithm::None, length, .. })
                if u64::from(length) == len && length <= self.config.limits.max_transfer_bytes =>
            {
                let Posted { into, begun, .. } = self.inbox.next_receive(tag)?;
                into.part(begun.map_or(0, |begun| begun.filled), len)?
            }
            _ => return None,
        };
        place.memory().filter(|place| place.len() as u64 == len).cloned()
    }

    /// The peer sent bytes that are no message.
    pub fn on_malformed(&mut self, error: MessageError) {
        self.close(error.into());
    }

    /// An [`Action::Encode`] is done.
    pub fn encoded(&mut self, job: JobId, result: Encoded) {
        self.has_encoded = true;
        match self.jobs.remove(&job) {
            Some(Job::EncodePiece(id)) => self.piece_encoded(id, job, result),
            Some(Job::EncodeAnswer(id)) => self.answer_with(id, job, result),
            Some(Job::EncodeFetched { id, offer }) => {
                self.requester.offers().end_fetch(offer);
                self.answer_with(id, job, result);
            }
            // Jobs of a session that ended in the meantime are of no interest.
            _ => {}
        }
        self.start_pieces();
    }

    /// An [`Action::Decode`] is done, and took that long.
    pub fn decoded(&mut self, job: JobId, result: Decoded, took: Duration) {
        let timed = self.decode_times.end(job).then_some(took).filter(|_| result.is_ok());
        match self.jobs.remove(&job) {
            Some(Job::DecodePiece(id)) => {
                self.finish(id, result.map_err(|status| self.unusable(status)));
                self.tell_decode_time(id, true, timed);
            }
            Some(Job::DecodeLate(number)) => self.late_decoded(number),
            Some(Job::DecodeWrite(id)) => {
                self.tell_decode_time(id, false, timed);
                self.acknowledge(id, result.err().unwrap_or(Status::Good));
            }
            Some(Job::DecodeSend { id, unawaited, receive, length }) => {
                // First: whoever waits for the bytes is not to wait for the answer as well.
                let received = result.map(|()| u64::from(length));
                self.deliver((receive, received.map_err(|status| self.unusable(status))));
                self.tell_decode_time(id, false, timed);
                match result {
                    Ok(()) => self.acknowledge_send(id, length, unawaited),
                    Err(status) => self.acknowledge(id, status),
                }
            }
            _ => {}
        }
        self.start_pieces();
    }

    fn encode(
        &mut self,
        job: JobId,
        (source, element): (Payload, Element),
        stream: Stream,
        purpose: Purpose,
        overlaps: bool,
    ) {
        let allowed = match self.phase {
            // A frame of an element that the peer does not know is no frame to it.
            Phase::Open { algorithms, elements, .. } if elements.contains(element) => algorithms,
            _ => AlgorithmSet::from_iter([Algorithm::None]),
        };
        let action = Action::Encode { job, source, element, stream, allowed, purpose, overlaps };
        self.actions.push(action);
    }

    fn decode(
        &mut self,
        job: Job,
        algorithm: Algorithm,
        payload: Payload,
        destination: Payload,
        read: Option<RequestId>,
    ) {
        let all_or_nothing = matches!(job, Job::DecodeWrite(_));
        let job = self.job(job);
        self.decode_times.begin(job, algorithm);
        self.actions.push(Action::Decode { job, algorithm, payload, read, destination, all_or_nothing });
    }

    fn job(&mut self, job: Job) -> JobId {
        let id = JobId(self.next_job);
        self.next_job += 1;
        self.jobs.insert(id, job);
        id
    }

    fn send(&mut self, header: Header, payload: Payload) {
        // Nobody hears what is said after the end.
        if !matches!(self.phase, Phase::Over(_)) {
            self.held_acks = (0, 0);
            self.actions.push(Action::Send { header, payload, with_next: false });
        }
    }

    /// What came of a request, or of a part of its message.
    fn deliver(&mut self, (owner, result): (impl Into<Owner>, Result<u64, TransferError>)) {
        let ended = match owner.into() {
            Owner::Request(request) => Some((request, result)),
            Owner::Part(message) => self.messages.end_part(message, result),
        };
        if let Some((request, result)) = ended {
            self.actions.push(Action::Deliver { request, result });
        }
    }

    /// Why what the peer sent did not become bytes: for its own sake, or for that of the device that it was to go to.
    fn unusable(&self, status: Status) -> TransferError {
        match &self.phase {
            Phase::Over(error @ SessionError::Device(_)) if status == Status::DeviceLost => {
                self.session_failed(error.clone())
            }
            _ => TransferError::Unusable { peer: self.config.peer, status },
        }
    }

    fn session_failed(&self, error: SessionError) -> TransferError {
        TransferError::Session { peer: self.config.peer, error }
    }
}

/// Frames are never longer than the raw bytes, or they would not be sent.
fn check_payload(payload: &Payload, length: u32) -> Result<(), Violation> {
    let payload_len = payload.capacity();
    if payload_len > u64::from(length) {
        Err(Violation::PayloadTooLong { payload_len, length })
    } else {
        Ok(())
    }
}

//! Both ends of a session, the link between them and their codecs, in virtual time and all from one seed.

use std::collections::{BTreeMap, HashMap, HashSet};

use bytes::Bytes;

use super::codec::{decode_payload, encode_payload};
use super::rng::Rng;
use super::traffic::Traffic;
use super::*;
use crate::link::LinkError;
use crate::memory::HostBuffer;
use crate::region::Access;

/// Longest way of a message, and longest time of a job, in microseconds.
const MAX_DELAY_US: u64 = 200;

pub(super) struct World {
    pub(super) rng: Rng,
    pub(super) now: Instant,
    pub(super) ends: [End; 2],
    /// Requests by the end that makes them.
    pub(super) traffic: [Traffic; 2],
    /// Whether messages overtake each other; hellos never do.
    pub(super) reorder: bool,
    /// Time of day at which things happen; things of one moment in the order in which they were planned.
    agenda: BTreeMap<(Instant, u64), Event>,
    planned: u64,
    /// By direction: no message may arrive before this, and the latest that is on its way.
    barrier: [Instant; 2],
    latest: [Instant; 2],
}

/// One end.
pub(super) struct End {
    pub(super) session: Session,
    pub(super) regions: RegionTable,
    pub(super) delivered: HashMap<RequestId, Result<u64, TransferError>>,
    pub(super) closed: Option<SessionError>,
    /// What was encoded and is to be acknowledged.
    pub(super) unacknowledged: HashSet<JobId>,
    /// What was encoded to frames, of which the peer has not said how long they took to decode.
    pub(super) frames: HashSet<JobId>,
    /// Times that it has told.
    pub(super) told: u32,
    /// Groups of which the peer has given up an operation.
    pub(super) given_up: HashSet<u32>,
}

enum Event {
    Submit { end: usize, id: RequestId, request: Request },
    Arrive { end: usize, message: Bytes },
    Gone { end: usize },
    Encode { end: usize, job: JobId, source: Payload, element: Element, algorithm: Algorithm },
    Decode { end: usize, job: JobId, algorithm: Algorithm, payload: Payload, destination: Payload },
}

impl World {
    /// Two sessions that are about to greet each other.
    pub(super) fn new(seed: u64, configs: [SessionConfig; 2]) -> Self {
        let now = Instant::now();
        let ends = configs.map(|config| End {
            session: Session::new(config, now),
            regions: RegionTable::default(),
            delivered: HashMap::new(),
            closed: None,
            unacknowledged: HashSet::new(),
            frames: HashSet::new(),
            told: 0,
            given_up: HashSet::new(),
        });
        let mut world = Self {
            rng: Rng::new(seed),
            now,
            ends,
            traffic: Default::default(),
            reorder: false,
            agenda: BTreeMap::new(),
            planned: 0,
            barrier: [now; 2],
            latest: [now; 2],
        };
        world.carry_out();
        world
    }

    /// Two sessions with the same limits that have greeted each other.
    pub(super) fn open(seed: u64, limits: Limits) -> Self {
        let mut world = Self::new(seed, [config(0, limits), config(1, limits)]);
        world.run();
        assert!(world.ends.iter().all(|end| end.session.is_open()));
        world
    }

    /// Registers `bytes` at `end` for everybody.
    pub(super) fn register(&mut self, end: usize, bytes: Vec<u8>) -> (HostBuffer, Address) {
        let buffer = HostBuffer::from(bytes);
        let element = self.rng.pick(&Element::ALL);
        let address = self.ends[end].regions.register(buffer.all(), element, Access::all()).unwrap();
        (buffer, address)
    }

    /// Submits a request now.
    pub(super) fn submit(&mut self, end: usize, id: u64, request: Request) {
        self.ends[end].session.submit(RequestId(id), request, self.now);
        self.carry_out();
    }

    /// Submits a request some time from now.
    pub(super) fn plan(&mut self, after: Duration, end: usize, id: u64, request: Request) {
        self.schedule(self.now + after, Event::Submit { end, id: RequestId(id), request });
    }

    /// What request `id` came to.
    pub(super) fn result(&self, end: usize, id: u64) -> Option<&Result<u64, TransferError>> {
        self.ends[end].delivered.get(&RequestId(id))
    }

    /// Goes on until nothing more happens by itself but probes.
    pub(super) fn run(&mut self) {
        while let Some((&(next, _), _)) = self.agenda.first_key_value() {
            self.step(next);
        }
    }

    /// Goes on for `time`.
    pub(super) fn run_for(&mut self, time: Duration) {
        let until = self.now + time;
        let next = |world: &Self| {
            let deadlines = world.ends.iter().filter_map(|end| end.session.deadline());
            let events = world.agenda.keys().map(|&(at, _)| at).take(1);
            deadlines.chain(events).min().filter(|&next| next <= until)
        };
        while let Some(next) = next(self) {
            self.step(next);
        }
        self.now = until;
    }

    /// Nothing is left of any request.
    pub(super) fn assert_idle(&self) {
        for end in 0..2 {
            let session = &self.ends[end].session;
            assert!(session.is_idle(), "end {end}: {session:?}");
            assert!(self.traffic[end].is_idle(), "requests of end {end} are in flight");
        }
    }

    pub(super) fn carry_out(&mut self) {
        for end in 0..2 {
            while let Some(action) = self.ends[end].session.poll_action() {
                self.act(end, action);
            }
        }
    }

    /// Lets happen what is first: a session's deadline, or the event planned for `next`.
    fn step(&mut self, next: Instant) {
        let due = |end: &End| end.session.deadline().filter(|&deadline| deadline <= next);
        let first = (0..2).filter_map(|end| Some((due(&self.ends[end])?, end))).min();
        if let Some((deadline, end)) = first {
            self.now = self.now.max(deadline);
            let session = &mut self.ends[end].session;
            session.on_time(self.now);
            assert!(session.deadline().is_none_or(|later| later > self.now), "no progress at a deadline");
        } else if let Some(((at, _), event)) = self.agenda.pop_first() {
            self.now = at;
            self.happen(event);
        }
        self.carry_out();
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Submit { end, id, request } => self.ends[end].session.submit(id, request, self.now),
            Event::Arrive { end, message } => self.arrive(end, &message),
            Event::Gone { end } => {
                let peer = Rank(1 - end as u32);
                self.ends[end].session.close(LinkError::PeerClosed(peer).into());
            }
            Event::Encode { end, job, source, element, algorithm } => {
                let result = encode_payload(&source, element, algorithm);
                if result.as_ref().is_ok_and(|(sent, _)| *sent != Algorithm::None) {
                    self.ends[end].frames.insert(job);
                }
                self.ends[end].session.encoded(job, result);
            }
            Event::Decode { end, job, algorithm, payload, destination } => {
                let result = decode_payload(algorithm, &payload, &destination);
                self.ends[end].session.decoded(job, result, DECODE_TIME);
            }
        }
    }

    fn arrive(&mut self, end: usize, message: &Bytes) {
        let (header, header_len) = Header::parse(message).expect("sessions send what can be read");
        let payload = message.slice(header_len..);
        self.traffic[end].answer(&header, payload.len());
        let End { session, regions, .. } = &mut self.ends[end];
        session.on_message(header, Payload::from_bytes(payload), regions, self.now);
    }

    fn act(&mut self, end: usize, action: Action) {
        match action {
            Action::Send { header, payload, .. } => {
                self.send(end, header, &payload);
                // Some links say at once that a message is written, others never.
                if let Header::TaggedSend(send) = header
                    && self.rng.pick(&[false, true])
                {
                    self.ends[end].session.written(send.id);
                }
            }
            Action::Encode { job, source, element, allowed, purpose, .. } => {
                if matches!(purpose, Purpose::Write { .. }) {
                    self.ends[end].unacknowledged.insert(job);
                }
                let algorithms: Vec<_> = allowed.iter().collect();
                let algorithm = self.rng.pick(&algorithms);
                self.schedule_job(Event::Encode { end, job, source, element, algorithm });
            }
            Action::Decode { job, algorithm, payload, destination, .. } => {
                self.schedule_job(Event::Decode { end, job, algorithm, payload, destination });
            }
            Action::Acknowledged { job } => {
                assert!(self.ends[end].unacknowledged.remove(&job), "{job:?} acknowledged, but not to be");
            }
            Action::Decoded { job, took } => {
                assert_eq!(took, DECODE_TIME);
                // Of messages that overtake each other, ids say little.
                assert!(self.ends[end].frames.remove(&job) || self.reorder, "{job:?}: no frame, or twice");
                self.ends[end].told += 1;
            }
            Action::Deliver { request, result } => {
                let before = self.ends[end].delivered.insert(request, result);
                assert!(before.is_none(), "{request:?} delivered twice");
            }
            Action::GivenUp(said) => drop(self.ends[end].given_up.insert(said.group)),
            Action::Close { error } => {
                assert!(self.ends[end].closed.replace(error).is_none(), "closed twice");
                let at = self.latest[end] + self.rng.micros(MAX_DELAY_US);
                self.schedule(at, Event::Gone { end: 1 - end });
            }
        }
    }

    fn send(&mut self, end: usize, header: Header, payload: &Payload) {
        let payload = payload.bytes().expect("what is sent is in memory of its own");
        assert!(payload.is_empty() || header.carries_payload(), "payload behind {header:?}");
        if let Header::Hello(Hello::Greeting(greeting)) = header {
            self.traffic[1 - end].greeted(greeting.limits);
        }
        self.traffic[end].ask(&header, payload.len());
        let is_hello = matches!(header, Header::Hello(_));
        let after = if self.reorder && !is_hello { self.barrier[end] } else { self.latest[end] };
        let at = after.max(self.now + self.rng.micros(MAX_DELAY_US));
        self.latest[end] = self.latest[end].max(at);
        if is_hello {
            self.barrier[end] = at;
        }
        let message = [&*header.encode(), payload].concat().into();
        self.schedule(at, Event::Arrive { end: 1 - end, message });
    }

    fn schedule_job(&mut self, event: Event) {
        let at = self.now + self.rng.micros(MAX_DELAY_US);
        self.schedule(at, event);
    }

    fn schedule(&mut self, at: Instant, event: Event) {
        self.planned += 1;
        self.agenda.insert((at, self.planned), event);
    }
}

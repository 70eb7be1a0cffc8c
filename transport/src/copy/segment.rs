//! What happens to one segment of a copy, step by step.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::Algorithm;

use super::cap::Turn;
use super::home::{Home, HomeRoom};
use super::job::{Job, Ready, Task};
use super::kept::Coded;
use super::lane::Lane;
use crate::executor::{Done, Output, Work};
use crate::message::Status;
use crate::payload::Payload;

/// A segment under way. However it ends, also if a thread dies with it, its copy and its lane hear of it when it goes.
pub(super) struct Segment {
    lane: Arc<Lane>,
    job: Arc<Job>,
    index: u64,
    outcome: Option<Result<(), Status>>,
}

impl Segment {
    pub(super) fn begin(lane: Arc<Lane>, job: Arc<Job>, index: u64) {
        let segment = Self { lane, job, index, outcome: None };
        let (decision, coded) = match segment.job.ready() {
            Some(Ready::Encode(decision)) => (Some(*decision), None),
            Some(ready) => (None, ready.kept_segment(index)),
            None => (None, None),
        };
        match (decision, coded) {
            (Some(decision), _) => segment.read(decision.algorithm),
            (None, Some(coded)) => {
                segment.job.carried(&coded);
                segment.carry(coded);
            }
            (None, None) => segment.end(Err(Status::Internal)),
        }
    }

    /// Encodes it once its memory may be read.
    fn read(self, algorithm: Algorithm) {
        let (start, len) = self.job.place(self.index);
        let (Task::Copy { source, .. } | Task::Keep { source, .. }) = &self.job.task else {
            return self.end(Err(Status::Internal));
        };
        let Some(source) = source.part(start, len) else { return self.end(Err(Status::OutOfBounds)) };
        match self.lane.cap.as_ref().map(|cap| cap.ask(len)) {
            Some(turn) => self.wait(turn, source, algorithm),
            None => self.encode(source, algorithm),
        }
    }

    fn wait(self, turn: Turn, source: Payload, algorithm: Algorithm) {
        let Some(wait) = self.lane.cap.as_ref().and_then(|cap| cap.wait(turn)) else {
            return self.encode(source, algorithm);
        };
        let engine = self.lane.engine.clone();
        engine.at(Instant::now() + wait, Box::new(move || self.wait(turn, source, algorithm)));
    }

    fn encode(self, source: Payload, algorithm: Algorithm) {
        // What is kept is copied anyway. Whatever else held the source until it is at its destination could wait for a copy
        // the other way, which waits for it.
        let (lent, shelf) = match &self.job.task {
            Task::Keep { home: Home::Host(_, shelf), .. } => (true, shelf.clone()),
            _ => (false, None),
        };
        let work = Work::Encode { source, element: self.job.element, algorithm, lent, shelf };
        let engine = self.lane.engine.clone();
        engine.run(work, move |done| self.encoded(done));
    }

    fn encoded(self, done: Done) {
        let (algorithm, payload) = match done.result {
            Ok(Output::Encoded(algorithm, payload)) => (algorithm, payload),
            Ok(_) => return self.end(Err(Status::Internal)),
            Err(status) => return self.end(Err(status)),
        };
        let Some(bytes) = payload.bytes() else { return self.end(Err(Status::Internal)) };
        self.job.encoded(algorithm, bytes.len() as u64, done.took);
        let payload = match &self.job.task {
            // Little more memory than there are bytes: the encoder's buffer has room for what does not shrink.
            Task::Keep { home: Home::Host(pool, shelf), .. } if !payload.is_shelved() => {
                let len = bytes.len();
                let mut block = shelf.as_ref().map_or_else(|| pool.take(len), |shelf| shelf.block(len));
                block.extend_from_slice(bytes);
                Payload::from_bytes(Bytes::from_owner(block))
            }
            _ => payload,
        };
        self.carry(Coded { algorithm, bytes: payload });
    }

    /// Takes it over the link.
    fn carry(self, coded: Coded) {
        let arrival = self.lane.link.as_ref().map(|link| link.reserve(coded.bytes.capacity()).at());
        let engine = self.lane.engine.clone();
        engine.at(arrival.unwrap_or_else(Instant::now), Box::new(move || self.arrived(coded)));
    }

    fn arrived(self, coded: Coded) {
        let destination = match &self.job.task {
            Task::Copy { destination, .. } | Task::Expand { destination } => destination,
            Task::Keep { home, .. } => {
                let room = home.room(coded.bytes.capacity());
                return self.bring_home(room, coded);
            }
        };
        let (start, len) = self.job.place(self.index);
        let Some(destination) = destination.part(start, len) else {
            return self.end(Err(Status::OutOfBounds));
        };
        let Coded { algorithm, bytes: payload } = coded;
        let work = Work::Decode { payload, algorithm, destination, all_or_nothing: false };
        let engine = self.lane.engine.clone();
        engine.run(work, move |done| self.decoded(len, done.took, done.result));
    }

    /// Keeps it, in the room that it gets if it is to be elsewhere.
    fn bring_home(self, room: Result<Option<HomeRoom>, Status>, coded: Coded) {
        let HomeRoom { destination, kept } = match room {
            Ok(Some(room)) => room,
            Ok(None) => {
                self.job.keep(self.index, coded);
                return self.end(Ok(()));
            }
            Err(status) => return self.end(Err(status)),
        };
        let Coded { algorithm, bytes: payload } = coded;
        // As it is.
        let work = Work::Decode { payload, algorithm: Algorithm::None, destination, all_or_nothing: false };
        let engine = self.lane.engine.clone();
        engine.run(work, move |done| {
            if done.result.is_ok() {
                self.job.keep(self.index, Coded { algorithm, bytes: kept });
            }
            self.end(done.result.map(drop));
        });
    }

    fn decoded(self, raw_bytes: u64, took: Duration, result: Result<Output, Status>) {
        match result {
            Ok(_) => {
                self.job.decoded(raw_bytes, took);
                self.end(Ok(()));
            }
            Err(status) => self.end(Err(status)),
        }
    }

    fn end(mut self, outcome: Result<(), Status>) {
        self.outcome = Some(outcome);
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        match self.outcome {
            Some(Ok(())) => {}
            Some(Err(status)) => self.job.fail(self.index, Some(status)),
            None => self.job.fail(self.index, None),
        }
        self.job.end_segment();
        self.lane.end_segment(&self.job);
    }
}

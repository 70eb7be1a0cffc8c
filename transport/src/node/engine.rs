//! The thread that runs a node: takes in what happens, tells the sessions, and does what they ask.
//!
//! It never waits for anything but the next input: links queue, executors have threads of their own.

use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use super::coding::{Coder, Finished, JobResult};
use super::handle::TransferResult;
use super::peers::PeerBoard;
use crate::executor::Done;
use crate::link::{Link, LinkEvent, Message, SendError};
use crate::message::Rank;
use crate::region::RegionTable;
use crate::session::{Action, Request, RequestId, Session, SessionError, TransferError};

/// Something that happened.
pub(super) enum Input {
    Submit { peer: Rank, request: Request, reply: Sender<TransferResult> },
    Disconnect { peer: Rank },
    Link(LinkEvent),
    Done(Done),
    Stop,
}

pub(super) struct Engine {
    pub(super) link: Box<dyn Link>,
    /// By rank; none for this one.
    pub(super) sessions: Vec<Option<Session>>,
    pub(super) coder: Coder,
    pub(super) regions: Arc<RwLock<RegionTable>>,
    pub(super) board: Arc<PeerBoard>,
    pub(super) replies: HashMap<RequestId, Sender<TransferResult>>,
    pub(super) next_request: u64,
    /// No session needs to hear of the time for longer than this.
    pub(super) tick: Duration,
}

impl Engine {
    pub(super) fn run(mut self, inputs: &Receiver<Input>) {
        self.carry_out_all();
        let mut next_check = Instant::now();
        loop {
            match inputs.recv_timeout(next_check.saturating_duration_since(Instant::now())) {
                Ok(Input::Stop) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(input) => self.take_in(input),
                Err(RecvTimeoutError::Timeout) => {}
            }
            let now = Instant::now();
            if now >= next_check {
                if now - next_check > self.tick {
                    self.excuse_peers(now);
                }
                self.check_time(now);
                next_check = self.next_check(now);
            }
        }
        for session in self.sessions.iter_mut().flatten() {
            session.close(SessionError::Closed);
        }
        self.carry_out_all();
    }

    fn take_in(&mut self, input: Input) {
        match input {
            Input::Submit { peer, request, reply } => self.submit(peer, request, reply),
            Input::Disconnect { peer } => self.tell(peer, |session| session.close(SessionError::Closed)),
            Input::Link(LinkEvent::Message { from, message, credit }) => {
                let regions = self.regions.clone();
                self.tell(from, |session| {
                    let regions = regions.read().unwrap_or_else(PoisonError::into_inner);
                    session.on_message(message.header, message.payload, &regions, Instant::now());
                });
                drop(credit); // looked at: the link may receive more
            }
            Input::Link(LinkEvent::Malformed { from, error }) => {
                self.tell(from, |session| session.on_malformed(error));
            }
            Input::Link(LinkEvent::Closed { peer, error }) => {
                self.tell(peer, |session| session.close(error.into()));
            }
            Input::Done(done) => {
                if let Some(Finished { peer, job, result }) = self.coder.done(done) {
                    self.tell(peer, |session| match result {
                        JobResult::Encoded(result) => session.encoded(job, result),
                        JobResult::Decoded(result) => session.decoded(job, result),
                    });
                }
            }
            Input::Stop => {}
        }
    }

    fn submit(&mut self, peer: Rank, request: Request, reply: Sender<TransferResult>) {
        let position = self.link.position();
        if !position.is_peer(peer) {
            let (last, local) = (position.ranks - 1, position.rank);
            let _ = reply.send(Err(TransferError::NoSuchPeer { peer, last, local }));
            return;
        }
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.replies.insert(id, reply);
        self.tell(peer, |session| session.submit(id, request, Instant::now()));
    }

    /// Tells the session with `peer` something and does what it then asks.
    fn tell(&mut self, peer: Rank, tell: impl FnOnce(&mut Session)) {
        if let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) {
            tell(session);
            self.carry_out(peer);
        }
    }

    fn carry_out_all(&mut self) {
        self.link.position().peers().for_each(|peer| self.carry_out(peer));
    }

    fn carry_out(&mut self, peer: Rank) {
        while let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize)
            && let Some(action) = session.poll_action()
        {
            self.act(peer, action);
        }
        if let Some(Some(session)) = self.sessions.get(peer.0 as usize) {
            self.board.set(peer, session.is_open(), session.error());
        }
    }

    fn act(&mut self, peer: Rank, action: Action) {
        match action {
            Action::Encode { job, source, element, stream, allowed, acknowledged } => {
                let link = self.link.facts(peer);
                self.coder.encode((peer, job), source, element, stream, (allowed, link), acknowledged);
            }
            Action::Decode { job, algorithm, payload, destination } => {
                self.coder.decode((peer, job), algorithm, payload, destination);
            }
            Action::Send { header, payload } => match self.link.send(peer, Message { header, payload }) {
                // A closed link has said why, or is about to.
                Ok(()) | Err(SendError::Closed(_)) => {}
                Err(error) => {
                    if let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) {
                        session.close(error.into());
                    }
                }
            },
            Action::Acknowledged { job } => self.coder.acknowledged((peer, job)),
            Action::Deliver { request, result } => {
                if let Some(reply) = self.replies.remove(&request) {
                    let _ = reply.send(result); // nobody may be waiting any more
                }
            }
            Action::Close { error } => {
                tracing::debug!(%peer, %error, "session over");
                self.coder.forget(peer);
                self.link.close(peer);
            }
        }
    }

    /// This thread did not run for a while, perhaps because the job was suspended. No peer is to blame for what it
    /// could not be heard to say meanwhile.
    fn excuse_peers(&mut self, now: Instant) {
        self.sessions.iter_mut().flatten().for_each(|session| session.on_activity(now));
    }

    fn check_time(&mut self, now: Instant) {
        for peer in self.link.position().peers() {
            let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) else { continue };
            if session.deadline().is_some_and(|deadline| deadline <= now) {
                if session.is_open() && self.link.moved_since(peer, session.last_heard()) {
                    session.on_activity(now);
                }
                session.on_time(now);
                self.carry_out(peer);
            }
        }
    }

    /// A session that starts to wait does so for at least a tick, so looking that often is enough.
    fn next_check(&self, now: Instant) -> Instant {
        let deadlines = self.sessions.iter().flatten().filter_map(Session::deadline);
        deadlines.fold(now + self.tick, Instant::min)
    }
}

//! What the thread that calls MPI does, a step at a time.
//!
//! It reports in the middle of a step. Whoever hears of something may use the link at once, for what the program calls
//! never waits for a step: it only reaches the peers' queues.

use std::ffi::c_int;

use bytes::BytesMut;

use super::error::MpiFailure;
use super::finalizing;
use super::incoming::{Came, Incoming};
use super::outbox::Peer;
use super::outgoing::{Outgoing, Parcel};
use super::raw::{self, Completion};
use crate::link::driving::Headway;
use crate::link::flow::FLUSH_TIMEOUT;
use crate::link::{LinkError, LinkEvent, LinkSink};
use crate::message::Rank;

pub(super) const RECORD_TAG: c_int = 0;
pub(super) const PIECE_TAG: c_int = 1;

/// What MPI is asked to do, and for whom.
pub(super) type Operations = raw::Operations<What>;

#[derive(Debug)]
pub(super) enum What {
    Sent(Rank, Parcel),
    Record(Rank),
    Piece(Rank, u64),
}

/// The link as the thread sees it that calls MPI.
pub(super) struct Progress {
    operations: Operations,
    ways: Vec<Way>,
    /// The longest message that a peer may send.
    record_limit: u64,
    sink: Option<LinkSink>,
    completions: Vec<Completion<What>>,
}

/// Both directions to a peer.
struct Way {
    incoming: Incoming,
    outgoing: Outgoing,
    is_over: bool,
    /// Whether that is because both sides have said farewell: nothing of this peer's can still be on its way.
    has_parted: bool,
}

impl Progress {
    pub(super) fn new(operations: Operations, peers: &[Option<Peer>], record_limit: u64) -> Self {
        let own = Peer::new(Rank(0)); // stands for the one that is no peer
        let ways = peers.iter().map(|peer| Way {
            incoming: Incoming::default(),
            outgoing: Outgoing::new(peer.as_ref().unwrap_or(&own)),
            is_over: peer.is_none(),
            has_parted: peer.is_none(),
        });
        Self { operations, ways: ways.collect(), record_limit, sink: None, completions: Vec::new() }
    }

    /// From now on everything goes to `sink`.
    pub(super) fn report_to(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        if self.sink.is_some() {
            return Err(LinkError::StartedTwice);
        }
        self.sink = Some(sink);
        Ok(())
    }

    pub(super) fn sink(&self) -> Option<LinkSink> {
        self.sink.clone()
    }

    pub(super) fn has_started(&self) -> bool {
        self.sink.is_some()
    }

    /// Does what can be done without waiting. Over when all ways are.
    pub(super) fn step(&mut self, peers: &[Option<Peer>]) -> Headway {
        let mut made = false;
        for peer in peers.iter().flatten() {
            made |= self.post(peer);
        }
        let mut completions = std::mem::take(&mut self.completions);
        if let Err(failure) = self.operations.complete(&mut completions) {
            peers.iter().flatten().for_each(|peer| self.fail(peer, failure.clone()));
        }
        made |= !completions.is_empty();
        for (what, result) in completions.drain(..) {
            self.completed(peers, what, result);
        }
        self.completions = completions;
        if self.ways.iter().all(|way| way.is_over) {
            return Headway::Over;
        }
        if made { Headway::Made } else { Headway::None }
    }

    /// Gives up what is under way. The communicator is given back only if no peer has anything under way either: MPI may use its
    /// number again for one of other ranks, and take for a message of these what then comes.
    pub(super) fn end(self) {
        let have_parted = self.ways.iter().all(|way| way.has_parted);
        match self.operations.end() {
            Some(communicator) if have_parted => finalizing::keep(communicator),
            _ => tracing::debug!("a communicator of MPI is not given back: a peer may still send by it"),
        }
    }

    /// Reports that MPI will be gone, to whoever was not told of an end.
    pub(super) fn finalize(&mut self, peers: &[Option<Peer>]) {
        for peer in peers.iter().flatten() {
            if !self.ways[peer.rank.0 as usize].incoming.is_over() {
                let error = LinkError::MpiFinalized(peer.rank);
                self.report(peer, LinkEvent::Closed { peer: peer.rank, error });
            }
            peer.silence();
            peer.close();
        }
    }

    fn post(&mut self, peer: &Peer) -> bool {
        let way = &mut self.ways[peer.rank.0 as usize];
        if way.is_over {
            return false;
        }
        let is_done = way.incoming.is_over() && way.outgoing.is_over();
        // Its own farewell is waited for as long as what is queued.
        if is_done || peer.closed().is_some_and(|closed| closed.elapsed() > FLUSH_TIMEOUT) {
            way.incoming.stop();
            way.has_parted = way.incoming.has_farewell() && way.outgoing.is_over();
            let _ = way.outgoing.leave(peer, &mut self.operations); // there is nobody to tell of a failure
            way.outgoing.give_up(peer);
            way.is_over = true;
            return true;
        }
        let posted = way.outgoing.post(peer, &mut self.operations);
        let posted = posted.and_then(|sent| Ok(way.incoming.post(peer, &mut self.operations)? || sent));
        posted.unwrap_or_else(|failure| {
            self.fail(peer, failure);
            true
        })
    }

    fn completed(&mut self, peers: &[Option<Peer>], what: What, result: Result<BytesMut, MpiFailure>) {
        let (What::Sent(rank, _) | What::Record(rank) | What::Piece(rank, _)) = what;
        let Some(Some(peer)) = peers.get(rank.0 as usize) else { return };
        let way = &mut self.ways[rank.0 as usize];
        let bytes = match result {
            Ok(bytes) => bytes,
            Err(_) if way.is_over => return,
            Err(failure) => return self.fail(peer, failure),
        };
        let came = match what {
            What::Sent(_, parcel) => {
                way.outgoing.sent(peer, &parcel);
                return;
            }
            What::Record(_) => way.incoming.record(peer, bytes, self.record_limit),
            What::Piece(_, number) => way.incoming.piece(peer, number, bytes),
        };
        match came {
            Came::Part => {}
            Came::Event(event) => {
                if let LinkEvent::Closed { .. } = event {
                    peer.close();
                }
                self.report(peer, event);
            }
            Came::Farewell => {
                peer.clear();
                self.report(peer, LinkEvent::Closed { peer: rank, error: LinkError::PeerClosed(rank) });
            }
        }
    }

    /// Nothing works any more between here and `peer`.
    fn fail(&mut self, peer: &Peer, failure: MpiFailure) {
        let way = &mut self.ways[peer.rank.0 as usize];
        if !std::mem::replace(&mut way.is_over, true) {
            way.incoming.stop();
            way.outgoing.give_up(peer);
            self.report(
                peer,
                LinkEvent::Closed { peer: peer.rank, error: LinkError::mpi(peer.rank, &failure) },
            );
        }
    }

    fn report(&self, peer: &Peer, event: LinkEvent) {
        if let Some(sink) = self.sink.as_ref().filter(|_| !peer.is_silenced()) {
            sink(event);
        }
    }
}

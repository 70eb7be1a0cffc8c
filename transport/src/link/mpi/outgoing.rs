//! Sending to one peer.

use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use bytes::Bytes;

use super::error::MpiFailure;
use super::outbox::Peer;
use super::progress::{Operations, PIECE_TAG, RECORD_TAG, What};
use super::record::{self, PIECE_BYTES};
use crate::link::rate::{Backlog, Buffers, Rate, RateMeter};

/// Records and pieces that MPI has for a peer which has not begun to take them. What MPI keeps in buffers of its own
/// on either side is bounded by this, and a farewell to who is given up.
const UNDER_WAY: usize = 64;
/// The same in bytes.
const BYTES_UNDER_WAY: usize = 8 * PIECE_BYTES;
/// What is shorter is hardly longer under way than what is empty, and says nothing of the rate.
const METERED_BYTES: usize = 256 << 10;

/// One direction, as the thread that calls MPI sees it.
pub(super) struct Outgoing {
    under_way: usize,
    bytes_under_way: usize,
    /// What is still to be sent of the message at hand, and what it counts for in the queue.
    rest: Bytes,
    held_bytes: u64,
    farewell: Farewell,
    meter: RateMeter<Arc<Rate>>,
    /// When the last one was over.
    sent: Instant,
}

/// How far this side is with its last record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    NotYet,
    UnderWay,
    /// The peer has it, or will not get it.
    Over,
}

/// A send under way.
#[derive(Debug)]
pub(super) struct Parcel {
    len: usize,
    /// What the message counts for in the queue, if this is the end of it.
    releases: u64,
    is_farewell: bool,
    since: Instant,
}

impl Outgoing {
    pub(super) fn new(peer: &Peer) -> Self {
        Self {
            under_way: 0,
            bytes_under_way: 0,
            rest: Bytes::new(),
            held_bytes: 0,
            farewell: Farewell::NotYet,
            meter: RateMeter::new(peer.rate.clone(), Buffers::None),
            sent: Instant::now(),
        }
    }

    /// Whether the peer knows that nothing more comes.
    pub(super) fn is_over(&self) -> bool {
        self.farewell == Farewell::Over
    }

    /// Gives MPI as much as it may have. Returns whether there was anything.
    pub(super) fn post(&mut self, peer: &Peer, operations: &mut Operations) -> Result<bool, MpiFailure> {
        let mut made = false;
        while self.farewell == Farewell::NotYet
            && self.under_way < UNDER_WAY
            && self.bytes_under_way < BYTES_UNDER_WAY
        {
            let (bytes, tag) = if self.rest.is_empty() {
                match peer.pop() {
                    Ok(None) => break,
                    Ok(Some(message)) => {
                        self.held_bytes = message.held_bytes();
                        let (record, rest) = record::write(&message.header, message.payload);
                        self.rest = rest;
                        (record, RECORD_TAG)
                    }
                    Err(_) => {
                        self.farewell = Farewell::UnderWay;
                        (record::farewell(), RECORD_TAG)
                    }
                }
            } else {
                (self.rest.split_to(self.rest.len().min(PIECE_BYTES)), PIECE_TAG)
            };
            peer.has_rest.store(!self.rest.is_empty(), Ordering::SeqCst);
            self.hand_on(peer, operations, bytes, tag)?;
            made = true;
        }
        Ok(made)
    }

    /// Says farewell behind what MPI has, though there is more in the queue: a peer that comes back takes that, and shall not wait
    /// for the rest. Not in the middle of a message, whose pieces it would wait for all the same.
    pub(super) fn leave(&mut self, peer: &Peer, operations: &mut Operations) -> Result<(), MpiFailure> {
        if self.farewell != Farewell::NotYet || !self.rest.is_empty() {
            return Ok(());
        }
        self.farewell = Farewell::UnderWay;
        self.hand_on(peer, operations, record::farewell(), RECORD_TAG)
    }

    /// Gives MPI a record or a piece.
    fn hand_on(
        &mut self,
        peer: &Peer,
        operations: &mut Operations,
        bytes: Bytes,
        tag: c_int,
    ) -> Result<(), MpiFailure> {
        let releases = if self.rest.is_empty() { std::mem::take(&mut self.held_bytes) } else { 0 };
        let is_farewell = self.farewell == Farewell::UnderWay;
        let parcel = Parcel { len: bytes.len(), releases, is_farewell, since: Instant::now() };
        self.under_way += 1;
        self.bytes_under_way += bytes.len();
        operations.send(bytes, peer.rank.0, tag, What::Sent(peer.rank, parcel))
    }

    /// The peer has begun to take `parcel`.
    pub(super) fn sent(&mut self, peer: &Peer, parcel: &Parcel) {
        let now = Instant::now();
        self.under_way -= 1;
        self.bytes_under_way -= parcel.len;
        peer.flow.queued.remove(parcel.releases);
        peer.flow.written.note(now);
        let backlog = if self.under_way > 0 { Backlog::Some } else { Backlog::None };
        if parcel.len >= METERED_BYTES || self.meter.is_busy() {
            self.meter.wrote(parcel.len as u64, parcel.since.max(self.sent), now, backlog);
        }
        self.sent = now;
        if parcel.is_farewell {
            self.farewell = Farewell::Over;
        }
    }

    /// Sends nothing more, not even that.
    pub(super) fn give_up(&mut self, peer: &Peer) {
        self.rest = Bytes::new();
        self.farewell = Farewell::Over;
        peer.has_rest.store(false, Ordering::SeqCst);
        peer.clear();
    }
}

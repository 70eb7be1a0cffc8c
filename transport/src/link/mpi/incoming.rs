//! Receiving from one peer.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::error::MpiFailure;
use super::outbox::Peer;
use super::progress::{Operations, PIECE_TAG, RECORD_TAG, What};
use super::record::{self, PIECE_BYTES, RECORD_BYTES, Record, RecordError};
use crate::link::{LinkError, LinkEvent, Message};
use crate::message::Header;
use crate::payload::Payload;

/// Bytes of messages that came and were not looked at yet; no record is received beyond them.
const UNSEEN_BYTES: u64 = 64 << 20;
/// Pieces of a payload that are received at once.
const PIECES: usize = 8;

/// One direction, as the thread that calls MPI sees it.
#[derive(Default)]
pub(super) struct Incoming {
    /// Whether the next record is being received.
    awaits: bool,
    /// Records that came.
    records: u64,
    /// Room for a record.
    spare: Option<BytesMut>,
    assembly: Option<Assembly>,
    is_over: bool,
}

/// A message whose payload comes in pieces.
struct Assembly {
    header: Header,
    payload_len: usize,
    /// What is there of the payload without gaps.
    payload: BytesMut,
    /// Pieces that are being received, from the first one missing on; they may come in any order.
    pieces: VecDeque<Option<BytesMut>>,
    first: u64,
    /// Room for the pieces behind them.
    room: BytesMut,
}

/// What came of something that MPI received.
pub(super) enum Came {
    /// Nothing to tell of yet.
    Part,
    Event(LinkEvent),
    /// The peer says that nothing more comes.
    Farewell,
}

impl Incoming {
    /// Whether nothing more is received.
    pub(super) fn is_over(&self) -> bool {
        self.is_over
    }

    pub(super) fn stop(&mut self) {
        self.is_over = true;
        self.assembly = None;
    }

    /// Has MPI receive what may come next. Returns whether there was anything to do.
    pub(super) fn post(&mut self, peer: &Peer, operations: &mut Operations) -> Result<bool, MpiFailure> {
        if self.is_over {
            return Ok(false);
        }
        if let Some(assembly) = &mut self.assembly {
            return assembly.post(peer, operations);
        }
        // Of a peer that was given up nothing is looked at, and all taken, so that it can come to its end.
        let has_room = peer.unseen_bytes() < UNSEEN_BYTES || peer.is_silenced();
        if self.awaits || !has_room {
            return Ok(false);
        }
        self.awaits = true;
        let room = self.spare.take().unwrap_or_else(|| BytesMut::with_capacity(RECORD_BYTES));
        operations.receive(room, peer.rank.0, RECORD_TAG, What::Record(peer.rank))?;
        Ok(true)
    }

    /// A record came, in messages of at most `limit` bytes.
    pub(super) fn record(&mut self, peer: &Peer, mut room: BytesMut, limit: u64) -> Came {
        if self.is_over {
            return Came::Part; // what was under way when it stopped
        }
        peer.read.note(Instant::now());
        let number = self.records;
        (self.awaits, self.records) = (false, number + 1);
        // Copied, so that a short message that waits to be looked at does not take the room of a long one.
        let bytes = Bytes::copy_from_slice(&room);
        room.clear();
        self.spare = Some(room);
        match record::read(peer.rank, number, bytes, limit) {
            Ok(Record::Message(message)) => Came::Event(self.message(peer, message)),
            Ok(Record::Head { header, payload_len }) => {
                self.assembly = Some(Assembly::new(header, payload_len));
                Came::Part
            }
            Ok(Record::Farewell) => {
                self.stop();
                Came::Farewell
            }
            Err(error) => {
                self.stop();
                Came::Event(match error {
                    RecordError::Message(error) => LinkEvent::Malformed { from: peer.rank, error },
                    RecordError::Link(error) => LinkEvent::Closed { peer: peer.rank, error },
                })
            }
        }
    }

    /// Piece number `number` of the payload came.
    pub(super) fn piece(&mut self, peer: &Peer, number: u64, bytes: BytesMut) -> Came {
        let Some(assembly) = &mut self.assembly else { return Came::Part };
        peer.read.note(Instant::now());
        let expected = assembly.piece_len(number);
        if bytes.len() != expected {
            let (record, got) = (self.records - 1, bytes.len() as u64);
            self.stop();
            let error = LinkError::RecordTruncated { peer: peer.rank, record, got };
            return Came::Event(LinkEvent::Closed { peer: peer.rank, error });
        }
        if !assembly.came(number, bytes) {
            return Came::Part;
        }
        match self.assembly.take() {
            Some(Assembly { header, payload, .. }) => {
                let payload = Payload::from_bytes(payload.freeze());
                Came::Event(self.message(peer, Message { header, payload }))
            }
            None => Came::Part,
        }
    }

    fn message(&self, peer: &Peer, message: Message) -> LinkEvent {
        let credit = peer.credit(message.wire_len());
        LinkEvent::Message { from: peer.rank, message, credit }
    }
}

impl Assembly {
    fn new(header: Header, payload_len: usize) -> Self {
        // At most the limit of a message in address space; the system gives memory only for what arrives.
        let mut room = BytesMut::with_capacity(payload_len);
        drop(room.split_off(payload_len)); // what the allocator gave beyond
        Self { header, payload_len, payload: BytesMut::new(), pieces: VecDeque::new(), first: 0, room }
    }

    fn post(&mut self, peer: &Peer, operations: &mut Operations) -> Result<bool, MpiFailure> {
        let mut made = false;
        while self.pieces.len() < PIECES && self.room.capacity() > 0 {
            let rest = self.room.split_off(self.room.capacity().min(PIECE_BYTES));
            let piece = std::mem::replace(&mut self.room, rest);
            let number = self.first + self.pieces.len() as u64;
            self.pieces.push_back(None);
            operations.receive(piece, peer.rank.0, PIECE_TAG, What::Piece(peer.rank, number))?;
            made = true;
        }
        Ok(made)
    }

    fn piece_len(&self, number: u64) -> usize {
        let before = usize::try_from(number).unwrap_or(usize::MAX).saturating_mul(PIECE_BYTES);
        self.payload_len.saturating_sub(before).min(PIECE_BYTES)
    }

    /// Returns whether the payload is whole with this piece.
    fn came(&mut self, number: u64, bytes: BytesMut) -> bool {
        let index = number.checked_sub(self.first).and_then(|index| usize::try_from(index).ok());
        if let Some(piece) = index.and_then(|index| self.pieces.get_mut(index)) {
            *piece = Some(bytes);
        }
        while let Some(piece) = self.pieces.front_mut().and_then(Option::take) {
            self.pieces.pop_front();
            self.first += 1;
            self.payload.unsplit(piece); // they lie next to each other, so nothing is copied
        }
        self.payload.len() == self.payload_len
    }
}

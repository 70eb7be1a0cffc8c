//! Receiving from one peer.

use std::collections::VecDeque;
use std::time::Instant;

use bytes::{Bytes, BytesMut};

use super::error::MpiFailure;
use super::outbox::Peer;
use super::progress::{Operations, PIECE_TAG, RECORD_TAG, What};
use super::record::{self, Digest, Head, PIECE_BYTES, RECORD_BYTES, Record, RecordError};
use crate::link::{LinkError, LinkEvent, Message};
use crate::payload::Payload;

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
    /// Whether that is because the peer has said that nothing more comes.
    has_farewell: bool,
}

/// A message whose payload comes in pieces.
struct Assembly {
    head: Head,
    /// What is there of the payload without gaps, and its checksum.
    payload: BytesMut,
    digest: Digest,
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

    /// Whether nothing more is received because the peer has said farewell.
    pub(super) fn has_farewell(&self) -> bool {
        self.has_farewell
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
        let has_room = peer.window.is_open() || peer.is_silenced();
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
        peer.flow.read.note(Instant::now());
        let number = self.records;
        (self.awaits, self.records) = (false, number + 1);
        // Copied, so that a short message that waits to be looked at does not take the room of a long one.
        let bytes = Bytes::copy_from_slice(&room);
        room.clear();
        self.spare = Some(room);
        match record::read(peer.rank, number, bytes, limit) {
            Ok(Record::Message(message)) => Came::Event(self.message(peer, message)),
            Ok(Record::Head(head)) => {
                self.assembly = Some(Assembly::new(head));
                Came::Part
            }
            Ok(Record::Farewell) => {
                self.has_farewell = true;
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
        peer.flow.read.note(Instant::now());
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
        match self.assembly.take().map(Assembly::end) {
            Some(Ok(message)) => Came::Event(self.message(peer, message)),
            Some(Err((stored, computed))) => {
                let (peer, record) = (peer.rank, self.records - 1);
                self.stop();
                let error = LinkError::Checksum { peer, record, stored, computed };
                Came::Event(LinkEvent::Closed { peer, error })
            }
            None => Came::Part,
        }
    }

    fn message(&self, peer: &Peer, message: Message) -> LinkEvent {
        let credit = peer.window.credit(message.wire_len());
        LinkEvent::Message { from: peer.rank, message, credit }
    }
}

impl Assembly {
    fn new(head: Head) -> Self {
        // At most the limit of a message in address space; the system gives memory only for what arrives.
        let mut room = BytesMut::with_capacity(head.payload_len);
        drop(room.split_off(head.payload_len)); // what the allocator gave beyond
        let (payload, digest) = (BytesMut::new(), Digest::new());
        Self { head, payload, digest, pieces: VecDeque::new(), first: 0, room }
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
        self.head.payload_len.saturating_sub(before).min(PIECE_BYTES)
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
            self.digest.update(&piece);
            self.payload.unsplit(piece); // they lie next to each other, so nothing is copied
        }
        self.payload.len() == self.head.payload_len
    }

    /// The message, all of which is there; else the checksum that it should have and the one that it has.
    fn end(self) -> Result<Message, (u32, u32)> {
        let (stored, computed) = (self.head.checksum, self.digest.checksum());
        if computed != stored {
            return Err((stored, computed));
        }
        Ok(Message { header: self.head.header, payload: Payload::from_bytes(self.payload.freeze()) })
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::Algorithm;

    use super::*;
    use crate::message::{Header, MessageId, Rank, Tag, TaggedSend};

    const LEN: usize = 2 * PIECE_BYTES + 77;

    /// What comes of a payload whose pieces come in this order, with one bit flipped if any is to be.
    fn assemble(order: [u64; 3], flipped: Option<usize>) -> Result<Message, (u32, u32)> {
        let send = TaggedSend {
            id: MessageId(7),
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag: Tag(9),
            length: LEN as u32,
        };
        let mut bytes: Vec<u8> = (0..LEN).map(|at| ((at * at) >> 7) as u8).collect();
        let (record, _) = record::write(&Header::TaggedSend(send), bytes.clone().into());
        let Ok(Record::Head(head)) = record::read(Rank(3), 0, record, 1 << 30) else { panic!("no head") };
        if let Some(bit) = flipped {
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        let mut assembly = Assembly::new(head);
        let mut room = std::mem::take(&mut assembly.room);
        let mut pieces: Vec<_> = bytes
            .chunks(PIECE_BYTES)
            .map(|bytes| {
                let rest = room.split_off(bytes.len());
                let mut piece = std::mem::replace(&mut room, rest);
                piece.extend_from_slice(bytes);
                assembly.pieces.push_back(None);
                Some(piece)
            })
            .collect();
        for (place, number) in order.into_iter().enumerate() {
            let piece = pieces[number as usize].take().unwrap();
            assert_eq!(piece.len(), assembly.piece_len(number));
            assert_eq!(assembly.came(number, piece), place == 2);
        }
        assembly.end()
    }

    #[test]
    fn pieces_may_come_in_any_order() {
        for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0], [0, 2, 1]] {
            let message = assemble(order, None).unwrap();
            let bytes = message.payload.bytes().unwrap();
            assert!(
                bytes.len() == LEN && bytes.iter().enumerate().all(|(at, &b)| b == ((at * at) >> 7) as u8)
            );
        }
    }

    #[test]
    fn a_flipped_bit_is_found_in_every_piece() {
        for bit in [0, 8 * PIECE_BYTES - 1, 8 * PIECE_BYTES, 16 * PIECE_BYTES + 5, 8 * LEN - 1] {
            let (stored, computed) = assemble([1, 0, 2], Some(bit)).unwrap_err();
            assert_ne!(stored, computed, "bit {bit}");
        }
    }
}

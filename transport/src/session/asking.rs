//! What a session does about the program's own requests.

use mgcomp_codecs::Algorithm;

use super::action::{Action, Encoded, JobId, Purpose, Stream};
use super::error::{SessionError, TransferError, Violation};
use super::lanes::Lane;
use super::request::{Completion, Request};
use super::requester::{Ended, Leaving, Stage, Started};
use super::{Job, Phase, Session, check_payload};
use crate::message::{
    DataReady, Fetch, GivingUp, Header, MessageId, Offer, OfferAck, OfferId, ReadRequest, Status, TaggedSend,
    WriteAck, WriteRequest,
};
use crate::payload::Payload;

impl Session {
    pub(super) fn check(&self, request: &Request) -> Result<(), TransferError> {
        let len = request.memory().capacity();
        match request {
            Request::Read { from: address, .. } | Request::Write { to: address, .. } => {
                let last = len.saturating_sub(1);
                address
                    .checked_add(last)
                    .map(|_| ())
                    .ok_or(TransferError::AddressRange { address: address.bits(), len })
            }
            Request::Send { .. } | Request::Receive { .. } => Ok(()),
        }
    }

    pub(super) fn on_data(&mut self, answer: DataReady, payload: Payload) -> Result<(), SessionError> {
        let DataReady { id, algorithm, status } = answer;
        if self.requester.end_probe(id) {
            return Ok(check_payload(&payload, 0)?);
        }
        let piece = self.requester.piece(id).filter(|piece| matches!(piece.stage, Stage::AwaitingData));
        let piece = piece.ok_or(Violation::NoSuchRequest(id))?;
        if !status.is_good() {
            let piece = piece.clone();
            let result = self.answered(status, self.requester.request(&piece));
            self.finish(id, result);
            return Ok(());
        }
        check_payload(&payload, piece.length)?;
        piece.stage = Stage::Decoding;
        let piece = piece.clone();
        let memory = self.requester.request(&piece).map(Request::memory);
        match memory.and_then(|memory| memory.part(piece.offset, u64::from(piece.length))) {
            Some(into) => {
                let is_read = matches!(self.requester.request(&piece), Some(Request::Read { .. }));
                let read = self.requester.asked_by(&piece).filter(|_| is_read);
                self.decode(Job::DecodePiece(id), algorithm, payload, into, read);
            }
            None => self.finish(id, Err(TransferError::Encode(Status::Internal))),
        }
        Ok(())
    }

    pub(super) fn on_ack(&mut self, answer: WriteAck) -> Result<(), SessionError> {
        let WriteAck { id, status } = answer;
        let piece = self.requester.piece(id).filter(|piece| matches!(piece.stage, Stage::AwaitingAck));
        let piece = piece.ok_or(Violation::NoSuchRequest(id))?;
        // A send is acknowledged when it is received, and how long that takes is the program's affair.
        if let (Some(job), Lane::Memory) = (piece.encoded_by, piece.lane) {
            self.actions.push(Action::Acknowledged { job });
        }
        let result = if status.is_good() {
            Ok(())
        } else {
            let piece = piece.clone();
            self.answered(status, self.requester.request(&piece))
        };
        self.finish(id, result);
        Ok(())
    }

    pub(super) fn on_offer_ack(&mut self, answer: OfferAck) -> Result<(), SessionError> {
        let result = self.answered(answer.status, self.requester.offered(answer.offer).map(|(_, send)| send));
        if let Some(Ended { finished: Some(finished), .. }) =
            self.requester.finish_offer(answer.offer, result)?
        {
            self.deliver(finished);
        }
        Ok(())
    }

    /// What an answer with this status says of the request. A peer that does not take its part of a group's operation gives that up.
    fn answered(&self, status: Status, request: Option<&Request>) -> Result<(), TransferError> {
        let peer = self.config.peer;
        if status.is_good() {
            Ok(())
        } else if request.and_then(Request::tag).and_then(GivingUp::operation_of).is_some() {
            Err(TransferError::GivenUp { peer, status })
        } else {
            Err(TransferError::Refused { peer, status })
        }
    }

    /// Starts as many pieces as the peer's limits allow.
    pub(super) fn start_pieces(&mut self) {
        let Phase::Open { limits, .. } = self.phase else { return };
        // The link takes no answer that is longer than what this side takes. Pieces of writes are as long, for they are cut alike.
        let piece_bytes = self.config.piece_bytes.min(self.config.limits.max_transfer_bytes);
        while let Some(started) = self.requester.start_piece(limits, piece_bytes, self.now) {
            match started {
                Started::Piece(id, request) => self.start_piece(id, &request),
                Started::Offer => self.send_held(),
            }
        }
    }

    fn start_piece(&mut self, id: MessageId, request: &Request) {
        let Some(piece) = self.requester.piece(id).cloned() else { return };
        let (offset, length) = (piece.offset, piece.length);
        match *request {
            Request::Read { from, raw, .. } => match from.checked_add(offset) {
                Some(address) => {
                    let read = ReadRequest { id, address, length, raw };
                    self.send(Header::ReadRequest(read), Payload::empty());
                }
                None => self.finish(id, Err(TransferError::Encode(Status::Internal))),
            },
            Request::Write { ref from, element, to } => {
                let part = from.part(offset, u64::from(length));
                let asked_by = self.requester.asked_by(&piece);
                let (Some(part), Some(address), Some(request)) = (part, to.checked_add(offset), asked_by)
                else {
                    return self.finish(id, Err(TransferError::Encode(Status::Internal)));
                };
                let job = self.job(Job::EncodePiece(id));
                let overlaps = from.capacity() > u64::from(length);
                self.encode(job, (part, element), address.into(), Purpose::Write { request }, overlaps);
            }
            Request::Send { ref from, element, tag, part_of, .. } => {
                let Some(request) = self.requester.asked_by(&piece) else {
                    return self.finish(id, Err(TransferError::Encode(Status::Internal)));
                };
                let job = self.job(Job::EncodePiece(id));
                let (source, purpose) = ((from.clone(), element), Purpose::Send { request });
                self.encode(job, source, Stream::Tag(tag), purpose, part_of.is_some());
            }
            Request::Receive { .. } => match self.requester.fetches(id) {
                Some(offer) => {
                    self.send(Header::Fetch(Fetch { id, offer, offset, length }), Payload::empty());
                }
                None => self.finish(id, Err(TransferError::Encode(Status::Internal))),
            },
        }
    }

    pub(super) fn piece_encoded(&mut self, id: MessageId, job: JobId, result: Encoded) {
        let (algorithm, payload) = match result {
            Ok(encoded) => encoded,
            Err(status) => return self.not_encoded(id, status),
        };
        let Some(piece) = self.requester.piece(id) else { return };
        (piece.stage, piece.encoded_by) = (Stage::AwaitingAck, Some(job));
        let (offset, length) = (piece.offset, piece.length);
        if piece.lane.is_tagged() {
            piece.stage = Stage::Held(algorithm, payload);
            return self.send_held();
        }
        let piece = piece.clone();
        if let Some(&Request::Write { to, .. }) = self.requester.request(&piece)
            && let Some(address) = to.checked_add(offset)
        {
            self.send(Header::WriteRequest(WriteRequest { id, address, length, algorithm }), payload);
        }
    }

    /// A message of several sends must not lose one: what comes behind it would take its place. So the peer is told of that one.
    fn not_encoded(&mut self, id: MessageId, status: Status) {
        let request = self.requester.piece(id).cloned().and_then(|piece| self.requester.request(&piece));
        let is_of_message = match request {
            Some(Request::Send { part_of, continued, .. }) => part_of.is_some() || *continued,
            _ => false,
        };
        let Phase::Open { limits, .. } = self.phase else { return };
        if !is_of_message {
            self.finish(id, Err(TransferError::Encode(status)));
        } else if self.requester.offer_instead(id, limits) {
            self.send_held();
        } else {
            self.close(SessionError::Closed);
        }
    }

    /// Sends what is encoded, or to be offered, and has no earlier send before it.
    fn send_held(&mut self) {
        while let Some(leaving) = self.requester.next_leaving() {
            match leaving {
                Leaving::Send(id, algorithm, payload) => self.send_tagged(id, algorithm, payload),
                Leaving::Offer(offer) => self.send_offer(offer),
            }
        }
    }

    fn send_tagged(&mut self, id: MessageId, algorithm: Algorithm, payload: Payload) {
        let Some(piece) = self.requester.piece(id).cloned() else { return };
        if let Some(&Request::Send { tag, completion, continued, .. }) = self.requester.request(&piece) {
            let unawaited = completion == Completion::Local;
            let send = TaggedSend { id, algorithm, continued, unawaited, tag, length: piece.length };
            self.send(Header::TaggedSend(send), payload);
        }
    }

    fn send_offer(&mut self, offer: OfferId) {
        if let Some((&Request::Send { tag, continued, .. }, length)) = self.requester.tell_offer(offer) {
            self.send(Header::Offer(Offer { offer, continued, tag, length }), Payload::empty());
        }
    }

    /// A tagged send, as an [`Action::Send`], is out of this side's hands: its memory is not used any more, and the peer gets
    /// it even if this side ends.
    pub fn written(&mut self, id: MessageId) {
        if let Some(finished) = self.requester.written(id) {
            self.deliver(finished);
        }
    }

    pub(super) fn finish(&mut self, id: MessageId, result: Result<(), TransferError>) {
        if let Some(Ended { finished: Some(finished), fetched }) = self.requester.finish(id, result) {
            if let Some(offer) = fetched {
                self.acknowledge_offer(offer, status_of(&finished.1));
            }
            self.deliver(finished);
        }
        self.send_held(); // a failed send may have been what others waited for
    }
}

/// What the peer is told of a receive that ended so.
fn status_of(result: &Result<u64, TransferError>) -> Status {
    match result {
        Ok(_) => Status::Good,
        Err(TransferError::Unusable { status, .. } | TransferError::GivenUp { status, .. }) => *status,
        Err(_) => Status::Internal,
    }
}

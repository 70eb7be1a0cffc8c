//! What a session does when the peer asks.

use mgcomp_codecs::Algorithm;

use super::action::{Action, Encoded, JobId, Purpose, Stream};
use super::error::{SessionError, TransferError, Violation};
use super::inbox::{Arrival, Begun, Posted, Sent};
use super::lanes::Lane;
use super::request::{Owner, Request};
use super::{Job, Phase, Session, check_payload};
use crate::message::{
    DataReady, Fetch, GivingUp, Header, MessageId, Offer, OfferAck, OfferId, ReadRequest, Status, Tag,
    TaggedSend, WriteAck, WriteRequest,
};
use crate::payload::Payload;
use crate::region::{Operation, RegionTable};

/// Answers may wait for as many sends, and for as much of the window, as this part of what the peer may have in flight.
const HELD_SHARE: u32 = 8;

impl Session {
    pub(super) fn on_read(
        &mut self,
        request: ReadRequest,
        regions: &RegionTable,
    ) -> Result<(), SessionError> {
        let ReadRequest { id, address, length, raw } = request;
        self.admit(id, Lane::Memory, length)?;
        if length == 0 {
            // A read of no bytes asks whether anybody is there.
            self.answer_read(id, Status::Good);
        } else if length > self.config.limits.max_transfer_bytes {
            self.answer_read(id, Status::TooLong);
        } else {
            match regions.grant(self.config.peer, Operation::Read, address, length) {
                Ok(grant) => {
                    let job = self.job(Job::EncodeAnswer(id));
                    let overlaps = self.responder.serves_others();
                    self.encode(
                        job,
                        (grant.memory, grant.element),
                        address.into(),
                        Purpose::Answer { raw },
                        overlaps,
                    );
                }
                Err(status) => self.answer_read(id, status),
            }
        }
        Ok(())
    }

    pub(super) fn on_write(
        &mut self,
        request: WriteRequest,
        payload: Payload,
        regions: &RegionTable,
    ) -> Result<(), SessionError> {
        let WriteRequest { id, address, length, algorithm } = request;
        self.admit(id, Lane::Memory, length)?;
        if length > self.config.limits.max_transfer_bytes {
            self.acknowledge(id, Status::TooLong);
            return Ok(());
        }
        check_payload(&payload, length)?;
        match regions.grant(self.config.peer, Operation::Write, address, length) {
            Ok(grant) => self.decode(Job::DecodeWrite(id), algorithm, payload, grant.memory, None),
            Err(status) => self.acknowledge(id, status),
        }
        Ok(())
    }

    pub(super) fn on_send(&mut self, send: TaggedSend, payload: Payload) -> Result<(), SessionError> {
        let TaggedSend { id, algorithm, continued, unawaited, tag, length } = send;
        self.admit(id, Lane::Tagged, length)?;
        if length > self.config.limits.max_transfer_bytes {
            self.acknowledge(id, Status::TooLong);
            return Ok(());
        }
        check_payload(&payload, length)?;
        if let Some(given_up) = GivingUp::of(tag).filter(|_| length == 0) {
            self.hear_giving_up(given_up);
            self.acknowledge_send(id, length, unawaited);
            return Ok(());
        }
        self.arrive(tag, Arrival::Sent(Sent { id, unawaited, algorithm, continued, length, payload }));
        Ok(())
    }

    pub(super) fn on_offer(&mut self, offer: Offer) -> Result<(), SessionError> {
        let Offer { offer, continued, tag, length } = offer;
        self.responder.admit_offer(offer, self.config.limits)?;
        if let Some(given_up) = GivingUp::of(tag).filter(|_| length == 0) {
            self.hear_giving_up(given_up);
            self.acknowledge_offer(offer, Status::Good);
            return Ok(());
        }
        self.arrive(tag, Arrival::Offered { offer, length, continued });
        Ok(())
    }

    fn hear_giving_up(&mut self, given_up: GivingUp) {
        self.forget_group(given_up.group);
        self.actions.push(Action::GivenUp(given_up));
    }

    /// Brings a send or an offer together with its receive, if there is one.
    fn arrive(&mut self, tag: Tag, arrival: Arrival) {
        if let Some(status) = self.refusal_of(tag) {
            self.turn_away(arrival, status);
        } else if let Some((arrival, posted)) = self.inbox.arrive(tag, arrival)
            && let Some(posted) = self.receive(tag, arrival, posted)
        {
            self.inbox.post_again(tag, posted);
        }
    }

    /// The peer wants bytes of a send that it was offered.
    pub(super) fn on_fetch(&mut self, fetch: Fetch) -> Result<(), SessionError> {
        let Fetch { id, offer, offset, length } = fetch;
        let Some((request, &Request::Send { ref from, element, tag, part_of, .. })) =
            self.requester.offered(offer)
        else {
            return Err(Violation::NoSuchOffer(offer).into());
        };
        let part = from.part(offset, u64::from(length));
        let let_go = self.requester.let_go(offer);
        let overlaps = part_of.is_some() || from.capacity() > u64::from(length);
        self.admit(id, Lane::Memory, length)?;
        if let Some(status) = let_go {
            self.answer_read(id, status);
        } else if length > self.config.limits.max_transfer_bytes {
            self.answer_read(id, Status::TooLong);
        } else if let Some(part) = part {
            self.requester.offers().begin_fetch(offer);
            let job = self.job(Job::EncodeFetched { id, offer });
            self.encode(job, (part, element), Stream::Tag(tag), Purpose::Send { request }, overlaps);
        } else {
            self.answer_read(id, Status::OutOfBounds);
        }
        Ok(())
    }

    /// Brings a receive together with what has arrived for it; returns it if it waits for more.
    pub(super) fn receive_arrived(&mut self, tag: Tag, mut posted: Posted) -> Option<Posted> {
        while let Some(arrival) = self.inbox.take_arrived(tag) {
            posted = self.receive(tag, arrival, posted)?;
        }
        Some(posted)
    }

    /// A send or an offer with `tag` has come together with a receive; returns that if more is to come for it.
    fn receive(&mut self, tag: Tag, arrival: Arrival, posted: Posted) -> Option<Posted> {
        let Posted { request, into, begun } = posted;
        let (len, continued) = arrival.extent();
        let filled = begun.map_or(0, |begun| begun.filled);
        let owner = match begun {
            None if !continued => Owner::Request(request),
            _ => {
                let number = begun.map_or_else(|| self.messages.begin(request), |begun| begun.number);
                self.messages.add_part(number, len, !continued);
                Owner::Part(number)
            }
        };
        self.receive_part(tag, arrival, (owner, &into, filled));
        let Owner::Part(number) = owner else { return None };
        let begun = Some(Begun { number, filled: filled.saturating_add(len) });
        continued.then_some(Posted { request, into, begun })
    }

    fn receive_part(&mut self, tag: Tag, arrival: Arrival, (owner, into, filled): (Owner, &Payload, u64)) {
        let (len, _) = arrival.extent();
        let part = into.part(filled, len);
        if part.is_none() {
            let (peer, capacity) = (self.config.peer, into.capacity());
            self.deliver((owner, Err(TransferError::BufferTooSmall { peer, len, capacity })));
        }
        match (arrival, part) {
            (Arrival::Sent(Sent { id, unawaited, algorithm, length, payload, .. }), Some(into)) => {
                let job = Job::DecodeSend { id, unawaited, receive: owner, length };
                self.decode(job, algorithm, payload, into, None);
            }
            (Arrival::Sent(Sent { id, .. }), None) => self.acknowledge(id, Status::ReceiveTooSmall),
            (Arrival::Offered { offer, .. }, Some(into)) => {
                self.requester.fetch(owner, Request::Receive { tag, into }, offer);
            }
            (Arrival::Offered { offer, .. }, None) => self.acknowledge_offer(offer, Status::ReceiveTooSmall),
        }
    }

    /// Takes in a request of the peer, if it may make one more.
    fn admit(&mut self, id: MessageId, lane: Lane, length: u32) -> Result<(), SessionError> {
        let limits = self.config.limits;
        // What is too long is answered at once with a status, so it does not count against the window.
        let held = if length > limits.max_transfer_bytes { 0 } else { length };
        Ok(self.responder.admit(id, lane, held, limits)?)
    }

    /// Answers a read or a fetch with what was encoded for it.
    pub(super) fn answer_with(&mut self, id: MessageId, job: JobId, result: Encoded) {
        let (algorithm, payload, status) = match result {
            Ok((algorithm, payload)) => {
                if algorithm != Algorithm::None {
                    self.decode_times.answered(id, job);
                }
                (algorithm, payload, Status::Good)
            }
            Err(status) => (Algorithm::None, Payload::empty(), status),
        };
        self.responder.answered(id);
        self.send(Header::DataReady(DataReady { id, algorithm, status }), payload);
    }

    fn answer_read(&mut self, id: MessageId, status: Status) {
        self.responder.answered(id);
        self.send(Header::DataReady(DataReady { id, algorithm: Algorithm::None, status }), Payload::empty());
    }

    pub(super) fn acknowledge_offer(&mut self, offer: OfferId, status: Status) {
        self.responder.answered_offer(offer);
        self.send(Header::OfferAck(OfferAck { status, offer }), Payload::empty());
    }

    /// Acknowledges a send of `length` bytes that was received. The sender of one that is `unawaited` has gone on, so the answer
    /// goes out with what is sent next, unless so much waits for answers that the sender may soon have to.
    pub(super) fn acknowledge_send(&mut self, id: MessageId, length: u32, unawaited: bool) {
        let Phase::Open { limits, .. } = self.phase else { return };
        let most = self.config.limits;
        let held = (self.held_acks.0 + 1, self.held_acks.1 + u64::from(length));
        let may_wait = held.0 <= most.max_in_flight / HELD_SHARE
            && held.1 <= limits.window_bytes.min(most.window_bytes) / u64::from(HELD_SHARE);
        if !unawaited || !may_wait {
            return self.acknowledge(id, Status::Good);
        }
        self.held_acks = held;
        self.responder.answered(id);
        let header = Header::WriteAck(WriteAck { id, status: Status::Good });
        self.actions.push(Action::Send { header, payload: Payload::empty(), with_next: true });
    }

    pub(super) fn acknowledge(&mut self, id: MessageId, status: Status) {
        self.responder.answered(id);
        self.send(Header::WriteAck(WriteAck { id, status }), Payload::empty());
    }
}

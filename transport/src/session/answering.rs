//! What a session does when the peer asks.

use mgcomp_codecs::Algorithm;

use super::action::Purpose;
use super::error::{SessionError, TransferError};
use super::inbox::{Arrival, Posted};
use super::requester::Lane;
use super::{Job, Session, check_payload};
use crate::message::{DataReady, Header, MessageId, ReadRequest, Status, TaggedSend, WriteAck, WriteRequest};
use crate::payload::Payload;
use crate::region::{Operation, RegionTable};

impl Session {
    pub(super) fn on_read(
        &mut self,
        request: ReadRequest,
        regions: &RegionTable,
    ) -> Result<(), SessionError> {
        let ReadRequest { id, address, length } = request;
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
                    self.encode(job, grant.memory, grant.element, address.into(), Purpose::Answer);
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
            Ok(grant) => self.decode(Job::DecodeWrite(id), algorithm, payload, grant.memory),
            Err(status) => self.acknowledge(id, status),
        }
        Ok(())
    }

    pub(super) fn on_send(&mut self, send: TaggedSend, payload: Payload) -> Result<(), SessionError> {
        let TaggedSend { id, algorithm, tag, length } = send;
        self.admit(id, Lane::Tagged, length)?;
        if length > self.config.limits.max_transfer_bytes {
            self.acknowledge(id, Status::TooLong);
            return Ok(());
        }
        check_payload(&payload, length)?;
        if let Some((arrival, posted)) = self.inbox.arrive(tag, Arrival { id, algorithm, length, payload }) {
            self.receive(arrival, posted);
        }
        Ok(())
    }

    pub(super) fn receive(&mut self, arrival: Arrival, posted: Posted) {
        let Arrival { id, algorithm, length, payload } = arrival;
        match posted.into.part(0, u64::from(length)) {
            Some(destination) => {
                let job = Job::DecodeSend { id, receive: posted.request, length };
                self.decode(job, algorithm, payload, destination);
            }
            None => {
                self.acknowledge(id, Status::ReceiveTooSmall);
                let (peer, len, capacity) = (self.config.peer, u64::from(length), posted.into.capacity());
                self.deliver((posted.request, Err(TransferError::BufferTooSmall { peer, len, capacity })));
            }
        }
    }

    /// Takes in a request of the peer, if it may make one more.
    fn admit(&mut self, id: MessageId, lane: Lane, length: u32) -> Result<(), SessionError> {
        let limits = self.config.limits;
        // What is too long is answered at once with a status, so it does not count against the window.
        let held = if length > limits.max_transfer_bytes { 0 } else { length };
        Ok(self.responder.admit(id, lane, held, limits)?)
    }

    fn answer_read(&mut self, id: MessageId, status: Status) {
        self.responder.answered(id);
        self.send(Header::DataReady(DataReady { id, algorithm: Algorithm::None, status }), Payload::empty());
    }

    pub(super) fn acknowledge(&mut self, id: MessageId, status: Status) {
        self.responder.answered(id);
        self.send(Header::WriteAck(WriteAck { id, status }), Payload::empty());
    }
}

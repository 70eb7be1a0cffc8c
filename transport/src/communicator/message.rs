//! Messages by tag between two members.
//!
//! A message shorter than a part is one send. A longer one is its first part, then the length of the rest in eight
//! bytes, then the other parts, all under one tag; so the receiver knows when to expect more, and may have room for
//! less. Both may be in any memory, each in its own.

use std::sync::Arc;

use mgcomp_codecs::Element;

use super::transfer::{PART_BYTES, Transfers, parts};
use super::{Communicator, CommunicatorError, Group};
use crate::memory::{AnySlice, HostBuffer, Slice};
use crate::message::Tag;
use crate::node::{Handle, TransferResult};
use crate::session::{Completion, TransferError};

/// Bytes that say how long the rest of a message is.
const REST_BYTES: usize = 8;

/// A send under way. Its buffer is not to be changed before it is finished; dropping it does not stop it.
#[derive(Debug)]
pub struct SendRequest {
    transfers: Transfers,
}

/// A receive under way. A message of several parts goes on arriving while somebody waits for it or asks.
#[derive(Debug)]
pub struct ReceiveRequest {
    group: Arc<Group>,
    from: usize,
    tag: Tag,
    into: Slice,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    First(Handle),
    /// The length of the rest.
    Length(Handle, HostBuffer),
    Rest(Transfers, u64),
    Done(Result<u64, CommunicatorError>),
}

impl Communicator {
    /// Sends `from`, values of `element`, to the receive of `to` with this tag. Returns when it was received, so two
    /// members that send to each other first both wait: use [`send_receive`](Self::send_receive), or
    /// [`start_send`](Self::start_send).
    ///
    /// # Errors
    /// [`CommunicatorError`] if there is no such member or the transfer fails.
    pub fn send(
        &self,
        to: u32,
        tag: u32,
        from: &impl AnySlice,
        element: Element,
    ) -> Result<(), CommunicatorError> {
        self.start_send(to, tag, from, element)?.wait()
    }

    /// As [`send`](Self::send), without waiting. Messages to one member with one tag arrive in order.
    ///
    /// # Errors
    /// [`CommunicatorError::Rank`] if there is no such member.
    pub fn start_send(
        &self,
        to: u32,
        tag: u32,
        from: &impl AnySlice,
        element: Element,
    ) -> Result<SendRequest, CommunicatorError> {
        let (group, from): (_, Slice) = (&*self.group, from.clone().into());
        let to = group.check_rank(to)?;
        let (peer, tag) = (group.members[to], group.message_tag(tag));
        let is_part = from.len() > PART_BYTES;
        let send =
            |slice, element| group.node.start_send(peer, tag, (slice, element), Completion::Remote, is_part);
        let mut transfers = Transfers::default();
        if from.is_empty() {
            transfers.send(send(from.clone(), element));
        }
        for (part, number) in parts(&from, PART_BYTES).zip(0..) {
            if number == 1 {
                transfers.send(send(rest_len(&from).all().into(), Element::U64));
            }
            transfers.send(send(part, element));
        }
        if from.len() == PART_BYTES {
            transfers.send(send(rest_len(&from).all().into(), Element::U64));
        }
        Ok(SendRequest { transfers })
    }

    /// Receives the next message of `from` with this tag into the front of `into`. Returns its length in bytes.
    ///
    /// # Errors
    /// [`CommunicatorError`] if there is no such member, the transfer fails, or the message is longer than `into`: it
    /// is lost then, and the one after it is the next.
    pub fn receive(&self, from: u32, tag: u32, into: &impl AnySlice) -> Result<u64, CommunicatorError> {
        self.start_receive(from, tag, into)?.wait()
    }

    /// As [`receive`](Self::receive), without waiting. Of two receives from one member with one tag, the first is to
    /// be waited for first.
    ///
    /// # Errors
    /// [`CommunicatorError::Rank`] if there is no such member.
    pub fn start_receive(
        &self,
        from: u32,
        tag: u32,
        into: &impl AnySlice,
    ) -> Result<ReceiveRequest, CommunicatorError> {
        let (group, into): (_, Slice) = (self.group.clone(), into.clone().into());
        let from = group.check_rank(from)?;
        let tag = group.message_tag(tag);
        let first = into.part(0, PART_BYTES.min(into.len())).unwrap_or_else(|| into.clone());
        let first = group.node.receive(group.members[from], tag, first);
        Ok(ReceiveRequest { group, from, tag, into, stage: Stage::First(first) })
    }

    /// Sends `send` to `to` and meanwhile receives from `from` into `receive`. Returns the bytes received.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive).
    pub fn send_receive(
        &self,
        (to, send): (u32, &impl AnySlice),
        (from, receive): (u32, &impl AnySlice),
        tag: u32,
        element: Element,
    ) -> Result<u64, CommunicatorError> {
        let receiving = self.start_receive(from, tag, receive)?;
        let sending = self.start_send(to, tag, send, element)?;
        let received = receiving.wait();
        sending.wait()?;
        received
    }
}

/// What follows the first part, in eight bytes.
fn rest_len(message: &Slice) -> HostBuffer {
    HostBuffer::from(((message.len() - PART_BYTES) as u64).to_le_bytes().to_vec())
}

impl SendRequest {
    /// Waits until the message was received.
    ///
    /// # Errors
    /// [`CommunicatorError`] if the transfer failed.
    pub fn wait(self) -> Result<(), CommunicatorError> {
        self.transfers.wait()
    }

    /// Whether the message was received, or the transfer failed.
    pub fn is_finished(&mut self) -> bool {
        self.transfers.are_finished()
    }
}

impl ReceiveRequest {
    /// Waits until the message is there. Returns its length in bytes.
    ///
    /// # Errors
    /// As [`Communicator::receive`].
    pub fn wait(mut self) -> Result<u64, CommunicatorError> {
        loop {
            match self.stage {
                Stage::Done(result) => return result,
                _ => self.go_on(),
            }
        }
    }

    /// Whether the message is there, or will not come.
    pub fn is_finished(&mut self) -> bool {
        loop {
            let ready = match &mut self.stage {
                Stage::First(handle) | Stage::Length(handle, _) => handle.is_finished(),
                Stage::Rest(transfers, _) => transfers.are_finished(),
                Stage::Done(_) => return true,
            };
            if !ready {
                return false;
            }
            self.go_on();
        }
    }

    /// Waits for the stage that it is at, and goes on to the next.
    fn go_on(&mut self) {
        let meanwhile = Stage::Done(Err(TransferError::NodeClosed.into()));
        self.stage = match std::mem::replace(&mut self.stage, meanwhile) {
            Stage::First(handle) => self.after_first(handle.wait()),
            Stage::Length(handle, length) => self.after_length(handle.wait(), &length),
            Stage::Rest(transfers, len) => Stage::Done(transfers.wait().map(|()| len)),
            done @ Stage::Done(_) => done,
        };
    }

    fn after_first(&self, received: TransferResult) -> Stage {
        let part_bytes = PART_BYTES as u64;
        let more = match &received {
            Ok(len) => *len == part_bytes,
            // The first part of a message that is longer than the buffer: what follows has to be taken in.
            Err(TransferError::BufferTooSmall { len, .. }) => *len == part_bytes,
            Err(_) => false,
        };
        if more {
            let length = HostBuffer::zeroed(REST_BYTES);
            return Stage::Length(self.receive(length.all()), length);
        }
        Stage::Done(received.map_err(|error| match error {
            TransferError::BufferTooSmall { len, capacity, .. } => {
                CommunicatorError::Truncated { len, capacity }
            }
            error => error.into(),
        }))
    }

    fn after_length(&self, received: TransferResult, length: &HostBuffer) -> Stage {
        let wrong = match received {
            Ok(len) if len == REST_BYTES as u64 => None,
            Ok(got) => {
                let (rank, expected) = (self.from as u32, REST_BYTES as u64);
                Some(CommunicatorError::WrongLength { rank, got, expected })
            }
            Err(error) => Some(error.into()),
        };
        if let Some(error) = wrong {
            return Stage::Done(Err(error));
        }
        let rest = length.all().read(|bytes| bytes.try_into().map_or(0, u64::from_le_bytes));
        let len = rest.saturating_add(PART_BYTES as u64);
        let room =
            self.into.part(PART_BYTES.min(self.into.len()), usize::try_from(rest).unwrap_or(usize::MAX));
        match room.filter(|_| self.into.len() >= PART_BYTES) {
            Some(room) => Stage::Rest(self.group.receive_known(self.from, self.tag, &room), len),
            None => Stage::Done(
                self.discard(rest)
                    .and(Err(CommunicatorError::Truncated { len, capacity: self.into.len() as u64 })),
            ),
        }
    }

    /// Takes in parts that there is no room for.
    fn discard(&self, rest: u64) -> Result<(), CommunicatorError> {
        let scratch = HostBuffer::zeroed(PART_BYTES);
        let mut left = rest;
        while left > 0 {
            left = left.saturating_sub(self.receive(scratch.all()).wait()?.max(1));
        }
        Ok(())
    }

    fn receive(&self, into: impl Into<Slice>) -> Handle {
        self.group.node.receive(self.group.members[self.from], self.tag, into)
    }
}

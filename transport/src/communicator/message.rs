//! Messages by tag between two members.
//!
//! A long message goes in parts, which the session takes for one; so it needs one receive, with or without room for all of it. Both
//! buffers may be in any memory, each in its own. While one part is on the link, the next is encoded and the one before decoded; how long parts are,
//! and how many of them are under way, is the sender's choice.
//!
//! Messages are for others: there is no session with this member itself. Only a [`send_receive`](Communicator::send_receive)
//! from it to it is carried out, as the ring of one member needs it.

use mgcomp_codecs::Element;

use super::transfer::{Transfers, copy, parts};
use super::{Communicator, CommunicatorError, Group};
use crate::link::MOST_PART_BYTES;
use crate::memory::{AnySlice, Slice};
use crate::message::Rank;
use crate::node::{Handle, TransferResult};
use crate::session::{Completion, TransferError};

/// A send under way. Its buffer is not to be changed before it is finished; dropping it does not stop it.
#[derive(Debug)]
pub struct SendRequest {
    transfers: Transfers,
}

/// A receive under way. Dropping it does not stop it.
#[derive(Debug)]
pub struct ReceiveRequest {
    handle: Handle,
}

impl Communicator {
    /// Sends `from`, values of `element`, to the receive of `to` with this tag. Returns when it was received, so two
    /// members that send to each other first both wait: use [`send_receive`](Self::send_receive), or
    /// [`start_send`](Self::start_send).
    ///
    /// # Errors
    /// [`CommunicatorError`] if there is no such member, it is this one, or the transfer fails.
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
    /// [`CommunicatorError::Rank`] if there is no such member, [`CommunicatorError::Own`] if it is this one.
    pub fn start_send(
        &self,
        to: u32,
        tag: u32,
        from: &impl AnySlice,
        element: Element,
    ) -> Result<SendRequest, CommunicatorError> {
        let (group, from): (_, Slice) = (&*self.group, from.clone().into());
        let (peer, tag) = (group.check_other(to)?, group.message_tag(tag));
        let mut transfers = Transfers::default();
        if from.len() <= MOST_PART_BYTES {
            let from = (from.into(), element);
            transfers.send(group.node.start_send(peer, tag, from, Completion::Remote, None));
        } else {
            let (part_bytes, window) = group.node.way_of_message(peer, from.len());
            let parts = parts(&from, part_bytes).collect();
            let handles = group.node.start_message(peer, tag, (parts, element), window);
            handles.into_iter().for_each(|handle| transfers.send(handle));
        }
        Ok(SendRequest { transfers })
    }

    /// Receives the next message of `from` with this tag into the front of `into`. Returns its length in bytes.
    ///
    /// # Errors
    /// [`CommunicatorError`] if there is no such member, it is this one, the transfer fails, or the message is longer than `into`:
    /// it is lost then, and the one after it is the next.
    pub fn receive(&self, from: u32, tag: u32, into: &impl AnySlice) -> Result<u64, CommunicatorError> {
        self.start_receive(from, tag, into)?.wait()
    }

    /// As [`receive`](Self::receive), without waiting. Receives from one member with one tag get its messages in the order in which
    /// they were started, however they are waited for.
    ///
    /// # Errors
    /// [`CommunicatorError::Rank`] if there is no such member, [`CommunicatorError::Own`] if it is this one.
    pub fn start_receive(
        &self,
        from: u32,
        tag: u32,
        into: &impl AnySlice,
    ) -> Result<ReceiveRequest, CommunicatorError> {
        let group = &*self.group;
        let from = group.check_other(from)?;
        let into: Slice = into.clone().into();
        let handle = group.node.receive(from, group.message_tag(tag), into);
        Ok(ReceiveRequest { handle })
    }

    /// Sends `send` to `to` and meanwhile receives from `from` into `receive`. Returns the bytes received. Where both are this member,
    /// they are copied.
    ///
    /// # Errors
    /// As [`send`](Self::send) and [`receive`](Self::receive), and then nothing is sent if either cannot begin; or
    /// [`CommunicatorError::Overlap`] if what is to be copied lies across its place.
    pub fn send_receive(
        &self,
        (to, send): (u32, &impl AnySlice),
        (from, receive): (u32, &impl AnySlice),
        tag: u32,
        element: Element,
    ) -> Result<u64, CommunicatorError> {
        let (group, own) = (&*self.group, self.rank());
        if (to, from) == (own, own) {
            group.check_process()?;
            return copy_message(send, receive);
        }
        // Nothing begins where one of them cannot.
        group.check_other(to)?;
        let receiving = self.start_receive(from, tag, receive)?;
        let sending = self.start_send(to, tag, send, element)?;
        let received = receiving.wait();
        sending.wait()?;
        received
    }
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
    pub fn wait(self) -> Result<u64, CommunicatorError> {
        received(self.handle.wait())
    }

    /// Whether the message is there, or will not come.
    pub fn is_finished(&mut self) -> bool {
        self.handle.is_finished()
    }
}

impl Group {
    /// A member that this one has a session with.
    fn check_other(&self, rank: u32) -> Result<Rank, CommunicatorError> {
        let member = self.check_rank(rank)?;
        if member == self.rank { Err(CommunicatorError::Own { rank }) } else { Ok(self.members[member]) }
    }
}

/// Copies `from` into the front of `into`, as a message would come there. Returns its length in bytes.
fn copy_message(from: &impl AnySlice, into: &impl AnySlice) -> Result<u64, CommunicatorError> {
    let (from, into): (Slice, Slice) = (from.clone().into(), into.clone().into());
    let (len, capacity) = (from.len() as u64, into.len() as u64);
    let front = into.part(0, from.len()).ok_or(CommunicatorError::Truncated { len, capacity })?;
    copy(&from, &front)?;
    Ok(len)
}

fn received(result: TransferResult) -> Result<u64, CommunicatorError> {
    result.map_err(|error| match error {
        TransferError::BufferTooSmall { len, capacity, .. } => CommunicatorError::Truncated { len, capacity },
        error => error.into(),
    })
}

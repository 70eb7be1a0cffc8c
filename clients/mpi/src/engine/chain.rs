//! A block that goes from rank to rank: each one opens a message while it hands it on to the next one.

use mgcomp_transport::attach::Coder;

use super::Message;
use super::bcast::Bcast;
use super::pieces::Cut;
use super::relay::Relay;
use crate::data::Landing;
use crate::failure::{Came, Failure};

/// The ranks as a chain, from the root on.
pub(super) struct Chain<'a> {
    pub(super) bcast: &'a Bcast<'a>,
    pub(super) relay: Relay<'a>,
}

impl Chain<'_> {
    /// Sends all of the block, of which the first piece is in that message; returns how many bytes messages had.
    pub(super) fn send(&self, raw: &[u8], mut cut: Cut, first: Message) -> Result<usize, Failure> {
        let (mut next, mut messages, mut sent) = (Some(first), 0, 0);
        while let Some(message) = next {
            cut.pass(cut.next(raw.len()).len(), message.len);
            sent += message.len;
            let sending = self.relay.send(message, messages)?;
            messages += 1;
            next = self.seal(&raw[cut.next(raw.len())])?;
            self.bcast.layer.pool.give(sending.wait()?.0);
        }
        Ok(sent)
    }

    /// Takes all of it, and hands it on.
    pub(super) fn receive(&self, landing: &mut Landing<'_>) -> Result<Came, Failure> {
        let Bcast { layer, comm, root, len, .. } = *self.bcast;
        let (mut cut, mut messages, mut came) = (self.bcast.cut(), 0, Ok(()));
        let mut receiving = self.relay.receive(&cut.next(len))?;
        while let Some(coming) = receiving {
            let (buffer, message_len) = coming.wait()?;
            let piece = cut.next(len);
            cut.pass(piece.len(), message_len);
            receiving = self.relay.receive(&cut.next(len))?;
            let into = &mut landing.room()[piece];
            // What else is to come is taken even so: others wait for it.
            let buffer = if comm.next() == root {
                came = came.and(layer.open(comm, root, &buffer[..message_len], into));
                buffer
            } else {
                let sending = self.relay.send(Message { buffer, len: message_len }, messages)?;
                messages += 1;
                came = came.and(layer.open(comm, root, sending.sent(), into));
                sending.wait()?.0
            };
            layer.pool.give(buffer);
        }
        Ok(came)
    }

    /// The message of a piece, if there is one.
    fn seal(&self, piece: &[u8]) -> Result<Option<Message>, Failure> {
        if piece.is_empty() {
            return Ok(None);
        }
        let mut buffer = self.bcast.layer.pool.take(Coder::max_len(piece.len()));
        let len = self.bcast.seal_any(piece, &mut buffer)?;
        Ok(Some(Message { buffer, len }))
    }
}

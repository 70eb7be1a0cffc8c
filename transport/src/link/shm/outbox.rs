//! How a guest sends: in two steps, for its payloads are still on their way when the link has to say whether there is room.

use std::sync::Arc;

use bytes::Bytes;

use super::guest::PLACE_LEN;
use super::peer::Peer;
use super::record::Record;
use crate::link::{LinkError, SendError};
use crate::message::Header;

/// The way to a peer.
#[derive(Clone)]
pub(in crate::link) struct Outbox(pub(super) Arc<Peer>);

/// Room in the queue of a peer for a message that comes later. Whoever gives the peer up waits for it for a while.
pub(in crate::link) struct Reserved {
    peer: Arc<Peer>,
    held_bytes: u64,
    /// Whether the message has come.
    is_used: bool,
}

impl Outbox {
    /// Room for a message of `bytes` bytes.
    pub(in crate::link) fn reserve(&self, bytes: u64) -> Result<Reserved, SendError> {
        let held_bytes = self.0.reserve(bytes)?;
        Ok(Reserved { peer: self.0.clone(), held_bytes, is_used: false })
    }

    /// Whether all that was sent is in the ring.
    pub(in crate::link) fn is_drained(&self) -> bool {
        self.0.is_drained()
    }

    /// Ends the way to the peer, which is reported with this error.
    pub(in crate::link) fn break_off(&self, error: LinkError) {
        self.0.break_off(error);
    }
}

impl Reserved {
    /// Sends a message with its payload.
    pub(in crate::link) fn send(self, header: &Header, payload: Bytes) {
        self.arrive(Record::new(header, payload));
    }

    /// Sends a message whose payload lies where `place` says.
    pub(in crate::link) fn send_placed(self, header: &Header, place: [u8; PLACE_LEN]) {
        self.arrive(Record::placed(header, place));
    }

    fn arrive(mut self, record: Record) {
        self.is_used = true;
        self.peer.arrive(record.holding(self.held_bytes));
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        if !self.is_used {
            self.peer.give_back(self.held_bytes);
        }
    }
}

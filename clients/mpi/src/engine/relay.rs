//! Messages that go from each rank to the next one.

use std::ops::Range;

use mgcomp_transport::attach::Coder;

use super::Message;
use crate::communicator::Communicator;
use crate::failure::Failure;
use crate::layer::Layer;
use crate::mpi::{Operation, Tag};
use crate::types::Comm;

/// The place of a rank between the one before it and the next.
#[derive(Clone, Copy, Debug)]
pub(super) struct Relay<'a> {
    pub(super) layer: &'a Layer,
    pub(super) comm: &'a Communicator,
    pub(super) shadow: Comm,
}

impl Relay<'_> {
    /// Begins to receive the message of a piece from the rank before, if it has any bytes.
    pub(super) fn receive(&self, piece: &Range<usize>) -> Result<Option<Operation>, Failure> {
        if piece.is_empty() {
            return Ok(None);
        }
        let room = self.layer.pool.take(Coder::max_len(piece.len()));
        self.layer.mpi.receive(room, self.comm.before(), Tag::Data, self.shadow).map(Some)
    }

    /// Begins to send a message to the next rank, before which there were so many.
    pub(super) fn send(&self, message: Message, before: usize) -> Result<Operation, Failure> {
        self.layer.mpi.send_message((message.buffer, message.len), before, self.comm.next(), self.shadow)
    }
}

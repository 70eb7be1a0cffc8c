//! Long messages, which go in parts.

use mgcomp_codecs::Element;

use super::ways::PART_STEP;
use super::{Handle, Node};
use crate::memory::Slice;
use crate::message::{Rank, Tag};
use crate::payload::Payload;
use crate::session::{Completion, Request, Window};

/// Parts of a message at most, for each counts for what a peer takes at once: those of a longer one are longer.
const MOST_PARTS: usize = 4096;

impl Node {
    /// How long parts of a message of `len` bytes to a peer are, and the window that they have, if that is of use.
    pub(crate) fn way_of_message(&self, peer: Rank, len: usize) -> (usize, Option<Window>) {
        let least = len.div_ceil(MOST_PARTS).next_multiple_of(PART_STEP);
        self.board.ways.of_messages(peer, least, self.is_switched_off())
    }

    /// Sends `parts` as one message, of which nothing else comes between, within a window if there is one: done once all of it was received.
    pub(crate) fn start_message(
        &self,
        peer: Rank,
        tag: Tag,
        (parts, element): (Vec<Slice>, Element),
        window: Option<Window>,
    ) -> Vec<Handle> {
        let part_of = Some(parts.iter().map(|part| part.len() as u64).sum());
        let (mut inputs, mut handles, mut left) = (Vec::new(), Vec::new(), parts.len());
        for part in parts {
            left -= 1;
            let (from, completion, continued) = (Payload::from_memory(part), Completion::Remote, left > 0);
            let request = Request::Send { from, element, tag, completion, part_of, continued, window };
            let (input, handle) = self.input(peer, request);
            inputs.extend(input);
            handles.push(handle);
        }
        self.mailbox.post_all(inputs);
        handles
    }
}

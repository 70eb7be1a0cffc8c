//! Members that send each other blocks at the same time, part by part.
//!
//! A member sends no further ahead than its link and its codecs take to be busy, where it knows how far that is: its next part goes
//! when one of each other member has come. What is sent sooner lies in buffers of the system on both sides, and has left the caches when
//! its turn comes, while nobody takes what comes from the others. What has come a member knows without being told.
//!
//! Members cannot wait for each other in a circle, however far ahead each of them sends. Take the one that has sent the fewest parts: it
//! waits for earlier parts than its next one, which all others have sent, or have not to send.

use mgcomp_codecs::Element;

use super::super::transfer::{Transfers, copy};
use super::{CommunicatorError, Group};
use crate::memory::Slice;
use crate::message::Tag;

/// What goes to members, the same to each of them.
pub(super) struct Outgoing<'a> {
    pub(super) receivers: Vec<usize>,
    pub(super) block: &'a Slice,
}

/// Blocks on their way out, a part of each at a time.
pub(super) struct InStep<'a> {
    group: &'a Group,
    tag: Tag,
    element: Element,
    outgoing: Vec<Outgoing<'a>>,
    part_bytes: usize,
    /// Whether parts wait for others to come.
    waits: bool,
    /// Parts that were sent.
    sent: usize,
    sending: Transfers,
}

impl<'a> InStep<'a> {
    /// For blocks that go in parts of so many bytes, and if it `waits`, no further [ahead](Group::parts_ahead) than is of use.
    pub(super) fn new(
        group: &'a Group,
        (tag, element): (Tag, Element),
        outgoing: Vec<Outgoing<'a>>,
        (part_bytes, waits): (usize, bool),
    ) -> Self {
        Self { group, tag, element, outgoing, part_bytes, waits, sent: 0, sending: Transfers::default() }
    }

    /// So many parts have come from each: sends what may go now.
    pub(super) fn go_on(&mut self, came: usize) {
        let longest = self.outgoing.iter().map(|outgoing| outgoing.block.len()).max().unwrap_or(0);
        let Self { group, tag, element, part_bytes, waits, .. } = *self;
        let ahead = if waits { group.parts_ahead() } else { usize::MAX };
        let end = came.saturating_add(ahead).saturating_add(1).min(longest.div_ceil(part_bytes));
        for index in self.sent..end {
            for Outgoing { receivers, block } in &self.outgoing {
                let part_of = (block.len() > part_bytes).then_some(block.len() as u64);
                if let Some(part) = part(block, index, part_bytes) {
                    self.sending.add(group.send_part(receivers, tag, (part, part_of), element));
                }
            }
        }
        self.sent = self.sent.max(end);
    }

    /// Nothing else comes: sends the rest.
    pub(super) fn finish(mut self) -> Transfers {
        self.go_on(usize::MAX);
        self.sending
    }
}

impl Group {
    /// Each other member's own block.
    pub(super) fn to_each<'a>(&self, blocks: &'a [Slice]) -> Vec<Outgoing<'a>> {
        self.others().map(|other| Outgoing { receivers: vec![other], block: &blocks[other] }).collect()
    }

    /// How many parts beside the next one may be sent before one has come from each other member: all, where nobody knows how many are
    /// enough.
    fn parts_ahead(&self) -> usize {
        self.node.parts_ahead(self.others().map(|other| self.members[other])).unwrap_or(usize::MAX)
    }

    /// Sends blocks, receives one from each of other members, and copies this one's own from the one place to the other. Parts that are
    /// sent wait for those that come if it `waits`.
    pub(super) fn exchange_in_step(
        &self,
        (tag, element): (Tag, Element),
        outgoing: Vec<Outgoing<'_>>,
        incoming: &[(usize, &Slice)],
        (own, place): (&Slice, &Slice),
        waits: bool,
    ) -> Result<(), CommunicatorError> {
        let part_bytes = self.node.part_bytes();
        let receive = |&(from, into): &(usize, &Slice)| self.receive_known(from, tag, into).one_by_one();
        let mut coming: Vec<_> = incoming.iter().map(receive).collect();
        let mut sending = InStep::new(self, (tag, element), outgoing, (part_bytes, waits));
        let longest = incoming.iter().map(|(_, into)| into.len()).chain([own.len()]).max().unwrap_or(0);
        let mut copied = Ok(());
        for index in 0..longest.div_ceil(part_bytes) {
            sending.go_on(index);
            // On the host part by part, so that the link is kept busy; a device is asked once.
            let (own, place) = match (own, place) {
                (Slice::Host(_), Slice::Host(_)) => {
                    (part(own, index, part_bytes), part(place, index, part_bytes))
                }
                #[cfg(feature = "cuda")]
                _ => ((index == 0).then(|| own.clone()), Some(place.clone())),
            };
            if let (Some(own), Some(place)) = (own, place) {
                copied = copied.and(copy(&own, &place)); // the others get what they are to get all the same
            }
            coming.iter_mut().filter_map(Iterator::next).try_for_each(|part| part.wait_in(self))?;
        }
        sending.finish().wait_in(self).and(copied)
    }
}

/// A part of a block, if it has so many.
fn part(block: &Slice, index: usize, part_bytes: usize) -> Option<Slice> {
    let start = index.checked_mul(part_bytes)?;
    let left = block.len().checked_sub(start).filter(|left| *left > 0)?;
    block.part(start, part_bytes.min(left))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HostBuffer;

    #[test]
    fn the_last_part_is_what_is_left() {
        let block = Slice::from(HostBuffer::zeroed(250).all());
        let len = |index| part(&block, index, 100).map(|part| part.len());
        assert_eq!([0, 1, 2, 3, usize::MAX].map(len), [Some(100), Some(100), Some(50), None, None]);
        let nothing = Slice::from(HostBuffer::zeroed(0).all());
        assert!(part(&nothing, 0, 100).is_none());
    }
}

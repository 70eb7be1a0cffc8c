//! Collectives that only move bytes.

use mgcomp_codecs::Element;

use super::super::transfer::{Transfers, copy};
use super::blocks::{check_len, check_own, in_buffer, shares, to_receive};
use super::exchange::is_in_place;
use super::in_step::Outgoing;
use super::{Block, CommunicatorError, Group, Kind};
use crate::memory::{HostBuffer, Slice};

/// Shorter broadcasts go to each member straight from the root; of longer ones each member gets a share, and hands it
/// on.
const SHORT_BROADCAST_BYTES: usize = 64 << 10;
/// Shares of a broadcast are whole numbers of this, so that codecs see whole elements and lines.
const SHARE_BYTES: usize = 64;

impl Group {
    /// Each round a member tells one twice as far away as in the round before; after log₂ n rounds it has heard of all.
    pub(super) fn barrier(&self) -> Result<(), CommunicatorError> {
        let (tag, nothing) = (self.collective_tag(Kind::Barrier), HostBuffer::zeroed(0));
        let mut distance = 1;
        while distance < self.size() {
            let to = (self.rank + distance) % self.size();
            let from = (self.rank + self.size() - distance) % self.size();
            let mut transfers = Transfers::default();
            transfers.receive(self.node.receive(self.members[from], tag, nothing.all()), from, 0);
            transfers.send(self.node.post(self.members[to], tag, nothing.all(), Element::U8));
            transfers.wait_in(self)?;
            distance *= 2;
        }
        Ok(())
    }

    pub(super) fn broadcast(
        &self,
        root: usize,
        buffer: &Slice,
        element: Element,
    ) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(Kind::Broadcast);
        // Of two, the one would only get back what it has sent.
        if buffer.len() > SHORT_BROADCAST_BYTES && self.size() > 2 {
            // The last share takes what is no whole number of them.
            let whole = buffer.len() / SHARE_BYTES * SHARE_BYTES;
            let mut blocks = shares(self.size(), whole, SHARE_BYTES);
            if let Some(last) = blocks.last_mut() {
                last.len += buffer.len() - whole;
            }
            let into = in_buffer(self, buffer, &blocks)?;
            let mine = &into[self.rank];
            // With the tag of short ones: a member whose length does not agree may take this for one, and is to hear of it.
            self.scatter(root, buffer, &blocks, mine, (Kind::Broadcast, element))?;
            return self.bring_shares(root, &into, element);
        }
        if self.rank != root {
            return self.receive_known(root, tag, buffer).wait_in(self);
        }
        let others: Vec<usize> = self.others().collect();
        self.send_known_to_all(&others, tag, buffer, element).wait_in(self)
    }

    /// Brings each member's share to all others but the root, which has all of them: its buffer is only read.
    fn bring_shares(&self, root: usize, shares: &[Slice], element: Element) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(Kind::AllGather);
        let mut transfers = Transfers::default();
        if self.rank != root {
            self.others().for_each(|from| transfers.add(self.receive_known(from, tag, &shares[from])));
        }
        let receivers: Vec<usize> = self.others().filter(|&other| other != root).collect();
        transfers.add(self.send_known_to_all(&receivers, tag, &shares[self.rank], element));
        transfers.wait_in(self)
    }

    pub(super) fn gather(
        &self,
        root: usize,
        send: &Slice,
        receive: &Slice,
        blocks: &[Block],
        (kind, element): (Kind, Element),
    ) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(kind);
        if self.rank != root {
            return self.send_known(root, tag, send, element).wait_in(self);
        }
        let into = to_receive(self, receive, blocks)?;
        check_own(send, &into[root], receive)?;
        let mut transfers = Transfers::default();
        self.others().for_each(|from| transfers.add(self.receive_known(from, tag, &into[from])));
        let copied = copy(send, &into[root]);
        transfers.wait_in(self).and(copied)
    }

    pub(super) fn scatter(
        &self,
        root: usize,
        send: &Slice,
        blocks: &[Block],
        receive: &Slice,
        (kind, element): (Kind, Element),
    ) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(kind);
        if self.rank != root {
            return self.receive_known(root, tag, receive).wait_in(self);
        }
        let from = in_buffer(self, send, blocks)?;
        check_own(receive, &from[root], send)?;
        let mut transfers = Transfers::default();
        self.others().for_each(|to| transfers.add(self.send_known(to, tag, &from[to], element)));
        let copied = copy(&from[root], receive);
        transfers.wait_in(self).and(copied)
    }

    /// Checks the arguments of an all-gather; returns where each member's block is to be.
    pub(super) fn check_all_gather(
        &self,
        send: &Slice,
        receive: &Slice,
        blocks: &[Block],
    ) -> Result<Vec<Slice>, CommunicatorError> {
        let into = to_receive(self, receive, blocks)?;
        check_own(send, &into[self.rank], receive)?;
        Ok(into)
    }

    /// Brings `send` of each member into its own of `into` of all.
    pub(in crate::communicator) fn bring_to_all(
        &self,
        send: &Slice,
        into: &[Slice],
        element: Element,
    ) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(Kind::AllGather);
        let outgoing = vec![Outgoing { receivers: self.others().collect(), block: send }];
        let incoming: Vec<_> = self.others().map(|other| (other, &into[other])).collect();
        self.exchange_in_step((tag, element), outgoing, &incoming, (send, &into[self.rank]), true)
    }

    /// Checks the arguments of an all-to-all; returns what goes to each member, and where what it sends is to be.
    pub(super) fn check_all_to_all(
        &self,
        (send, send_blocks): (&Slice, &[Block]),
        (receive, receive_blocks): (&Slice, &[Block]),
    ) -> Result<(Vec<Slice>, Vec<Slice>), CommunicatorError> {
        let (from, into) = (in_buffer(self, send, send_blocks)?, to_receive(self, receive, receive_blocks)?);
        check_len("this member's block", &from[self.rank], into[self.rank].len())?;
        if !is_in_place(&from, &into) && send.overlaps(receive) {
            return Err(CommunicatorError::Overlap);
        }
        Ok((from, into))
    }

    pub(super) fn all_to_all(
        &self,
        from: &[Slice],
        into: &[Slice],
        element: Element,
    ) -> Result<(), CommunicatorError> {
        if is_in_place(from, into) {
            return self.exchange_in_place(from, into, element);
        }
        let tag = self.collective_tag(Kind::AllToAll);
        let incoming: Vec<_> = self.others().map(|other| (other, &into[other])).collect();
        let own = (&from[self.rank], &into[self.rank]);
        // Members that do it in place go through the others in rounds, and send one nothing before they are through with another.
        self.exchange_in_step((tag, element), self.to_each(from), &incoming, own, self.size() == 2)
    }
}

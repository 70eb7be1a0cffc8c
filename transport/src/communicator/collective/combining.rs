//! Collectives that compute.

use std::sync::PoisonError;

use super::super::reduction::{combine, finish};
use super::super::transfer::{Transfers, parts};
use super::blocks::{check_len, equal, in_buffer, shares, to_receive};
use super::{Block, CommunicatorError, Datatype, Group, Kind, Operation};
use crate::memory::{HostBuffer, HostSlice};
use crate::session::Completion;

/// Shorter buffers are brought to the one who needs the result, and combined there: one way instead of two.
const SHORT_BYTES: usize = 16 << 10;

/// All numbers are brought to everybody, one way instead of two, if that sends no more than so many bytes more: about
/// what a link of 10 Gb/s carries in the time that one way more takes.
const EXCHANGED_BYTES: usize = 32 << 10;

/// Longer buffers are combined by parts while others are on their way, even if as many bytes travel.
const LONGEST_EXCHANGED_BYTES: usize = 128 << 10;

/// Combined at once, so that intermediate results stay in the innermost cache. Whole numbers of every datatype.
const BLOCK_BYTES: usize = 8 << 10;

/// Reductions travel in parts of this length: short, so that combining and handing on begin early. Whole numbers of every
/// datatype.
const PART_BYTES: usize = 256 << 10;

/// What is computed.
type Task = (Datatype, Operation);

impl Group {
    pub(super) fn reduce(
        &self,
        root: usize,
        send: &HostSlice,
        receive: &HostSlice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        check_width(send, task)?;
        if self.rank == root {
            check_buffers(send, receive)?;
        }
        if send.len() <= SHORT_BYTES {
            let blocks = equal(self, send.len());
            let all = HostBuffer::zeroed(if self.rank == root { send.len() * self.size() } else { 0 });
            self.gather(root, &send.clone().into(), &all.all().into(), &blocks, task.0.element())?;
            return if self.rank == root { self.combine_all(&all, receive, task) } else { Ok(()) };
        }
        let blocks = shares(self.size(), send.len(), task.0.width_bytes());
        let mine = HostBuffer::zeroed(blocks[self.rank].len);
        self.reduce_scatter(send, &blocks, &mine.all(), task)?;
        self.gather(root, &mine.all().into(), &receive.clone().into(), &blocks, task.0.element())
    }

    pub(super) fn all_reduce(
        &self,
        send: &HostSlice,
        receive: &HostSlice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        check_width(send, task)?;
        check_buffers(send, receive)?;
        if is_exchanged(self.size(), send.len()) {
            return self.exchange(send, receive, task);
        }
        let (tag, element) = (self.collective_tag(Kind::AllGather), task.0.element());
        let blocks = shares(self.size(), send.len(), task.0.width_bytes());
        let results = in_buffer(self, receive, &blocks)?;
        let mut handing_on = Transfers::default();
        for other in self.others() {
            handing_on.add(self.receive_parts(other, tag, (&results[other], PART_BYTES)));
        }
        let is_part = blocks[self.rank].len > PART_BYTES;
        self.reduce_parts(send, &blocks, &results[self.rank], task, |part| {
            for other in self.others() {
                let (to, part) = (self.members[other], (part.clone().into(), element));
                handing_on.send(self.node.start_send(to, tag, part, Completion::Local, is_part));
            }
        })?;
        handing_on.wait()
    }

    /// Brings all numbers to everybody, who combines them.
    fn exchange(&self, send: &HostSlice, receive: &HostSlice, task: Task) -> Result<(), CommunicatorError> {
        let (tag, element) = (self.collective_tag(Kind::AllGather), task.0.element());
        let rooms = self.rooms(self.size() * send.len());
        let mut arrived = self.rooms_of(&rooms[0], send.len());
        let mut transfers = Transfers::default();
        for other in self.others() {
            transfers.add(self.receive_known(other, tag, &arrived[other]));
            transfers.add(self.send_known(other, tag, send, element));
        }
        transfers.wait()?;
        arrived[self.rank] = send.clone();
        self.combine(&arrived, receive, task);
        Ok(())
    }

    /// Leaves each member with its block of the result.
    pub(super) fn reduce_scatter(
        &self,
        send: &HostSlice,
        blocks: &[Block],
        receive: &HostSlice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        self.reduce_parts(send, blocks, receive, task, |_| {})
    }

    /// Each member gets its block from all others, part by part, and combines the parts in the order of the ranks.
    /// While it does, the next part is on its way. `finished` hears of every part of the result.
    fn reduce_parts(
        &self,
        send: &HostSlice,
        blocks: &[Block],
        receive: &HostSlice,
        task: Task,
        mut finished: impl FnMut(HostSlice),
    ) -> Result<(), CommunicatorError> {
        let (tag, element) = (self.collective_tag(Kind::Reduce), task.0.element());
        let from = in_buffer(self, send, blocks)?;
        from.iter().try_for_each(|block| check_width(block, task))?;
        let own = &from[self.rank];
        check_len("this member's block", receive, own.len())?;
        if !receive.is_same(own) && receive.overlaps(send) {
            return Err(CommunicatorError::Overlap);
        }
        let mut sending = Transfers::default();
        for to in self.others() {
            sending.add(self.send_parts(to, tag, (&from[to], PART_BYTES), element));
        }

        let rooms = self.rooms(self.size() * PART_BYTES.min(own.len()));
        let arrive = |part: usize, len: usize| {
            let (arrived, mut transfers) = (self.rooms_of(&rooms[part % 2], len), Transfers::default());
            for other in self.others() {
                transfers.add(self.receive_parts(other, tag, (&arrived[other], PART_BYTES)));
            }
            (arrived, transfers)
        };
        let own_parts: Vec<HostSlice> = parts(own, PART_BYTES).collect();
        let mut next = own_parts.first().map(|first| arrive(0, first.len()));
        for (index, (own, receive)) in own_parts.iter().zip(parts(receive, PART_BYTES)).enumerate() {
            let Some((mut arrived, transfers)) = next.take() else { break };
            transfers.wait()?;
            next = own_parts.get(index + 1).map(|part| arrive(index + 1, part.len()));
            arrived[self.rank] = own.clone();
            self.combine(&arrived, &receive, task);
            finished(receive);
        }
        sending.wait()
    }

    /// Two buffers of `len` bytes or more to receive into. They are kept for the next reduction: clearing fresh memory
    /// takes longer than combining what comes into it.
    fn rooms(&self, len: usize) -> [HostBuffer; 2] {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms[0].len() < len {
            *rooms = [(); 2].map(|()| HostBuffer::zeroed(len));
        }
        rooms.clone()
    }

    /// Room for `len` bytes of each member.
    fn rooms_of(&self, buffer: &HostBuffer, len: usize) -> Vec<HostSlice> {
        let room = |rank: usize| buffer.slice(rank * len..(rank + 1) * len);
        (0..self.size()).map(|rank| room(rank).expect("there is a part of room for each member")).collect()
    }

    /// Combines what all members have, one after the other in `all`.
    fn combine_all(
        &self,
        all: &HostBuffer,
        receive: &HostSlice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        let blocks = to_receive(self, &all.all(), &equal(self, receive.len()))?;
        self.combine(&blocks, receive, task);
        Ok(())
    }

    /// Combines numbers from the left, in the order of the ranks. One of them may be where the result goes.
    fn combine(&self, numbers: &[HostSlice], result: &HostSlice, (datatype, operation): Task) {
        let ranks = self.size() as u32;
        let mut result_bytes = result.hold_mut();
        let held: Vec<_> = numbers.iter().map(|from| (!from.is_same(result)).then(|| from.hold())).collect();
        let mut left = [0; BLOCK_BYTES];
        for start in (0..result.len()).step_by(BLOCK_BYTES) {
            let block = start..result.len().min(start + BLOCK_BYTES);
            let left = &mut left[..block.len()];
            let bytes_of = |rank: usize| held[rank].as_deref().unwrap_or(&result_bytes);
            left.copy_from_slice(&bytes_of(0)[block.clone()]);
            (1..held.len())
                .for_each(|rank| combine(operation, datatype, left, &bytes_of(rank)[block.clone()]));
            finish(operation, datatype, left, ranks);
            result_bytes[block].copy_from_slice(left);
        }
    }
}

/// Whether an all-reduce of `len` bytes brings all numbers to everybody. Each member sends `(ranks - 1) * len` bytes then, and
/// `2 * (ranks - 1) / ranks * len` otherwise.
fn is_exchanged(ranks: usize, len: usize) -> bool {
    let more_bytes = len.saturating_mul((ranks - 1) * ranks.saturating_sub(2)) / ranks;
    len <= LONGEST_EXCHANGED_BYTES && more_bytes <= EXCHANGED_BYTES
}

fn check_width(numbers: &HostSlice, (datatype, _): Task) -> Result<(), CommunicatorError> {
    let len = numbers.len();
    if len.is_multiple_of(datatype.width_bytes()) {
        Ok(())
    } else {
        Err(CommunicatorError::Width { len, datatype })
    }
}

/// Two buffers of the same length that are the same or have nothing in common.
fn check_buffers(send: &HostSlice, receive: &HostSlice) -> Result<(), CommunicatorError> {
    check_len("the buffer to reduce into", receive, send.len())?;
    if send.is_same(receive) || !send.overlaps(receive) { Ok(()) } else { Err(CommunicatorError::Overlap) }
}

//! Collectives that compute.
//!
//! Which way a reduction goes depends on its length. Members whose lengths do not agree may take different ones, so the first
//! messages of both ways have one tag: what arrives then has another length than what is waited for, which is an error.

use super::super::transfer::{Transfers, copy, parts};
use super::blocks::{check_len, in_buffer, shares, to_receive};
use super::in_step::InStep;
use super::workbench::{Combining, Numbers, Workbench, stride};
use super::{Block, CommunicatorError, Datatype, Group, Kind, Operation};
use crate::memory::Slice;

/// Buffers of a reduce that are no longer are brought to its root, and combined there: one way instead of two.
const SHORT_BYTES: usize = 16 << 10;

/// All numbers of an all-reduce are brought to everybody, one way instead of two, if that sends no more than so many bytes more: about
/// what a link of 10 Gb/s carries in the time that one way more takes.
const EXCHANGED_BYTES: usize = 32 << 10;

/// Longer buffers of an all-reduce are combined by parts while others are on their way, even if as many bytes travel.
const LONGEST_EXCHANGED_BYTES: usize = 128 << 10;

/// Reductions travel in parts of this length, if those of the link are no shorter: combining and handing on begin early. Whole numbers
/// of every datatype.
const PART_BYTES: usize = 256 << 10;

/// What is computed.
pub(super) type Task = (Datatype, Operation);

impl Group {
    pub(super) fn reduce(
        &self,
        root: usize,
        send: &Slice,
        receive: &Slice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        check_width(send, task)?;
        if self.rank == root {
            check_buffers(send, receive)?;
        }
        let (element, blocks) = (task.0.element(), self.apart(send.len()));
        if send.len() <= SHORT_BYTES && self.rank != root {
            return self.send_known(root, self.collective_tag(Kind::Reduce), send, element).wait_in(self);
        }
        let bench = self.workbench(if self.rank == root { receive } else { send })?;
        if send.len() <= SHORT_BYTES {
            let rooms = bench.rooms(self.size() * stride(send.len()))?;
            self.gather(root, send, &rooms[0], &blocks, (Kind::Reduce, element))?;
            let mut combining = bench.combining();
            self.combine(&mut combining, &rooms[0], None, receive, task)?;
            return combining.finish();
        }
        let blocks = shares(self.size(), send.len(), task.0.width_bytes());
        let mine = bench.share(blocks[self.rank].len)?;
        let from = self.check_reduce_scatter(send, &blocks, &mine, task)?;
        self.reduce_parts(&from, &mine, &bench, task, |_| {})?;
        self.gather(root, &mine, receive, &blocks, (Kind::Gather, element))
    }

    /// Checks the arguments of an all-reduce.
    pub(super) fn check_all_reduce(
        &self,
        send: &Slice,
        receive: &Slice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        check_width(send, task)?;
        check_buffers(send, receive)
    }

    pub(super) fn all_reduce(
        &self,
        send: &Slice,
        receive: &Slice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        let (bench, element) = (self.workbench(receive)?, task.0.element());
        if is_exchanged(self.size(), send.len()) {
            return self.exchange(send, receive, &bench, task);
        }
        let (tag, part_bytes) = (self.collective_tag(Kind::AllGather), self.combined_bytes());
        let blocks = shares(self.size(), send.len(), task.0.width_bytes());
        let (from, results) = (in_buffer(self, send, &blocks)?, in_buffer(self, receive, &blocks)?);
        let mut handing_on = Transfers::default();
        for other in self.others() {
            handing_on.add(self.receive_parts(other, tag, (&results[other], part_bytes)));
        }
        let (others, len) = (self.others().collect::<Vec<_>>(), blocks[self.rank].len);
        let part_of = (len > part_bytes).then_some(len as u64);
        self.reduce_parts(&from, &results[self.rank], &bench, task, |part| {
            handing_on.add(self.send_part(&others, tag, (part, part_of), element));
        })?;
        handing_on.wait_in(self)
    }

    /// Brings all numbers to everybody, who combines them.
    fn exchange(
        &self,
        send: &Slice,
        receive: &Slice,
        bench: &Workbench<'_>,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        let (tag, element) = (self.collective_tag(Kind::Reduce), task.0.element());
        let rooms = bench.rooms(self.size() * stride(send.len()))?;
        let arrived = in_buffer(self, &rooms[0], &self.apart(send.len()))?;
        let mut transfers = Transfers::default();
        let others: Vec<usize> = self.others().collect();
        others.iter().for_each(|&other| transfers.add(self.receive_known(other, tag, &arrived[other])));
        transfers.add(self.send_known_to_all(&others, tag, send, element));
        transfers.wait_in(self)?;
        let mut combining = bench.combining();
        self.combine(&mut combining, &rooms[0], Some(send), receive, task)?;
        combining.finish()
    }

    /// Checks the arguments of a reduce-scatter; returns the blocks of `send`.
    pub(super) fn check_reduce_scatter(
        &self,
        send: &Slice,
        blocks: &[Block],
        receive: &Slice,
        task: Task,
    ) -> Result<Vec<Slice>, CommunicatorError> {
        // In place, a result takes the place of this member's block, where others may still be owed theirs. All members say no
        // alike: else those who are not in place would wait for those who are.
        let from = to_receive(self, send, blocks)?;
        from.iter().try_for_each(|block| check_width(block, task))?;
        let own = &from[self.rank];
        check_len("this member's block", receive, own.len())?;
        if !receive.is_same(own) && receive.overlaps(send) {
            return Err(CommunicatorError::Overlap);
        }
        Ok(from)
    }

    /// Leaves each member with its block of the result.
    pub(super) fn reduce_scatter(
        &self,
        from: &[Slice],
        receive: &Slice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        self.reduce_parts(from, receive, &self.workbench(receive)?, task, |_| {})
    }

    /// Bytes that are combined at a time. All members cut alike.
    fn combined_bytes(&self) -> usize {
        self.node.part_bytes().min(PART_BYTES)
    }

    /// Each member gets its block from all others, part by part and [in step](super::in_step), and combines the parts in the order of the ranks.
    /// While it does, the next part is on its way. `finished` hears of every part of the result, which a device may have yet to
    /// make: the slice waits for that. All of it is there when this returns.
    fn reduce_parts(
        &self,
        from: &[Slice],
        receive: &Slice,
        bench: &Workbench<'_>,
        task: Task,
        mut finished: impl FnMut(Slice),
    ) -> Result<(), CommunicatorError> {
        let (tag, element) = (self.collective_tag(Kind::Reduce), task.0.element());
        let (own, part_bytes) = (&from[self.rank], self.combined_bytes());
        let rooms = bench.rooms(self.size() * stride(part_bytes.min(own.len())))?;
        let mut sending = InStep::new(self, (tag, element), self.to_each(from), (part_bytes, true));
        sending.go_on(0);

        let arrive = |room: &Slice, len: usize| {
            let mut transfers = Transfers::default();
            let arrived = in_buffer(self, room, &self.apart(len))?;
            for other in self.others() {
                transfers.add(self.receive_parts(other, tag, (&arrived[other], part_bytes)));
            }
            Ok::<_, CommunicatorError>(transfers)
        };
        let own_parts: Vec<Slice> = parts(own, part_bytes).collect();
        let mut combining = bench.combining();
        let mut next = own_parts.first().map(|first| arrive(&rooms[0], first.len())).transpose()?;
        for (index, (own, receive)) in own_parts.iter().zip(parts(receive, part_bytes)).enumerate() {
            let Some(transfers) = next.take() else { break };
            transfers.wait_in(self)?;
            sending.go_on(index + 1);
            let (room, other_room) = (&rooms[index % 2], &rooms[(index + 1) % 2]);
            if let Some(part) = own_parts.get(index + 1) {
                next = Some(arrive(&combining.after(other_room)?, part.len())?);
            }
            self.combine(&mut combining, room, Some(own), &receive, task)?;
            finished(combining.after(&receive)?);
        }
        let sending = sending.finish();
        combining.finish()?;
        sending.wait_in(self)
    }

    /// Where members have their numbers in a room, `len` bytes each.
    fn apart(&self, len: usize) -> Vec<Block> {
        (0..self.size()).map(|rank| Block { offset: rank * stride(len), len }).collect()
    }

    /// Combines what the members have in `room`, and this one in `own` if it is given.
    fn combine(
        &self,
        combining: &mut Combining<'_>,
        room: &Slice,
        own: Option<&Slice>,
        result: &Slice,
        task: Task,
    ) -> Result<(), CommunicatorError> {
        let in_room = room.part(self.rank * stride(result.len()), result.len());
        let mut own = own.cloned().or(in_room).ok_or(CommunicatorError::Overlap)?;
        if !are_together(&own, result) {
            copy(&own, result)?;
            own = result.clone();
        }
        combining.combine(&Numbers { room, ranks: self.size(), rank: self.rank, own: &own, result }, task)
    }
}

/// Whether an all-reduce of `len` bytes brings all numbers to everybody. Each member sends `(ranks - 1) * len` bytes then, and
/// `2 * (ranks - 1) / ranks * len` otherwise.
fn is_exchanged(ranks: usize, len: usize) -> bool {
    let more_bytes = len.saturating_mul((ranks - 1) * ranks.saturating_sub(2)) / ranks;
    len <= LONGEST_EXCHANGED_BYTES && more_bytes <= EXCHANGED_BYTES
}

/// Whether one kernel, or the host, reaches both.
pub(super) fn are_together(slice: &Slice, other: &Slice) -> bool {
    match (slice, other) {
        (Slice::Host(_), Slice::Host(_)) => true,
        #[cfg(feature = "cuda")]
        (Slice::Device(slice), Slice::Device(other)) => {
            slice.device().context_id() == other.device().context_id()
        }
        #[cfg(feature = "cuda")]
        _ => false,
    }
}

fn check_width(numbers: &Slice, (datatype, _): Task) -> Result<(), CommunicatorError> {
    let len = numbers.len();
    if len.is_multiple_of(datatype.width_bytes()) {
        Ok(())
    } else {
        Err(CommunicatorError::Width { len, datatype })
    }
}

/// Two buffers of the same length that are the same or have nothing in common.
fn check_buffers(send: &Slice, receive: &Slice) -> Result<(), CommunicatorError> {
    check_len("the buffer to reduce into", receive, send.len())?;
    if send.is_same(receive) || !send.overlaps(receive) { Ok(()) } else { Err(CommunicatorError::Overlap) }
}

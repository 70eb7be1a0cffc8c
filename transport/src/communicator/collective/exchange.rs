//! All-to-all in place: what comes from a member goes where what it gets was.
//!
//! So what is sent is copied aside first, as much at a time as two rooms hold: one is filled while the other is on its way. A
//! member goes through the others in rounds. In round r those are a pair whose ranks add up to r, modulo how many members there
//! are, so each has the other in the same round. A member waits for a room until the parts in it have come and gone. Members
//! cannot wait for each other in a circle: of all parts that are not through, take the first one of the earliest round. Both
//! of its pair are through with all that comes before it, so they have both begun it, and wait for nothing else.
//!
//! On the link it is the same as with two buffers: what goes from one member to another is in the same parts and order. So
//! some members may do it in place and others not.

use std::sync::PoisonError;

use mgcomp_codecs::Element;

use super::super::transfer::{Transfers, copy};
use super::combining::are_together;
use super::workbench::stride;
use super::{CommunicatorError, Group, Kind};
use crate::link::MOST_PART_BYTES;
#[cfg(feature = "cuda")]
use crate::memory::DeviceBuffer;
use crate::memory::{HostBuffer, Slice};
use crate::session::Completion;

/// What a room holds.
const ROOM_BYTES: usize = MOST_PART_BYTES;

/// A part of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Part {
    /// Whose block it is of.
    other: usize,
    /// Where it lies in that.
    offset: usize,
    len: usize,
    /// Where it lies in the room.
    aside: usize,
}

/// Whether each block to send is where the one of the same member is to be received.
pub(super) fn is_in_place(send: &[Slice], receive: &[Slice]) -> bool {
    let is_same =
        |(send, receive): (&Slice, &Slice)| send.is_same(receive) || (send.is_empty() && receive.is_empty());
    send.iter().zip(receive).all(is_same)
}

impl Group {
    /// Exchanges blocks that [are in place](is_in_place).
    pub(super) fn exchange_in_place(
        &self,
        send: &[Slice],
        receive: &[Slice],
        element: Element,
    ) -> Result<(), CommunicatorError> {
        let tag = self.collective_tag(Kind::AllToAll);
        let lens: Vec<usize> = send.iter().map(Slice::len).collect();
        let part_bytes = self.node.part_bytes();
        let fillings = fillings(self.rank, &lens, part_bytes);
        let longest = fillings.iter().filter_map(|filling| filling.last()).map(|last| last.aside + last.len);
        let Some(longest) = longest.max() else { return Ok(()) };
        let rooms = self.rooms_beside(&send[self.rank], longest)?;
        let mut under_way = [Transfers::default(), Transfers::default()];
        for (filling, index) in fillings.iter().zip([0, 1].into_iter().cycle()) {
            let transfers = &mut under_way[index];
            std::mem::take(transfers).wait_in(self)?;
            for &Part { other, offset, len, aside } in filling {
                let (from, into) = (send[other].part(offset, len), receive[other].part(offset, len));
                let (Some(from), Some(into), Some(aside)) = (from, into, rooms[index].part(aside, len))
                else {
                    unreachable!("parts lie in their blocks, and rooms are as long as what they are to hold")
                };
                copy(&from, &aside)?;
                let peer = self.members[other];
                let part_of = (lens[other] > part_bytes).then_some(lens[other] as u64);
                transfers.receive(self.node.receive(peer, tag, into), other, len);
                let from = (aside.into(), element);
                transfers.send(self.node.start_send(peer, tag, from, Completion::Local, part_of));
            }
        }
        under_way.into_iter().try_for_each(|transfers| transfers.wait_in(self))
    }

    /// Two rooms of `len` bytes or more in the same memory as `slice`. One collective uses them at a time.
    fn rooms_beside(&self, slice: &Slice, len: usize) -> Result<[Slice; 2], CommunicatorError> {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        let there = kept.aside.iter().position(|rooms| are_together(&rooms[0], slice));
        if let Some(rooms) = there.map(|there| &kept.aside[there]).filter(|rooms| rooms[0].len() >= len) {
            return Ok(rooms.clone());
        }
        let rooms = new_rooms_beside(slice, len)?;
        match there {
            // Only those of the host can be too short.
            Some(there) => kept.aside[there] = rooms.clone(),
            None => kept.aside.push(rooms.clone()),
        }
        Ok(rooms)
    }
}

/// On the host so long that they are not made anew for a little more; on a device as long as any collective needs.
fn new_rooms_beside(slice: &Slice, len: usize) -> Result<[Slice; 2], CommunicatorError> {
    match slice {
        Slice::Host(_) => Ok([(); 2].map(|()| HostBuffer::zeroed(len.next_power_of_two()).all().into())),
        #[cfg(feature = "cuda")]
        Slice::Device(slice) => {
            // Also while a thread records.
            let device = slice.device();
            let room = || device.relaxed(|| DeviceBuffer::alloc(device, ROOM_BYTES));
            Ok([room()?, room()?].map(|room| room.all().into()))
        }
    }
}

/// The parts that member `rank` exchanges when its blocks are so long, by the rooms that they fill.
fn fillings(rank: usize, lens: &[usize], part_bytes: usize) -> Vec<Vec<Part>> {
    let ranks = lens.len();
    let others = (0..ranks).map(|round| (round + ranks - rank) % ranks).filter(|&other| other != rank);
    let mut fillings = Vec::<Vec<Part>>::new();
    let mut end = ROOM_BYTES;
    for other in others {
        for offset in (0..lens[other]).step_by(part_bytes) {
            let len = part_bytes.min(lens[other] - offset);
            if end + len > ROOM_BYTES {
                fillings.push(Vec::new());
                end = 0;
            }
            let part = Part { other, offset, len, aside: end };
            end += stride(len);
            if let Some(filling) = fillings.last_mut() {
                filling.push(part);
            }
        }
    }
    fillings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_fill_rooms_in_the_order_of_the_rounds() {
        let part = |other, offset, len, aside| Part { other, offset, len, aside };
        // Rank 1 of 4 meets rank 3 in round 0, rank 0 in round 1, and rank 2 in round 3.
        let room = 512 << 10;
        let lens = [100, 7, room + 10, 70];
        let expected = vec![
            vec![part(3, 0, 70, 0), part(0, 0, 100, 128)],
            vec![part(2, 0, room, 0)],
            vec![part(2, room, 10, 0)],
        ];
        assert_eq!(fillings(1, &lens, room), expected);
        // Of shorter parts there is room for two, and a rest.
        let (kib, third) = (1 << 10, 192 << 10);
        let expected = vec![
            vec![part(1, 0, third, 0), part(1, third, third, third)],
            vec![part(1, 2 * third, third, 0), part(1, 3 * third, 124 * kib, third)],
        ];
        assert_eq!(fillings(0, &[0, 700 * kib], third), expected);
        assert_eq!(fillings(0, &[5], room), Vec::<Vec<Part>>::new());
        assert_eq!(fillings(0, &[5, 0], room), Vec::<Vec<Part>>::new());
    }

    #[test]
    fn both_of_a_pair_have_each_other_in_the_same_round() {
        for ranks in 1..9 {
            let met = |rank: usize| -> Vec<usize> {
                fillings(rank, &vec![1; ranks], 1).concat().iter().map(|part| part.other).collect()
            };
            for rank in 0..ranks {
                let mut others = met(rank);
                // The sum is the round: it rises from one to the next.
                assert!(others.windows(2).all(|pair| (rank + pair[0]) % ranks < (rank + pair[1]) % ranks));
                others.sort_unstable();
                assert_eq!(others, (0..ranks).filter(|&other| other != rank).collect::<Vec<_>>());
            }
        }
    }
}

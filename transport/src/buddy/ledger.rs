//! Which allocations a pool has, and where they lie.

use std::sync::atomic::{AtomicU64, Ordering};

use super::error::{BuddyError, Place};
use super::extents::Extents;
use super::shape::Shape;
use super::stats::Stats;
use super::{Footprint, Form, Target};

/// A handle of an allocation. It is of use only to its pool, until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    pool: u64,
    index: usize,
    generation: u64,
}

/// The allocations of a pool, and what is free of its two memories. With each goes what its pool wants to know of it.
#[derive(Debug)]
pub(super) struct Ledger<T> {
    /// Tells handles of this pool from those of others.
    id: u64,
    free_device: Extents,
    free_buddy: Extents,
    slots: Vec<Slot<T>>,
}

/// A place for an allocation.
#[derive(Debug)]
struct Slot<T> {
    /// How often an allocation of this place has been freed.
    generation: u64,
    live: Option<Live<T>>,
}

/// Room that an allocation has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Room {
    pub(super) shape: Shape,
    pub(super) footprint: Footprint,
}

/// An allocation.
#[derive(Debug)]
pub(super) struct Live<T> {
    pub(super) room: Room,
    pub(super) own: T,
}

impl<T> Ledger<T> {
    /// Of memories of these lengths in bytes, all of it free.
    pub(super) fn new(device_bytes: u64, buddy_bytes: u64) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            free_device: Extents::new(device_bytes),
            free_buddy: Extents::new(buddy_bytes),
            slots: Vec::new(),
        }
    }

    /// Takes room for an allocation of `len` bytes, which is settled or given back next.
    pub(super) fn take(&mut self, len: u64, form: Form, target: Target) -> Result<Room, BuddyError> {
        if len == 0 {
            return Err(BuddyError::NoBytes);
        }
        if !form.targets().contains(&target) {
            return Err(BuddyError::TargetOfForm { target, form });
        }
        let footprint = form.footprint(len, target);
        let device_at = take(&mut self.free_device, Place::Device, in_device(&footprint))?;
        let buddy_at = match take(&mut self.free_buddy, Place::Buddy, footprint.buddy_bytes) {
            Ok(at) => at,
            Err(error) => {
                self.free_device.give(device_at, in_device(&footprint));
                return Err(error);
            }
        };
        let metadata_at = device_at + footprint.device_bytes;
        Ok(Room { shape: Shape { form, target, len, device_at, metadata_at, buddy_at }, footprint })
    }

    /// Gives back what [`take`](Self::take) took.
    pub(super) fn give_back(&mut self, room: &Room) {
        self.free_device.give(room.shape.device_at, in_device(&room.footprint));
        self.free_buddy.give(room.shape.buddy_at, room.footprint.buddy_bytes);
    }

    /// Puts an allocation into a place that is free.
    pub(super) fn settle(&mut self, room: Room, own: T) -> Allocation {
        let free = self.slots.iter().position(|slot| slot.live.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, live: None });
            self.slots.len() - 1
        });
        self.slots[index].live = Some(Live { room, own });
        Allocation { pool: self.id, index, generation: self.slots[index].generation }
    }

    /// Gives back an allocation with its room.
    pub(super) fn free(&mut self, allocation: Allocation) -> Result<Live<T>, BuddyError> {
        let slot = self.slot(allocation)?;
        let freed = self.freed(allocation);
        let live = self.slots[slot].live.take().ok_or(freed)?;
        self.slots[slot].generation += 1;
        self.give_back(&live.room);
        Ok(live)
    }

    pub(super) fn live(&self, allocation: Allocation) -> Result<&Live<T>, BuddyError> {
        let slot = self.slot(allocation)?;
        self.slots[slot].live.as_ref().ok_or_else(|| self.freed(allocation))
    }

    pub(super) fn live_mut(&mut self, allocation: Allocation) -> Result<&mut Live<T>, BuddyError> {
        let slot = self.slot(allocation)?;
        let freed = self.freed(allocation);
        self.slots[slot].live.as_mut().ok_or(freed)
    }

    /// All allocations.
    pub(super) fn all(&self) -> impl Iterator<Item = &Live<T>> {
        self.slots.iter().filter_map(|slot| slot.live.as_ref())
    }

    /// The place of an allocation that is not freed.
    fn slot(&self, allocation: Allocation) -> Result<usize, BuddyError> {
        let Allocation { pool, index, generation } = allocation;
        if pool != self.id {
            return Err(BuddyError::OtherPool { owner: pool, pool: self.id });
        }
        // A handle of this pool names one of its places.
        let slot = &self.slots[index];
        let is_live = slot.generation == generation && slot.live.is_some();
        if is_live { Ok(index) } else { Err(self.freed(allocation)) }
    }

    fn freed(&self, Allocation { index, generation, .. }: Allocation) -> BuddyError {
        BuddyError::Freed { index, generation, current: self.slots[index].generation }
    }
}

impl<T> Live<T> {
    pub(super) const fn shape(&self) -> &Shape {
        &self.room.shape
    }

    /// What the allocation takes; what it holds and what has been done to it is for its pool to say.
    pub(super) fn stats(&self) -> Stats {
        let Room { shape, footprint } = &self.room;
        Stats {
            raw_bytes: shape.len,
            device_bytes: footprint.device_bytes,
            metadata_bytes: footprint.metadata_bytes,
            buddy_bytes: footprint.buddy_bytes,
            entries: shape.len.div_ceil(shape.form.entry_len() as u64),
            ..Stats::default()
        }
    }
}

const fn in_device(footprint: &Footprint) -> u64 {
    footprint.device_bytes.saturating_add(footprint.metadata_bytes)
}

fn take(extents: &mut Extents, place: Place, needed: u64) -> Result<u64, BuddyError> {
    extents.take(needed).ok_or_else(|| {
        let (free, largest) = extents.left();
        BuddyError::Exhausted { place, needed, free, largest }
    })
}

/// Fails unless a range is inside an allocation, and as long as a buffer.
pub(super) fn check_range(
    shape: &Shape,
    range: &std::ops::Range<u64>,
    buffer: u64,
) -> Result<(), BuddyError> {
    if range.start > range.end || range.end > shape.len {
        return Err(BuddyError::Outside { range: range.clone(), len: shape.len });
    }
    let len = range.end - range.start;
    if len == buffer { Ok(()) } else { Err(BuddyError::Lengths { range: len, buffer }) }
}

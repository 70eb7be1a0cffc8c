//! The pool: allocations, and the calls on them.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::cache::{METADATA_CACHE_BYTES, MetadataCache};
use super::error::{BuddyError, Place};
use super::extents::Extents;
use super::memory::{HostMemory, Memory, MemoryError};
use super::shape::Shape;
use super::stats::{Counters, Stats};
use super::transfer::Transfer;
use super::{Footprint, Form, Target};

/// Memory that holds more than it has: allocations whose compressed entries lie in device memory, and in buddy
/// memory where they do not fit.
///
/// # Threads
/// Any number of threads may read at once, and nobody while one writes, allocates or frees: reading takes `&self`,
/// all else `&mut self`. Programs that share a pool put it into an `RwLock`.
#[derive(Debug)]
pub struct BuddyPool<D = HostMemory, B = HostMemory> {
    /// Tells handles of this pool from those of others.
    id: u64,
    device: D,
    buddy: B,
    free_device: Extents,
    free_buddy: Extents,
    cache: Mutex<MetadataCache>,
    slots: Vec<Slot>,
    counters: Counters,
}

/// A handle of an allocation. It is of use only to its pool, until it is freed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Allocation {
    pool: u64,
    index: usize,
    generation: u64,
}

/// A place for an allocation.
#[derive(Debug)]
struct Slot {
    /// How often an allocation of this place has been freed.
    generation: u64,
    live: Option<Live>,
}

#[derive(Debug)]
struct Live {
    shape: Shape,
    footprint: Footprint,
    overflowing: u64,
    counters: Counters,
}

impl BuddyPool {
    /// A pool of host memory, all of it zero.
    ///
    /// # Errors
    /// If there is not as much memory.
    pub fn new(device_bytes: u64, buddy_bytes: u64) -> Result<Self, MemoryError> {
        Ok(Self::over(HostMemory::new(device_bytes)?, HostMemory::new(buddy_bytes)?))
    }
}

impl<D: Memory, B: Memory> BuddyPool<D, B> {
    /// A pool of these memories, whatever they hold. All of both is the pool's.
    #[must_use]
    pub fn over(device: D, buddy: B) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            free_device: Extents::new(device.size()),
            free_buddy: Extents::new(buddy.size()),
            device,
            buddy,
            cache: Mutex::new(MetadataCache::new(METADATA_CACHE_BYTES)),
            slots: Vec::new(),
            counters: Counters::default(),
        }
    }

    /// The same pool with a modelled metadata cache of `bytes`, which is empty. It starts with
    /// [`METADATA_CACHE_BYTES`].
    #[must_use]
    pub fn with_metadata_cache(self, bytes: usize) -> Self {
        Self { cache: Mutex::new(MetadataCache::new(bytes)), ..self }
    }

    /// Allocates `len` zero bytes in entries of [`Form::Bpc`].
    ///
    /// # Errors
    /// As [`alloc_as`](Self::alloc_as).
    pub fn alloc(&mut self, len: u64, target: Target) -> Result<Allocation, BuddyError> {
        self.alloc_as(len, Form::Bpc, target)
    }

    /// Allocates `len` zero bytes. What they will hold need not reach the target: what does not fit goes to buddy
    /// memory, for which all room is taken now.
    ///
    /// # Errors
    /// If one of the memories has no room for it, or the form has no such target.
    pub fn alloc_as(&mut self, len: u64, form: Form, target: Target) -> Result<Allocation, BuddyError> {
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
        let live = Live {
            shape: Shape { form, target, len, device_at, metadata_at, buddy_at },
            footprint,
            overflowing: 0,
            counters: Counters::default(),
        };
        if let Err(source) = clear(&mut self.device, metadata_at, footprint.metadata_bytes) {
            self.give_back(&live);
            return Err(BuddyError::Memory { done: 0, source });
        }
        Ok(self.settle(live))
    }

    /// Frees an allocation. Its handle is of no use from then on.
    ///
    /// # Errors
    /// If it is freed already, or another pool's.
    pub fn free(&mut self, allocation: Allocation) -> Result<(), BuddyError> {
        self.check(allocation)?;
        let slot = &mut self.slots[allocation.index];
        slot.generation += 1;
        if let Some(live) = slot.live.take() {
            self.give_back(&live);
        }
        Ok(())
    }

    /// Reads the bytes of `range` to `out`.
    ///
    /// # Errors
    /// If the allocation or the range is not there, `out` is not as long, or an entry is damaged: then `out` is
    /// good as far as the error says and has anything behind that.
    pub fn read(&self, allocation: Allocation, range: Range<u64>, out: &mut [u8]) -> Result<(), BuddyError> {
        let live = self.live(allocation)?;
        check_range(&live.shape, &range, out.len())?;
        let mut transfer = Transfer::new(&live.shape, &self.cache);
        let read = transfer.read((&self.device, &self.buddy), range, out);
        live.counters.add(&transfer.accesses);
        self.counters.add(&transfer.accesses);
        read
    }

    /// Writes `data` to the bytes of `range`. An entry that is written in part is read before.
    ///
    /// # Errors
    /// If the allocation or the range is not there, or `data` is not as long: then nothing is written. If a
    /// memory fails, or an entry that has to be read is damaged: then as much is written as the error says.
    pub fn write(
        &mut self,
        allocation: Allocation,
        range: Range<u64>,
        data: &[u8],
    ) -> Result<(), BuddyError> {
        self.check(allocation)?;
        let Some(live) = &mut self.slots[allocation.index].live else { return Ok(()) };
        check_range(&live.shape, &range, data.len())?;
        let mut transfer = Transfer::new(&live.shape, &self.cache);
        let written = transfer.write((&mut self.device, &mut self.buddy), range, data);
        live.overflowing = live.overflowing.saturating_add_signed(transfer.more_overflowing);
        live.counters.add(&transfer.accesses);
        self.counters.add(&transfer.accesses);
        written
    }

    /// What an allocation holds, and what has been done to it.
    ///
    /// # Errors
    /// If the allocation is not there.
    pub fn allocation_stats(&self, allocation: Allocation) -> Result<Stats, BuddyError> {
        self.live(allocation).map(Live::stats)
    }

    /// What all allocations hold, and what has been done to them and to those that are freed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        self.slots.iter().filter_map(|slot| slot.live.as_ref()).for_each(|live| all += live.stats());
        Stats { accesses: self.counters.so_far(), ..all }
    }

    fn check(&self, allocation: Allocation) -> Result<(), BuddyError> {
        self.live(allocation).map(drop)
    }

    fn live(&self, Allocation { pool, index, generation }: Allocation) -> Result<&Live, BuddyError> {
        if pool != self.id {
            return Err(BuddyError::OtherPool { owner: pool, pool: self.id });
        }
        // A handle of this pool names one of its places.
        let slot = &self.slots[index];
        let live = slot.live.as_ref().filter(|_| slot.generation == generation);
        live.ok_or(BuddyError::Freed { index, generation, current: slot.generation })
    }

    /// Puts an allocation into a place that is free.
    fn settle(&mut self, live: Live) -> Allocation {
        let free = self.slots.iter().position(|slot| slot.live.is_none());
        let index = free.unwrap_or_else(|| {
            self.slots.push(Slot { generation: 0, live: None });
            self.slots.len() - 1
        });
        self.slots[index].live = Some(live);
        Allocation { pool: self.id, index, generation: self.slots[index].generation }
    }

    fn give_back(&mut self, Live { shape, footprint, .. }: &Live) {
        self.free_device.give(shape.device_at, in_device(footprint));
        self.free_buddy.give(shape.buddy_at, footprint.buddy_bytes);
    }
}

#[cfg(test)]
impl<D, B> BuddyPool<D, B> {
    /// Device memory and buddy memory.
    pub(super) const fn memories(&self) -> (&D, &B) {
        (&self.device, &self.buddy)
    }

    pub(super) const fn memories_mut(&mut self) -> (&mut D, &mut B) {
        (&mut self.device, &mut self.buddy)
    }
}

impl Live {
    fn stats(&self) -> Stats {
        Stats {
            raw_bytes: self.shape.len,
            device_bytes: self.footprint.device_bytes,
            metadata_bytes: self.footprint.metadata_bytes,
            buddy_bytes: self.footprint.buddy_bytes,
            entries: self.shape.len.div_ceil(self.shape.form.entry_len() as u64),
            overflowing_entries: self.overflowing,
            accesses: self.counters.so_far(),
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

fn check_range(shape: &Shape, range: &Range<u64>, buffer: usize) -> Result<(), BuddyError> {
    if range.start > range.end || range.end > shape.len {
        return Err(BuddyError::Outside { range: range.clone(), len: shape.len });
    }
    let len = range.end - range.start;
    if len == buffer as u64 { Ok(()) } else { Err(BuddyError::Lengths { range: len, buffer }) }
}

/// Makes `len` bytes at `at` zero.
fn clear(memory: &mut impl Memory, at: u64, len: u64) -> Result<(), MemoryError> {
    let zeros = [0; 4096];
    (0..len).step_by(zeros.len()).try_for_each(|offset| {
        let piece = (len - offset).min(zeros.len() as u64);
        memory.store(at + offset, &zeros[..piece as usize])
    })
}

//! The pool: allocations, and the calls on them.

use std::ops::Range;
use std::sync::Mutex;

use super::cache::{METADATA_CACHE_BYTES, MetadataCache};
use super::error::BuddyError;
use super::ledger::{Allocation, Ledger, Live, check_range};
use super::memory::{HostMemory, Memory, MemoryError};
use super::stats::{Counters, Stats};
use super::transfer::Transfer;
use super::{Form, Target};

/// Memory that holds more than it has: allocations whose compressed entries lie in device memory, and in buddy
/// memory where they do not fit.
///
/// # Threads
/// Any number of threads may read at once, and nobody while one writes, allocates or frees: reading takes `&self`,
/// all else `&mut self`. Programs that share a pool put it into an `RwLock`.
#[derive(Debug)]
pub struct BuddyPool<D = HostMemory, B = HostMemory> {
    device: D,
    buddy: B,
    ledger: Ledger<Known>,
    cache: Mutex<MetadataCache>,
    counters: Counters,
}

/// What the pool knows of an allocation.
#[derive(Debug, Default)]
struct Known {
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
        Self {
            ledger: Ledger::new(device.size(), buddy.size()),
            device,
            buddy,
            cache: Mutex::new(MetadataCache::new(METADATA_CACHE_BYTES)),
            counters: Counters::default(),
        }
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
        let room = self.ledger.take(len, form, target)?;
        if let Err(source) = clear(&mut self.device, room.shape.metadata_at, room.footprint.metadata_bytes) {
            self.ledger.give_back(&room);
            return Err(BuddyError::Memory { done: 0, source });
        }
        Ok(self.ledger.settle(room, Known::default()))
    }

    /// Frees an allocation. Its handle is of no use from then on.
    ///
    /// # Errors
    /// If it is freed already, or another pool's.
    pub fn free(&mut self, allocation: Allocation) -> Result<(), BuddyError> {
        self.ledger.free(allocation).map(drop)
    }

    /// Reads the bytes of `range` to `out`.
    ///
    /// # Errors
    /// If the allocation or the range is not there, `out` is not as long, or an entry is damaged: then `out` is
    /// good as far as the error says and has anything behind that.
    pub fn read(&self, allocation: Allocation, range: Range<u64>, out: &mut [u8]) -> Result<(), BuddyError> {
        let live = self.ledger.live(allocation)?;
        check_range(live.shape(), &range, out.len() as u64)?;
        let mut transfer = Transfer::new(live.shape(), &self.cache);
        let read = transfer.read((&self.device, &self.buddy), range, out);
        live.own.counters.add(&transfer.accesses);
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
        let Live { room, own } = self.ledger.live_mut(allocation)?;
        check_range(&room.shape, &range, data.len() as u64)?;
        let mut transfer = Transfer::new(&room.shape, &self.cache);
        let written = transfer.write((&mut self.device, &mut self.buddy), range, data);
        own.overflowing = own.overflowing.saturating_add_signed(transfer.more_overflowing);
        own.counters.add(&transfer.accesses);
        self.counters.add(&transfer.accesses);
        written
    }

    /// What an allocation holds, and what has been done to it.
    ///
    /// # Errors
    /// If the allocation is not there.
    pub fn allocation_stats(&self, allocation: Allocation) -> Result<Stats, BuddyError> {
        self.ledger.live(allocation).map(stats_of)
    }

    /// What all allocations hold, and what has been done to them and to those that are freed.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let mut all = Stats::default();
        self.ledger.all().for_each(|live| all += stats_of(live));
        Stats { accesses: self.counters.so_far(), ..all }
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

fn stats_of(live: &Live<Known>) -> Stats {
    let Known { overflowing, counters } = &live.own;
    Stats { overflowing_entries: *overflowing, accesses: counters.so_far(), ..live.stats() }
}

/// Makes `len` bytes at `at` zero.
fn clear(memory: &mut impl Memory, at: u64, len: u64) -> Result<(), MemoryError> {
    let zeros = [0; 4096];
    (0..len).step_by(zeros.len()).try_for_each(|offset| {
        let piece = (len - offset).min(zeros.len() as u64);
        memory.store(at + offset, &zeros[..piece as usize])
    })
}

//! Memory of a device or page-locked memory for as long as one payload takes, kept for the next when it is not in use.
//!
//! It is freed with all that use the rooms, and else only where there is no memory left: for that the driver may wait for all
//! that a device does, and a kernel of the program's may wait there for what the thread is to do that frees. So as much is kept
//! of each length as was in use at a time, and all of it together is about twice what was under way. What stays for long is in
//! rooms of blocks instead, within the bound of a pool: there, what is kept makes room for other lengths when the bound is reached.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Pinned, Region};

use super::DeviceSlice;
use crate::pool::{Pool, block_len};

/// Rooms have at least this length, and double from there, or are as long as blocks of pools; those are for nothing shorter.
pub(crate) const SHORTEST_ROOM_BYTES: usize = 64 << 10;

/// What rooms can be made of. To allocate and free it takes longer than to fill it.
pub(crate) trait RoomMemory: Sized {
    fn alloc(device: &Device, len: u64) -> Result<Self, DeviceError>;

    /// All of it, as streams see it.
    fn region(&self) -> Region<'_>;
}

impl RoomMemory for Pinned {
    fn alloc(device: &Device, len: u64) -> Result<Self, DeviceError> {
        device.alloc_pinned(len)
    }

    fn region(&self) -> Region<'_> {
        self.region()
    }
}

impl RoomMemory for Buffer {
    fn alloc(device: &Device, len: u64) -> Result<Self, DeviceError> {
        device.alloc(len)
    }

    fn region(&self) -> Region<'_> {
        self.region()
    }
}

/// Rooms that are not in use.
#[derive(Debug)]
pub(crate) struct Rooms<M> {
    device: Device,
    /// What rooms count in that are as long as its blocks; none = they double.
    blocks: Option<Pool>,
    kept: Mutex<Vec<M>>,
}

impl<M: RoomMemory> Rooms<M> {
    pub(crate) fn new(device: &Device) -> Arc<Self> {
        Arc::new(Self { device: device.clone(), blocks: None, kept: Mutex::default() })
    }

    /// Rooms for what stays for long: as long as blocks of `pool`, which they count in.
    pub(crate) fn of_blocks(device: &Device, pool: Pool) -> Arc<Self> {
        Arc::new(Self { device: device.clone(), blocks: Some(pool), kept: Mutex::default() })
    }

    /// A room of `len` bytes.
    pub(crate) fn take(self: &Arc<Self>, len: usize) -> Result<Room<M>, DeviceError> {
        let whole = if self.blocks.is_some() {
            debug_assert!(len >= SHORTEST_ROOM_BYTES, "{len} bytes in a room of blocks");
            block_len(len)
        } else {
            len.max(SHORTEST_ROOM_BYTES).next_power_of_two()
        };
        self.take_whole(len, whole as u64)
    }

    /// A room of `len` bytes that is at most an eighth longer: where others will have that length too.
    pub(crate) fn take_close(self: &Arc<Self>, len: usize) -> Result<Room<M>, DeviceError> {
        self.take_whole(len, block_len(len.max(SHORTEST_ROOM_BYTES)) as u64)
    }

    fn take_whole(self: &Arc<Self>, len: usize, whole: u64) -> Result<Room<M>, DeviceError> {
        let found = {
            let mut kept = self.kept();
            kept.iter().rposition(|room| room.region().len() == whole).map(|at| kept.remove(at))
        };
        let memory = match found {
            Some(memory) => memory,
            None => self.alloc(whole)?,
        };
        Ok(Room { memory: Some(memory), len, rooms: Arc::clone(self) })
    }

    /// New memory. Where there is none, what is kept makes room for it: to fail is no better than to wait.
    fn alloc(&self, len: u64) -> Result<M, DeviceError> {
        self.lend(len);
        let made = M::alloc(&self.device, len);
        let is_short = made.as_ref().is_err_and(DeviceError::is_out_of_memory);
        let made = if is_short && self.free_all() { M::alloc(&self.device, len) } else { made };
        if made.is_err() {
            self.give_back(len);
        }
        made
    }

    /// Counts new memory.
    fn lend(&self, len: u64) {
        if let Some(pool) = &self.blocks {
            self.within_bound(pool, len as usize, || pool.lend_elsewhere(len as usize));
        }
    }

    /// Has `take` count `len` bytes in `pool`, in which these rooms count. What is kept makes room for them, the oldest first.
    pub(crate) fn within_bound<T>(&self, pool: &Pool, len: usize, take: impl FnOnce() -> T) -> T {
        let mut freed = Vec::new();
        let mut kept = self.kept();
        while !kept.is_empty() && !pool.has_room_beside(len) {
            let memory = kept.remove(0);
            self.give_back(memory.region().len());
            freed.push(memory);
        }
        let taken = take();
        drop(kept);
        self.free(freed); // without the lock
        taken
    }

    /// Frees all that is kept, if anything is.
    fn free_all(&self) -> bool {
        let kept = std::mem::take(&mut *self.kept());
        kept.iter().for_each(|memory| self.give_back(memory.region().len()));
        let is_any = !kept.is_empty();
        self.free(kept);
        is_any
    }

    fn give_back(&self, len: u64) {
        if let Some(pool) = &self.blocks {
            pool.give_back(len as usize);
        }
    }
}

impl<M> Rooms<M> {
    /// Called on whatever thread drops a payload.
    fn keep(&self, memory: M) {
        self.kept().push(memory);
    }

    fn kept(&self) -> MutexGuard<'_, Vec<M>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Frees memory, on whatever thread this is: streams may record meanwhile.
    fn free(&self, memory: Vec<M>) {
        if !memory.is_empty() {
            self.device.relaxed(|| drop(memory));
        }
    }
}

impl<M> Drop for Rooms<M> {
    fn drop(&mut self) {
        let kept = std::mem::take(&mut *self.kept());
        self.free(kept);
    }
}

/// Memory that goes back when dropped. Whoever has enqueued work that uses it keeps it until that has ended.
#[derive(Debug)]
pub(crate) struct Room<M> {
    /// There until it is dropped.
    memory: Option<M>,
    len: usize,
    rooms: Arc<Rooms<M>>,
}

impl<M> Room<M> {
    pub(crate) fn memory(&self) -> &M {
        self.memory.as_ref().expect("there until it is dropped")
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Leaves it as many of its bytes, from the first on.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Whether it is one of `rooms`.
    pub(crate) fn is_of(&self, rooms: &Arc<Rooms<M>>) -> bool {
        Arc::ptr_eq(&self.rooms, rooms)
    }

    /// Who it was made for.
    pub(crate) fn device(&self) -> &Device {
        &self.rooms.device
    }
}

impl<M: RoomMemory> Room<M> {
    /// It, as streams see it.
    pub(crate) fn region(&self) -> Region<'_> {
        self.memory().region().slice(0..self.len as u64)
    }
}

impl<M> Drop for Room<M> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.rooms.keep(memory);
        }
    }
}

/// Bytes in the memory of a device. No work writes there any more.
#[derive(Clone, Debug)]
pub(crate) struct DeviceBytes {
    place: Where,
    len: u64,
}

#[derive(Clone, Debug)]
enum Where {
    /// From its start.
    Room(Arc<Room<Buffer>>),
    Buffer(DeviceSlice),
}

impl DeviceBytes {
    /// The first `len` bytes of `room`, which all work on has ended.
    pub(crate) fn new(room: Room<Buffer>, len: u64) -> Self {
        Self { place: Where::Room(Arc::new(room)), len }
    }

    /// All of `slice`, which is not written to any more.
    pub(crate) fn whole(slice: DeviceSlice) -> Self {
        Self { len: slice.len() as u64, place: Where::Buffer(slice) }
    }

    pub(crate) fn device(&self) -> &Device {
        match &self.place {
            Where::Room(room) => room.device(),
            Where::Buffer(slice) => slice.device(),
        }
    }

    pub(crate) fn len(&self) -> u64 {
        self.len
    }

    pub(crate) fn region(&self) -> Region<'_> {
        match &self.place {
            Where::Room(room) => room.region().slice(0..self.len),
            Where::Buffer(slice) => slice.region(),
        }
    }

    /// A copy in host memory, which is waited for.
    pub(crate) fn fetch(&self) -> Result<bytes::Bytes, DeviceError> {
        let mut bytes = vec![0; self.len as usize];
        // Also where another thread records.
        let device = self.device();
        device.relaxed(|| device.stream()?.download(self.region(), &mut bytes))?;
        Ok(bytes.into())
    }
}

//! Page-locked memory of the host on the way to or from a device.
#![allow(unsafe_code)] // bytes that streams write and read

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Pinned, Region, Stream, Word};

/// Rooms have at least this length, and double from there.
const SHORTEST_BYTES: usize = 64 << 10;
/// Bytes that are kept for later once work has ended.
const KEPT_BYTES: u64 = 64 << 20;

/// Rooms that are not in use. To lock and unlock pages takes longer than to fill them.
#[derive(Debug)]
pub(super) struct Staging {
    device: Device,
    /// The oldest first.
    kept: Mutex<Vec<Pinned>>,
}

impl Staging {
    pub(super) fn new(device: &Device) -> Arc<Self> {
        Arc::new(Self { device: device.clone(), kept: Mutex::default() })
    }

    /// A room of `len` bytes that `fill` has written to.
    pub(super) fn filled<E: From<DeviceError>>(
        self: &Arc<Self>,
        len: usize,
        fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
    ) -> Result<Room, E> {
        let room = self.take(len)?;
        // SAFETY: the memory has at least `len` bytes; the room is new, so nobody else knows it, and no work.
        fill(unsafe { std::slice::from_raw_parts_mut(room.memory().as_ptr(), len) })?;
        Ok(room)
    }

    /// A room of `len` bytes.
    pub(super) fn take(self: &Arc<Self>, len: usize) -> Result<Room, DeviceError> {
        let whole = len.max(SHORTEST_BYTES).next_power_of_two() as u64;
        let found = {
            let mut kept = self.kept();
            kept.iter().rposition(|room| room.region().len() == whole).map(|at| kept.remove(at))
        };
        let memory = match found {
            Some(memory) => memory,
            None => self.device.alloc_pinned(whole)?,
        };
        Ok(Room { memory: Some(memory), len, staging: Arc::clone(self) })
    }

    /// Called on whatever thread drops a payload, so nothing is freed here: for that the driver waits for the device.
    fn keep(&self, memory: Pinned) {
        self.kept().push(memory);
    }

    /// Frees the oldest of what is too much to be kept. May wait for all work on the device.
    pub(super) fn trim(&self) {
        let excess: Vec<Pinned> = {
            let mut kept = self.kept();
            let count = too_many(kept.iter().map(|room| room.region().len()));
            kept.drain(..count).collect()
        };
        drop(excess); // without the lock
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Pinned>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// How many rooms of these lengths, the oldest first, have to go.
fn too_many(lens: impl DoubleEndedIterator<Item = u64> + ExactSizeIterator) -> usize {
    let count = lens.len();
    let mut total = 0;
    let stay = lens.rev().take_while(|len| {
        total += len;
        total <= KEPT_BYTES
    });
    count - stay.count()
}

/// Page-locked memory that goes back when dropped. Whoever has enqueued work that uses it keeps it until that has ended.
#[derive(Debug)]
pub(super) struct Room {
    /// There until it is dropped.
    memory: Option<Pinned>,
    len: usize,
    staging: Arc<Staging>,
}

impl Room {
    fn memory(&self) -> &Pinned {
        self.memory.as_ref().expect("there until it is dropped")
    }

    /// It, as streams see it.
    pub(super) fn region(&self) -> Region<'_> {
        self.memory().region().slice(0..self.len as u64)
    }

    /// What work has left in it.
    ///
    /// # Safety
    /// No work that uses it may be under way, nor be enqueued later.
    pub(super) unsafe fn into_ready(self) -> Ready {
        Ready(self)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.staging.keep(memory);
        }
    }
}

/// A room that no work uses any more: bytes like any others.
#[derive(Debug)]
pub(super) struct Ready(Room);

impl AsRef<[u8]> for Ready {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory has at least `len` bytes, and nobody writes to them: `into_ready` was told so.
        unsafe { std::slice::from_raw_parts(self.0.memory().as_ptr(), self.0.len) }
    }
}

/// Words of 64 bits that kernels leave their findings in, and what the host has seen of them.
#[derive(Debug)]
pub(super) struct Words {
    on_device: Buffer,
    on_host: Pinned,
    /// Recorded behind the last fetch.
    fetched: Event,
}

impl Words {
    pub(super) fn new(device: &Device, count: usize) -> Result<Self, DeviceError> {
        let len = 8 * count as u64;
        let (on_device, on_host) = (device.alloc(len)?, device.alloc_pinned(len)?);
        Ok(Self { on_device, on_host, fetched: device.milestone()? })
    }

    /// The word with this number, on the device.
    pub(super) fn word(&self, number: usize) -> Word<'_> {
        self.on_device.region().word(8 * number as u64)
    }

    /// Enqueues a copy of the first `count` words to the host, behind what is to fill them.
    pub(super) fn fetch(&mut self, stream: &Stream, count: usize) -> Result<(), DeviceError> {
        let len = 8 * count as u64;
        stream.copy(self.on_device.region().slice(0..len), self.on_host.region())?;
        stream.record(&self.fetched)
    }

    /// Waits for the last fetch. As long as the result is used, there is no other.
    pub(super) fn wait(&mut self) -> Result<&[u64], DeviceError> {
        self.fetched.wait()?;
        let count = self.on_host.region().len() as usize / 8;
        // SAFETY: the memory has so many words, on a multiple of 8; only a fetch writes there. The last one has ended, and
        // the next one needs `self`.
        Ok(unsafe { std::slice::from_raw_parts(self.on_host.as_ptr().cast(), count) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_rooms_go() {
        let too_many = |lens: &[u64]| super::too_many(lens.iter().copied());
        assert_eq!(too_many(&[]), 0);
        assert_eq!(too_many(&[KEPT_BYTES / 2; 2]), 0);
        assert_eq!(too_many(&[1, KEPT_BYTES / 2, KEPT_BYTES / 2]), 1);
        assert_eq!(too_many(&[1, KEPT_BYTES + 1]), 2);
    }
}

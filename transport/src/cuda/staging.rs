//! Page-locked memory of the host on the way to or from a device.
#![allow(unsafe_code)] // bytes that streams write and read

use std::sync::Arc;

use mgcomp_codecs::device::{Device, DeviceError, Pinned, Stream, Word};

use super::mark::Mark;
use crate::memory::{self as rooms, Rooms};

/// Page-locked rooms.
pub(crate) type Staging = Rooms<Pinned>;

/// Page-locked memory that goes back when dropped.
pub(crate) type Room = rooms::Room<Pinned>;

/// A room of `len` bytes that `fill` has written to.
pub(crate) fn filled<E: From<DeviceError>>(
    staging: &Arc<Staging>,
    len: usize,
    fill: impl FnOnce(&mut [u8]) -> Result<(), E>,
) -> Result<Room, E> {
    let room = staging.take(len)?;
    // SAFETY: the memory has at least `len` bytes; the room is new, so nobody else knows it, and no work.
    fill(unsafe { std::slice::from_raw_parts_mut(room.memory().as_ptr(), len) })?;
    Ok(room)
}

/// A room that no work uses any more: bytes like any others.
#[derive(Debug)]
pub(crate) struct Ready(Room);

impl Ready {
    /// What work has left in `room`.
    ///
    /// # Safety
    /// No work that uses it may be under way, nor be enqueued later.
    pub(crate) unsafe fn new(room: Room) -> Self {
        Self(room)
    }
}

impl AsRef<[u8]> for Ready {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory has at least `len` bytes, and nobody writes to them: `new` was told so.
        unsafe { std::slice::from_raw_parts(self.0.memory().as_ptr(), self.0.len()) }
    }
}

/// Words of 64 bits that kernels leave their findings in: in memory of the host, since a copy from the device's would wait
/// there for those of payloads.
#[derive(Debug)]
pub(crate) struct Words {
    memory: Pinned,
    /// Recorded behind what fills them.
    filled: Mark,
}

impl Words {
    pub(crate) fn new(device: &Device, count: usize) -> Result<Self, DeviceError> {
        Ok(Self { memory: device.alloc_pinned(8 * count as u64)?, filled: Mark::new(device)? })
    }

    /// The word with this number.
    pub(crate) fn word(&self, number: usize) -> Word<'_> {
        self.memory.region().word(8 * number as u64)
    }

    /// Marks the end of what is enqueued on `stream` to fill them.
    pub(crate) fn mark(&mut self, stream: &Stream) -> Result<(), DeviceError> {
        self.filled.set(stream)
    }

    /// Waits for the last mark. As long as the result is used, nothing that fills them is enqueued.
    pub(crate) fn wait(&mut self) -> Result<&[u64], DeviceError> {
        self.filled.wait()?;
        let count = self.memory.region().len() as usize / 8;
        // SAFETY: the memory has so many words, on a multiple of 8; only kernels write there. Those before the mark have ended,
        // and whoever enqueues others needs `self`.
        Ok(unsafe { std::slice::from_raw_parts(self.memory.as_ptr().cast(), count) })
    }
}

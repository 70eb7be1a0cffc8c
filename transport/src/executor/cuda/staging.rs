//! Page-locked memory of the host on the way to or from a device.
#![allow(unsafe_code)] // bytes that streams write and read

use std::sync::Arc;

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Event, Pinned, Stream, Word};

use crate::memory::{self as rooms, Rooms};

/// Page-locked rooms.
pub(super) type Staging = Rooms<Pinned>;

/// Page-locked memory that goes back when dropped.
pub(crate) type Room = rooms::Room<Pinned>;

/// A room of `len` bytes that `fill` has written to.
pub(super) fn filled<E: From<DeviceError>>(
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

//! Copies out of a device's memory to one peer: a stream of their own, so that those to other peers neither wait for them nor
//! hold them up.
#![allow(unsafe_code)] // page-locked memory that a stream has written

use std::sync::Arc;

use bytes::Bytes;
use mgcomp_codecs::device::{Device, DeviceError, Event, Pinned, Region, Stream};

use crate::cuda::staging::Ready;
use crate::memory::{DeviceBytes, Room, Rooms};

/// What copies to a peer take.
pub(super) struct Copies {
    device: Device,
    stream: Stream,
    /// That are not in use.
    events: Vec<Event>,
    /// Of all peers: what one has left there, the others need not make.
    staging: Arc<Rooms<Pinned>>,
}

/// A payload on its way to page-locked memory.
pub(super) struct Staged {
    room: Room<Pinned>,
    done: Event,
}

impl Copies {
    pub(super) fn new(device: &Device, staging: &Arc<Rooms<Pinned>>) -> Result<Self, DeviceError> {
        let (stream, staging) = (device.stream()?, staging.clone());
        Ok(Self { device: device.clone(), stream, events: Vec::new(), staging })
    }

    /// Begins a copy to a peer's window.
    pub(super) fn begin(&mut self, from: &DeviceBytes, to: Region<'_>) -> Result<Event, DeviceError> {
        let done = self.event()?;
        self.enqueued(self.stream.copy(from.region(), to).and_then(|()| self.stream.record(&done)))?;
        Ok(done)
    }

    /// Begins a copy to page-locked memory.
    pub(super) fn stage(&mut self, from: &DeviceBytes) -> Result<Staged, DeviceError> {
        let done = self.event()?;
        let room = self.staging.take(from.len() as usize)?;
        let copied = self.stream.copy(from.region(), room.region());
        self.enqueued(copied.and_then(|()| self.stream.record(&done)))?;
        Ok(Staged { room, done })
    }

    /// Waits for the end of a copy. After an error nothing is under way on the stream.
    pub(super) fn finish(&mut self, done: Event) -> Result<(), DeviceError> {
        self.enqueued(done.wait())?;
        self.events.push(done);
        Ok(())
    }

    /// The same of one to page-locked memory, and what has come there.
    pub(super) fn finish_staged(&mut self, staged: Staged) -> Result<Bytes, DeviceError> {
        let Staged { room, done } = staged;
        self.finish(done)?;
        // SAFETY: the copy has ended, and the room is nobody else's.
        Ok(Bytes::from_owner(unsafe { Ready::new(room) }))
    }

    fn event(&mut self) -> Result<Event, DeviceError> {
        self.events.pop().map_or_else(|| self.device.milestone(), Ok)
    }

    /// After an error, nothing may be under way; a lost context runs nothing any more.
    fn enqueued(&self, result: Result<(), DeviceError>) -> Result<(), DeviceError> {
        result.inspect_err(|_| drop(self.stream.wait()))
    }
}

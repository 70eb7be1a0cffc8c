//! A stream with all that a piece of work on it needs.
#![allow(unsafe_code)] // bytes that streams read

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use mgcomp_codecs::Element;
use mgcomp_codecs::device::{
    Buffer, Coder, Compress, Decompress, Device, DeviceError, Event, Region, Stream, workspace_len,
};

use crate::cuda::mark::Mark;
use crate::cuda::sampling;
use crate::cuda::scratch::{GrowingWorkspace, Scratch};
use crate::cuda::staging::{Room, Staging, Words};
use crate::memory::{self, DeviceHold, DeviceSlice, Rooms, SHORTEST_ROOM_BYTES, Shelf};

/// Words that one piece of work can use.
pub(super) const WORDS: usize = 2048;
/// Kernels store frames of no more raw bytes straight into page-locked memory, and read no longer frames from there: it takes
/// less time than to hear of a length and to copy. With longer ones they would keep multiprocessors busy for as long as the way takes,
/// and each needs room there for what does not shrink.
const STRAIGHT_BYTES: u64 = 1 << 20;

/// One piece of work is on a lane at a time. Work waits for what its slice is to wait for, and for nothing else.
#[derive(Debug)]
pub(super) struct Lane {
    device: Device,
    stream: Stream,
    staging: Arc<Staging>,
    /// Where what comes of work is left on the device, if the link takes it from there and there is memory.
    leaving: Option<Arc<Rooms<Buffer>>>,
    /// Recorded behind all that is enqueued.
    done: Mark,
    workspace: GrowingWorkspace,
    pub(super) words: Words,
    /// For frames.
    coded: Scratch,
    /// For raw bytes before it is known whether they are good.
    raw: Scratch,
    /// What the work that is under way uses. Let go when it has ended.
    hold: Option<DeviceHold>,
    room: Option<Room>,
    /// Page-locked bytes of somebody else's.
    lent: Option<Bytes>,
    /// What is left on the device.
    left: Option<memory::Room<Buffer>>,
    /// What was to be left there, and came to nothing.
    spoiled: Option<memory::Room<Buffer>>,
    /// When what is under way began; that on memory when it was held.
    started: Instant,
    /// When it could be used, by the clock of the device, if that was later.
    held_up: Option<Event>,
}

/// Where a frame is.
#[derive(Debug)]
pub(super) enum Coded<'a> {
    Staged(Room),
    /// In page-locked memory.
    Lent(Bytes),
    /// On the device, where a peer may write as long as it likes.
    There(Region<'a>),
}

/// Where raw bytes are decoded to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Destination {
    Place,
    Scratch,
}

impl Lane {
    pub(super) fn new(
        device: &Device,
        staging: &Arc<Staging>,
        leaving: Option<&Arc<Rooms<Buffer>>>,
    ) -> Result<Self, DeviceError> {
        Ok(Self {
            device: device.clone(),
            stream: device.stream()?,
            staging: Arc::clone(staging),
            leaving: leaving.cloned(),
            done: Mark::new(device)?,
            workspace: GrowingWorkspace::default(),
            words: Words::new(device, WORDS)?,
            coded: Scratch::default(),
            raw: Scratch::default(),
            hold: None,
            room: None,
            lent: None,
            left: None,
            spoiled: None,
            started: Instant::now(),
            held_up: None,
        })
    }

    /// Whose memory it is for.
    pub(super) fn device(&self) -> &Device {
        &self.device
    }

    /// Where rooms come from.
    pub(super) fn staging(&self) -> &Arc<Staging> {
        &self.staging
    }

    /// Begins work that may turn out to need nothing.
    pub(super) fn prepare(&mut self) {
        (self.started, self.held_up) = (Instant::now(), None);
    }

    /// Begins work on memory that is held for it.
    pub(super) fn begin(&mut self, hold: DeviceHold) -> Result<(), DeviceError> {
        let ordered = hold.slice().order(&self.stream);
        let slice = self.hold.insert(hold).slice();
        self.started = Instant::now();
        ordered?;
        if let Some(event) = slice.awaited()
            && !event.is_over()?
        {
            let mark = self.device.event()?;
            self.stream.record(&mark)?;
            self.held_up = Some(mark);
        }
        Ok(())
    }

    /// When work of which nothing is under way any more began: when its memory could be used, less what was `prepared` until then.
    pub(super) fn began(&mut self, prepared: Duration) -> Instant {
        let Some(mark) = self.held_up.take() else { return self.started };
        let since = || {
            let now = self.device.event()?;
            self.stream.record(&now)?;
            now.wait()?;
            now.since(&mark)
        };
        let took = since().unwrap_or_else(|_| self.started.elapsed()); // nothing good has come of it then
        Instant::now().checked_sub(took + prepared).map_or(self.started, |began| began.max(self.started))
    }

    /// When what is under way began, its memory at hand or not.
    pub(super) const fn started(&self) -> Instant {
        self.started
    }

    /// Marks the end of what was enqueued.
    pub(super) fn mark(&self) -> Result<(), DeviceError> {
        self.done.set(&self.stream)
    }

    /// Waits until what was enqueued before the mark has ended.
    pub(super) fn wait(&self) -> Result<(), DeviceError> {
        self.done.wait()
    }

    /// Ends work of which nothing is under way any more. Returns the room that it used.
    pub(super) fn end(&mut self) -> Option<Room> {
        self.hold = None;
        (self.left, self.spoiled, self.lent) = (None, None, None);
        self.room.take()
    }

    /// What work that has ended has left on the device.
    pub(super) fn take_left(&mut self) -> Option<memory::Room<Buffer>> {
        self.left.take()
    }

    /// Ends work that has gone wrong: only when nothing is on the stream any more, what it uses may be let go. If even
    /// that cannot be waited for, the context is lost and runs nothing any more.
    pub(super) fn abandon(&mut self) {
        if let Err(error) = self.stream.wait() {
            tracing::warn!(%error, "a stream does not come to its end");
        }
        self.end();
    }

    /// Enqueues a copy of the memory to a new room, on the device if it may be left there and fits.
    pub(super) fn copy_out(&mut self, shelf: Option<&Shelf>) -> Result<(), DeviceError> {
        // Work that has failed may still use the one before.
        self.spoiled = self.left.take();
        let slice = held(self.hold.as_ref());
        if let Some(room) = self.room_to_leave(slice.len())? {
            let room = self.left.insert(room);
            return self.stream.copy(slice.region(), room.region());
        }
        // The same of this one, if there is one; the copy comes behind it.
        let room = match self.room.take() {
            Some(mut room) => {
                room.truncate(slice.len());
                room
            }
            None => self.host_room(slice.len(), shelf)?,
        };
        let room = self.room.insert(room);
        self.stream.copy(slice.region(), room.region())
    }

    /// Enqueues a copy of what is on this device already to the memory.
    pub(super) fn copy_here(&mut self, from: Region<'_>) -> Result<(), DeviceError> {
        self.stream.copy(from, held(self.hold.as_ref()).region())
    }

    /// Leaves the room of the host's where the kernel has stored its frame the `len` bytes of it; whether it has stored it in one.
    pub(super) fn cut_frame(&mut self, len: u64) -> bool {
        if let Some(room) = &mut self.room {
            room.truncate(len as usize);
        }
        self.room.is_some()
    }

    /// Enqueues a copy of the frame's first `len` bytes to a new room.
    pub(super) fn copy_frame_out(&mut self, len: u64, shelf: Option<&Shelf>) -> Result<(), DeviceError> {
        self.room = Some(self.host_room(len as usize, shelf)?);
        let frame = self.coded.room(&self.device, len)?;
        self.room.as_ref().map_or(Ok(()), |room| self.stream.copy(frame, room.region()))
    }

    /// A room on the device for what may be left there. Where there is none, as on a device that is full, bytes go by way of the
    /// host.
    fn room_to_leave(&self, len: usize) -> Result<Option<memory::Room<Buffer>>, DeviceError> {
        match self.leaving.as_ref().map(|leaving| leaving.take(len)).transpose() {
            Err(error) if !error.is_sticky() => {
                tracing::warn!(%error, "a payload is not left on its device");
                Ok(None)
            }
            room => room,
        }
    }

    /// A room of the host's. Short bytes have none on shelves, nor have any where there is no memory.
    fn host_room(&self, len: usize, shelf: Option<&Shelf>) -> Result<Room, DeviceError> {
        if let Some(shelf) = shelf.filter(|_| len >= SHORTEST_ROOM_BYTES) {
            match shelf.rooms(&self.device).take(len) {
                Ok(room) => return Ok(room),
                Err(error) => tracing::warn!(%error, "what is to stay is copied to ordinary memory"),
            }
        }
        self.staging.take(len)
    }

    /// Enqueues a copy of page-locked bytes to the memory.
    pub(super) fn copy_lent_in(&mut self, bytes: Bytes) -> Result<(), DeviceError> {
        let slice = held(self.hold.as_ref());
        self.stream.copy(region_of(self.lent.insert(bytes)), slice.region())
    }

    /// Enqueues a copy of `room` to the memory.
    pub(super) fn copy_in(&mut self, room: Room) -> Result<(), DeviceError> {
        let slice = held(self.hold.as_ref());
        self.stream.copy(self.room.insert(room).region(), slice.region())
    }

    /// Enqueues a copy of the scratch to the memory.
    pub(super) fn copy_scratch_in(&mut self) -> Result<(), DeviceError> {
        let slice = held(self.hold.as_ref());
        self.stream.copy(self.raw.room(&self.device, slice.len() as u64)?, slice.region())
    }

    /// Enqueues the compression of the memory: word 0 will be the frame's length, word 1 the status. What is to lie on a shelf
    /// gets a room once its length is known.
    pub(super) fn compress(
        &mut self,
        coder: &Coder,
        element: Element,
        shelf: Option<&Shelf>,
    ) -> Result<(), DeviceError> {
        let src = held(self.hold.as_ref()).region();
        let room = coder.max_frame_len(src.len());
        let leaving = self.room_to_leave(room as usize)?;
        let needed = workspace_len(coder.chunk_size(), &[src.len()]);
        let workspace = self.workspace.grown(&self.device, &self.stream, needed)?;
        let dst = match leaving {
            Some(room) => self.left.insert(room).region(),
            None if shelf.is_none() && src.len() <= STRAIGHT_BYTES => {
                // As for the next power of two: what is kept of each length is as much as was in use, so there are to be few.
                let room = coder.max_frame_len(src.len().next_power_of_two());
                self.room.insert(self.staging.take_close(room as usize)?).region()
            }
            None => self.coded.room(&self.device, room)?,
        };
        let (len, status) = (self.words.word(0), self.words.word(1));
        let job = Compress { element, src, dst, codebook: None, len, status };
        coder.compress(&self.stream, workspace, &[job])?;
        self.words.mark(&self.stream)
    }

    /// Enqueues the decompression of the frame: word 1 will be the status.
    pub(super) fn decompress(
        &mut self,
        coder: &Coder,
        coded: Coded<'_>,
        into: Destination,
    ) -> Result<(), DeviceError> {
        let slice = held(self.hold.as_ref());
        let src = match coded {
            Coded::Staged(room) => {
                brought(self.room.insert(room).region(), &mut self.coded, &self.device, &self.stream)?
            }
            Coded::Lent(bytes) => {
                brought(region_of(self.lent.insert(bytes)), &mut self.coded, &self.device, &self.stream)?
            }
            // All of a frame is decoded, or nothing of it is to be seen. Each block reads the header for itself, so all must find the
            // same one, or parts of the scratch stay what they were.
            Coded::There(region) if into == Destination::Scratch => {
                copied(region, &mut self.coded, &self.device, &self.stream)?
            }
            // A peer that changes it meanwhile may have parts of the place stay what they were, which are the receiver's own.
            Coded::There(region) => region,
        };
        let dst = match into {
            Destination::Place => slice.region(),
            Destination::Scratch => self.raw.room(&self.device, slice.len() as u64)?,
        };
        let needed = workspace_len(coder.chunk_size(), &[]);
        let workspace = self.workspace.grown(&self.device, &self.stream, needed)?;
        let job = Decompress { src, src_len: None, dst, status: self.words.word(1) };
        coder.decompress(&self.stream, workspace, &[job])?;
        self.words.mark(&self.stream)
    }

    /// Enqueues the estimation of `pieces` of the memory, each an offset and a length: length and status of each will be
    /// in the words from `first` on.
    pub(super) fn estimate(
        &mut self,
        coder: &Coder,
        element: Element,
        pieces: &[(u64, u64)],
        first: usize,
    ) -> Result<(), DeviceError> {
        let memory = held(self.hold.as_ref()).region();
        let needed = workspace_len(coder.chunk_size(), &[]);
        let workspace = self.workspace.grown(&self.device, &self.stream, needed)?;
        let with = (coder, &self.stream, workspace);
        sampling::estimate(with, (element, memory), pieces, (&self.words, first))
    }

    /// Marks the end of what was enqueued to fill the words.
    pub(super) fn mark_words(&mut self) -> Result<(), DeviceError> {
        self.words.mark(&self.stream)
    }
}

impl Drop for Lane {
    fn drop(&mut self) {
        if self.hold.is_some() {
            self.abandon();
        }
    }
}

/// Page-locked bytes as streams see them; whoever enqueues work that reads them keeps them until it has ended.
fn region_of(bytes: &Bytes) -> Region<'_> {
    // SAFETY: the bytes are there for as long as the borrow, and a lane lets them go when work has ended.
    unsafe { Region::from_raw(bytes.as_ptr().expose_provenance() as u64, bytes.len() as u64) }
}

/// Where kernels read a frame that is in page-locked memory: there, or where it is copied to.
fn brought<'a>(
    frame: Region<'a>,
    scratch: &'a mut Scratch,
    device: &Device,
    stream: &Stream,
) -> Result<Region<'a>, DeviceError> {
    if frame.len() <= STRAIGHT_BYTES { Ok(frame) } else { copied(frame, scratch, device, stream) }
}

/// Where a frame is copied to.
fn copied<'a>(
    frame: Region<'_>,
    scratch: &'a mut Scratch,
    device: &Device,
    stream: &Stream,
) -> Result<Region<'a>, DeviceError> {
    let src = scratch.room(device, frame.len())?;
    stream.copy(frame, src)?;
    Ok(src)
}

/// The memory that work is on.
fn held(hold: Option<&DeviceHold>) -> &DeviceSlice {
    hold.expect("work has begun").slice()
}

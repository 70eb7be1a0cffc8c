//! Memory that several threads and several peers use at once: of the host, and with the feature `cuda` of devices.
//!
//! A peer may read or write a registered buffer at any moment. To keep that sound, bytes are only reached
//! while their range is held: by any number of readers, or one writer, per range; ranges that do
//! not overlap do not disturb each other.
#![allow(unsafe_code)]

#[cfg(feature = "cuda")]
mod device;
pub(crate) mod pages;
mod ranges;
#[cfg(feature = "cuda")]
mod relaxed;
#[cfg(feature = "cuda")]
mod rooms;
mod shelf;
mod slice;

use std::fmt;
use std::ops::{Deref, DerefMut, Range};
use std::ptr::NonNull;
use std::sync::Arc;

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::{DeviceError, Event, Stream};

#[cfg(feature = "cuda")]
pub use device::{DeviceBuffer, DeviceSlice};
pub(crate) use slice::Stretch;
pub use slice::{AnySlice, Slice};

#[cfg(feature = "cuda")]
pub(crate) use device::DeviceHold;
use ranges::{Ranges, Use, overlap};
#[cfg(feature = "cuda")]
pub(crate) use relaxed::Relaxed;
#[cfg(feature = "cuda")]
pub(crate) use rooms::{DeviceBytes, Room, Rooms, SHORTEST_ROOM_BYTES};
pub use shelf::Shelf;

/// A buffer in host memory, shared by reference.
#[derive(Clone)]
pub struct HostBuffer {
    shared: Arc<Shared>,
}

struct Shared {
    bytes: NonNull<u8>,
    len: usize,
    /// Whether the bytes are freed with this.
    is_owner: bool,
    ranges: Ranges,
}

// SAFETY: the bytes are plain memory, of `Shared` or lent to it; references to a range are handed out only while `ranges`
// records them, so that no two threads have conflicting ones.
unsafe impl Send for Shared {}
// SAFETY: as above; everything else in `Shared` is `Sync` by itself.
unsafe impl Sync for Shared {}

impl HostBuffer {
    /// A buffer of `len` zero bytes.
    #[must_use]
    pub fn zeroed(len: usize) -> Self {
        Self::from(vec![0; len])
    }

    /// The `len` bytes at `start`, which belong to somebody else. Two buffers of the same memory do not know of each other:
    /// what is done with them at once is in no order.
    ///
    /// # Safety
    /// The bytes must be there, at most `isize::MAX` of them, and nobody else may change them (or, where the buffer is written,
    /// look at them) while it is used: until this value says that it [is the only one](Self::is_only), or is the last one
    /// that is dropped.
    #[must_use]
    pub unsafe fn lent(start: NonNull<u8>, len: usize) -> Self {
        Self::of(start, len, false)
    }

    fn of(bytes: NonNull<u8>, len: usize, is_owner: bool) -> Self {
        Self { shared: Arc::new(Shared { bytes, len, is_owner, ranges: Ranges::default() }) }
    }

    /// Whether nobody else uses the buffer any more: no clone of it is left, and no slice. What they did has happened.
    #[must_use]
    pub fn is_only(&mut self) -> bool {
        Arc::get_mut(&mut self.shared).is_some()
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shared.len
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.len == 0
    }

    /// The whole buffer as a slice.
    #[must_use]
    pub fn all(&self) -> HostSlice {
        HostSlice::of(self.clone(), 0..self.len())
    }

    /// The bytes of `range`, or `None` if the buffer does not have them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<HostSlice> {
        (range.start <= range.end && range.end <= self.len()).then(|| HostSlice::of(self.clone(), range))
    }
}

impl From<Vec<u8>> for HostBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        let bytes = Box::leak(bytes.into_boxed_slice());
        let len = bytes.len();
        Self::of(NonNull::from(bytes).cast(), len, true)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if self.is_owner {
            let bytes = std::ptr::slice_from_raw_parts_mut(self.bytes.as_ptr(), self.len);
            // SAFETY: pointer and length came from a leaked box in `From<Vec<u8>>`, and the last reference to it is gone.
            drop(unsafe { Box::from_raw(bytes) });
        }
    }
}

impl fmt::Debug for HostBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HostBuffer({} bytes)", self.len())
    }
}

/// A range of a [`HostBuffer`].
#[derive(Clone, Debug)]
pub struct HostSlice {
    buffer: HostBuffer,
    range: Range<usize>,
    /// What must have happened before it is used.
    #[cfg(feature = "cuda")]
    ready: Option<Arc<Event>>,
}

impl HostSlice {
    fn of(buffer: HostBuffer, range: Range<usize>) -> Self {
        Self {
            buffer,
            range,
            #[cfg(feature = "cuda")]
            ready: None,
        }
    }

    /// The same bytes, to be used after all work that is on `stream` now, such as a copy to them. Whoever holds them waits for that.
    ///
    /// # Errors
    /// [`DeviceError::Recording`] if `stream` records a graph, and whatever the driver says.
    #[cfg(feature = "cuda")]
    pub fn after(&self, stream: &Stream) -> Result<Self, DeviceError> {
        Ok(Self { ready: Some(Arc::new(device::end_of(stream)?)), ..self.clone() })
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.range.len()
    }

    /// Whether the slice has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.range.is_empty()
    }

    /// The part of `len` bytes from `offset` on, or `None` if the slice does not have it.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        let start = self.range.start.checked_add(offset)?;
        let end = start.checked_add(len)?;
        (end <= self.range.end).then(|| Self { range: start..end, ..self.clone() })
    }

    /// Where it begins in its buffer.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.range.start
    }

    /// Whether these are the same bytes as those of `other`, not only equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer.shared, &other.buffer.shared) && self.range == other.range
    }

    /// Whether some bytes are also those of `other`.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer.shared, &other.buffer.shared) && overlap(&self.range, &other.range)
    }

    /// Which buffer it is of, and which part of that.
    pub(crate) fn place(&self) -> (usize, Range<usize>) {
        (Arc::as_ptr(&self.buffer.shared).addr(), self.range.clone())
    }

    /// The bytes of the buffer that are also those of `other`, if there are any.
    #[must_use]
    pub fn overlap(&self, other: &Self) -> Option<Range<usize>> {
        let common = self.range.start.max(other.range.start)..self.range.end.min(other.range.end);
        self.overlaps(other).then_some(common)
    }

    /// Calls `look` with the bytes. Waits while somebody writes to any of them.
    ///
    /// `look` must not touch the same range for writing, or it waits for itself.
    pub fn read<R>(&self, look: impl FnOnce(&[u8]) -> R) -> R {
        look(&self.hold())
    }

    /// Calls `change` with the bytes. Waits while somebody reads or writes any of them.
    ///
    /// `change` must not touch the same range through another slice, or it waits for itself.
    pub fn write<R>(&self, change: impl FnOnce(&mut [u8]) -> R) -> R {
        change(&mut self.hold_mut())
    }

    /// The bytes, for as long as the value lives. Waits while somebody writes to any of them.
    #[must_use]
    pub fn hold(&self) -> Held {
        self.wait_for(Use::Shared)
    }

    /// The bytes to be changed, for as long as the value lives. Waits while somebody reads or writes any of them.
    #[must_use]
    pub fn hold_mut(&self) -> HeldMut {
        HeldMut(self.wait_for(Use::Exclusive))
    }

    /// As [`hold`](Self::hold), but `None` where that would have to wait.
    #[must_use]
    pub fn try_hold(&self) -> Option<Held> {
        self.hold_if_free(Use::Shared)
    }

    /// As [`hold_mut`](Self::hold_mut), but `None` where that would have to wait.
    #[must_use]
    pub fn try_hold_mut(&self) -> Option<HeldMut> {
        self.hold_if_free(Use::Exclusive).map(HeldMut)
    }

    /// A copy of the bytes.
    #[must_use]
    pub fn to_vec(&self) -> Vec<u8> {
        self.read(<[u8]>::to_vec)
    }

    fn wait_for(&self, usage: Use) -> Held {
        // Where that fails, so does whatever else is done with the device, and nothing there uses the bytes any more.
        #[cfg(feature = "cuda")]
        let _ = self.ready.as_ref().map(|ready| ready.relaxed(Event::wait));
        self.buffer.shared.ranges.hold(&self.range, usage);
        Held { slice: self.clone(), usage }
    }

    fn hold_if_free(&self, usage: Use) -> Option<Held> {
        #[cfg(feature = "cuda")]
        if self.ready.as_ref().is_some_and(|ready| ready.relaxed(Event::is_over) == Ok(false)) {
            return None;
        }
        let is_held = self.buffer.shared.ranges.try_hold(&self.range, usage);
        is_held.then(|| Held { slice: self.clone(), usage })
    }

    fn start(&self) -> NonNull<u8> {
        // SAFETY: `range.start` is at most the buffer's length.
        unsafe { self.buffer.shared.bytes.add(self.range.start) }
    }
}

/// Bytes that nobody changes while this lives.
#[derive(Debug)]
pub struct Held {
    slice: HostSlice,
    usage: Use,
}

impl Deref for Held {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: the range lies in the buffer (checked when the slice was made), and while the hold is noted nobody
        // else has a mutable reference to any of it.
        unsafe { std::slice::from_raw_parts(self.slice.start().as_ptr(), self.slice.len()) }
    }
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.slice.buffer.shared.ranges.release(&self.slice.range, self.usage);
    }
}

/// Bytes that nobody else reaches while this lives.
#[derive(Debug)]
pub struct HeldMut(Held);

impl HeldMut {
    /// The slice that they are.
    #[must_use]
    pub fn slice(&self) -> &HostSlice {
        &self.0.slice
    }
}

impl Deref for HeldMut {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl DerefMut for HeldMut {
    fn deref_mut(&mut self) -> &mut [u8] {
        let slice = &self.0.slice;
        // SAFETY: the range lies in the buffer, and while the exclusive hold is noted nobody else has a reference to
        // any of it; `self` is borrowed for as long as this one lives.
        unsafe { std::slice::from_raw_parts_mut(slice.start().as_ptr(), slice.len()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;

    use super::*;

    #[test]
    fn slices_stay_inside() {
        let buffer = HostBuffer::from(vec![1, 2, 3, 4, 5]);
        assert!(buffer.slice(3..6).is_none());
        let slice = buffer.slice(1..4).unwrap();
        assert!(slice.part(2, 2).is_none());
        assert!(slice.part(usize::MAX, 2).is_none());
        assert_eq!(slice.part(1, 2).unwrap().to_vec(), [3, 4]);
        assert!(slice.part(3, 0).unwrap().is_empty());
        assert_eq!(slice.part(1, 2).unwrap().offset(), 2);
    }

    #[test]
    fn lent_memory_is_the_owner_s_again_when_no_slice_is_left() {
        let mut owner = [1u8, 2, 3, 4];
        // SAFETY: `owner` is not touched before the buffer is the only one.
        let mut buffer = unsafe { HostBuffer::lent(NonNull::from(&mut owner).cast(), 4) };
        let held = buffer.slice(1..3).unwrap().hold_mut();
        assert!(!buffer.is_only());
        buffer.slice(3..4).unwrap().write(|bytes| bytes[0] = 9);
        drop(held);
        assert!(buffer.is_only());
        drop(buffer);
        assert_eq!(owner, [1, 2, 3, 9]);
    }

    #[test]
    fn what_slices_have_in_common_is_known() {
        let buffer = HostBuffer::zeroed(8);
        let slice = |range| buffer.slice(range).unwrap();
        assert_eq!(slice(0..5).overlap(&slice(3..8)), Some(3..5));
        assert_eq!(slice(0..3).overlap(&slice(3..8)), None);
        assert_eq!(slice(0..5).overlap(&HostBuffer::zeroed(8).all()), None);
    }

    #[test]
    fn writer_and_readers_exclude_each_other_only_where_they_overlap() {
        let buffer = HostBuffer::zeroed(8);
        let (left, right, middle) =
            (buffer.slice(0..4).unwrap(), buffer.slice(4..8).unwrap(), buffer.slice(2..6).unwrap());
        let written = AtomicBool::new(false);
        thread::scope(|scope| {
            left.write(|bytes| {
                right.write(|other| other.fill(9)); // does not overlap: must not wait
                scope.spawn(|| {
                    middle.read(|bytes| {
                        assert!(written.load(Ordering::SeqCst), "read during an overlapping write");
                        assert_eq!(bytes, [7, 7, 9, 9]);
                    });
                });
                thread::yield_now();
                bytes.fill(7);
                written.store(true, Ordering::SeqCst);
            });
        });
    }

    #[test]
    fn readers_share() {
        let slice = HostBuffer::from(vec![5; 3]).all();
        assert!(slice.read(|a| slice.read(|b| a == b)));
    }

    #[test]
    fn what_is_held_is_free_again_when_the_hold_is_gone() {
        let buffer = HostBuffer::from(vec![1, 2, 3, 4]);
        let (left, all) = (buffer.slice(0..2).unwrap(), buffer.all());
        let held = left.try_hold().unwrap();
        assert_eq!(*held, [1, 2]);
        assert!(all.try_hold_mut().is_none(), "written while it is read");
        assert_eq!(all.try_hold().unwrap().len(), 4);
        drop(held);
        let mut held = all.try_hold_mut().unwrap();
        held[0] = 9;
        assert!(left.try_hold().is_none() && left.try_hold_mut().is_none(), "reached while it is written");
        assert!(held.slice().is_same(&all));
        drop(held);
        assert_eq!(left.to_vec(), [9, 2]);
    }

    #[test]
    fn panic_in_a_closure_releases_the_range() {
        let slice = HostBuffer::zeroed(4).all();
        let shared = slice.clone();
        let panicked = thread::spawn(move || shared.write(|_| panic!("on purpose"))).join();
        assert!(panicked.is_err());
        slice.write(|bytes| bytes.fill(1));
        assert_eq!(slice.to_vec(), [1; 4]);
    }
}

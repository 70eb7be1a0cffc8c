//! Memory of CUDA devices.
//!
//! The host never looks into it, so nobody has references to its bytes; ranges are held all the same, so that what a
//! peer writes is there as a whole or not at all for whoever reads.
#![allow(unsafe_code)] // memory that the program owns

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use mgcomp_codecs::device::{self, Device, DeviceError, Event, Stream};

use super::ranges::{Ranges, Use, overlap};

/// A buffer in the memory of a CUDA device, shared by reference. Whatever uses a part of it keeps all of it.
///
/// ```
/// use mgcomp_codecs::Element;
/// use mgcomp_codecs::device::{Device, DeviceError};
/// use mgcomp_transport::memory::DeviceBuffer;
/// use mgcomp_transport::message::{Address, Rank};
/// use mgcomp_transport::node::Node;
///
/// /// Brings zeros from device 0 to rank 1.
/// fn clear(node: &Node, there: Address) -> Result<(), Box<dyn std::error::Error>> {
///     let device = match Device::open(0) {
///         Err(DeviceError::NoDriver) => return Ok(()), // no GPU here
///         device => device?,
///     };
///     let (stream, zeros) = (device.stream()?, DeviceBuffer::alloc(&device, 1 << 20)?);
///     stream.zero(zeros.all().region())?;
///     // The stream need not be waited for: the transfer comes after it.
///     node.write(Rank(1), zeros.all().after(&stream)?, Element::F32, there).wait()?;
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct DeviceBuffer {
    shared: Arc<Shared>,
}

struct Shared {
    device: Device,
    memory: Memory,
    ranges: Ranges,
}

enum Memory {
    /// Freed by whoever uses it last.
    Own(device::Buffer),
    Foreign {
        address: u64,
        len: u64,
        _owner: Box<dyn Any + Send + Sync>,
    },
}

impl DeviceBuffer {
    /// A buffer of `len` bytes, which hold anything. Whoever uses it last frees it: that may be a thread of the library, in
    /// the midst of its work, which waits as long as the driver does.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn alloc(device: &Device, len: usize) -> Result<Self, DeviceError> {
        Ok(Self::of(device, Memory::Own(device.alloc(len as u64)?)))
    }

    /// Memory that somebody else has allocated: a tensor, say. `owner` is kept as long as something uses it. Two buffers of
    /// the same memory do not know of each other: what is done with them at once is in no order. `owner` may be dropped on
    /// any thread, in the midst of the library's work, so its drop must not block.
    ///
    /// # Safety
    /// The `len` bytes at `address` must be memory of `device`, or memory that it reaches, until `owner` is dropped.
    pub unsafe fn adopt(device: &Device, address: u64, len: usize, owner: impl Any + Send + Sync) -> Self {
        Self::of(device, Memory::Foreign { address, len: len as u64, _owner: Box::new(owner) })
    }

    fn of(device: &Device, memory: Memory) -> Self {
        Self { shared: Arc::new(Shared { device: device.clone(), memory, ranges: Ranges::default() }) }
    }

    /// Length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.region().len() as usize
    }

    /// Whether the buffer has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The whole buffer as a slice.
    #[must_use]
    pub fn all(&self) -> DeviceSlice {
        DeviceSlice { buffer: self.clone(), range: 0..self.len(), ready: None }
    }

    /// The bytes of `range`, or `None` if the buffer does not have them.
    #[must_use]
    pub fn slice(&self, range: Range<usize>) -> Option<DeviceSlice> {
        self.all().part(range.start, range.end.checked_sub(range.start)?)
    }

    fn region(&self) -> device::Region<'_> {
        match &self.shared.memory {
            Memory::Own(buffer) => buffer.region(),
            // SAFETY: the owner, which is kept beside it, keeps the memory: `adopt` was told so.
            Memory::Foreign { address, len, .. } => unsafe { device::Region::from_raw(*address, *len) },
        }
    }
}

impl fmt::Debug for DeviceBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceBuffer({} bytes)", self.len())
    }
}

/// A range of a [`DeviceBuffer`].
///
/// # Order
/// What is done with a slice that was handed over is done on streams of the library's own. They know of no work on other
/// streams but that which [`after`](Self::after) names. When a request is finished, so is all that the library did with
/// its slices; nobody needs to wait for a stream then.
#[derive(Clone, Debug)]
pub struct DeviceSlice {
    buffer: DeviceBuffer,
    range: Range<usize>,
    /// What must have happened before the memory is used.
    ready: Option<Arc<Event>>,
}

impl DeviceSlice {
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

    /// The same bytes, to be used after all work that is on `stream` now. Of several streams, the last one named counts:
    /// let it [follow](Stream::follow) the others.
    ///
    /// A device has streams for three pieces of work at a time. Slices that wait hold them: more of them hold up all other
    /// transfers with memory of that device. So what `stream` waits for must not depend on such a transfer.
    ///
    /// # Errors
    /// [`DeviceError::Recording`] if `stream` records a graph, and whatever the driver says: that is an error too (906) of the
    /// legacy default stream while another one records that waits for it. What is recorded goes on.
    pub fn after(&self, stream: &Stream) -> Result<Self, DeviceError> {
        Ok(Self { ready: Some(Arc::new(end_of(stream)?)), ..self.clone() })
    }

    /// The part of `len` bytes from `offset` on, or `None` if the slice does not have it.
    #[must_use]
    pub fn part(&self, offset: usize, len: usize) -> Option<Self> {
        let start = self.range.start.checked_add(offset)?;
        let end = start.checked_add(len)?;
        (end <= self.range.end).then(|| Self { range: start..end, ..self.clone() })
    }

    /// Whether these are the same bytes as those of `other`, not only equal ones.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.buffer.shared, &other.buffer.shared) && self.range == other.range
    }

    /// Whether some bytes are also those of `other`, as far as buffers tell: adopted memory is looked at by address.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        overlap(&self.addresses(), &other.addresses())
    }

    /// Where it lies among all memory of devices.
    pub(crate) fn addresses(&self) -> Range<usize> {
        let start = self.buffer.region().address() as usize;
        start + self.range.start..start + self.range.end
    }

    /// The device that has the memory.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.buffer.shared.device
    }

    /// The memory, for work on the program's own streams.
    #[must_use]
    pub fn region(&self) -> device::Region<'_> {
        self.buffer.region().slice(self.range.start as u64..self.range.end as u64)
    }

    /// Lets what is enqueued on `stream` from now on wait until the memory may be used.
    pub(crate) fn order(&self, stream: &Stream) -> Result<(), DeviceError> {
        self.ready.as_ref().map_or(Ok(()), |event| stream.follow_event(event))
    }

    /// What must have happened before the memory may be used.
    pub(crate) fn awaited(&self) -> Option<&Event> {
        self.ready.as_deref()
    }

    /// Holds it for work that reads it, once nobody writes there.
    pub(crate) fn hold(&self) -> DeviceHold {
        self.hold_for(Use::Shared)
    }

    /// Holds it for work that writes there, once nobody uses it.
    pub(crate) fn hold_mut(&self) -> DeviceHold {
        self.hold_for(Use::Exclusive)
    }

    /// As [`hold`](Self::hold), but `None` where that would have to wait.
    pub(crate) fn try_hold(&self) -> Option<DeviceHold> {
        self.hold_if_free(Use::Shared)
    }

    /// As [`hold_mut`](Self::hold_mut), but `None` where that would have to wait.
    pub(crate) fn try_hold_mut(&self) -> Option<DeviceHold> {
        self.hold_if_free(Use::Exclusive)
    }

    fn hold_for(&self, usage: Use) -> DeviceHold {
        self.buffer.shared.ranges.hold(&self.range, usage);
        DeviceHold { slice: self.clone(), usage }
    }

    fn hold_if_free(&self, usage: Use) -> Option<DeviceHold> {
        let is_held = self.buffer.shared.ranges.try_hold(&self.range, usage);
        is_held.then(|| DeviceHold { slice: self.clone(), usage })
    }
}

/// The end of all work that is on `stream` now.
pub(super) fn end_of(stream: &Stream) -> Result<Event, DeviceError> {
    // Asked first, which spoils nothing. A stream of the library's own that waited for what is recorded would be recorded
    // too; and to record an event on the default stream spoils what those record that wait for it.
    if stream.is_capturing()? {
        return Err(DeviceError::Recording);
    }
    let event = stream.milestone()?; // the stream may be one of another device
    stream.record(&event)?;
    Ok(event)
}

/// Memory of a device while work is enqueued that uses it. To be dropped when that has ended.
#[derive(Debug)]
pub(crate) struct DeviceHold {
    slice: DeviceSlice,
    usage: Use,
}

impl DeviceHold {
    pub(crate) fn slice(&self) -> &DeviceSlice {
        &self.slice
    }
}

impl Drop for DeviceHold {
    fn drop(&mut self) {
        self.slice.buffer.shared.ranges.release(&self.slice.range, self.usage);
    }
}

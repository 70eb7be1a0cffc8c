//! Where numbers come together and are combined: in the memory that their result is to be in.

use std::sync::PoisonError;

use mgcomp_codecs::reduction::{combine, finish};

use super::combining::Task;
use super::{CommunicatorError, Group};
use crate::memory::{HostBuffer, HostSlice, Slice};

#[cfg(feature = "cuda")]
pub(in crate::communicator) use self::device::OnDevice;

/// Combined at once, so that intermediate results stay in the innermost cache. Whole numbers of every datatype.
const BLOCK_BYTES: usize = 8 << 10;

/// The numbers of each member start on multiples of this in a room.
const ALIGN: usize = 64;

/// How far apart the numbers of members are in a room, where each has `len` bytes.
pub(super) const fn stride(len: usize) -> usize {
    len.next_multiple_of(ALIGN)
}

/// What reductions keep for the next: to clear fresh memory, or to allocate it on a device, takes longer than to combine
/// what comes into it.
#[derive(Debug)]
pub(in crate::communicator) struct Kept {
    host: [HostBuffer; 2],
    #[cfg(feature = "cuda")]
    device: Option<std::sync::Arc<OnDevice>>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            host: [(); 2].map(|()| HostBuffer::zeroed(0)),
            #[cfg(feature = "cuda")]
            device: None,
        }
    }
}

/// Whose memory it is. One collective uses it at a time.
pub(super) enum Workbench<'a> {
    Host(&'a Group),
    #[cfg(feature = "cuda")]
    Device(std::sync::Arc<OnDevice>),
}

/// Numbers of members that are to be combined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Numbers<'a> {
    /// What the members have, each its [`stride`] behind the one before.
    pub(super) room: &'a Slice,
    pub(super) ranks: usize,
    pub(super) rank: usize,
    /// What this member has, in the same kind of memory as the result, or where that goes.
    pub(super) own: &'a Slice,
    pub(super) result: &'a Slice,
}

impl Group {
    /// What combines numbers whose result goes to `result`.
    pub(super) fn workbench(&self, result: &Slice) -> Result<Workbench<'_>, CommunicatorError> {
        match result {
            Slice::Host(_) => Ok(Workbench::Host(self)),
            #[cfg(feature = "cuda")]
            Slice::Device(slice) => {
                let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
                let device = slice.device();
                if let Some(bench) = kept.device.as_ref().filter(|bench| bench.is_of(device)) {
                    return Ok(Workbench::Device(bench.clone()));
                }
                let bench = std::sync::Arc::new(OnDevice::new(device)?);
                kept.device = Some(bench.clone());
                Ok(Workbench::Device(bench))
            }
        }
    }
}

impl Workbench<'_> {
    /// Two rooms of `len` bytes.
    pub(super) fn rooms(&self, len: usize) -> Result<[Slice; 2], CommunicatorError> {
        match self {
            Self::Host(group) => {
                let mut kept = group.kept.lock().unwrap_or_else(PoisonError::into_inner);
                if kept.host[0].len() < len {
                    kept.host = [(); 2].map(|()| HostBuffer::zeroed(len));
                }
                Ok(kept.host.each_ref().map(|room| front(&room.all(), len).into()))
            }
            #[cfg(feature = "cuda")]
            Self::Device(bench) => Ok(bench.rooms(len)?.map(Slice::from)),
        }
    }

    /// Room for a share of the result, which goes on to another member.
    pub(super) fn share(&self, len: usize) -> Result<Slice, CommunicatorError> {
        match self {
            Self::Host(_) => Ok(HostBuffer::zeroed(len).all().into()),
            #[cfg(feature = "cuda")]
            Self::Device(bench) => Ok(bench.share(len)?.into()),
        }
    }

    /// Combines numbers from the left, in the order of the ranks. Waits until that is done.
    pub(super) fn combine(&self, numbers: &Numbers<'_>, task: Task) -> Result<(), CommunicatorError> {
        match (self, numbers.room, numbers.own, numbers.result) {
            (Self::Host(_), Slice::Host(room), Slice::Host(own), Slice::Host(result)) => {
                combine_on_host(numbers, (room, own, result), task);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            (Self::Device(bench), Slice::Device(room), Slice::Device(own), Slice::Device(result)) => {
                Ok(bench.combine(numbers, (room, own, result), task)?)
            }
            #[cfg(feature = "cuda")]
            _ => unreachable!(
                "a bench is where the result goes, and makes the rooms; own numbers are brought there"
            ),
        }
    }
}

fn front(slice: &HostSlice, len: usize) -> HostSlice {
    slice.part(0, len).unwrap_or_else(|| slice.clone())
}

fn combine_on_host(
    numbers: &Numbers<'_>,
    (room, own, result): (&HostSlice, &HostSlice, &HostSlice),
    (datatype, operation): Task,
) {
    let Numbers { ranks, rank, .. } = *numbers;
    let (len, stride) = (result.len(), stride(result.len()));
    let mut result_bytes = result.hold_mut();
    let (room, own) = (room.hold(), (!own.is_same(result)).then(|| own.hold()));
    let mut left = [0; BLOCK_BYTES];
    for start in (0..len).step_by(BLOCK_BYTES) {
        let block = start..len.min(start + BLOCK_BYTES);
        let left = &mut left[..block.len()];
        let bytes_of = |other: usize| match &own {
            _ if other != rank => &room[other * stride..][block.clone()],
            Some(own) => &own[block.clone()],
            None => &result_bytes[block.clone()],
        };
        left.copy_from_slice(bytes_of(0));
        (1..ranks).for_each(|other| combine(operation, datatype, left, bytes_of(other)));
        finish(operation, datatype, left, ranks as u32);
        result_bytes[block].copy_from_slice(left);
    }
}

#[cfg(feature = "cuda")]
mod device {
    //! On a CUDA device, by a kernel.

    use std::sync::{Mutex, PoisonError};

    use mgcomp_codecs::device::{Device, DeviceError, Reducer, Reduction, Stream};

    use super::{Numbers, Task, stride};
    use crate::memory::{DeviceBuffer, DeviceSlice};

    /// Rooms are whole numbers of this, so that they are not made anew for a little more.
    const ROOM_BYTES: usize = 1 << 20;

    /// A stream, the kernel, and rooms of a device.
    #[derive(Debug)]
    pub(in crate::communicator) struct OnDevice {
        device: Device,
        stream: Stream,
        reducer: Reducer,
        /// Two that numbers come into, and one for a share of the result.
        rooms: Mutex<[Option<DeviceBuffer>; 3]>,
    }

    impl OnDevice {
        pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
            let (stream, reducer) = (device.stream()?, device.reducer()?);
            Ok(Self { device: device.clone(), stream, reducer, rooms: Mutex::default() })
        }

        pub(super) fn is_of(&self, device: &Device) -> bool {
            self.device.context_id() == device.context_id()
        }

        pub(super) fn rooms(&self, len: usize) -> Result<[DeviceSlice; 2], DeviceError> {
            Ok([self.room(0, len)?, self.room(1, len)?])
        }

        pub(super) fn share(&self, len: usize) -> Result<DeviceSlice, DeviceError> {
            self.room(2, len)
        }

        /// What was received into the old one is combined, so nothing uses that any more.
        fn room(&self, index: usize, len: usize) -> Result<DeviceSlice, DeviceError> {
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            let room = &mut rooms[index];
            if room.as_ref().is_none_or(|room| room.len() < len) {
                *room = None;
            }
            let buffer = match room {
                Some(buffer) => buffer,
                None => room.insert(DeviceBuffer::alloc(&self.device, len.next_multiple_of(ROOM_BYTES))?),
            };
            Ok(buffer.slice(0..len).unwrap_or_else(|| buffer.all()))
        }

        pub(super) fn combine(
            &self,
            numbers: &Numbers<'_>,
            (room, own, result): (&DeviceSlice, &DeviceSlice, &DeviceSlice),
            (datatype, operation): Task,
        ) -> Result<(), DeviceError> {
            let is_in_place = own.is_same(result);
            let (result, room) = (result.hold_mut(), room.hold());
            let held = (!is_in_place).then(|| own.hold());
            // Also where it goes on what is in place.
            own.order(&self.stream)?;
            result.slice().order(&self.stream)?;
            let reduction = Reduction {
                datatype,
                operation,
                ranks: numbers.ranks as u32,
                numbers: room.slice().region(),
                stride: stride(result.slice().len()) as u64,
                own: Some((numbers.rank as u32, own.region())),
                result: result.slice().region(),
            };
            let enqueued = self.reducer.reduce(&self.stream, &reduction);
            let ended = self.stream.wait(); // also after an error: the memory must not be let go before
            drop(held);
            enqueued.and(ended)
        }
    }
}

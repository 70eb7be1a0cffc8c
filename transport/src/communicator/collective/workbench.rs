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

/// What collectives keep for the next: to clear fresh memory, or to allocate it on a device, takes longer than to combine
/// or copy what comes into it.
#[derive(Debug)]
pub(in crate::communicator) struct Kept {
    /// Where blocks wait that are exchanged in place: in each memory that there were such blocks in. Nothing there makes room
    /// for another memory: to free what is on a device, the driver may wait for a kernel that waits for what this thread is to
    /// do next.
    pub(super) aside: Vec<[Slice; 2]>,
    host: [HostBuffer; 2],
    /// Of each device that there were results on, for the same reason.
    #[cfg(feature = "cuda")]
    devices: Vec<std::sync::Arc<OnDevice>>,
}

impl Default for Kept {
    fn default() -> Self {
        Self {
            aside: Vec::new(),
            host: [(); 2].map(|()| HostBuffer::zeroed(0)),
            #[cfg(feature = "cuda")]
            devices: Vec::new(),
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
                if let Some(bench) = kept.devices.iter().find(|bench| bench.is_of(device)) {
                    return Ok(Workbench::Device(bench.clone()));
                }
                let bench = std::sync::Arc::new(OnDevice::new(device)?);
                kept.devices.push(bench.clone());
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

    /// Work on this bench.
    pub(super) fn combining(&self) -> Combining<'_> {
        Combining {
            bench: self,
            #[cfg(feature = "cuda")]
            held: Vec::new(),
        }
    }
}

/// Numbers that are combined one after the other. A device does so in that order, some time later; what it uses is held until it
/// has ended, which dropping this waits for.
pub(super) struct Combining<'a> {
    bench: &'a Workbench<'a>,
    /// What the program has lent.
    #[cfg(feature = "cuda")]
    held: Vec<crate::memory::DeviceHold>,
}

impl Combining<'_> {
    /// Combines numbers from the left, in the order of the ranks. What uses the result next, or what is received into the
    /// room, has to come [after](Self::after) it.
    pub(super) fn combine(&mut self, numbers: &Numbers<'_>, task: Task) -> Result<(), CommunicatorError> {
        match (self.bench, numbers.room, numbers.own, numbers.result) {
            (Workbench::Host(_), Slice::Host(room), Slice::Host(own), Slice::Host(result)) => {
                combine_on_host(numbers, (room, own, result), task);
                Ok(())
            }
            #[cfg(feature = "cuda")]
            (Workbench::Device(bench), Slice::Device(room), Slice::Device(own), Slice::Device(result)) => {
                if !own.is_same(result) {
                    self.held.push(own.hold());
                }
                // Not while somebody reads there. Peers do not write there until it has ended.
                drop(result.hold_mut());
                self.held.push(result.hold());
                Ok(bench.combine(numbers, (room, own, result), task)?)
            }
            #[cfg(feature = "cuda")]
            _ => unreachable!(
                "a bench is where the result goes, and makes the rooms; own numbers are brought there"
            ),
        }
    }

    /// The same bytes, to be used after all that was combined so far.
    pub(super) fn after(&self, slice: &Slice) -> Result<Slice, CommunicatorError> {
        match (self.bench, slice) {
            #[cfg(feature = "cuda")]
            (Workbench::Device(bench), Slice::Device(slice)) => Ok(bench.after(slice)?.into()),
            _ => Ok(slice.clone()),
        }
    }

    /// Waits until all is combined.
    pub(super) fn finish(mut self) -> Result<(), CommunicatorError> {
        self.wait()
    }

    fn wait(&mut self) -> Result<(), CommunicatorError> {
        #[cfg(feature = "cuda")]
        if let Workbench::Device(bench) = self.bench {
            // Also after an error: the memory must not be let go before. A lost context runs nothing any more.
            let ended = bench.wait();
            self.held.clear();
            ended?;
        }
        Ok(())
    }
}

impl Drop for Combining<'_> {
    fn drop(&mut self) {
        #[cfg(feature = "cuda")]
        if !self.held.is_empty() {
            let _ = self.wait(); // whatever went wrong has been told
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

    /// Rooms have at least this length, and double from there.
    const SHORTEST_BYTES: usize = 1 << 20;

    /// A stream, the kernel, and rooms of a device. Also a thread that records may load, allocate and wait for them.
    #[derive(Debug)]
    pub(in crate::communicator) struct OnDevice {
        device: Device,
        stream: Stream,
        reducer: Reducer,
        /// Two that numbers come into, and one for a share of the result: of each the last one that was made, behind those that
        /// it has outgrown. To free them, the driver may wait for a kernel that waits for what this thread is to do next.
        rooms: Mutex<[Vec<DeviceBuffer>; 3]>,
    }

    impl OnDevice {
        pub(super) fn new(device: &Device) -> Result<Self, DeviceError> {
            let (stream, reducer) =
                device.relaxed(|| Ok::<_, DeviceError>((device.stream()?, device.reducer()?)))?;
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

        fn room(&self, index: usize, len: usize) -> Result<DeviceSlice, DeviceError> {
            let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
            let made = &mut rooms[index];
            if let Some(slice) = made.last().and_then(|room| room.slice(0..len)) {
                return Ok(slice);
            }
            let whole = len.max(SHORTEST_BYTES).next_power_of_two();
            let room = self.device.relaxed(|| DeviceBuffer::alloc(&self.device, whole))?;
            let slice = room.slice(0..len).unwrap_or_else(|| room.all());
            made.push(room);
            Ok(slice)
        }

        /// Enqueues it. All that it uses has to be kept until the stream was [waited for](Self::wait).
        pub(super) fn combine(
            &self,
            numbers: &Numbers<'_>,
            (room, own, result): (&DeviceSlice, &DeviceSlice, &DeviceSlice),
            (datatype, operation): Task,
        ) -> Result<(), DeviceError> {
            // Also where it goes on what is in place.
            own.order(&self.stream)?;
            result.order(&self.stream)?;
            let reduction = Reduction {
                datatype,
                operation,
                ranks: numbers.ranks as u32,
                numbers: room.region(),
                stride: stride(result.len()) as u64,
                own: Some((numbers.rank as u32, own.region())),
                result: result.region(),
            };
            self.reducer.reduce(&self.stream, &reduction)
        }

        /// `slice`, to be used after all that was enqueued.
        pub(super) fn after(&self, slice: &DeviceSlice) -> Result<DeviceSlice, DeviceError> {
            slice.after(&self.stream)
        }

        /// Waits until all that was enqueued has ended.
        pub(super) fn wait(&self) -> Result<(), DeviceError> {
            self.device.relaxed(|| self.stream.wait())
        }
    }
}

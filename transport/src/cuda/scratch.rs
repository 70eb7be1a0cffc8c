//! Memory of a device that a stream's work shares, one piece after the other.
//!
//! It grows, and nothing of it is freed before its owner is: for that the driver may wait for all that a device does, and a
//! kernel of the program's may wait there for what this thread is to do next, as one of NCCL's does that spins until a peer comes.
//! Lengths double, so what was outgrown is never more than what is in use.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Region, Stream, Workspace};

/// Scratch has at least this length, and doubles from there.
const SHORTEST_SCRATCH_BYTES: u64 = 1 << 20;

/// A workspace for the calls on one stream.
#[derive(Debug, Default)]
pub(crate) struct GrowingWorkspace {
    /// The last one is in use.
    made: Vec<Workspace<'static>>,
}

impl GrowingWorkspace {
    /// One of at least `needed` bytes, for calls on `stream`.
    pub(crate) fn grown(
        &mut self,
        device: &Device,
        stream: &Stream,
        needed: u64,
    ) -> Result<&mut Workspace<'static>, DeviceError> {
        if self.must_grow(needed) {
            self.made.push(device.workspace(stream, needed.next_power_of_two())?);
        }
        Ok(self.made.last_mut().expect("just made"))
    }

    /// Whether one of `needed` bytes takes new memory.
    pub(crate) fn must_grow(&self, needed: u64) -> bool {
        self.made.last().is_none_or(|workspace| workspace.len() < needed)
    }
}

/// Memory of the device for as long as one piece of work takes.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    /// The last one is in use.
    made: Vec<Buffer>,
}

impl Scratch {
    /// The first `len` bytes, the same as before unless there were fewer.
    pub(crate) fn room(&mut self, device: &Device, len: u64) -> Result<Region<'_>, DeviceError> {
        if self.must_grow(len) {
            self.made.push(device.alloc(len.max(SHORTEST_SCRATCH_BYTES).next_power_of_two())?);
        }
        Ok(self.made().slice(0..len))
    }

    /// Whether a [`room`](Self::room) of `len` bytes takes new memory.
    pub(crate) fn must_grow(&self, len: u64) -> bool {
        self.made.last().is_none_or(|buffer| buffer.region().len() < len)
    }

    /// All of it, once there was a [`room`](Self::room).
    pub(crate) fn made(&self) -> Region<'_> {
        self.made.last().expect("a room was made").region()
    }
}

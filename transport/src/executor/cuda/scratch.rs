//! Memory of a device that a stream's work shares, one piece after the other.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Region, Stream, Workspace};

/// Scratch has at least this length, and doubles from there.
const SHORTEST_SCRATCH_BYTES: u64 = 1 << 20;

/// A workspace of at least `needed` bytes. What it replaces is in no use: the work before it on this lane has ended.
pub(crate) fn grown<'a>(
    workspace: &'a mut Option<Workspace<'static>>,
    device: &Device,
    stream: &Stream,
    needed: u64,
) -> Result<&'a mut Workspace<'static>, DeviceError> {
    if must_grow(workspace.as_ref(), needed) {
        *workspace = Some(device.workspace(stream, needed.next_power_of_two())?);
    }
    Ok(workspace.as_mut().expect("just made"))
}

/// Whether one of `needed` bytes takes new memory.
pub(crate) fn must_grow(workspace: Option<&Workspace<'static>>, needed: u64) -> bool {
    workspace.is_none_or(|workspace| workspace.len() < needed)
}

/// Memory of the device for as long as one piece of work takes.
#[derive(Debug, Default)]
pub(crate) struct Scratch(Option<Buffer>);

impl Scratch {
    /// The first `len` bytes, the same as before unless there were fewer. To make room for more than ever, the old memory
    /// is freed, for which the driver waits: that happens a few times in the life of a lane.
    pub(crate) fn room(&mut self, device: &Device, len: u64) -> Result<Region<'_>, DeviceError> {
        if self.must_grow(len) {
            self.0 = None;
            self.0 = Some(device.alloc(len.max(SHORTEST_SCRATCH_BYTES).next_power_of_two())?);
        }
        Ok(self.0.as_ref().expect("just made").slice(0..len))
    }

    /// Whether a [`room`](Self::room) of `len` bytes takes new memory.
    pub(crate) fn must_grow(&self, len: u64) -> bool {
        self.0.as_ref().is_none_or(|buffer| buffer.region().len() < len)
    }

    /// All of it, once there was a [`room`](Self::room).
    pub(crate) fn made(&self) -> Region<'_> {
        self.0.as_ref().expect("a room was made").region()
    }
}

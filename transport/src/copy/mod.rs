//! Copies between host and device that are compressed on their way, as *Compressing DMA Engine* (HPCA 2018) has them.
//!
//! ```
//! use mgcomp_codecs::Element;
//! use mgcomp_selector::PolicySpec;
//! use mgcomp_transport::copy::{Copier, CopyConfig, Direction};
//! use mgcomp_transport::memory::HostBuffer;
//!
//! let copier = Copier::start(CopyConfig::simulated(16.0)?)?;
//! let policy: PolicySpec = "fixed:zvc".parse()?;
//! let activations: Vec<u8> = (0..1u32 << 18).flat_map(|i| (i % 3 / 2 * i).to_le_bytes()).collect();
//! let (device, host) = (HostBuffer::from(activations), HostBuffer::zeroed(1 << 20));
//!
//! // As cudaMemcpy does, but two thirds of the elements are zeros and do not go over the link.
//! let report =
//!     copier.memcpy_compressed(host.all(), device.all(), Direction::DeviceToHost, Element::F32, policy)?;
//! assert_eq!(host.all().to_vec(), device.all().to_vec());
//! assert!(report.ratio() > 2.5);
//!
//! // The same data kept compressed, and brought back later.
//! let (kept, _) = copier.keep(device.all(), Direction::DeviceToHost, Element::F32, policy)?.wait()?;
//! assert_eq!(kept.bytes(), report.coded_bytes);
//! let again = HostBuffer::zeroed(1 << 20);
//! copier.expand(again.all(), &kept, Direction::HostToDevice)?.wait()?;
//! assert_eq!(again.all().to_vec(), device.all().to_vec());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A copy is cut into segments. While one is on the link, the next ones are encoded and those before decoded. Each is a
//! frame of its own, or raw where a frame would not be smaller. The policy decides once for each copy.
//!
//! Memory of a CUDA device ([`DeviceSlice`](crate::memory::DeviceSlice), feature `cuda`) is coded on the device, and its frames go
//! by way of page-locked memory; raw copies from and to there show how fast that way is. Frames can be kept on a device too ([`Copier::keep_on`]). Where there is no GPU, all memory is host memory, and the direction says where it is taken to lie: that tells which
//! link the bytes go over, if any. Links are [`SimulatedLink`](crate::simulated::SimulatedLink)s then, and every report
//! says so.
//!
//! [`offload`] has the queue for activations that leave a device in forward and come back in backward.

mod cap;
mod check;
mod choice;
mod config;
mod copier;
mod engine;
mod error;
mod gate;
mod handle;
mod home;
mod job;
mod kept;
mod lane;
pub mod offload;
mod report;
mod segment;
#[cfg(test)]
mod tests;
mod turns;

pub use config::{CopyConfig, Order};
pub use copier::Copier;
pub use error::CopyError;
pub use handle::CopyHandle;
pub use kept::Kept;
pub use report::CopyReport;

use std::fmt;
use std::ops::Range;

use crate::memory::{HostBuffer, HostSlice};

/// Where a copy comes from and where it goes, as in `cudaMemcpyKind`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Direction {
    /// From host memory to host memory: over no link.
    HostToHost,
    /// From host memory to a device.
    HostToDevice,
    /// From a device to host memory.
    DeviceToHost,
    /// From a device to another one, or to itself.
    DeviceToDevice,
}

impl Direction {
    /// All of them.
    pub const ALL: [Self; 4] =
        [Self::HostToHost, Self::HostToDevice, Self::DeviceToHost, Self::DeviceToDevice];

    /// Whether a device's memory is read.
    #[must_use]
    pub const fn reads_device(self) -> bool {
        matches!(self, Self::DeviceToHost | Self::DeviceToDevice)
    }

    /// Whether a device's memory is written.
    #[must_use]
    pub const fn writes_device(self) -> bool {
        matches!(self, Self::HostToDevice | Self::DeviceToDevice)
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::HostToHost => "host to host",
            Self::HostToDevice => "host to device",
            Self::DeviceToHost => "device to host",
            Self::DeviceToDevice => "device to device",
        })
    }
}

/// The bytes of `range`.
///
/// # Errors
/// [`CopyError::Outside`] if the buffer does not have them.
pub fn range(buffer: &HostBuffer, range: Range<usize>) -> Result<HostSlice, CopyError> {
    let (start, end, len) = (range.start, range.end, buffer.len());
    buffer.slice(range).ok_or(CopyError::Outside { start, end, len })
}

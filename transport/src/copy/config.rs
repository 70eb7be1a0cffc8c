//! How copies are made.

use std::time::Duration;

use super::Direction;
use crate::executor::usual_codec_threads;
use crate::link::{Shaping, ShapingError};
use crate::simulated::SimulatedLink;

/// Times the rate of the link that copies may read device memory at, unless another cap is set: the paper's 48 GB/s for a
/// link of 16 GB/s, at which training kept 94 % of its speed.
const CAP_PER_LINK: f64 = 3.0;

/// In which order copies of one direction go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Order {
    /// Copies share the codecs and the link: short ones may be finished before long ones that were asked for earlier.
    #[default]
    Free,
    /// They begin and finish in the order in which they were asked for.
    Asked,
}

/// Settings of a [`Copier`](super::Copier).
#[derive(Clone, Debug)]
pub struct CopyConfig {
    /// Threads that run codecs, at least one.
    pub codec_threads: usize,
    /// Raw bytes of a segment; a shorter copy is one frame. A multiple of 64. Where that is longer, copies between host and CUDA
    /// devices have a sixteenth of theirs in one, and those between devices a quarter: whole MiB, at most 4. Of what is kept from a device
    /// it is a quarter, too, at most 8 MiB, or a sixteenth where that is more, at most 16.
    pub segment_bytes: usize,
    /// Segments of one direction that are under way at once.
    pub window: usize,
    /// Whether frames carry a checksum of the raw bytes.
    pub checksum: bool,
    /// In which order copies go.
    pub order: Order,
    /// The link from device to host; none = at the pace of memory.
    pub to_host: Option<SimulatedLink>,
    /// The link from host to device.
    pub to_device: Option<SimulatedLink>,
    /// The link between devices.
    pub between_devices: Option<SimulatedLink>,
    /// The rate at which all copies together may read device memory, in Gb/s; none = three times that of the link to the host,
    /// and without one no limit. An operator can set another one while the program runs. The samples of a policy are not held to it.
    pub read_cap_gbps: Option<f64>,
}

impl Default for CopyConfig {
    /// No links, and [`usual_codec_threads`].
    fn default() -> Self {
        Self {
            codec_threads: usual_codec_threads(),
            segment_bytes: 512 << 10,
            window: 16,
            checksum: false,
            order: Order::Free,
            to_host: None,
            to_device: None,
            between_devices: None,
            read_cap_gbps: None,
        }
    }
}

impl CopyConfig {
    /// The usual settings with simulated links of `rate` · 10⁹ bytes per second each way, without latency.
    ///
    /// # Errors
    /// [`ShapingError`] if the rate is not a positive number.
    pub fn simulated(rate: f64) -> Result<Self, ShapingError> {
        let link = || SimulatedLink::of_gigabytes(rate, Duration::ZERO).map(Some);
        Ok(Self { to_host: link()?, to_device: link()?, between_devices: link()?, ..Self::default() })
    }

    /// The link that `direction` goes over.
    pub(super) fn link(&self, direction: Direction) -> Option<&SimulatedLink> {
        match direction {
            Direction::HostToHost => None,
            Direction::HostToDevice => self.to_device.as_ref(),
            Direction::DeviceToHost => self.to_host.as_ref(),
            Direction::DeviceToDevice => self.between_devices.as_ref(),
        }
    }

    /// How fast device memory may be read.
    pub(super) fn read_cap(&self) -> Result<Option<Shaping>, ShapingError> {
        let of_link = || self.to_host.as_ref().map(|link| CAP_PER_LINK * link.shaping().rate_gbps());
        let cap = self.read_cap_gbps.or_else(of_link);
        cap.map(|gbps| Shaping::try_new(gbps, Duration::ZERO)).transpose()
    }
}

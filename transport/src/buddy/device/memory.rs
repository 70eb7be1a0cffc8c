//! The memories of a pool on a device.

use mgcomp_codecs::device::{Buffer, Device, DeviceError, Pinned, Region};

use super::DeviceBuddyError;

/// Memory for what does not fit the device's own.
#[derive(Debug)]
pub(super) enum BuddyMemory {
    /// Page-locked memory of the host.
    Host(Pinned),
    /// Memory of another device.
    Peer(Buffer),
}

impl BuddyMemory {
    /// `bytes` of the host.
    pub(super) fn on_host(device: &Device, bytes: u64) -> Result<Self, DeviceError> {
        device.alloc_pinned(bytes).map(Self::Host)
    }

    /// `bytes` of `peer`, which kernels of `device` can use.
    pub(super) fn on_peer(device: &Device, peer: &Device, bytes: u64) -> Result<Self, DeviceBuddyError> {
        if !device.reach(peer)? {
            return Err(DeviceBuddyError::OutOfReach);
        }
        Ok(Self::Peer(peer.alloc(bytes)?))
    }

    pub(super) const fn region(&self) -> Region<'_> {
        match self {
            Self::Host(memory) => memory.region(),
            Self::Peer(memory) => memory.region(),
        }
    }
}

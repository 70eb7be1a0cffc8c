//! Where what is kept compressed stays.

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::Device;

use crate::memory::Shelf;
#[cfg(feature = "cuda")]
use crate::memory::{DeviceBuffer, DeviceBytes};
use crate::message::Status;
use crate::payload::Payload;
use crate::pool::Pool;

/// The memory that it stays in.
#[derive(Clone, Debug)]
pub(super) enum Home {
    /// That of the host, from this pool; or, for what comes from devices, on this shelf.
    Host(Pool, Option<Shelf>),
    /// That of a device.
    #[cfg(feature = "cuda")]
    Device(Device),
}

/// Room for coded bytes: to be written, and as they are known when that is done.
#[cfg_attr(not(feature = "cuda"), allow(dead_code))] // the host needs none
pub(super) struct HomeRoom {
    pub(super) destination: Payload,
    pub(super) kept: Payload,
}

impl Home {
    /// Room for `len` bytes, as many as there are; none = they stay where they are.
    pub(super) fn room(&self, len: u64) -> Result<Option<HomeRoom>, Status> {
        match self {
            Self::Host(..) => {
                let _ = len;
                Ok(None)
            }
            #[cfg(feature = "cuda")]
            Self::Device(device) => {
                // Also while another thread records.
                let buffer =
                    device.relaxed(|| DeviceBuffer::alloc(device, len as usize)).map_err(|error| {
                        tracing::warn!(%error, "no memory on the device for what is to be kept there");
                        Status::Internal
                    })?;
                let destination = Payload::from_memory(buffer.all());
                Ok(Some(HomeRoom {
                    destination,
                    kept: Payload::from_device(DeviceBytes::whole(buffer.all())),
                }))
            }
        }
    }
}

//! Codebooks in device memory.

use super::launch::UNIT;
use super::{Buffer, Device, DeviceError, Stream};
use crate::ibp::{Codebook, CodebookSection};

/// A codebook in the memory of a device, for any number of calls.
///
/// It is made of a [`Codebook`] and of nothing else, and nobody can write to it: the kernels, which do not compare a
/// codebook with its identity, need not.
#[derive(Debug)]
pub struct DeviceCodebook {
    buffer: Buffer,
    id: u64,
}

impl Device {
    /// Brings `codebook` to the device, and waits until it is there.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn codebook(&self, stream: &Stream, codebook: &Codebook) -> Result<DeviceCodebook, DeviceError> {
        let section = CodebookSection::Carried(codebook.clone());
        let bytes = section.to_bytes();
        let buffer = self.alloc(bytes.len() as u64)?;
        stream.upload(&bytes, buffer.region())?;
        Ok(DeviceCodebook { buffer, id: section.id() })
    }
}

impl DeviceCodebook {
    /// Its identity, which frames name.
    #[must_use]
    pub const fn id(&self) -> u64 {
        self.id
    }

    /// The bytes that a frame takes to carry it, a multiple of 16.
    #[must_use]
    pub const fn section_len(&self) -> u64 {
        self.buffer.region().len()
    }

    pub(super) const fn address(&self) -> u64 {
        self.buffer.region().address()
    }

    /// Its length as a launch tells it: kernels read no further.
    pub(super) const fn units(&self) -> u16 {
        // Fits: `MAX_CODEBOOK_LEN` is about 2^18.
        (self.section_len() / UNIT) as u16
    }
}

const _: () = assert!((crate::ibp::MAX_CODEBOOK_LEN as u64 + 2 * UNIT) / UNIT <= u16::MAX as u64);

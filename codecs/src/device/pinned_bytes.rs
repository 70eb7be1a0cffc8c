//! Bytes of the host that devices read where they lie.
#![allow(unsafe_code)] // memory that the driver gave

use std::slice;

use super::launch::PIECE_LEN;
use super::{Device, DeviceError, Pinned};

/// Memory of the host that stays where it is, so that kernels can read it over the link to the host. Only the host writes
/// it: what is written while a kernel reads there may or may not be read.
///
/// Dropping it waits for the work that may still use it.
#[derive(Debug)]
pub struct PinnedBytes {
    memory: Pinned,
    len: usize,
}

impl Device {
    /// `len` zeros in the host's memory.
    ///
    /// # Errors
    /// Whatever the driver says; see [`DeviceError::is_out_of_memory`].
    pub fn pinned_bytes(&self, len: usize) -> Result<PinnedBytes, DeviceError> {
        // Whole pieces, so that kernels can read whole words at the end.
        let room = (len as u64).saturating_add(PIECE_LEN - 1) / PIECE_LEN * PIECE_LEN;
        let memory = self.alloc_pinned(room)?;
        // SAFETY: the memory has so many bytes, and nobody else knows of it yet.
        unsafe { memory.as_ptr().write_bytes(0, len) };
        Ok(PinnedBytes { memory, len })
    }
}

impl PinnedBytes {
    /// Where devices find it.
    pub(super) const fn address(&self) -> u64 {
        self.memory.region().address()
    }
}

impl AsRef<[u8]> for PinnedBytes {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the memory is there as long as `self`, and was written when it was made. Nobody has its region, which
        // work could write to, so only `as_mut` gives a way to change it.
        unsafe { slice::from_raw_parts(self.memory.as_ptr(), self.len) }
    }
}

impl AsMut<[u8]> for PinnedBytes {
    fn as_mut(&mut self) -> &mut [u8] {
        // SAFETY: as for `as_ref`; there is no other reference.
        unsafe { slice::from_raw_parts_mut(self.memory.as_ptr(), self.len) }
    }
}

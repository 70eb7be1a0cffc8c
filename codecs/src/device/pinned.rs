//! Memory of the host that devices reach.
#![allow(unsafe_code)] // calls into the driver

use std::ptr;
use std::sync::Arc;

use super::driver::call;
use super::guest::relax;
use super::{Device, DeviceError, Region, Shared};

/// Every device may use it, by its address on the host.
const PORTABLE_AND_MAPPED: u32 = 1 | 2;

/// Memory of the host that stays where it is, so that devices can copy from and to it at the speed of the link.
/// What it holds at first is anything.
///
/// It is a [`Region`] like memory of the device, and is filled and read through streams, in the order of their
/// work, or by the host through [`as_ptr`](Self::as_ptr). Dropping it waits for the work that may still use it, and
/// spoils nothing that some thread records.
#[derive(Debug)]
pub struct Pinned {
    shared: Arc<Shared>,
    address: u64,
    len: u64,
}

impl Device {
    /// `len` bytes of the host's memory.
    ///
    /// # Errors
    /// Whatever the driver says; see [`DeviceError::is_out_of_memory`].
    pub fn alloc_pinned(&self, len: u64) -> Result<Pinned, DeviceError> {
        let entered = self.shared.context.enter()?;
        let mut at = ptr::null_mut();
        let room = len.max(1) as usize;
        // SAFETY: `at` is a live variable.
        unsafe { call!(entered.driver, cuMemHostAlloc(&raw mut at, room, PORTABLE_AND_MAPPED))? };
        Ok(Pinned { shared: Arc::clone(&self.shared), address: at.expose_provenance() as u64, len })
    }
}

impl Pinned {
    /// All of it.
    #[must_use]
    pub const fn region(&self) -> Region<'_> {
        // SAFETY: the memory is there for as long as the borrow, and dropping it waits for work with it.
        unsafe { Region::from_raw(self.address, self.len) }
    }

    /// Where it is on the host. Whoever reads or writes there sees to it that no work does meanwhile.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        ptr::with_exposed_provenance_mut(self.address as usize)
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _relaxed = relax(self.shared.context.driver);
        self.shared.context.release(|driver| {
            // SAFETY: the driver gave this address, and nobody else frees it.
            unsafe { (driver.cuMemFreeHost)(ptr::with_exposed_provenance_mut(self.address as usize)) };
        });
    }
}

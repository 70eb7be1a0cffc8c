//! Memory of a device, and the parts of it that calls are about.
#![allow(unsafe_code)] // calls into the driver

use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use super::driver::call;
use super::guest::relax;
use super::launch::WORD;
use super::{DeviceError, Shared};

/// Memory of a device, freed when dropped. What it holds at first is anything.
///
/// Dropping it waits for the work that may still use it, as freeing device memory does, and spoils nothing that some thread records.
#[derive(Debug)]
pub struct Buffer {
    pub(super) shared: Arc<Shared>,
    address: u64,
    len: u64,
}

impl Buffer {
    pub(super) fn allocate(shared: &Arc<Shared>, len: u64) -> Result<Self, DeviceError> {
        let entered = shared.context.enter()?;
        let mut address = 0;
        // SAFETY: `address` is a live variable.
        unsafe { call!(entered.driver, cuMemAlloc_v2(&raw mut address, len.max(1) as usize))? };
        Ok(Self { shared: Arc::clone(shared), address, len })
    }

    /// All of it.
    #[must_use]
    pub const fn region(&self) -> Region<'_> {
        Region { address: self.address, len: self.len, owner: PhantomData }
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside the buffer.
    #[must_use]
    pub fn slice(&self, range: Range<u64>) -> Region<'_> {
        self.region().slice(range)
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        let _relaxed = relax(self.shared.context.driver);
        self.shared.context.release(|driver| {
            // SAFETY: the driver gave this address, and nobody else frees it.
            unsafe { (driver.cuMemFree_v2)(self.address) };
        });
    }
}

/// A part of a device's memory. It is not read or written by the host, so parts may overlap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region<'a> {
    address: u64,
    len: u64,
    owner: PhantomData<&'a ()>,
}

impl<'a> Region<'a> {
    /// A region that somebody else owns, for as long as they say.
    ///
    /// # Safety
    /// The `len` bytes at `address` must be memory that the device may read and write, from any call with this
    /// region on until the work that the call enqueued has ended, and in each replay of a graph that captured
    /// it.
    #[must_use]
    pub const unsafe fn from_raw(address: u64, len: u64) -> Self {
        Self { address, len, owner: PhantomData }
    }

    /// Its device address.
    #[must_use]
    pub const fn address(&self) -> u64 {
        self.address
    }

    /// Its length in bytes.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// A part of it.
    ///
    /// # Panics
    /// If `range` is not inside it.
    #[must_use]
    pub fn slice(self, range: Range<u64>) -> Self {
        let inside = range.start <= range.end && range.end <= self.len;
        assert!(inside, "bytes {range:?} of a region of {} bytes", self.len);
        Self { address: self.address + range.start, len: range.end - range.start, owner: PhantomData }
    }

    /// The word of 64 bits `offset` bytes into it. Words lie on multiples of 8.
    ///
    /// # Panics
    /// If it is not inside the region.
    #[must_use]
    pub fn word(self, offset: u64) -> Word<'a> {
        Word(self.slice(offset..offset.saturating_add(WORD)))
    }

    /// Fails unless the region's address is a multiple of `align`.
    pub(super) const fn check_align(&self, what: &'static str, align: u64) -> Result<(), DeviceError> {
        if self.address.is_multiple_of(align) {
            Ok(())
        } else {
            Err(DeviceError::Misaligned { what, address: self.address, align })
        }
    }

    /// Fails unless the region has `needed` bytes.
    pub(super) const fn check_len(&self, what: &'static str, needed: u64) -> Result<(), DeviceError> {
        if self.len >= needed { Ok(()) } else { Err(DeviceError::TooShort { what, needed, got: self.len }) }
    }
}

/// A word of 64 bits in device memory, or in page-locked memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Word<'a>(Region<'a>);

impl<'a> Word<'a> {
    /// Its 8 bytes.
    #[must_use]
    pub const fn region(self) -> Region<'a> {
        self.0
    }

    /// Its device address.
    #[must_use]
    pub const fn address(self) -> u64 {
        self.0.address()
    }

    /// Fails unless it lies on a multiple of 8.
    pub(super) const fn check(self, what: &'static str) -> Result<(), DeviceError> {
        self.0.check_align(what, WORD)
    }
}

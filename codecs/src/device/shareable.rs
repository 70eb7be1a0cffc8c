//! Memory of a device behind a file, which other processes map.
//!
//! Where the driver shares no memory by [handles](super::MemoryHandle), it may by files; and whoever has such memory mapped
//! keeps it, so that none of several processes has to wait for the others before it lets go.
#![allow(unsafe_code)] // calls into the driver

use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{
    CUmemAccess_flags, CUmemAccessDesc, CUmemAllocationGranularity_flags, CUmemAllocationHandleType,
    CUmemAllocationProp, CUmemAllocationType, CUmemGenericAllocationHandle, CUmemLocation, CUmemLocationType,
};

use super::driver::{Driver, call};
use super::guest::relax;
use super::{Device, DeviceError, Region, Shared};

const FILE: CUmemAllocationHandleType = CUmemAllocationHandleType::CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;

/// Memory of a device that processes share by a file: one that this process has made, or another one. Given back when
/// dropped; what other processes have mapped of it stays theirs.
#[derive(Debug)]
pub struct Shareable {
    mapping: Mapping,
    memory: Memory,
    len: u64,
}

/// The memory itself, wherever it is mapped.
#[derive(Debug)]
struct Memory {
    shared: Arc<Shared>,
    handle: CUmemGenericAllocationHandle,
}

/// Addresses, and whether memory is behind them.
#[derive(Debug)]
struct Mapping {
    shared: Arc<Shared>,
    address: u64,
    len: usize,
    is_mapped: bool,
    /// Whether all work of the device is waited for before it is unmapped.
    waits: bool,
}

impl Device {
    /// `len` bytes of its memory that other processes can map. It takes whole pages of the device: a multiple of 2 MiB on
    /// those there are.
    ///
    /// # Errors
    /// Whatever the driver says: some machines refuse to share memory.
    pub fn alloc_shareable(&self, len: u64) -> Result<Shareable, DeviceError> {
        let wanted = self.allocation();
        let whole = self.whole_pages(&wanted, len)?;
        let entered = self.shared.context.enter()?;
        let mut handle = 0;
        // SAFETY: `handle` is a live variable, and `wanted` is one of the driver's structs.
        unsafe { call!(entered.driver, cuMemCreate(&raw mut handle, whole, &raw const wanted, 0))? };
        let memory = Memory { shared: Arc::clone(&self.shared), handle };
        self.map(memory, whole, len)
    }

    /// Maps the memory behind `file`, of which the first `len` bytes are wanted, as [exported](Shareable::export) by this
    /// process or another one. It may be in the memory of another device that this one can reach.
    ///
    /// # Errors
    /// Whatever the driver says: of a file that is none of its, of memory that is shorter, or on a device out of reach.
    pub fn map_shareable(&self, file: impl AsFd, len: u64) -> Result<Shareable, DeviceError> {
        let whole = self.whole_pages(&self.allocation(), len)?;
        let entered = self.shared.context.enter()?;
        let mut handle = 0;
        // The driver wants the number of the file in place of a pointer.
        let number = ptr::without_provenance_mut(file.as_fd().as_raw_fd() as usize);
        // SAFETY: `handle` is a live variable; the driver looks at the file, which is open.
        unsafe {
            call!(entered.driver, cuMemImportFromShareableHandle(&raw mut handle, number, FILE))?;
        }
        let memory = Memory { shared: Arc::clone(&self.shared), handle };
        self.map(memory, whole, len)
    }

    /// What is allocated, and where.
    fn allocation(&self) -> CUmemAllocationProp {
        // SAFETY: the struct is numbers and a pointer, for all of which zero is a value.
        let mut wanted: CUmemAllocationProp = unsafe { std::mem::zeroed() };
        wanted.type_ = CUmemAllocationType::CU_MEM_ALLOCATION_TYPE_PINNED;
        wanted.requestedHandleTypes = FILE;
        wanted.location = self.location();
        wanted
    }

    fn location(&self) -> CUmemLocation {
        CUmemLocation {
            type_: CUmemLocationType::CU_MEM_LOCATION_TYPE_DEVICE,
            id: self.shared.context.device,
        }
    }

    /// The bytes of the pages that hold `len` bytes.
    fn whole_pages(&self, wanted: &CUmemAllocationProp, len: u64) -> Result<usize, DeviceError> {
        let entered = self.shared.context.enter()?;
        let least = CUmemAllocationGranularity_flags::CU_MEM_ALLOC_GRANULARITY_MINIMUM;
        let mut page = 0;
        // SAFETY: `page` is a live variable, and `wanted` is one of the driver's structs.
        unsafe {
            let wanted = &raw const *wanted;
            call!(entered.driver, cuMemGetAllocationGranularity(&raw mut page, wanted, least))?;
        }
        // A length that no memory has: the driver says so.
        Ok((len.max(1) as usize).checked_next_multiple_of(page.max(1)).unwrap_or(usize::MAX))
    }

    /// Puts `memory` behind addresses that this device may use.
    fn map(&self, memory: Memory, whole: usize, len: u64) -> Result<Shareable, DeviceError> {
        let entered = self.shared.context.enter()?;
        let mut address = 0;
        // SAFETY: `address` is a live variable.
        unsafe { call!(entered.driver, cuMemAddressReserve(&raw mut address, whole, 0, 0, 0))? };
        let shared = Arc::clone(&self.shared);
        let mut mapping = Mapping { shared, address, len: whole, is_mapped: false, waits: false };
        // SAFETY: the addresses are reserved, and nothing is behind them; the driver checks the length of the memory.
        unsafe { call!(entered.driver, cuMemMap(address, whole, 0, memory.handle, 0))? };
        mapping.is_mapped = true;
        let access = CUmemAccessDesc {
            location: self.location(),
            flags: CUmemAccess_flags::CU_MEM_ACCESS_FLAGS_PROT_READWRITE,
        };
        // SAFETY: memory is behind the addresses, and `access` is one of the driver's structs.
        unsafe { call!(entered.driver, cuMemSetAccess(address, whole, &raw const access, 1))? };
        mapping.waits = true; // not before: what nobody was given is in nobody's use
        Ok(Shareable { mapping, memory, len })
    }
}

impl Shareable {
    /// A file by which other processes, and this one, can [map](Device::map_shareable) the memory.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn export(&self) -> Result<OwnedFd, DeviceError> {
        let entered = self.memory.shared.context.enter()?;
        let mut file: RawFd = -1;
        // SAFETY: `file` is a live variable of the kind that the driver fills in for files.
        unsafe {
            let place = (&raw mut file).cast();
            call!(entered.driver, cuMemExportToShareableHandle(place, self.memory.handle, FILE, 0))?;
        }
        // SAFETY: the driver has opened it for this call.
        Ok(unsafe { OwnedFd::from_raw_fd(file) })
    }

    /// The same memory, which waits for nothing when it is dropped. Otherwise that waits for all work of the device, be it
    /// with this memory or not.
    ///
    /// # Safety
    /// No work that uses it may be under way when it is dropped.
    #[must_use]
    pub const unsafe fn unwaited(mut self) -> Self {
        self.mapping.waits = false;
        self
    }

    /// All of what was asked for.
    #[must_use]
    pub const fn region(&self) -> Region<'_> {
        // SAFETY: the memory is there until this is dropped, which waits for work with it, or is told that there is none.
        unsafe { Region::from_raw(self.mapping.address, self.len) }
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        self.shared.context.release(|driver: &Driver| {
            // Unlike to free, to unmap waits for no work, so this does first, or `unwaited` was told that there is none.
            if self.is_mapped && self.waits {
                // SAFETY: the call has no arguments.
                let waited = unsafe { call!(driver, cuCtxSynchronize()) };
                // A stream of the context records, so nobody can wait: work may be under way.
                if let Err(error @ DeviceError::Driver { code: 900, .. }) = waited {
                    tracing::warn!(%error, bytes = self.len, "memory of a device is left mapped");
                    return;
                }
            }
            // SAFETY: the driver gave the addresses, and nobody else gives them back.
            unsafe {
                if self.is_mapped {
                    (driver.cuMemUnmap)(self.address, self.len);
                }
                (driver.cuMemAddressFree)(self.address, self.len);
            }
        });
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        let _relaxed = relax(self.shared.context.driver);
        self.shared.context.release(|driver| {
            // SAFETY: the driver gave the handle, and nobody else gives it back.
            unsafe { (driver.cuMemRelease)(self.handle) };
        });
    }
}

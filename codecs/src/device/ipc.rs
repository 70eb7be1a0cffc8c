//! Memory and events that processes of a machine share.
#![allow(unsafe_code)] // calls into the driver

use std::ffi::c_char;
use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUevent_flags, CUipcEventHandle, CUipcMemHandle};

use super::driver::call;
use super::guest::relax;
use super::{Buffer, Device, DeviceError, Event, Region, Shared};

/// Bytes of a handle.
pub const HANDLE_LEN: usize = 64;

/// `CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS`, which is the only way.
const LAZY_PEERS: u32 = 1;

/// Names a [`Buffer`] towards other processes of this machine. The driver alone knows what is in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryHandle(pub [u8; HANDLE_LEN]);

/// Names an [`Event`] towards other processes of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle(pub [u8; HANDLE_LEN]);

impl Buffer {
    /// A handle by which other processes can open the buffer. They must close it before it is dropped.
    ///
    /// # Errors
    /// Whatever the driver says: some machines refuse to share memory.
    pub fn export(&self) -> Result<MemoryHandle, DeviceError> {
        let entered = self.shared.context.enter()?;
        let mut handle = CUipcMemHandle { reserved: [0; HANDLE_LEN] };
        // SAFETY: `handle` is a live variable, and the driver gave the address.
        unsafe { call!(entered.driver, cuIpcGetMemHandle(&raw mut handle, self.region().address()))? };
        Ok(MemoryHandle(handle.reserved.map(|byte| byte as u8)))
    }
}

/// A buffer of another process, closed when dropped.
#[derive(Debug)]
pub struct Imported {
    shared: Arc<Shared>,
    address: u64,
    len: u64,
}

impl Device {
    /// Opens a buffer of another process, of which the first `len` bytes are wanted. It may be in the memory of another
    /// device that this one can reach.
    ///
    /// # Errors
    /// [`DeviceError::TooShort`] if it has less, and whatever the driver says: of a handle that is none, or whose process
    /// has ended, or that this same process has made.
    ///
    /// # Safety
    /// The process that has exported the buffer must not free it before the result is dropped, unless by ending. No work
    /// that uses it may be under way when it is dropped.
    pub unsafe fn import(&self, handle: &MemoryHandle, len: u64) -> Result<Imported, DeviceError> {
        let entered = self.shared.context.enter()?;
        let handle = CUipcMemHandle { reserved: handle.0.map(|byte| byte as c_char) };
        let mut address = 0;
        // SAFETY: `address` is a live variable; the driver looks at the handle.
        unsafe { call!(entered.driver, cuIpcOpenMemHandle_v2(&raw mut address, handle, LAZY_PEERS))? };
        let imported = Imported { shared: Arc::clone(&self.shared), address, len };
        let (mut base, mut whole) = (0, 0);
        // SAFETY: `base` and `whole` are live variables, and the driver gave the address.
        unsafe {
            call!(entered.driver, cuMemGetAddressRange_v2(&raw mut base, &raw mut whole, address))?;
        }
        let got = (base + whole as u64).saturating_sub(address);
        if got < len {
            return Err(DeviceError::TooShort { what: "an opened buffer", needed: len, got });
        }
        Ok(imported)
    }

    /// As [`milestone`](Self::milestone), for several processes.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn shared_milestone(&self) -> Result<Event, DeviceError> {
        let flags = CUevent_flags::CU_EVENT_DISABLE_TIMING as u32
            | CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32
            | CUevent_flags::CU_EVENT_INTERPROCESS as u32;
        Event::create(&self.shared, flags)
    }

    /// Opens an event of another process.
    ///
    /// # Errors
    /// Whatever the driver says, as for [`import`](Self::import).
    pub fn import_event(&self, handle: &EventHandle) -> Result<Event, DeviceError> {
        let entered = self.shared.context.enter()?;
        let handle = CUipcEventHandle { reserved: handle.0.map(|byte| byte as c_char) };
        let mut event = ptr::null_mut();
        // SAFETY: `event` is a live variable; the driver looks at the handle.
        unsafe { call!(entered.driver, cuIpcOpenEventHandle(&raw mut event, handle))? };
        Ok(Event { shared: Arc::clone(&self.shared), handle: event })
    }
}

impl Event {
    /// A handle by which other processes can open the event.
    ///
    /// # Errors
    /// Whatever the driver says, also of an event that is not [made for that](Device::shared_milestone).
    pub fn export(&self) -> Result<EventHandle, DeviceError> {
        let entered = self.shared.context.enter()?;
        let mut handle = CUipcEventHandle { reserved: [0; HANDLE_LEN] };
        // SAFETY: `handle` is a live variable, and the event lives.
        unsafe { call!(entered.driver, cuIpcGetEventHandle(&raw mut handle, self.handle))? };
        Ok(EventHandle(handle.reserved.map(|byte| byte as u8)))
    }
}

impl Imported {
    /// What was asked for of it.
    #[must_use]
    pub const fn region(&self) -> Region<'_> {
        // SAFETY: the memory is there until this is dropped, as whoever has opened it has promised.
        unsafe { Region::from_raw(self.address, self.len) }
    }
}

impl Drop for Imported {
    fn drop(&mut self) {
        let _relaxed = relax(self.shared.context.driver);
        self.shared.context.release(|driver| {
            // SAFETY: the driver gave this address, and nobody else closes it.
            unsafe { (driver.cuIpcCloseMemHandle)(self.address) };
        });
    }
}

//! A device in use: its primary context, or one apart.
#![allow(unsafe_code)] // calls into the driver

use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys::{CUcontext, CUctx_flags, CUdevice};

use super::DeviceError;
use super::driver::{Driver, call};

/// A hold on the primary context of a device, which the CUDA runtime of the same process shares; or a context that
/// nobody else has.
#[derive(Debug)]
pub(super) struct Context {
    pub(super) driver: &'static Driver,
    pub(super) device: CUdevice,
    pub(super) handle: CUcontext,
    is_primary: bool,
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Context {
    pub(super) fn retain(driver: &'static Driver, device: CUdevice) -> Result<Self, DeviceError> {
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a live variable; the driver gave `device`.
        unsafe { call!(driver, cuDevicePrimaryCtxRetain(&raw mut handle, device))? };
        Ok(Self { driver, device, handle, is_primary: true })
    }

    pub(super) fn create(driver: &'static Driver, device: CUdevice) -> Result<Self, DeviceError> {
        // A thread that waits sleeps, as it does in milestones.
        let flags = CUctx_flags::CU_CTX_SCHED_BLOCKING_SYNC as u32;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a live variable; the driver gave `device`.
        unsafe { call!(driver, cuCtxCreate_v2(&raw mut handle, flags, device))? };
        // It is the thread's now: for no longer than this.
        drop(Entered { driver, thread: PhantomData });
        Ok(Self { driver, device, handle, is_primary: false })
    }

    /// Makes this the thread's context until the result is dropped; then the one before is back.
    pub(super) fn enter(&self) -> Result<Entered<'_>, DeviceError> {
        // SAFETY: the context is held by `self`.
        unsafe { call!(self.driver, cuCtxPushCurrent_v2(self.handle))? };
        Ok(Entered { driver: self.driver, thread: PhantomData })
    }

    /// Gives something back to the driver, with this as the thread's context. If it cannot be that, `release` is
    /// tried all the same; there is nobody to tell of an error.
    pub(super) fn release(&self, release: impl FnOnce(&Driver)) {
        let _entered = self.enter();
        release(self.driver);
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        // There is nobody to tell of an error.
        let _ = if self.is_primary {
            // SAFETY: `retain` has taken one hold, and this gives it back.
            unsafe { (self.driver.cuDevicePrimaryCtxRelease_v2)(self.device) }
        } else {
            // SAFETY: `create` has made it, and whatever is in it keeps it.
            unsafe { (self.driver.cuCtxDestroy_v2)(self.handle) }
        };
    }
}

/// A context that is current on this thread.
#[derive(Debug)]
pub(super) struct Entered<'a> {
    pub(super) driver: &'a Driver,
    /// The context is current on one thread.
    thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        let mut popped = ptr::null_mut();
        // SAFETY: `popped` is a live variable, and the context on top is the one that `enter` has pushed.
        let _ = unsafe { (self.driver.cuCtxPopCurrent_v2)(&raw mut popped) };
    }
}

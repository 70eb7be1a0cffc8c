//! What other libraries need that enqueue work of their own on streams of this one.
#![allow(unsafe_code)] // calls into the driver

use super::driver::call;
use super::{Device, DeviceError, Stream};

impl Device {
    /// Makes the device's context that of the calling thread while `work` runs.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, DeviceError> {
        let _entered = self.shared.context.enter()?;
        Ok(work())
    }
}

impl Stream {
    /// Whether what is enqueued here is recorded instead of run, or was until something spoiled the recording.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn is_capturing(&self) -> Result<bool, DeviceError> {
        let entered = self.shared.context.enter()?;
        let mut status = 0;
        // SAFETY: the stream lives, and `status` is a live variable of the width of the driver's enum.
        unsafe { call!(entered.driver, cuStreamIsCapturing(self.handle, &raw mut status))? };
        Ok(status != 0)
    }
}

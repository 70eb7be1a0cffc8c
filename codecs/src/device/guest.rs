//! What other libraries need that enqueue work of their own on streams of this one, and what this one needs while others
//! record theirs.
#![allow(unsafe_code)] // calls into the driver

use cudarc::driver::sys::CUstreamCaptureMode;

use super::context::Entered;
use super::driver::{Driver, call};
use super::{Device, DeviceError, Event, Stream};

impl Device {
    /// Lets the calling thread ask and wait for streams that do not record, allocate and free while `work` runs, which CUDA
    /// forbids to a thread that records, and to all threads while one records in its strictest mode: to do so all the same
    /// is an error and spoils the recording. What concerns a stream that records is as before.
    ///
    /// Where the driver does not allow it, nothing changes, and what `work` calls says so if it matters.
    pub fn relaxed<T>(&self, work: impl FnOnce() -> T) -> T {
        let _relaxed = relax(self.shared.context.driver);
        work()
    }

    /// Makes the device's context that of the calling thread while `work` runs.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn run<T>(&self, work: impl FnOnce() -> T) -> Result<T, DeviceError> {
        let _entered = self.shared.context.enter()?;
        Ok(work())
    }
}

impl Event {
    /// As [`Device::relaxed`], to ask for the event.
    pub fn relaxed<T>(&self, ask: impl FnOnce(&Self) -> T) -> T {
        let _relaxed = relax(self.shared.context.driver);
        ask(self)
    }
}

impl Stream {
    /// Whether what is enqueued here is recorded instead of run, or was until something spoiled the recording.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn is_capturing(&self) -> Result<bool, DeviceError> {
        Ok(self.recording()?.is_some())
    }

    /// Which recording takes what is enqueued here instead of running it, if one does: a number that no other recording has, but
    /// for those that something has spoiled, of which nothing comes.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn recording(&self) -> Result<Option<u64>, DeviceError> {
        self.recording_in(&self.shared.context.enter()?)
    }

    /// The same once the context is entered.
    pub(super) fn recording_in(&self, entered: &Entered<'_>) -> Result<Option<u64>, DeviceError> {
        let (mut status, mut id) = (0, 0);
        // SAFETY: the stream lives, and both are live variables, the first of the width of the driver's enum.
        unsafe {
            call!(entered.driver, cuStreamGetCaptureInfo(self.handle, &raw mut status, &raw mut id))?;
        }
        Ok((status != 0).then_some(id))
    }
}

/// The same until what is returned is dropped: also for what is given back, since to free memory, to unload a module or to destroy a
/// graph spoils what another thread records in the strictest mode, and the driver refuses to free then.
pub(super) fn relax(driver: &'static Driver) -> Relaxed {
    let relaxed = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_RELAXED as u32;
    Relaxed { driver, before: exchange(driver, relaxed) }
}

/// While this lives, the thread that has made it has other rules; then those of before.
pub(super) struct Relaxed {
    driver: &'static Driver,
    /// What the thread minded before, if it was changed.
    before: Option<u32>,
}

impl Drop for Relaxed {
    fn drop(&mut self) {
        if let Some(before) = self.before {
            exchange(self.driver, before);
        }
    }
}

/// Sets the mode of the calling thread. Returns the one before.
fn exchange(driver: &Driver, mut mode: u32) -> Option<u32> {
    // SAFETY: `mode` is a live variable of the width of the driver's enum.
    let exchanged = unsafe { call!(driver, cuThreadExchangeStreamCaptureMode(&raw mut mode)) };
    exchanged.ok().map(|()| mode)
}

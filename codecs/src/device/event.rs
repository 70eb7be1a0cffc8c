//! Moments in the work of a stream.
#![allow(unsafe_code)] // calls into the driver

use std::ptr;
use std::sync::Arc;
use std::time::Duration;

use cudarc::driver::sys::{CUevent, CUevent_flags};

use super::driver::{Driver, NOT_READY, call};
use super::{Device, DeviceError, Shared, Stream};

/// What tells no time, and lets threads sleep that wait for it.
const MILESTONE: u32 =
    CUevent_flags::CU_EVENT_DISABLE_TIMING as u32 | CUevent_flags::CU_EVENT_BLOCKING_SYNC as u32;

/// A moment in the work of a stream, by the device's clock.
#[derive(Debug)]
pub struct Event {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: CUevent,
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Device {
    /// An event that has not been recorded.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn event(&self) -> Result<Event, DeviceError> {
        Event::create(&self.shared, CUevent_flags::CU_EVENT_DEFAULT as u32)
    }

    /// An event that has not been recorded and tells no time, so that streams and threads wait for it at less cost: a
    /// thread sleeps meanwhile.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn milestone(&self) -> Result<Event, DeviceError> {
        Event::create(&self.shared, MILESTONE)
    }
}

impl Stream {
    /// An event that has not been recorded, of the same context, so that it can be recorded here.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn event(&self) -> Result<Event, DeviceError> {
        Event::create(&self.shared, CUevent_flags::CU_EVENT_DEFAULT as u32)
    }

    /// As [`Device::milestone`], of the same context as this stream, so that it can be recorded here.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn milestone(&self) -> Result<Event, DeviceError> {
        Event::create(&self.shared, MILESTONE)
    }

    /// Lets `event` stand for the moment at which all work enqueued here so far has ended.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn record(&self, event: &Event) -> Result<(), DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: both live.
        unsafe { call!(entered.driver, cuEventRecord(event.handle, self.handle)) }
    }

    /// Lets what is enqueued here from now on wait for what is enqueued on `other` now, which may be a stream of another
    /// device. If that one records, this one does too from now on, and must be followed in its turn before the end.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn follow(&self, other: &Self) -> Result<(), DeviceError> {
        let event = Event::create(&other.shared, CUevent_flags::CU_EVENT_DISABLE_TIMING as u32)?;
        other.record(&event)?;
        self.follow_event(&event)
    }

    /// Lets what is enqueued here from now on wait for the moment that `event` stands for now. One that has not been
    /// recorded is not waited for. It may be of another device.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn follow_event(&self, event: &Event) -> Result<(), DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: both live; an event may be destroyed before it happens.
        unsafe { call!(entered.driver, cuStreamWaitEvent(self.handle, event.handle, 0)) }
    }
}

impl Event {
    pub(super) fn create(shared: &Arc<Shared>, flags: u32) -> Result<Self, DeviceError> {
        let entered = shared.context.enter()?;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a live variable.
        unsafe { call!(entered.driver, cuEventCreate(&raw mut handle, flags))? };
        Ok(Self { shared: Arc::clone(shared), handle })
    }

    /// Whether it is of the context of `stream`, and so can be recorded there.
    #[must_use]
    pub fn is_of(&self, stream: &Stream) -> bool {
        self.shared.context.handle == stream.shared.context.handle
    }

    /// Waits until it has happened, as all that was enqueued before it then has. One that has not been recorded is not
    /// waited for.
    ///
    /// # Errors
    /// Whatever the driver says, also of work that was enqueued before.
    pub fn wait(&self) -> Result<(), DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: it lives.
        unsafe { call!(entered.driver, cuEventSynchronize(self.handle)) }
    }

    /// Whether it has happened by now, or has not been recorded. Does not wait.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn is_over(&self) -> Result<bool, DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: it lives.
        match unsafe { (entered.driver.cuEventQuery)(self.handle) } {
            NOT_READY => Ok(false),
            code => entered.driver.check("cuEventQuery", code).map(|()| true),
        }
    }

    /// The time from `start` to this one, both of which must have happened: who has waited for the streams knows.
    ///
    /// # Errors
    /// Whatever the driver says, which is an error too where one has not happened yet.
    pub fn since(&self, start: &Self) -> Result<Duration, DeviceError> {
        let entered = self.shared.context.enter()?;
        let (code, took) = self.elapsed(start, entered.driver);
        entered.driver.check("cuEventElapsedTime", code).map(|()| took)
    }

    /// The same if both have happened by now. Does not wait.
    ///
    /// # Errors
    /// Whatever the driver says but "not yet".
    pub fn since_if_over(&self, start: &Self) -> Result<Option<Duration>, DeviceError> {
        let entered = self.shared.context.enter()?;
        match self.elapsed(start, entered.driver) {
            (NOT_READY, _) => Ok(None),
            (code, took) => entered.driver.check("cuEventElapsedTime", code).map(|()| Some(took)),
        }
    }

    fn elapsed(&self, start: &Self, driver: &Driver) -> (u32, Duration) {
        let mut milliseconds = 0f32;
        // SAFETY: `milliseconds` is a live variable, and both events live.
        let code = unsafe { (driver.cuEventElapsedTime)(&raw mut milliseconds, start.handle, self.handle) };
        (code, Duration::try_from_secs_f64(f64::from(milliseconds) / 1e3).unwrap_or_default())
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        self.shared.context.release(|driver| {
            // SAFETY: `create` has made it. What waits for it goes on.
            unsafe { (driver.cuEventDestroy_v2)(self.handle) };
        });
    }
}

//! Queues of work for a device.
#![allow(unsafe_code)] // calls into the driver

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use cudarc::driver::sys::{CUstream, CUstream_flags};

use super::context::{Context, Entered};
use super::driver::{NOT_READY, call};
use super::guest::relax;
use super::{DeviceError, Region, Shared, Word};

/// `CU_STREAM_LEGACY`.
const LEGACY: usize = 1;
/// `CU_STREAM_PER_THREAD`.
const PER_THREAD: usize = 2;

/// How many streams were made here.
static MADE: AtomicU64 = AtomicU64::new(0);

/// A CUDA stream: work that is enqueued here runs in order, some time later.
#[derive(Debug)]
pub struct Stream {
    pub(super) shared: Arc<Shared>,
    pub(super) handle: CUstream,
    /// Its number among those made here, which are to be destroyed; `None` if somebody else owns it.
    number: Option<u64>,
}

/// What tells a stream from all others, also from those that are made when it is gone, as long as there is its context.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamIdentity {
    context: u64,
    /// `None`: the legacy default stream.
    number: Option<u64>,
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

impl Stream {
    pub(super) fn create(shared: &Arc<Shared>) -> Result<Self, DeviceError> {
        let entered = shared.context.enter()?;
        let mut handle = ptr::null_mut();
        // Work of the default stream, which libraries like to use, is not waited for.
        let flags = CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: `handle` is a live variable.
        unsafe { call!(entered.driver, cuStreamCreate(&raw mut handle, flags))? };
        Ok(Self { shared: Arc::clone(shared), handle, number: Some(MADE.fetch_add(1, Ordering::Relaxed)) })
    }

    pub(super) fn adopt(shared: &Arc<Shared>, handle: *mut c_void) -> Self {
        Self { shared: Arc::clone(shared), handle: handle.cast(), number: None }
    }

    /// Whether a stream is of a context, as default streams are of whichever is current.
    ///
    /// # Safety
    /// `handle` must be a stream, or null.
    pub(super) unsafe fn is_in(handle: *mut c_void, context: &Context) -> Result<bool, DeviceError> {
        let entered = context.enter()?;
        let mut found = ptr::null_mut();
        // SAFETY: `found` is a live variable; else as for this one.
        unsafe { call!(entered.driver, cuStreamGetCtx(handle.cast(), &raw mut found))? };
        Ok(found == context.handle)
    }

    /// Whether it is `CU_STREAM_PER_THREAD`, so another one for each thread that uses it.
    #[must_use]
    pub fn is_per_thread(&self) -> bool {
        self.handle.addr() == PER_THREAD
    }

    /// What tells it from all others. `None` where nothing does: its owner may destroy it, and the next one may get the same
    /// handle; or it is another one for each thread.
    #[must_use]
    pub fn identity(&self) -> Option<StreamIdentity> {
        let is_legacy = self.number.is_none() && matches!(self.handle.addr(), 0 | LEGACY);
        let context = self.shared.context.handle as u64;
        (is_legacy || self.number.is_some()).then_some(StreamIdentity { context, number: self.number })
    }

    /// Whether both are of one context, so that events of the one can be recorded on the other.
    #[must_use]
    pub fn is_beside(&self, other: &Self) -> bool {
        self.shared.context.handle == other.shared.context.handle
    }

    /// The driver's handle, a `CUstream`.
    #[must_use]
    pub const fn as_raw(&self) -> *mut c_void {
        self.handle.cast()
    }

    /// Waits until all work enqueued so far has ended.
    ///
    /// # Errors
    /// Whatever the driver says, also of work that was enqueued before.
    pub fn wait(&self) -> Result<(), DeviceError> {
        self.wait_in(&self.shared.context.enter()?)
    }

    fn wait_in(&self, entered: &Entered<'_>) -> Result<(), DeviceError> {
        // SAFETY: the stream lives.
        unsafe { call!(entered.driver, cuStreamSynchronize(self.handle)) }
    }

    /// Whether all work enqueued so far has ended.
    ///
    /// # Errors
    /// As [`wait`](Self::wait).
    pub fn is_idle(&self) -> Result<bool, DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: the stream lives.
        let code = unsafe { (entered.driver.cuStreamQuery)(self.handle) };
        if code == NOT_READY {
            return Ok(false);
        }
        entered.driver.check("cuStreamQuery", code).map(|()| true)
    }

    /// Enqueues zeros for all of `region`.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn zero(&self, region: Region<'_>) -> Result<(), DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: a region is device memory for as long as its work lasts: a buffer waits before it is freed.
        unsafe {
            call!(entered.driver, cuMemsetD8Async(region.address(), 0, region.len() as usize, self.handle))
        }
    }

    /// Enqueues a copy of `from` to the front of `to`, each in the memory of a device or pinned.
    ///
    /// # Errors
    /// [`DeviceError::TooShort`] if `to` is shorter, and whatever the driver says.
    pub fn copy(&self, from: Region<'_>, to: Region<'_>) -> Result<(), DeviceError> {
        to.check_len("the destination of a copy", from.len())?;
        self.copy_in(&self.shared.context.enter()?, from, to)
    }

    /// The same to a destination that was found to be long enough, once the context is entered.
    pub(super) fn copy_in(
        &self,
        entered: &Entered<'_>,
        from: Region<'_>,
        to: Region<'_>,
    ) -> Result<(), DeviceError> {
        let len = from.len() as usize;
        // SAFETY: as for `zero`; both have `len` bytes.
        unsafe { call!(entered.driver, cuMemcpyAsync(to.address(), from.address(), len, self.handle)) }
    }

    /// Where this is the legacy default stream, another one to copy from or to memory of the host on, in the order of its work. Relaxed rules
    /// do not help there: where a stream begins to record that waits for this one, the wait for a copy is refused, and the copy goes
    /// on. This way it is refused before there is one.
    fn own_for_copies(&self) -> Result<Option<Self>, DeviceError> {
        if !matches!(self.handle.addr(), 0 | LEGACY) {
            return Ok(None);
        }
        let own = Self::create(&self.shared)?;
        own.follow(self)?;
        Ok(Some(own))
    }

    /// Copies `bytes` to the front of `to`, and waits for that, by [relaxed](super::Device::relaxed) rules.
    ///
    /// # Errors
    /// [`DeviceError::TooShort`] if `to` is shorter, and whatever the driver says.
    pub fn upload(&self, bytes: &[u8], to: Region<'_>) -> Result<(), DeviceError> {
        to.check_len("the destination of an upload", bytes.len() as u64)?;
        let _relaxed = relax(self.shared.context.driver);
        if let Some(own) = self.own_for_copies()? {
            return own.upload(bytes, to);
        }
        let entered = self.shared.context.enter()?;
        let from = bytes.as_ptr().cast();
        // SAFETY: `bytes` is borrowed until the copy has ended, which is waited for. By relaxed rules that fails only with the
        // context, and then nothing is copied any more, or because this stream records: then the copy has not run, and never
        // does, as the wait spoils the recording. And as for `zero`.
        let copied = unsafe {
            call!(entered.driver, cuMemcpyHtoDAsync_v2(to.address(), from, bytes.len(), self.handle))
        };
        // Also after an error: nothing may still use `bytes`.
        copied.and(self.wait_in(&entered))
    }

    /// Copies the front of `from` to `bytes`, and waits for that, by [relaxed](super::Device::relaxed) rules: all work enqueued
    /// before has then ended.
    ///
    /// # Errors
    /// [`DeviceError::TooShort`] if `from` is shorter, and whatever the driver says.
    pub fn download(&self, from: Region<'_>, bytes: &mut [u8]) -> Result<(), DeviceError> {
        from.check_len("the source of a download", bytes.len() as u64)?;
        let _relaxed = relax(self.shared.context.driver);
        if let Some(own) = self.own_for_copies()? {
            return own.download(from, bytes);
        }
        let entered = self.shared.context.enter()?;
        let to = bytes.as_mut_ptr().cast();
        // SAFETY: as for `upload`.
        let copied = unsafe {
            call!(entered.driver, cuMemcpyDtoHAsync_v2(to, from.address(), bytes.len(), self.handle))
        };
        copied.and(self.wait_in(&entered))
    }

    /// What `word` holds when all work enqueued before has ended, which is waited for.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn read(&self, word: Word<'_>) -> Result<u64, DeviceError> {
        let mut bytes = [0; 8];
        self.download(word.region(), &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        if self.number.is_some() {
            self.shared.context.release(|driver| {
                // SAFETY: `create` has made the stream. What is enqueued still runs.
                unsafe { (driver.cuStreamDestroy_v2)(self.handle) };
            });
        }
    }
}

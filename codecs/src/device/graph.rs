//! Work that is recorded once and launched many times.
#![allow(unsafe_code)] // calls into the driver

use std::ptr;
use std::sync::Arc;

use cudarc::driver::sys::{CUgraph, CUgraphExec, CUstreamCaptureMode};

use super::driver::{Driver, call};
use super::guest::relax;
use super::{DeviceError, Shared, Stream};

/// A CUDA graph that is ready to be launched.
#[derive(Debug)]
pub struct Graph {
    shared: Arc<Shared>,
    handle: CUgraphExec,
}

// SAFETY: the driver's handles may be used by any thread; the driver locks what it has to.
unsafe impl Send for Graph {}

impl Stream {
    /// Records what `enqueue` enqueues on this stream instead of running it.
    ///
    /// Other streams that [follow](Stream::follow) it meanwhile are recorded too, also those of other devices; in the end
    /// this one must follow them. Nothing that waits may be called meanwhile, unless the thread has
    /// [relaxed](super::Device::relaxed) its rules and other streams are meant.
    ///
    /// # Errors
    /// The error of `enqueue`, else whatever the driver says.
    pub fn capture<E: From<DeviceError>>(&self, enqueue: impl FnOnce() -> Result<(), E>) -> Result<Graph, E> {
        let capture = Capture::begin(self)?;
        enqueue()?;
        let graph = capture.end()?;
        Ok(graph.instantiate(&self.shared)?)
    }
}

impl Graph {
    /// Enqueues what was recorded.
    ///
    /// A graph must not be launched again before its last launch has ended, unless on the same stream.
    ///
    /// # Errors
    /// Whatever the driver says.
    ///
    /// # Safety
    /// The memory that the recorded work uses must still be there, and its workspaces in no other use until it has
    /// ended.
    pub unsafe fn launch(&self, stream: &Stream) -> Result<(), DeviceError> {
        let entered = self.shared.context.enter()?;
        // SAFETY: graph and stream live; of the memory the caller takes care.
        unsafe { call!(entered.driver, cuGraphLaunch(self.handle, stream.handle)) }
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        let _relaxed = relax(self.shared.context.driver);
        self.shared.context.release(|driver| {
            // SAFETY: `instantiate` has made it. A launch that is under way goes on.
            unsafe { (driver.cuGraphExecDestroy)(self.handle) };
        });
    }
}

/// A stream that records. Dropped before its end, it forgets what it has recorded.
struct Capture<'a> {
    stream: &'a Stream,
    ended: bool,
}

impl<'a> Capture<'a> {
    fn begin(stream: &'a Stream) -> Result<Self, DeviceError> {
        let entered = stream.shared.context.enter()?;
        // Other threads may do as they like.
        let mode = CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream lives.
        unsafe { call!(entered.driver, cuStreamBeginCapture_v2(stream.handle, mode))? };
        Ok(Self { stream, ended: false })
    }

    fn end(mut self) -> Result<Recorded, DeviceError> {
        self.recorded() // if not even the context can be entered, dropping this tries once more
    }

    fn recorded(&mut self) -> Result<Recorded, DeviceError> {
        let entered = self.stream.shared.context.enter()?;
        self.ended = true;
        let mut handle = ptr::null_mut();
        // SAFETY: `handle` is a live variable, and the stream lives.
        let ended = unsafe { call!(entered.driver, cuStreamEndCapture(self.stream.handle, &raw mut handle)) };
        let recorded = Recorded { driver: self.stream.shared.context.driver, handle };
        ended.map(|()| recorded)
    }
}

impl Drop for Capture<'_> {
    fn drop(&mut self) {
        if !self.ended {
            let _ = self.recorded();
        }
    }
}

/// What was recorded, not yet ready.
struct Recorded {
    driver: &'static Driver,
    /// Null if the driver gave none.
    handle: CUgraph,
}

impl Recorded {
    fn instantiate(self, shared: &Arc<Shared>) -> Result<Graph, DeviceError> {
        let _relaxed = relax(self.driver);
        let entered = shared.context.enter()?;
        let mut handle = ptr::null_mut();
        let instantiate = entered.driver.cuGraphInstantiateWithFlags()?;
        // SAFETY: `handle` is a live variable, and the graph lives.
        let code = unsafe { instantiate(&raw mut handle, self.handle, 0) };
        entered.driver.check("cuGraphInstantiateWithFlags", code)?;
        Ok(Graph { shared: Arc::clone(shared), handle })
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if !self.handle.is_null() {
            let _relaxed = relax(self.driver);
            // SAFETY: the driver gave it, and it has no other owner.
            let _ = unsafe { (self.driver.cuGraphDestroy)(self.handle) };
        }
    }
}

//! A communicator of NCCL's: every call returns at once, and is waited for in bounded time.
#![allow(unsafe_code)] // calls into NCCL

use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use mgcomp_codecs::device::{Device, Region, Stream};

use super::library::{Comm, CommConfig, Library};
use super::{NcclError, UniqueId};

/// The `ncclResult_t` of a call of CUDA that has failed.
pub(super) const UNHANDLED_CUDA_ERROR: i32 = 1;
/// The `ncclResult_t` of a communicator that is still busy with a call.
const IN_PROGRESS: i32 = 7;
/// The `ncclDataType_t` of bytes.
const BYTES: i32 = 1;
/// How often something is asked before the thread begins to sleep, and how long it sleeps at most.
const QUESTIONS: u32 = 2000;
const LONGEST_SLEEP: Duration = Duration::from_micros(200);

/// A communicator of NCCL's. Dropped before its end, it is aborted.
#[derive(Debug)]
pub(super) struct Handle {
    nccl: &'static Library,
    device: Device,
    /// Null when it has ended.
    comm: Comm,
    /// Where NCCL stores it: at once, and again when it has met the others or given up, on a thread of its own.
    slot: Slot,
    limit: Duration,
    /// When it was aborted.
    aborted: Option<Instant>,
    /// Whether NCCL did not come back from that.
    is_stuck: bool,
}

type Slot = Arc<AtomicPtr<c_void>>;

// SAFETY: NCCL does not mind which thread calls, as long as it is one at a time: those of `&self` are made by the owner
// alone, since the type is not `Sync`.
unsafe impl Send for Handle {}

impl Handle {
    /// Meets the other ranks.
    pub(super) fn create(
        device: &Device,
        id: UniqueId,
        (rank, ranks): (u32, u32),
        limit: Duration,
    ) -> Result<Self, NcclError> {
        let nccl = Library::instance()?;
        let config = CommConfig::non_blocking()?;
        let (device, comm) = (device.clone(), ptr::null_mut());
        let slot = Slot::new(AtomicPtr::new(comm));
        let mut handle = Self { nccl, device, comm, slot, limit, aborted: None, is_stuck: false };
        let to = handle.slot.as_ptr();
        // SAFETY: the arguments are numbers, a live variable that NCCL reads before it returns, and a slot that lives for as long as
        // the communicator: who ends it keeps the slot until NCCL has returned.
        let called = handle.call("ncclCommInitRankConfig", || unsafe {
            (nccl.ncclCommInitRankConfig)(to, ranks as i32, id, rank as i32, &raw const config)
        });
        // Also after an error: what has failed while this call still went on is there, and must be aborted.
        handle.comm = handle.slot.load(Ordering::Acquire);
        called?;
        handle.settle("the meeting of the ranks").map(|()| handle)
    }

    /// Makes several calls as one operation.
    pub(super) fn group(&self, calls: impl FnOnce(&Self) -> Result<(), NcclError>) -> Result<(), NcclError> {
        // SAFETY: it takes nothing.
        self.call("ncclGroupStart", || unsafe { (self.nccl.ncclGroupStart)() })?;
        let called = calls(self);
        // Also after an error, and without the context: the group is the thread's, and would swallow all later calls.
        // SAFETY: as above.
        let end = || unsafe { (self.nccl.ncclGroupEnd)() };
        let ended = match self.device.run(end) {
            Ok(code) => self.accepted("ncclGroupEnd", code),
            Err(error) => {
                end();
                Err(error.into())
            }
        };
        called.and(ended).and_then(|()| self.settle("a group of calls"))
    }

    /// In a group: sends a region to `peer`.
    pub(super) fn send(&self, from: Region<'_>, peer: u32, stream: &Stream) -> Result<(), NcclError> {
        // SAFETY: a region is device memory for as long as its work lasts; the stream lives, and so does what is enqueued.
        self.call("ncclSend", || unsafe {
            let (len, peer) = (from.len() as usize, peer as i32);
            (self.nccl.ncclSend)(at(from), len, BYTES, peer, self.comm, stream.as_raw())
        })
    }

    /// In a group: receives a region from `peer`.
    pub(super) fn receive(&self, to: Region<'_>, peer: u32, stream: &Stream) -> Result<(), NcclError> {
        // SAFETY: as for `send`.
        self.call("ncclRecv", || unsafe {
            let (len, peer) = (to.len() as usize, peer as i32);
            (self.nccl.ncclRecv)(at(to), len, BYTES, peer, self.comm, stream.as_raw())
        })
    }

    /// In a group: `from` on `root` becomes `to` on all, which is as long. The others' `from` is not looked at.
    pub(super) fn broadcast(
        &self,
        from: Region<'_>,
        to: Region<'_>,
        root: u32,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        // SAFETY: as for `send`.
        self.call("ncclBroadcast", || unsafe {
            let (len, root) = (to.len() as usize, root as i32);
            (self.nccl.ncclBroadcast)(at(from), at(to), len, BYTES, root, self.comm, stream.as_raw())
        })
    }

    /// In a group: what all have in `from` becomes `to`, by rank.
    pub(super) fn all_gather(
        &self,
        from: Region<'_>,
        to: Region<'_>,
        stream: &Stream,
    ) -> Result<(), NcclError> {
        // SAFETY: as for `send`; callers have seen to it that `to` has so many regions.
        self.call("ncclAllGather", || unsafe {
            (self.nccl.ncclAllGather)(
                at(from),
                at(to),
                from.len() as usize,
                BYTES,
                self.comm,
                stream.as_raw(),
            )
        })
    }

    /// In a group: combines `count` numbers of all ranks, and leaves them on all.
    pub(super) fn all_reduce(
        &self,
        (from, to): (Region<'_>, Region<'_>),
        count: usize,
        (datatype, operation): (i32, i32),
        stream: &Stream,
    ) -> Result<(), NcclError> {
        // SAFETY: as for `send`; callers have seen to it that both have `count` numbers.
        self.call("ncclAllReduce", || unsafe {
            let raw = stream.as_raw();
            (self.nccl.ncclAllReduce)(at(from), at(to), count, datatype, operation, self.comm, raw)
        })
    }

    /// In a group: combines numbers of all ranks, and leaves `count` of them, its own share, on each.
    pub(super) fn reduce_scatter(
        &self,
        (from, to): (Region<'_>, Region<'_>),
        count: usize,
        (datatype, operation): (i32, i32),
        stream: &Stream,
    ) -> Result<(), NcclError> {
        // SAFETY: as for `send`; callers have seen to it that both have their numbers.
        self.call("ncclReduceScatter", || unsafe {
            let raw = stream.as_raw();
            (self.nccl.ncclReduceScatter)(at(from), at(to), count, datatype, operation, self.comm, raw)
        })
    }

    /// Fails if the communicator has.
    pub(super) fn check(&self) -> Result<(), NcclError> {
        self.accepted("work that was enqueued", self.state()?)
    }

    /// Waits until all work on `stream` has ended.
    pub(super) fn wait(&self, stream: &Stream, what: &'static str) -> Result<(), NcclError> {
        self.until(what, || {
            let idle = stream.is_idle()?;
            if !idle {
                self.check()?;
            }
            Ok(idle)
        })
    }

    /// The same before what came over the communicator is read: what a failed one has enqueued ends without having moved
    /// anything.
    pub(super) fn wait_for_bytes(&self, stream: &Stream, what: &'static str) -> Result<(), NcclError> {
        self.wait(stream, what)?;
        // Asked after the end, so that no failure that brought the end about is missed.
        self.check()
    }

    /// When it was aborted; now, if it was not.
    pub(super) fn aborted(&self) -> Instant {
        self.aborted.unwrap_or_else(Instant::now)
    }

    /// Whether the abort has not ended within the limit, so that NCCL may still use what it was told of.
    pub(super) const fn is_stuck(&self) -> bool {
        self.is_stuck
    }

    /// Waits until `streams` have come to their ends, when the communicator has: for no longer than the limit from `since`
    /// on, all together. What does not end by then waits for something that is not this communicator's. Returns whether
    /// nothing is under way on any of them.
    pub(super) fn drain<'a>(&self, since: Instant, streams: impl IntoIterator<Item = &'a Stream>) -> bool {
        let mut are_over = true;
        for stream in streams {
            if let Err(error) = self.until_since(since, "work of an ended communicator", || is_over(stream)) {
                tracing::warn!(%error, "a stream does not come to its end");
                are_over = false;
            }
        }
        are_over
    }

    /// Ends the communicator in peace, if that is possible; else it is aborted.
    pub(super) fn end(&mut self) {
        // SAFETY: it is alive, and nobody calls it any more.
        let finalized = self.call("ncclCommFinalize", || unsafe { (self.nccl.ncclCommFinalize)(self.comm) });
        if finalized.and_then(|()| self.settle("the end of the communicator")).is_ok() {
            let comm = std::mem::replace(&mut self.comm, ptr::null_mut());
            // SAFETY: as above. There is nobody to tell of an error.
            let destroy = || unsafe { (self.nccl.ncclCommDestroy)(comm) };
            if self.device.run(destroy).is_err() {
                // Without the context it is ended as well as may be.
                destroy();
            }
        }
        self.abort();
    }

    /// Ends what is under way, and the communicator. It is no error to do so twice.
    ///
    /// NCCL returns when all graphs are destroyed that have recorded calls of the communicator, which may be up to the calling
    /// thread. So another one calls, and is left alone with it after the limit.
    pub(super) fn abort(&mut self) {
        let comm = std::mem::replace(&mut self.comm, ptr::null_mut());
        if comm.is_null() {
            return;
        }
        let began = Instant::now();
        let (device, slot) = (self.device.clone(), self.slot.clone());
        let last = LastCall { nccl: self.nccl, device, comm, _slot: slot };
        let aborting = last.clone();
        let thread = background::spawn("nccl-abort", move || aborting.make());
        let Ok(thread) = thread else {
            last.make();
            self.aborted = Some(Instant::now());
            return;
        };
        let ended = self.until("the abort of a communicator", || Ok(thread.is_finished()));
        if let Err(error) = ended {
            tracing::warn!(%error, "are there graphs that have recorded its calls?");
            self.is_stuck = true;
            // The limit has passed, for all that comes after it.
            self.aborted = Some(began);
            return;
        }
        // It has dropped what it had. There is nobody to tell of a panic.
        let _ = thread.join();
        self.aborted = Some(Instant::now());
    }

    /// Makes a call, which may go on.
    fn call(&self, name: &'static str, call: impl FnOnce() -> i32) -> Result<(), NcclError> {
        self.accepted(name, self.device.run(call)?)
    }

    fn accepted(&self, name: &'static str, code: i32) -> Result<(), NcclError> {
        match code {
            IN_PROGRESS => Ok(()),
            _ => self.nccl.check(name, code),
        }
    }

    /// Waits until the communicator is done with its last call: what that is to enqueue is enqueued then.
    fn settle(&self, what: &'static str) -> Result<(), NcclError> {
        self.until(what, || match self.state()? {
            IN_PROGRESS => Ok(false),
            code => self.nccl.check(what, code).map(|()| true),
        })
    }

    fn state(&self) -> Result<i32, NcclError> {
        let mut state = 0;
        // SAFETY: the communicator is alive, and `state` a live variable.
        let code =
            self.device.run(|| unsafe { (self.nccl.ncclCommGetAsyncError)(self.comm, &raw mut state) })?;
        self.nccl.check("ncclCommGetAsyncError", code).map(|()| state)
    }

    /// Asks until the answer is yes.
    pub(super) fn until(
        &self,
        what: &'static str,
        is_over: impl FnMut() -> Result<bool, NcclError>,
    ) -> Result<(), NcclError> {
        self.until_since(Instant::now(), what, is_over)
    }

    /// The same where the limit counts from `since` on. At least one answer is heard.
    fn until_since(
        &self,
        since: Instant,
        what: &'static str,
        mut is_over: impl FnMut() -> Result<bool, NcclError>,
    ) -> Result<(), NcclError> {
        let mut questions = 0u32;
        while !is_over()? {
            if since.elapsed() > self.limit {
                return Err(NcclError::TimedOut { what, limit: self.limit });
            }
            questions = questions.saturating_add(1);
            if questions < QUESTIONS {
                thread::yield_now();
            } else {
                thread::sleep(LONGEST_SLEEP);
            }
        }
        Ok(())
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.abort();
    }
}

/// The abort of a communicator, by whatever thread.
#[derive(Clone)]
struct LastCall {
    nccl: &'static Library,
    device: Device,
    comm: Comm,
    /// To which NCCL may store until it returns.
    _slot: Slot,
}

// SAFETY: as for `Handle`, which calls no more.
unsafe impl Send for LastCall {}

impl LastCall {
    fn make(self) {
        // SAFETY: the communicator is alive, and nobody calls it any more. There is nobody to tell of an error.
        let abort = || unsafe { (self.nccl.ncclCommAbort)(self.comm) };
        // The rules of recordings are a thread's, and others may record.
        let aborted = self.device.relaxed(|| self.device.run(abort));
        if aborted.is_err() {
            // Without the context it is ended as well as may be.
            abort();
        }
    }
}

/// Whether nothing is under way on a stream. With its context lost, nothing runs any more.
fn is_over(stream: &Stream) -> Result<bool, NcclError> {
    match stream.is_idle() {
        Err(error) if error.is_sticky() => Ok(true),
        // It may be about the question, and not about the stream.
        Err(_) => Ok(stream.is_idle()?),
        Ok(idle) => Ok(idle),
    }
}

/// Where a region is, for a library that takes device memory as a pointer.
fn at<T>(region: Region<'_>) -> *mut T {
    ptr::without_provenance_mut(region.address() as usize)
}

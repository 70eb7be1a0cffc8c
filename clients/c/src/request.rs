//! Requests under way.
#![allow(unsafe_code)] // called from C

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_transport::communicator::{CollectiveRequest, CommunicatorError, ReceiveRequest, SendRequest};
use mgcomp_transport::copy::{CopyHandle, CopyReport, Kept};
use mgcomp_transport::node::Handle;
use mgcomp_transport::session::TransferError;

use crate::error::{Failure, call, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::kept;
use crate::lending::{Lent, Lot};
use crate::memory::Out;
use crate::offload::Returning;

static REQUESTS: Handles<Slot> = Handles::new(Kind::Request);

/// Looks at a request before the thread sleeps in between.
const EAGER_LOOKS: u32 = 100;
const SLEEP: Duration = Duration::from_micros(50);

/// Something that goes on while the program does something else. Its buffers must be there, and be left alone, until
/// mgcompWaitRequest, mgcompWaitRequestFor or mgcompTestRequest says that it is finished; then its handle is used up. Every
/// request is to be finished by one of them. After MGCOMP_RESULT_TRANSFER, its buffers must be there until its node, copier or
/// queue is destroyed.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompRequest {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// The place of a request. Whose it is can be seen while somebody waits for it.
struct Slot {
    lot: Arc<Lot>,
    /// Whether a thread waits for it, which no other one may do then. The lock does not tell: whoever closes the lot has it at
    /// times.
    is_awaited: AtomicBool,
    state: Mutex<State>,
}

/// How far a request is.
struct State {
    /// Whether it is about to begin, and may use buffers by now.
    begins: bool,
    /// None before it has begun, and when it is finished.
    request: Option<Request>,
}

/// What goes on, and what it was lent.
struct Request {
    work: Work,
    lent: Lent,
}

/// What goes on.
pub(crate) enum Work {
    Transfer(Handle),
    Send(SendRequest),
    Receive(ReceiveRequest),
    Collective(CollectiveRequest),
    Copy(CopyHandle<CopyReport>),
    /// A copy that is to be kept under a handle.
    Keep(CopyHandle<(Kept, CopyReport)>, u64),
    /// What was offloaded comes back.
    Prefetch(CopyHandle<CopyReport>, Returning),
    Done(Result<u64, Failure>),
}

/// Waits until a request is finished. Its handle is used up then, whatever comes of it.
///
/// @param bytes set to the bytes that were moved: of a receive, the length of what came; of a compressed copy, one that is
/// kept or one that comes back, what was left of it; of a collective, 0. May be NULL.
///
/// Any number of threads may wait, each for requests of its own. Of two that wait for the same one, the second fails with
/// MGCOMP_RESULT_BUSY.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompWaitRequest(request: mgcompRequest, bytes: *mut u64) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a number, or NULL.
        let out = unsafe { Out::optional("bytes", bytes) }?;
        let slot = REQUESTS.get(request.id)?;
        let mut turn = Turn::of(&slot)?;
        let Request { work, lent } = turn.state.request.take().ok_or_else(used_up)?;
        let result = slot.lot.settle(work.wait(), lent);
        drop(REQUESTS.remove(request.id));
        finish(out, result)
    })
}

/// Waits until a request is finished, for at most so long.
///
/// @param timeoutNs nanoseconds. If the time is up, the call fails with MGCOMP_RESULT_TIMEOUT, and the request goes on; its
/// handle is still good.
/// @param bytes as for mgcompWaitRequest.
///
/// Threads: as for mgcompWaitRequest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompWaitRequestFor(
    request: mgcompRequest,
    timeout_ns: u64,
    bytes: *mut u64,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a number, or NULL.
        let out = unsafe { Out::optional("bytes", bytes) }?;
        let until = Instant::now().checked_add(Duration::from_nanos(timeout_ns));
        let slot = REQUESTS.get(request.id)?;
        let mut turn = Turn::of(&slot)?;
        let mut looks = 0;
        loop {
            if let Some(result) = turn.state.request.as_mut().ok_or_else(used_up)?.look(&slot.lot) {
                turn.state.request = None;
                drop(REQUESTS.remove(request.id));
                return finish(out, result);
            }
            if until.is_some_and(|until| Instant::now() >= until) {
                let text = format_args!("the request is not finished after {timeout_ns} ns").to_string();
                return Err(Failure::new(mgcompResult::Timeout, text));
            }
            looks += 1;
            if looks < EAGER_LOOKS { thread::yield_now() } else { thread::sleep(SLEEP) }
        }
    })
}

/// Whether a request is finished. If it is, its handle is used up; if it has failed, this call fails as mgcompWaitRequest
/// would.
///
/// @param finished set to 1 if it is finished, else to 0.
/// @param bytes as for mgcompWaitRequest, if it is finished.
///
/// Threads: as for mgcompWaitRequest.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompTestRequest(
    request: mgcompRequest,
    finished: *mut u32,
    bytes: *mut u64,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for places for numbers, or NULL.
        let (flag, out) = unsafe { (Out::new("finished", finished)?, Out::optional("bytes", bytes)?) };
        let slot = REQUESTS.get(request.id)?;
        let mut turn = Turn::of(&slot)?;
        let Some(result) = turn.state.request.as_mut().ok_or_else(used_up)?.look(&slot.lot) else {
            flag.set(0);
            return Ok(());
        };
        turn.state.request = None;
        drop(REQUESTS.remove(request.id));
        finish(out, result)?;
        flag.set(1);
        Ok(())
    })
}

/// Gives what `start` begins a handle. It is not begun if there is no handle to be had.
pub(crate) fn begin(
    out: Out<mgcompRequest>,
    lot: &Arc<Lot>,
    lent: Lent,
    start: impl FnOnce() -> Result<Work, Failure>,
) -> Result<(), Failure> {
    // Whoever closes the lot waits for what begins now.
    let state = Mutex::new(State { begins: true, request: None });
    let id = REQUESTS.insert(Slot { lot: lot.clone(), is_awaited: AtomicBool::new(false), state })?;
    let beginning = Beginning { id, slot: REQUESTS.get(id)? };
    match start() {
        Ok(work) => {
            *beginning.slot.state() = State { begins: false, request: Some(Request { work, lent }) };
        }
        Err(failure) => return lot.settle(Err(failure), lent),
    }
    out.set(mgcompRequest { id });
    Ok(())
}

/// A request that begins, whose place is given up unless it has begun by the end.
struct Beginning {
    id: u64,
    slot: Arc<Slot>,
}

impl Drop for Beginning {
    fn drop(&mut self) {
        if std::mem::take(&mut self.slot.state().begins) {
            drop(REQUESTS.remove(self.id));
        }
    }
}

/// Closes a lot whose owner has ended all that is under way: waits until nothing uses buffers any more that requests were lent
/// which nobody has finished yet, or that failed ones have left. The requests keep what came of them until they are finished.
pub(crate) fn close(lot: &Arc<Lot>) -> Result<(), Failure> {
    let mut slots = REQUESTS.all();
    slots.retain(|slot| Arc::ptr_eq(&slot.lot, lot));
    lot.close(|| {
        let mut all = 0;
        slots.retain(|slot| {
            let used = slot.used();
            all += used;
            used > 0
        });
        all
    })
}

fn finish(out: Option<Out<u64>>, result: Result<u64, Failure>) -> Result<(), Failure> {
    let bytes = result?;
    if let Some(out) = out {
        out.set(bytes);
    }
    Ok(())
}

impl Slot {
    /// How many buffers it still uses. What waits for its end has at least one, and gives it back by itself.
    fn used(&self) -> usize {
        match self.state.try_lock() {
            Ok(mut state) => state.used(),
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner().used(),
            Err(TryLockError::WouldBlock) => 1,
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// How many buffers the request still uses.
    fn used(&mut self) -> usize {
        usize::from(self.begins) + self.request.as_mut().map_or(0, Request::used)
    }
}

/// The turn of the one thread that waits for a request.
struct Turn<'a> {
    is_awaited: &'a AtomicBool,
    state: MutexGuard<'a, State>,
}

impl<'a> Turn<'a> {
    fn of(slot: &'a Slot) -> Result<Self, Failure> {
        if slot.is_awaited.swap(true, Ordering::SeqCst) {
            return Err(Failure::new(mgcompResult::Busy, "another thread is waiting for this request"));
        }
        Ok(Self { is_awaited: &slot.is_awaited, state: slot.state() })
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.is_awaited.store(false, Ordering::SeqCst);
    }
}

impl Request {
    /// What came of it, if it is finished and its buffers are the program's again.
    fn look(&mut self, lot: &Lot) -> Option<Result<u64, Failure>> {
        if !self.end() {
            return None;
        }
        let result = std::mem::replace(&mut self.work, Work::Done(Ok(0))).wait();
        if result.is_ok() && !self.lent.is_free() {
            self.work = Work::Done(result);
            return None;
        }
        Some(lot.settle(result, std::mem::take(&mut self.lent)))
    }

    /// How many buffers it still uses.
    fn used(&mut self) -> usize {
        self.end();
        self.lent.used()
    }

    /// Lets go of all but the result, if it is finished; whether it is. What receives has slices of its buffer until then.
    fn end(&mut self) -> bool {
        let finished = self.work.is_finished();
        if finished {
            let work = std::mem::replace(&mut self.work, Work::Done(Ok(0)));
            self.work = Work::Done(work.wait());
        }
        finished
    }
}

impl Work {
    /// Waits for it; returns the bytes moved.
    pub(crate) fn wait(self) -> Result<u64, Failure> {
        Ok(match self {
            Self::Transfer(handle) => handle.wait()?,
            Self::Send(request) => request.wait().map(|()| 0)?,
            Self::Receive(request) => request.wait()?,
            Self::Collective(request) => request.wait().map(|()| 0)?,
            Self::Copy(handle) => handle.wait()?.coded_bytes,
            Self::Keep(handle, id) => kept::settle(id, handle.wait())?,
            Self::Prefetch(handle, returning) => returning.settle(handle.wait())?,
            Self::Done(result) => result?,
        })
    }

    fn is_finished(&mut self) -> bool {
        match self {
            Self::Transfer(handle) => handle.is_finished(),
            Self::Send(request) => request.is_finished(),
            Self::Receive(request) => request.is_finished(),
            Self::Collective(request) => request.is_finished(),
            Self::Copy(handle) | Self::Prefetch(handle, _) => handle.is_finished(),
            Self::Keep(handle, _) => handle.is_finished(),
            Self::Done(_) => true,
        }
    }
}

/// Another thread has finished it since the handle was looked up, or it has not begun.
fn used_up() -> Failure {
    Failure::new(mgcompResult::InvalidHandle, "the request is finished")
}

impl From<TransferError> for Failure {
    fn from(error: TransferError) -> Self {
        let code = match &error {
            TransferError::BufferTooSmall { .. } => mgcompResult::BufferTooSmall,
            TransferError::AddressRange { .. } | TransferError::NoSuchPeer { .. } => {
                mgcompResult::InvalidArgument
            }
            _ => mgcompResult::Transfer,
        };
        Self::new(code, error)
    }
}

impl From<CommunicatorError> for Failure {
    fn from(error: CommunicatorError) -> Self {
        let code = match error {
            // Whatever it is about: results that say that nothing was done are not for what others take part in.
            CommunicatorError::Transfer(_)
            | CommunicatorError::WrongLength { .. }
            | CommunicatorError::Broken(_) => mgcompResult::Transfer,
            CommunicatorError::Truncated { .. } => mgcompResult::BufferTooSmall,
            CommunicatorError::TooMany => mgcompResult::NoMemory,
            CommunicatorError::Thread(_) | CommunicatorError::Device(_) => mgcompResult::System,
            CommunicatorError::Panicked => mgcompResult::Internal,
            _ => mgcompResult::InvalidArgument,
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use std::mem::MaybeUninit;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::ptr;

    use mgcomp_codecs::device::DeviceError;
    use mgcomp_transport::message::Rank;

    use super::*;
    use crate::memory::Span;

    /// The end of a request, for which the memory is used on.
    fn failed() -> Result<Work, Failure> {
        Ok(Work::Done(Err(Failure::new(mgcompResult::Transfer, "the node is gone"))))
    }

    /// Begins a request that uses no buffers.
    fn begun(
        lot: &Arc<Lot>,
        start: impl FnOnce() -> Result<Work, Failure>,
    ) -> Result<mgcompRequest, Failure> {
        let mut place = MaybeUninit::uninit();
        // SAFETY: there is a place for a handle.
        let out = unsafe { Out::new("it", place.as_mut_ptr()) }?;
        begin(out, lot, Lent::default(), start)?;
        // SAFETY: it has begun, so the handle is there.
        Ok(unsafe { place.assume_init() })
    }

    /// How many buffers each request of a lot uses.
    fn used(lot: &Arc<Lot>) -> Vec<usize> {
        REQUESTS.all().iter().filter(|slot| Arc::ptr_eq(&slot.lot, lot)).map(|slot| slot.used()).collect()
    }

    fn wait(request: mgcompRequest) -> mgcompResult {
        // SAFETY: nobody asks for the bytes.
        unsafe { mgcompWaitRequest(request, ptr::null_mut()) }
    }

    #[test]
    fn what_begins_counts_until_it_has_begun_or_failed() {
        let lot = Arc::new(Lot::default());
        let request = begun(&lot, || {
            assert_eq!(used(&lot), [1]);
            Ok(Work::Done(Ok(7)))
        });
        assert_eq!(used(&lot), [0]);
        assert_eq!(wait(request.unwrap()), mgcompResult::Success);
        assert!(begun(&lot, || Err(Failure::argument("no"))).is_err());
        assert!(catch_unwind(AssertUnwindSafe(|| begun(&lot, || panic!("on purpose")))).is_err());
        assert!(used(&lot).is_empty());
    }

    #[test]
    fn only_whoever_waits_makes_others_busy() {
        let request = begun(&Arc::default(), || Ok(Work::Done(Ok(7)))).unwrap();
        let slot = REQUESTS.get(request.id).unwrap();
        let turn = Turn::of(&slot).unwrap();
        assert_eq!(wait(request), mgcompResult::Busy);
        drop(turn);
        // As whoever closes the lot, who looks at it.
        let looks = slot.state();
        thread::scope(|scope| {
            let waits = scope.spawn(|| wait(request));
            thread::sleep(Duration::from_millis(20));
            drop(looks);
            assert_eq!(waits.join().unwrap(), mgcompResult::Success);
        });
    }

    #[test]
    fn what_failed_halfway_does_not_say_that_nothing_was_done() {
        let code = |failure: Failure| call(|| Err(failure));
        let too_small = TransferError::BufferTooSmall { peer: Rank(1), len: 1000, capacity: 999 };
        assert_eq!(code(too_small.clone().into()), mgcompResult::BufferTooSmall);
        assert_eq!(code(CommunicatorError::from(too_small).into()), mgcompResult::Transfer);
        assert_eq!(code(CommunicatorError::Device(DeviceError::NoDriver).into()), mgcompResult::System);
        assert_eq!(code(CommunicatorError::Overlap.into()), mgcompResult::InvalidArgument);
    }

    #[test]
    fn whoever_closes_a_lot_waits_for_its_requests() {
        let (memory, lot, given_back) = ([0u8; 8], Arc::new(Lot::default()), AtomicBool::new(false));
        let (mut lent, mut place) = (Lent::default(), MaybeUninit::<mgcompRequest>::uninit());
        let span = Span::new("it", memory.as_ptr().cast(), memory.len()).unwrap();
        // SAFETY: `memory` outlives all that uses it here; and there is a place for a handle.
        let (used, out) = unsafe { (lent.take_host(&span), Out::new("it", place.as_mut_ptr()).unwrap()) };
        begin(out, &lot, lent, failed).unwrap();
        // SAFETY: it has begun, so the handle is there.
        let request = unsafe { place.assume_init() };
        thread::scope(|scope| {
            scope.spawn(|| {
                thread::sleep(Duration::from_millis(20));
                given_back.store(true, Ordering::SeqCst);
                drop(used);
            });
            close(&lot).unwrap();
            assert!(given_back.load(Ordering::SeqCst), "closed while the memory was used");
        });
        assert_eq!(wait(request), mgcompResult::Transfer);
    }
}

//! The queue for what leaves a device for a while: activations go out in forward and come back in backward.
#![allow(unsafe_code)] // called from C

use std::ffi::{c_char, c_void};
use std::mem::{MaybeUninit, take};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mgcomp_codecs::Element;
use mgcomp_transport::copy::offload::{OffloadConfig, OffloadError, OffloadQueue, OffloadStats, Ticket};
use mgcomp_transport::copy::{CopyConfig, CopyError, CopyReport, Order};
use mgcomp_transport::memory::Slice;

use crate::copy::{mgcompMemcpyReport, policy_of};
use crate::error::{Failure, call, making, mgcompResult};
use crate::handle::{Handles, Kind};
use crate::lending::{Lent, Lot};
use crate::memory::{Out, Span};
use crate::number::{element, flag, mgcompElement};
use crate::request::{Work, begin, close, mgcompRequest};

static QUEUES: Handles<Held> = Handles::new(Kind::OffloadQueue);

/// A queue that takes buffers out of the way, keeps them compressed in host memory of its own, and brings them back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompOffloadQueue {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// Stands for something offloaded, until it was brought back or discarded.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompOffloadTicket {
    /// What tells it from others; not to be changed.
    pub id: u64,
}

/// What a queue did so far.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct mgcompOffloadStats {
    /// Buffers that were offloaded.
    pub offloaded: u64,
    /// Buffers that were brought back.
    pub prefetched: u64,
    /// Buffers that nobody wanted back.
    pub discarded: u64,
    /// Copies that failed, either way.
    pub failed: u64,
    /// Bytes that were offloaded.
    pub raw_bytes: u64,
    /// Bytes that they took.
    pub coded_bytes: u64,
    /// Bytes of host memory in use now.
    pub used_bytes: u64,
    /// The most that were.
    pub peak_bytes: u64,
    /// Calls that had to wait for host memory.
    pub waits: u64,
}

/// A queue, the tickets that it gave out, and what copies that failed have left.
struct Held {
    queue: OffloadQueue,
    tickets: Handles<Issued>,
    lot: Arc<Lot>,
}

/// A ticket, and the buffer that it was given for, until that is the program's again.
struct Issued {
    ticket: Ticket,
    lent: Mutex<Lent>,
}

/// The ticket of what comes back, which is used up when that is there.
pub(crate) struct Returning {
    queue: Weak<Held>,
    ticket: u64,
}

/// Starts a queue with threads of its own.
///
/// @param threads that run codecs: 1 to 1024; 0 for as many as the launcher leaves this rank cores, at most 2.
/// @param inOrder 1 if copies of one direction are to begin and finish as they were asked for; 0 if short ones may overtake.
/// @param policy how codecs are chosen, as for mgcompMemcpyCompressed.
/// @param hostBytes the most memory that all that is offloaded takes at any moment. What is on its way out counts in full, until
/// it is known what is left of it.
/// @param queue set to the handle, to be given to mgcompDestroyOffloadQueue.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompCreateOffloadQueue(
    threads: u32,
    in_order: u32,
    policy: *const c_char,
    host_bytes: u64,
    queue: *mut mgcompOffloadQueue,
) -> mgcompResult {
    making(|| {
        // SAFETY: the header asks for the text and a place for a handle, or NULL.
        let (policy, out) = unsafe { (policy_of(policy)?, Out::new("queue", queue)?) };
        let order = if flag("inOrder", in_order)? { Order::Asked } else { Order::Free };
        let usual = CopyConfig::default();
        let codec_threads = if threads == 0 { usual.codec_threads } else { threads as usize };
        let copy = CopyConfig { codec_threads, order, ..usual };
        let queue = OffloadQueue::start(OffloadConfig::new(copy, policy, host_bytes))?;
        let held = Held { queue, tickets: Handles::new(Kind::OffloadTicket), lot: Arc::default() };
        out.set(mgcompOffloadQueue { id: QUEUES.insert(held)? });
        Ok(())
    })
}

/// Ends a queue. What it keeps is gone with it; copies that are under way are ended, and their requests fail; they are to be
/// finished all the same.
///
/// @return MGCOMP_RESULT_BUSY if memory is still used after 20 s; it must be there then until the program ends. Work on a
/// CUDA stream, with memory of a device, is waited for without a limit: if the stream never comes to it, this never returns.
///
/// Any number of threads may call this at once; all but the first one for a handle fail.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDestroyOffloadQueue(queue: mgcompOffloadQueue) -> mgcompResult {
    call(|| {
        let held = QUEUES.remove(queue.id)?;
        let lot = held.lot.clone();
        for issued in held.tickets.remove_all() {
            lot.keep(take(&mut *issued.lent()))?;
        }
        drop(held);
        close(&lot)
    })
}

/// Begins to take a buffer out of the way. Waits while the host memory of the queue is full and something is under way that may
/// make room.
///
/// @param buffer bytes bytes: a whole number of values, in the memory of a device at a multiple of their width. It must be there,
/// and not be changed, until mgcompWaitOffload has succeeded for the ticket, or it was brought back, or mgcompDiscardOffload has
/// returned.
/// @param element what they are; MGCOMP_ELEMENT_U8 for anything.
/// @param ticket set to the ticket, to be given to mgcompPrefetch or mgcompDiscardOffload. It is of use only with this queue.
///
/// @return MGCOMP_RESULT_NO_MEMORY if there is no room, and nothing is under way that may make some.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompOffload(
    queue: mgcompOffloadQueue,
    buffer: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    ticket: *mut mgcompOffloadTicket,
) -> mgcompResult {
    // SAFETY: as for this one.
    call(|| unsafe { issue(queue, (buffer, bytes), element, ticket, OffloadQueue::offload) })
}

/// As mgcompOffload, but fails with MGCOMP_RESULT_NO_MEMORY instead of waiting.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompTryOffload(
    queue: mgcompOffloadQueue,
    buffer: *const c_void,
    bytes: usize,
    element: MaybeUninit<mgcompElement>,
    ticket: *mut mgcompOffloadTicket,
) -> mgcompResult {
    // SAFETY: as for this one.
    call(|| unsafe { issue(queue, (buffer, bytes), element, ticket, OffloadQueue::try_offload) })
}

/// Waits until what a ticket stands for is out of the way: its buffer may be used for something else then.
///
/// @param report set to what the copy came to; may be NULL.
///
/// Any number of threads may call this at once, with the same ticket too.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompWaitOffload(
    queue: mgcompOffloadQueue,
    ticket: mgcompOffloadTicket,
    report: *mut mgcompMemcpyReport,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for the report, or NULL.
        let out = unsafe { Out::optional("report", report) }?;
        let held = QUEUES.get(queue.id)?;
        let issued = held.tickets.get(ticket.id)?;
        let done = held.queue.wait(issued.ticket).map_err(Failure::from);
        let done = held.lot.settle(done, take(&mut *issued.lent()))?;
        if let Some(out) = out {
            out.set(done.into());
        }
        Ok(())
    })
}

/// Begins to bring back what a ticket stands for; if it is not out yet, as soon as it is.
///
/// @param buffer room for as many bytes as were offloaded, exactly, in the memory of a device at a multiple of their values' width;
/// it may be where they were. It must be there, and be left alone, until the request is finished.
/// @param request set to what is under way. When it has succeeded, the ticket is used up; if it fails, the ticket is still
/// good.
///
/// Any number of threads may call this at once; of those with the same ticket, one succeeds.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompPrefetch(
    queue: mgcompOffloadQueue,
    ticket: mgcompOffloadTicket,
    buffer: *mut c_void,
    bytes: usize,
    request: *mut mgcompRequest,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for a handle, or NULL.
        let out = unsafe { Out::new("request", request) }?;
        let span = Span::new("buffer", buffer, bytes)?;
        let held = QUEUES.get(queue.id)?;
        let issued = held.tickets.get(ticket.id)?;
        let mut lent = Lent::default();
        // SAFETY: the header asks for the buffer until the request is finished.
        let to = unsafe { lent.take(&span) }?;
        begin(out, &held.lot, lent, || {
            let handle = held.queue.prefetch(issued.ticket, to)?;
            Ok(Work::Prefetch(handle, Returning { queue: Arc::downgrade(&held), ticket: ticket.id }))
        })
    })
}

/// Drops what a ticket stands for; waits until it is out of the way. The ticket is used up then.
///
/// Any number of threads may call this at once; of those with the same ticket, one succeeds.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompDiscardOffload(
    queue: mgcompOffloadQueue,
    ticket: mgcompOffloadTicket,
) -> mgcompResult {
    call(|| {
        let held = QUEUES.get(queue.id)?;
        let issued = held.tickets.get(ticket.id)?;
        held.queue.discard(issued.ticket)?;
        held.use_up(ticket.id)
    })
}

/// Changes the rate at which a queue reads buffers that go out, also for what waits already. Where an operator has set
/// one for the process (mgcomp read-cap), that holds as long as it is set.
///
/// @param gbps in Gb/s: more than 0.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub extern "C" fn mgcompSetOffloadReadCap(queue: mgcompOffloadQueue, gbps: f64) -> mgcompResult {
    call(|| Ok(QUEUES.get(queue.id)?.queue.set_read_cap_gbps(gbps)?))
}

/// What a queue did so far.
///
/// @param stats set to that.
///
/// Any number of threads may call this at once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mgcompGetOffloadStats(
    queue: mgcompOffloadQueue,
    stats: *mut mgcompOffloadStats,
) -> mgcompResult {
    call(|| {
        // SAFETY: the header asks for a place for them, or NULL.
        let out = unsafe { Out::new("stats", stats) }?;
        out.set(QUEUES.get(queue.id)?.queue.stats().into());
        Ok(())
    })
}

/// Takes a buffer into a queue by `offload`.
///
/// # Safety
/// As [`mgcompOffload`].
unsafe fn issue(
    queue: mgcompOffloadQueue,
    (buffer, bytes): (*const c_void, usize),
    element: MaybeUninit<mgcompElement>,
    ticket: *mut mgcompOffloadTicket,
    offload: impl FnOnce(&OffloadQueue, Slice, Element) -> Result<Ticket, OffloadError>,
) -> Result<(), Failure> {
    // SAFETY: the header asks for a place for a ticket, or NULL.
    let out = unsafe { Out::new("ticket", ticket) }?;
    let (element, span) = (self::element(element)?, Span::new("buffer", buffer, bytes)?);
    let held = QUEUES.get(queue.id)?;
    let mut lent = Lent::default();
    // SAFETY: the header asks for the buffer until it is out of the way.
    let from = unsafe { lent.take(&span) }?;
    let ticket = match offload(&held.queue, from, element) {
        Ok(ticket) => ticket,
        Err(error) => return held.lot.settle(Err(error.into()), lent),
    };
    let issued = held.tickets.insert(Issued { ticket, lent: Mutex::default() });
    let id = issued.or_else(|failure| {
        held.queue.discard(ticket)?;
        held.lot.settle(Err(failure), take(&mut lent))
    })?;
    match held.tickets.get(id) {
        Ok(issued) => *issued.lent() = lent,
        Err(_) => held.lot.keep(lent)?, // another thread has destroyed the queue meanwhile
    }
    out.set(mgcompOffloadTicket { id });
    Ok(())
}

impl Held {
    /// Ends a ticket whose buffer is out of the way. If there is none, whoever destroys the queue meanwhile has its buffer.
    fn use_up(&self, ticket: u64) -> Result<(), Failure> {
        let Ok(issued) = self.tickets.remove(ticket) else { return Ok(()) };
        self.lot.settle(Ok(()), take(&mut *issued.lent()))
    }
}

impl Issued {
    fn lent(&self) -> MutexGuard<'_, Lent> {
        self.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Returning {
    /// Takes in what came of it; returns the bytes that were kept.
    pub(crate) fn settle(self, result: Result<CopyReport, CopyError>) -> Result<u64, Failure> {
        let report = result?;
        if let Some(held) = self.queue.upgrade() {
            held.use_up(self.ticket)?;
        }
        Ok(report.coded_bytes)
    }
}

impl From<OffloadStats> for mgcompOffloadStats {
    fn from(stats: OffloadStats) -> Self {
        Self {
            offloaded: stats.offloaded,
            prefetched: stats.prefetched,
            discarded: stats.discarded,
            failed: stats.failed,
            raw_bytes: stats.raw_bytes,
            coded_bytes: stats.coded_bytes,
            used_bytes: stats.used_bytes,
            peak_bytes: stats.peak_bytes,
            waits: stats.waits,
        }
    }
}

impl From<OffloadError> for Failure {
    fn from(error: OffloadError) -> Self {
        let code = match error {
            OffloadError::Copy(error) => return error.into(),
            OffloadError::TooLong { .. } | OffloadError::Full { .. } => mgcompResult::NoMemory,
            OffloadError::OtherQueue { .. } | OffloadError::Used { .. } => mgcompResult::InvalidHandle,
            _ => mgcompResult::InvalidArgument,
        };
        Self::new(code, error)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgcomp_codecs::Algorithm;
    use mgcomp_selector::PolicySpec;

    use super::*;

    #[test]
    fn what_came_back_is_there_whoever_has_its_ticket() {
        let config = OffloadConfig::new(CopyConfig::default(), PolicySpec::default(), 1 << 20);
        let queue = OffloadQueue::start(config).unwrap();
        let held = Arc::new(Held { queue, tickets: Handles::new(Kind::OffloadTicket), lot: Arc::default() });
        let (encode, decode, took) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
        let (algorithm, reason, simulated_gbps) = (Algorithm::None, None, None);
        let report = CopyReport {
            raw_bytes: 8,
            coded_bytes: 5,
            algorithm,
            reason,
            encode,
            decode,
            took,
            simulated_gbps,
        };
        // As when another thread, which destroys the queue, has taken all tickets.
        let returning = Returning { queue: Arc::downgrade(&held), ticket: 0 };
        assert_eq!(returning.settle(Ok(report)).unwrap(), 5);
    }
}

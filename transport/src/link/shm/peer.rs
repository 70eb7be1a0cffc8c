//! The callers' side of a peer: a queue in front of a ring.

use std::collections::VecDeque;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::time::Instant;

use bytes::Bytes;

use super::record::Record;
use super::ring::{LINE, Misplaced, PIECE_BYTES, Writer};
use super::socket;
use super::waker::Waker;
use crate::link::flow::{Flow, ReceiveWindow, held_bytes};
use crate::link::rate::{Backlog, Buffers, Rate, RateMeter};
use crate::link::{LinkError, SendError, Sent};
use crate::message::{Header, Rank};

/// A caller copies at most so many bytes itself; the rest is the thread's.
const CALLER_BYTES: usize = 2 << 20;
/// The thread copies at most so many bytes before it looks at others.
const TURN_BYTES: usize = 256 << 10;
/// Shorter messages say nothing of the rate.
const METERED_BYTES: usize = 16 << 10;

/// What callers and the link's thread know of a peer.
pub(super) struct Peer {
    pub(super) rank: Rank,
    queue_limit: u64,
    pub(super) flow: Flow,
    /// While it is closed, the ring is not read.
    pub(super) window: Arc<ReceiveWindow>,
    /// Whether the peer was given up, and nothing more is reported of it.
    closing: AtomicBool,
    call: Arc<Call>,
    outgoing: Mutex<Outgoing>,
    /// Why the way is to end, if a guest says so.
    failure: Mutex<Option<LinkError>>,
    /// Bytes are being taken in right now: what is read is reported before the clock is looked at.
    pub(super) reading: AtomicBool,
    pub(super) rate: Arc<Rate>,
}

/// Calls the thread to a peer.
struct Call {
    /// Whether it has to look at the peer.
    wanted: AtomicBool,
    waker: Arc<Waker>,
}

impl Call {
    fn want(&self) {
        self.wanted.store(true, Ordering::SeqCst);
        Waker::wake(&self.waker);
    }
}

/// A window that is open again.
impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.want();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.want();
    }
}

struct Outgoing {
    way: Way,
    queue: VecDeque<Record>,
    /// Messages that will be queued when they have crossed the link that is imitated.
    on_wire: u64,
    meter: RateMeter<Arc<Rate>>,
}

enum Way {
    /// The peer has not been met.
    None,
    Open(Outlet),
    /// What the peer said of its ring was wrong.
    Broken(Misplaced),
    Closed,
}

/// A ring to write to, and how to wake its reader.
pub(super) struct Outlet {
    pub(super) writer: Writer,
    pub(super) socket: Arc<OwnedFd>,
}

/// How the queue of a peer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Queue {
    /// Nothing is to be done.
    Empty,
    /// Nothing is to be done yet, but something will be.
    Expecting,
    /// There is more to write, and room for it.
    Moving,
    /// There is no room.
    Stuck,
}

impl Peer {
    pub(super) fn new(rank: Rank, queue_limit: u64, waker: Arc<Waker>) -> Self {
        let rate = Arc::<Rate>::default();
        // What is in the ring is as good as there.
        let meter = RateMeter::new(rate.clone(), Buffers::None);
        let call = Arc::new(Call { wanted: AtomicBool::new(false), waker });
        let outgoing = Outgoing { way: Way::None, queue: VecDeque::new(), on_wire: 0, meter };
        Self {
            rank,
            queue_limit,
            flow: Flow::new(),
            window: ReceiveWindow::new(call.clone().into()),
            closing: AtomicBool::new(false),
            call,
            outgoing: Mutex::new(outgoing),
            failure: Mutex::new(None),
            reading: AtomicBool::new(false),
            rate,
        }
    }

    /// Sends a message, or queues it if it cannot be sent at once.
    pub(super) fn send(&self, header: &Header, payload: Bytes) -> Result<Sent, SendError> {
        let mut record = self.admit(header, payload)?;
        let mut outgoing = self.lock();
        if outgoing.is_closed() || self.is_closing() {
            self.settle(&record);
            return Err(SendError::Closed(self.rank));
        }
        // What was queued before goes first.
        if !outgoing.queue.is_empty() || !self.write(&mut outgoing, &mut record, CALLER_BYTES) {
            self.leave(&mut outgoing, record);
            return Ok(Sent::Queued);
        }
        Ok(Sent::Written)
    }

    /// Counts a message as queued that will cross an imitated link first; [`arrive`](Self::arrive) is for when it has.
    pub(super) fn post(&self, header: &Header, payload: Bytes) -> Result<Record, SendError> {
        let record = self.admit(header, payload)?;
        let mut outgoing = self.lock();
        if outgoing.is_closed() || self.is_closing() {
            self.settle(&record);
            return Err(SendError::Closed(self.rank));
        }
        outgoing.on_wire += 1;
        Ok(record)
    }

    /// A message has crossed the imitated link.
    pub(super) fn arrive(&self, mut record: Record) {
        let mut outgoing = self.lock();
        outgoing.on_wire -= 1;
        if outgoing.is_closed() {
            self.settle(&record);
        } else if !outgoing.queue.is_empty() || !self.write(&mut outgoing, &mut record, CALLER_BYTES) {
            self.leave(&mut outgoing, record);
        }
        if self.is_closing() {
            drop(outgoing);
            self.want(); // it may have been the last
        }
    }

    /// A message as it will be written, counted as queued.
    fn admit(&self, header: &Header, payload: Bytes) -> Result<Record, SendError> {
        let longest = u64::from(u32::MAX);
        let record = Record::new(header, payload);
        let bytes = record.message_len() as u64;
        if bytes > longest {
            return Err(SendError::TooLong { bytes, limit: longest });
        }
        self.take_room(bytes).map(|_| record)
    }

    /// Counts a message of so many bytes as queued.
    fn take_room(&self, bytes: u64) -> Result<u64, SendError> {
        let held_bytes = held_bytes(bytes);
        self.flow.queued.check_room(held_bytes, self.queue_limit)?;
        self.flow.queued.add(held_bytes);
        Ok(held_bytes)
    }

    /// Counts a message of so many bytes as queued that [arrives](Self::arrive) later; returns what it holds.
    #[cfg(feature = "cuda")]
    pub(super) fn reserve(&self, bytes: u64) -> Result<u64, SendError> {
        let limit = u64::from(u32::MAX);
        if bytes > limit {
            return Err(SendError::TooLong { bytes, limit });
        }
        let held_bytes = self.take_room(bytes)?;
        let mut outgoing = self.lock();
        if outgoing.is_closed() || self.is_closing() {
            self.flow.queued.remove(held_bytes);
            return Err(SendError::Closed(self.rank));
        }
        outgoing.on_wire += 1;
        Ok(held_bytes)
    }

    /// What was [reserved](Self::reserve) does not come.
    #[cfg(feature = "cuda")]
    pub(super) fn give_back(&self, held_bytes: u64) {
        self.flow.queued.remove(held_bytes);
        self.lock().on_wire -= 1;
        if self.is_closing() {
            self.want(); // it may have been the last
        }
    }

    /// Whether all that has arrived is in the ring.
    #[cfg(feature = "cuda")]
    pub(super) fn is_drained(&self) -> bool {
        self.lock().queue.is_empty()
    }

    /// Lets the way to the peer end for this reason.
    #[cfg(feature = "cuda")]
    pub(super) fn break_off(&self, error: LinkError) {
        self.failure().get_or_insert(error);
        self.want();
    }

    /// Why the way is to end.
    pub(super) fn take_failure(&self) -> Option<LinkError> {
        self.failure().take()
    }

    fn failure(&self) -> MutexGuard<'_, Option<LinkError>> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A message is queued no more.
    fn settle(&self, record: &Record) {
        self.flow.queued.remove(record.held_bytes());
    }

    /// Leaves a message to the thread.
    fn leave(&self, outgoing: &mut Outgoing, record: Record) {
        outgoing.queue.push_back(record);
        // Otherwise the thread knows already, or has to meet the peer first.
        if outgoing.queue.len() == 1 && !matches!(outgoing.way, Way::None) {
            self.want();
        }
    }

    /// Writes up to `most` bytes of a message. Returns whether it is written to the end.
    fn write(&self, outgoing: &mut Outgoing, record: &mut Record, most: usize) -> bool {
        let Outgoing { way, queue, meter, .. } = outgoing;
        let Way::Open(outlet) = way else { return false };
        let metered = record.message_len() >= METERED_BYTES;
        let started = metered.then(Instant::now);
        let before = record.done();
        let mut written = false;
        while !written && record.done() - before < most {
            let piece_start = record.done();
            written = match record.write(&mut outlet.writer, PIECE_BYTES) {
                Ok(written) => written,
                Err(misplaced) => {
                    *way = Way::Broken(misplaced);
                    self.want();
                    return false;
                }
            };
            // At once, so that it copies out while this side copies in. Also where there is no room: the last bell may have failed.
            if outlet.writer.must_wake_reader() && !socket::ring(&outlet.socket) {
                outlet.writer.let_reader_sleep();
            }
            if record.done() == piece_start {
                break;
            }
        }
        let progress = record.done() - before;
        if progress > 0 {
            let now = Instant::now();
            self.flow.written.note(now);
            if metered || meter.is_busy() {
                let started = started.unwrap_or(now);
                let is_last = written && queue.is_empty();
                let backlog = if is_last { Backlog::None } else { Backlog::Some };
                meter.wrote(progress as u64, started, now, backlog);
            }
        }
        if written {
            self.settle(record);
        }
        written
    }

    /// The thread's turn: writes what is queued, while there is room.
    pub(super) fn pump(&self) -> Result<Queue, Misplaced> {
        let mut outgoing = self.lock();
        let mut left = TURN_BYTES;
        while let Some(mut record) = outgoing.queue.pop_front() {
            let before = record.done();
            if !self.write(&mut outgoing, &mut record, left) {
                let moved = record.done() > before || left < TURN_BYTES;
                outgoing.queue.push_front(record);
                return match outgoing.way {
                    Way::Broken(misplaced) => Err(misplaced),
                    _ if moved => Ok(Queue::Moving),
                    _ => Ok(Queue::Stuck),
                };
            }
            left -= (record.done() - before).min(left);
            if left == 0 {
                return Ok(Queue::Moving);
            }
        }
        match outgoing.way {
            Way::Broken(misplaced) => Err(misplaced),
            _ if outgoing.on_wire > 0 => Ok(Queue::Expecting),
            _ => Ok(Queue::Empty),
        }
    }

    /// Whether there is room for what is queued. Says before that the thread sleeps, if `sleeping`.
    pub(super) fn has_room(&self, sleeping: bool) -> bool {
        let mut outgoing = self.lock();
        let Way::Open(outlet) = &mut outgoing.way else { return false };
        outlet.writer.set_sleeping(sleeping);
        std::sync::atomic::fence(Ordering::SeqCst);
        outlet.writer.room(LINE).map_or(true, |room| room >= LINE)
    }

    /// Whether bytes have moved since then, or do now.
    pub(super) fn moved_since(&self, since: Instant) -> bool {
        self.reading.load(Ordering::Acquire) || self.flow.moved_since(since)
    }

    /// The peer was met.
    pub(super) fn open(&self, outlet: Outlet) {
        self.lock().way = Way::Open(outlet);
        self.want();
    }

    /// Nothing more will be written: forgets what is queued.
    pub(super) fn end(&self) {
        let mut outgoing = self.lock();
        outgoing.way = Way::Closed;
        let queue = std::mem::take(&mut outgoing.queue);
        drop(outgoing);
        queue.iter().for_each(|record| self.settle(record));
    }

    /// The program gives the peer up.
    pub(super) fn close(&self) {
        let outgoing = self.lock();
        self.closing.store(true, Ordering::SeqCst);
        drop(outgoing);
        self.want();
    }

    pub(super) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::SeqCst)
    }

    /// Whether the thread was to look at the peer since it was last asked.
    pub(super) fn take_wanted(&self) -> bool {
        self.is_wanted() && self.call.wanted.swap(false, Ordering::SeqCst)
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.call.wanted.load(Ordering::SeqCst)
    }

    fn want(&self) {
        self.call.want();
    }

    fn lock(&self) -> MutexGuard<'_, Outgoing> {
        self.outgoing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outgoing {
    fn is_closed(&self) -> bool {
        matches!(self.way, Way::Closed)
    }
}

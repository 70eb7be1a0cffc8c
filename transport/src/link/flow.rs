//! Flow control with a peer: what may be queued for it, what of its messages may be unseen, and what shows that it lives.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;
use std::time::{Duration, Instant};

use super::movement::Movement;
use super::{Credit, Held, SendError};
use crate::message::Limits;

/// What a message counts for beside its bytes, for the memory that it takes itself. Otherwise a peer that reads nothing could
/// have a queue filled with a great many messages of a few bytes.
const MESSAGE_BYTES: u64 = 256;
/// Bytes of messages that came from a peer and were not looked at yet; once there are so many, no more are received.
const UNSEEN_BYTES: u64 = 64 << 20;
/// How long a peer may take for what is still queued when this side closes; and this side, for what the peer had written, when
/// writing to it fails.
pub(super) const FLUSH_TIMEOUT: Duration = Duration::from_secs(2);

/// What a message of so many bytes counts for while it is queued, or unseen.
pub(super) const fn held_bytes(message_len: u64) -> u64 {
    message_len.saturating_add(MESSAGE_BYTES)
}

/// What may be queued for a peer unless somebody says otherwise: 1 GiB, or if that is more, what peers may rightly ask for under these
/// limits, three windows and as many messages.
pub(super) const fn usual_queue_bytes(limits: Limits) -> u64 {
    let messages = limits.max_in_flight as u64 * 4 * MESSAGE_BYTES;
    let asked_for = limits.window_bytes.saturating_mul(3).saturating_add(messages);
    if asked_for > 1 << 30 { asked_for } else { 1 << 30 }
}

/// What goes on with a peer in both directions.
#[derive(Debug)]
pub(super) struct Flow {
    pub(super) queued: QueuedBytes,
    pub(super) written: Movement,
    pub(super) read: Arc<Movement>,
}

/// What the messages hold that are not written yet, or not to the end.
#[derive(Debug, Default)]
pub(super) struct QueuedBytes(AtomicU64);

impl Flow {
    pub(super) fn new() -> Self {
        Self { queued: QueuedBytes::default(), written: Movement::new(), read: Arc::new(Movement::new()) }
    }

    /// When bytes last moved that somebody here may soon have more to do with than to wait. Those on an imitated link are left to
    /// themselves until they are there.
    pub(super) fn last_moved(&self, now: Instant) -> Instant {
        let (read, written) = (self.read.latest(), self.written.latest());
        if written > now { read } else { read.max(written) }
    }

    /// Whether the rest of a message is to come from the peer, or to be taken by it.
    pub(super) fn is_halfway(&self) -> bool {
        self.read.is_halfway() || self.queued.any()
    }

    /// Whether the peer has shown since then that it lives. What was written may still lie in a buffer on the way while it
    /// hangs. So writing counts only while there is more to write: then those buffers are full, and headway is the peer's.
    pub(super) fn moved_since(&self, since: Instant) -> bool {
        self.read.since(since) || self.queued.any() && self.written.since(since)
    }
}

impl QueuedBytes {
    pub(super) fn get(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }

    /// Whether anything is queued.
    pub(super) fn any(&self) -> bool {
        self.get() > 0
    }

    /// Whether a message that holds so much may be queued beside what is: counts nothing, and returns what there was before.
    /// Of two that ask before either [is added](Self::add), both may be let in.
    pub(super) fn check_room(&self, held_bytes: u64, limit: u64) -> Result<u64, SendError> {
        let queued_bytes = self.get();
        if queued_bytes.saturating_add(held_bytes) > limit {
            return Err(SendError::Full { queued_bytes, limit });
        }
        Ok(queued_bytes)
    }

    /// A message that holds so much is queued.
    pub(super) fn add(&self, held_bytes: u64) {
        self.0.fetch_add(held_bytes, Ordering::SeqCst);
    }

    /// A message that holds so much is written, or never will be; returns whether anything else is queued.
    pub(super) fn remove(&self, held_bytes: u64) -> bool {
        self.0.fetch_sub(held_bytes, Ordering::SeqCst) > held_bytes
    }

    /// Nothing of what is queued will be written.
    pub(super) fn abandon(&self) {
        self.0.store(0, Ordering::SeqCst);
    }
}

/// How much more may come from a peer before what came was looked at.
pub(super) struct ReceiveWindow {
    limit: u64,
    unseen_bytes: AtomicU64,
    reopened: Waker,
}

/// A message that came and was not looked at, until this is dropped.
pub(super) struct Unseen {
    window: Arc<ReceiveWindow>,
    held_bytes: u64,
}

impl ReceiveWindow {
    /// A window of 64 MiB that calls `reopened` when it was closed and is no more.
    pub(super) fn new(reopened: Waker) -> Arc<Self> {
        Self::of(UNSEEN_BYTES, reopened)
    }

    pub(super) fn of(limit: u64, reopened: Waker) -> Arc<Self> {
        Arc::new(Self { limit, unseen_bytes: AtomicU64::new(0), reopened })
    }

    /// Whether one more message may come, whatever its length.
    pub(super) fn is_open(&self) -> bool {
        self.unseen_bytes() < self.limit
    }

    /// Whether all that came was looked at.
    pub(super) fn is_idle(&self) -> bool {
        self.unseen_bytes() == 0
    }

    /// A message of so many bytes came.
    pub(super) fn credit(self: &Arc<Self>, message_len: u64) -> Credit {
        let held_bytes = held_bytes(message_len);
        self.unseen_bytes.fetch_add(held_bytes, Ordering::SeqCst);
        Credit(Held::Unseen(Unseen { window: self.clone(), held_bytes }))
    }

    fn unseen_bytes(&self) -> u64 {
        self.unseen_bytes.load(Ordering::SeqCst)
    }
}

impl Drop for Unseen {
    fn drop(&mut self) {
        let Self { window, held_bytes } = self;
        let before = window.unseen_bytes.fetch_sub(*held_bytes, Ordering::SeqCst);
        if before >= window.limit && before - *held_bytes < window.limit {
            window.reopened.wake_by_ref();
        }
    }
}

impl fmt::Debug for ReceiveWindow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} bytes unseen", self.unseen_bytes(), self.limit)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::task::Wake;

    use super::*;

    #[test]
    fn a_queue_takes_what_fits_with_what_messages_hold_themselves() {
        let queued = QueuedBytes::default();
        let limit = 2 * (100 + 256);
        assert_eq!(queued.check_room(held_bytes(100), limit), Ok(0));
        assert!(!queued.any(), "nothing is counted by asking");
        queued.add(held_bytes(100));
        assert_eq!(queued.check_room(held_bytes(100), limit), Ok(356));
        assert_eq!(
            queued.check_room(held_bytes(101), limit),
            Err(SendError::Full { queued_bytes: 356, limit })
        );
        assert!(queued.check_room(held_bytes(u64::MAX), u64::MAX).is_ok() && queued.get() == 356);
        queued.add(held_bytes(0));
        assert!(queued.remove(356) && !queued.remove(256) && !queued.any());
        queued.add(7);
        queued.abandon();
        assert!(!queued.any());
    }

    #[test]
    fn who_is_written_to_lives_only_while_there_is_more_to_write() {
        let flow = Flow::new();
        let start = flow.written.latest();
        let at = |ms| start + Duration::from_millis(ms);
        flow.written.note(at(20));
        assert!(!flow.moved_since(at(10)), "it may lie in a buffer");
        flow.queued.add(1);
        assert!(flow.moved_since(at(10)) && !flow.moved_since(at(20)));
        flow.queued.remove(1);
        flow.read.note(at(30));
        assert!(flow.moved_since(at(20)) && !flow.moved_since(at(30)));
    }

    #[test]
    fn what_is_on_an_imitated_link_does_not_move_before_it_is_there() {
        let flow = Flow::new();
        let start = flow.last_moved(Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        flow.read.note(at(10));
        flow.written.note(at(500));
        assert_eq!(flow.last_moved(at(100)), flow.read.latest());
        assert_eq!(flow.last_moved(at(600)), flow.written.latest());
        flow.read.note(at(700));
        assert_eq!(flow.last_moved(at(900)), flow.read.latest());
    }

    #[derive(Default)]
    struct Calls(AtomicU32);

    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    #[test]
    fn a_window_closes_at_its_limit_and_says_once_that_it_is_open_again() {
        let calls = Arc::<Calls>::default();
        let count = || calls.0.load(Ordering::SeqCst);
        let window = ReceiveWindow::of(2 * (100 + 256), calls.clone().into());
        let first = window.credit(99);
        assert!(window.is_open() && !window.is_idle());
        // One byte is left, and a message of any length may come.
        let second = window.credit(100);
        assert!(window.is_open());
        let third = window.credit(1000);
        assert!(!window.is_open());
        drop(first);
        assert_eq!((window.is_open(), count()), (false, 0), "the long one is more than the limit");
        drop(third);
        assert_eq!((window.is_open(), count()), (true, 1));
        drop(second);
        assert_eq!((window.is_idle(), count()), (true, 1));
        // Exactly the limit closes it.
        let exact = window.credit(2 * 356 - 256);
        assert!(!window.is_open());
        let link = window.clone();
        drop(window);
        drop(exact);
        assert_eq!((link.is_open(), count()), (true, 2), "the link may be gone by then");
    }
}

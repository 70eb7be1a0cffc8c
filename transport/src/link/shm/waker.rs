//! How callers wake the link's thread.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::task::Wake;

use rustix::event::{EventfdFlags, eventfd};

/// A file that the thread sleeps on, and whether it does.
pub(super) struct Waker {
    file: OwnedFd,
    asleep: AtomicBool,
    /// Whether anybody has called since the thread last looked.
    called: AtomicBool,
}

impl Waker {
    pub(super) fn new() -> io::Result<Self> {
        let file = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        Ok(Self { file, asleep: AtomicBool::new(false), called: AtomicBool::new(false) })
    }

    /// Wakes the thread if it sleeps. What it is to see must have been stored before.
    pub(super) fn wake(&self) {
        self.called.store(true, Ordering::Relaxed);
        // As in a ring: either this side sees that it sleeps, or it sees what was stored.
        fence(Ordering::SeqCst);
        if self.asleep.load(Ordering::Relaxed) && self.asleep.swap(false, Ordering::Relaxed) {
            let _ = rustix::io::write(&self.file, &1u64.to_ne_bytes());
        }
    }

    /// The thread is about to sleep; it must look once more whether there is anything to do.
    pub(super) fn fall_asleep(&self) {
        self.asleep.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Whether somebody has called since this was last asked.
    pub(super) fn take_called(&self) -> bool {
        self.called.swap(false, Ordering::Relaxed)
    }

    /// The thread is awake, and sees all that was stored before it was woken.
    pub(super) fn wake_up(&self) {
        self.asleep.store(false, Ordering::Relaxed);
        fence(Ordering::SeqCst);
    }

    /// Takes in what woke the thread.
    pub(super) fn hush(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&self.file, &mut count);
    }
}

/// What a thread waits for while it does the link's work wakes it likewise.
impl Wake for Waker {
    fn wake(self: Arc<Self>) {
        Self::wake(&self);
    }

    fn wake_by_ref(self: &Arc<Self>) {
        Self::wake(self);
    }
}

impl AsFd for Waker {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

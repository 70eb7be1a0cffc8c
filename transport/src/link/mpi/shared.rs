//! What the link and the thread that calls MPI for it share.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::thread::{self, Thread, ThreadId};
use std::time::{Duration, Instant};

use super::outbox::Peer;
use super::progress::Progress;
use super::raw::Callers;
use crate::link::driving::{Driven, Headway, Idle};
use crate::link::flow::FLUSH_TIMEOUT;
use crate::link::movement::Movement;
use crate::link::{LinkError, LinkEvent};
use crate::message::Rank;

pub(super) struct Shared {
    /// By rank; none for this one.
    pub(super) peers: Vec<Option<Peer>>,
    /// `None` once MPI is called no more.
    progress: Mutex<Option<Progress>>,
    ended: Condvar,
    /// Whether nobody wants anything of the link any more.
    leaving: AtomicBool,
    callers: Callers,
    /// The thread that made the link, which drives it if only one may.
    maker: ThreadId,
    /// The link's own thread, if it has one.
    own_thread: OnceLock<Thread>,
    driven: Movement,
}

impl Shared {
    pub(super) fn new(peers: Vec<Option<Peer>>, progress: Progress, callers: Callers) -> Self {
        let driven = Movement::new();
        driven.note(Instant::now());
        Self {
            peers,
            progress: Mutex::new(Some(progress)),
            ended: Condvar::new(),
            leaving: AtomicBool::new(false),
            callers,
            maker: thread::current().id(),
            own_thread: OnceLock::new(),
            driven,
        }
    }

    pub(super) fn peer(&self, rank: Rank) -> Option<&Peer> {
        self.peers.get(rank.0 as usize)?.as_ref()
    }

    pub(super) fn callers(&self) -> Callers {
        self.callers
    }

    pub(super) fn progress(&self) -> MutexGuard<'_, Option<Progress>> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the link's own thread does.
    pub(super) fn serve(&self) {
        let _ = self.own_thread.set(thread::current());
        let mut idle = Idle::start();
        loop {
            match self.drive() {
                Headway::Over => return,
                headway => idle.after(headway == Headway::Made),
            }
        }
    }

    /// There is something to do.
    pub(super) fn wake(&self) {
        if let Some(thread) = self.own_thread.get() {
            thread.unpark();
        }
    }

    /// Whether only a thread of the program may let the link go on, and it has not done so since then.
    pub(super) fn is_undriven_since(&self, since: Instant) -> bool {
        self.callers == Callers::One && !self.driven.since(since)
    }

    /// Reports that nobody lets the link go on, unless somebody just does.
    pub(super) fn report_undriven(&self, peer: &Peer, limit: Duration) {
        let sink = match self.progress.try_lock() {
            Ok(progress) => progress.as_ref().and_then(Progress::sink),
            Err(_) => None,
        };
        if let Some(sink) = sink.filter(|_| !peer.is_silenced()) {
            let error = LinkError::NotDriven { peer: peer.rank, seconds: limit.as_secs() };
            sink(LinkEvent::Closed { peer: peer.rank, error });
        }
    }

    /// Ends the link; returns when MPI is called no more, or the thread that may call it does not do so.
    pub(super) fn leave(self: &Arc<Self>) {
        self.leaving.store(true, Ordering::SeqCst);
        self.wake();
        if self.own_thread.get().is_some() {
            return; // who joins that thread waits long enough
        }
        if self.callers == Callers::Any || thread::current().id() == self.maker {
            Self::finish_all(vec![self.clone()]);
            return;
        }
        let deadline = Instant::now() + FLUSH_TIMEOUT + Duration::from_secs(1);
        let mut progress = self.progress();
        while progress.is_some() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                // That thread still ends the link if it ever drives it again, or finalizes MPI.
                tracing::warn!("nobody drives a link over MPI that is to end");
                return;
            }
            progress = self.ended.wait_timeout(progress, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// MPI is about to go: tells all who wait for peers.
    pub(super) fn finalize(&self) {
        self.leaving.store(true, Ordering::SeqCst);
        if let Some(progress) = &mut *self.progress() {
            progress.finalize(&self.peers);
        }
    }

    /// Calls MPI until the links are over, which is soon once they are left. In turn: none has to wait for another's peers, while its own
    /// time runs.
    pub(super) fn finish_all(mut links: Vec<Arc<Self>>) {
        let mut idle = Idle::start();
        while !links.is_empty() {
            let mut made = false;
            links.retain(|link| {
                let headway = link.go_on(link.progress());
                made |= headway == Headway::Made;
                headway != Headway::Over
            });
            idle.after(made);
        }
    }

    fn go_on(&self, mut progress: MutexGuard<'_, Option<Progress>>) -> Headway {
        let Some(running) = &mut *progress else { return Headway::Over };
        self.driven.note(Instant::now());
        let leaving = self.leaving.load(Ordering::SeqCst);
        let headway = if running.has_started() { running.step(&self.peers) } else { Headway::None };
        if leaving && (headway == Headway::Over || !running.has_started()) {
            if let Some(progress) = progress.take() {
                progress.end();
            }
            self.ended.notify_all();
            return Headway::Over;
        }
        // Ways that are all over do not end the link: it is still there to be asked.
        if headway == Headway::Over { Headway::None } else { headway }
    }
}

impl Driven for Shared {
    fn drive(&self) -> Headway {
        match self.progress.try_lock() {
            Ok(progress) => self.go_on(progress),
            Err(TryLockError::Poisoned(poisoned)) => self.go_on(poisoned.into_inner()),
            // Whoever has it drives.
            Err(TryLockError::WouldBlock) => Headway::None,
        }
    }

    fn has_queued(&self) -> bool {
        self.peers.iter().flatten().any(Peer::has_queued)
    }
}

//! Who does the link's work: its own thread, or a thread of the program that waits for what it brings.
//!
//! Waking a thread takes many times as long as a short message is under way. So a thread that waits does the work itself.
//! The link's thread lets it, and comes back when nobody has waited for a while, or is needed at once.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Context;
use std::time::{Duration, Instant};

use super::pace::Pace;
use super::server::Server;
use super::waker::Waker;
use crate::link::Drive;

/// How long the link's thread stays away after the last wait: the next one is likely to follow soon.
const AWAY: Duration = Duration::from_micros(250);

/// The work of a link, and whose turn it is.
pub(super) struct Driver {
    server: Mutex<Server>,
    /// Whether a thread that waits does the work, or is about to.
    driven: AtomicBool,
    turn: Mutex<Turn>,
    /// Tells the link's thread to look at the turn.
    changed: Condvar,
    waker: Arc<Waker>,
}

struct Turn {
    /// Whether the link's thread is needed as soon as nobody else does the work.
    needed: bool,
    /// When a thread that waits last began or ended.
    since: Instant,
}

impl Driver {
    pub(super) fn new(server: Server, waker: Arc<Waker>) -> Self {
        let turn = Mutex::new(Turn { needed: true, since: Instant::now() });
        let (server, changed) = (Mutex::new(server), Condvar::new());
        Self { server, driven: AtomicBool::new(false), turn, changed, waker }
    }

    /// Runs the link's own thread, until all is over.
    pub(super) fn run(&self) {
        loop {
            self.wait_for_turn();
            let mut server = lock(&self.server);
            let mut pace = Pace::new();
            while !self.driven.load(Ordering::SeqCst) {
                if server.is_over() {
                    return;
                }
                server.step(&mut pace);
            }
        }
    }

    /// Sees to it that somebody does what is to be done before the end.
    pub(super) fn end(&self) {
        lock(&self.turn).needed = true;
        self.changed.notify_all();
        self.waker.wake();
    }

    fn wait_for_turn(&self) {
        let mut turn = lock(&self.turn);
        loop {
            let driven = self.driven.load(Ordering::SeqCst);
            let stays_away = AWAY.saturating_sub(turn.since.elapsed());
            if !driven && (turn.needed || stays_away.is_zero()) {
                turn.needed = false;
                return;
            }
            turn = if stays_away.is_zero() {
                // Whoever waits for so long says when it leaves.
                self.changed.wait(turn).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(turn, stays_away).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }
}

impl Drive for Driver {
    fn drive(&self, mut until: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool {
        let came = Instant::now();
        let mut turn = lock(&self.turn);
        if self.driven.swap(true, Ordering::SeqCst) {
            turn.needed = true; // that one may leave first
            return false;
        }
        turn.since = came;
        drop(turn);
        self.waker.wake(); // the link's thread, if it sleeps over the work
        let mut server = lock(&self.server);
        let waker = std::task::Waker::from(self.waker.clone());
        let (mut context, mut pace) = (Context::from_waker(&waker), Pace::new());
        while until.as_mut().poll(&mut context).is_pending() && !server.is_over() {
            server.step(&mut pace);
        }
        let has_backlog = server.has_backlog();
        drop(server);

        let mut turn = lock(&self.turn);
        let left = Instant::now();
        self.driven.store(false, Ordering::SeqCst);
        turn.since = left;
        turn.needed |= has_backlog;
        // After a long wait the link's thread sleeps until it is told.
        if turn.needed || left - came >= AWAY {
            self.changed.notify_all();
        }
        true
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

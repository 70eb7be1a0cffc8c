//! Who serves the sockets: the link's own thread, or a thread of the program that waits for what they bring.
//!
//! Waking a thread takes longer than a short message is under way. So a thread that waits serves the sockets itself,
//! asking again and again for a while before it sleeps on them. The link's thread lets go of them when it is asked to,
//! and comes back when nobody has waited for a while, or is needed at once.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Runtime;
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::peer::Traffic;
use crate::link::Drive;

/// How long after bytes have moved a waiting thread asks the sockets before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// How long the link's thread stays away after the last wait: the next one is likely to follow soon.
const AWAY: Duration = Duration::from_micros(250);

/// The sockets of a link, and whose turn it is to serve them.
pub(super) struct Driver {
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
    state: Mutex<State>,
    /// Tells the link's thread to look at the state.
    changed: Condvar,
    /// Asks the link's thread to let go of the sockets.
    wanted: Notify,
    traffic: Vec<Arc<Traffic>>,
}

struct State {
    server: Server,
    /// Whether the link's thread is needed as soon as the sockets are free.
    needed: bool,
    /// When a waiting thread last took the sockets, or let go of them.
    since: Instant,
}

/// Who serves the sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Server {
    Nobody,
    Link,
    Waiter,
}

impl Driver {
    pub(super) fn new(traffic: Vec<Arc<Traffic>>) -> io::Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let state = State { server: Server::Nobody, needed: true, since: Instant::now() };
        let (changed, wanted) = (Condvar::new(), Notify::new());
        Ok(Self { runtime: Some(runtime), state: Mutex::new(state), changed, wanted, traffic })
    }

    /// Runs the link's own thread until `work` is done.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.runtime else { return };
        let mut work = runtime.spawn(work);
        let mut over = false;
        while !over {
            self.wait_for_turn();
            over = runtime.block_on(async {
                tokio::select! {
                    _ = &mut work => true,
                    () = self.wanted.notified() => false,
                }
            });
        }
    }

    /// Waits until it is the turn of the link's thread.
    fn wait_for_turn(&self) {
        let mut state = self.lock();
        loop {
            let stays_away = AWAY.saturating_sub(state.since.elapsed());
            let waiting = state.server == Server::Waiter;
            if !waiting && (state.needed || stays_away.is_zero()) {
                (state.server, state.needed) = (Server::Link, false);
                return;
            }
            state = if stays_away.is_zero() {
                // Whoever waits for so long says when it leaves.
                self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
            } else {
                self.changed.wait_timeout(state, stays_away).unwrap_or_else(PoisonError::into_inner).0
            };
        }
    }

    /// Waits for a future, and does not let the thread sleep as long as bytes move.
    async fn spin_then_sleep(&self, mut until: Pin<&mut (dyn Future<Output = ()> + Send)>, came: Instant) {
        let mut moved = came;
        while moved.elapsed() < SPIN {
            let ready = poll_fn(|context| Poll::Ready(until.as_mut().poll(context).is_ready()));
            if ready.await {
                return;
            }
            // Whoever is waited for may want this very processor.
            thread::yield_now();
            yield_now().await;
            moved = self.traffic.iter().map(|traffic| traffic.last_moved()).fold(moved, Instant::max);
        }
        until.await;
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drive for Driver {
    fn drive(&self, until: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool {
        // A thread that runs futures must not block, but if it does, not on other futures.
        if tokio::runtime::Handle::try_current().is_ok() {
            return false;
        }
        let Some(runtime) = &self.runtime else { return false };
        let came = Instant::now();
        let mut state = self.lock();
        match state.server {
            Server::Waiter => {
                state.needed = true; // that one may leave first
                return false;
            }
            Server::Link => self.wanted.notify_one(),
            Server::Nobody => {}
        }
        (state.server, state.since) = (Server::Waiter, came);
        drop(state);
        runtime.block_on(self.spin_then_sleep(until, came));

        let mut state = self.lock();
        let left = Instant::now();
        (state.server, state.since) = (Server::Nobody, left);
        // After a long wait the link's thread sleeps until it is told.
        if state.needed || left - came >= AWAY {
            self.changed.notify_all();
        }
        true
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // In the background: this may be a thread that runs futures, which must not wait for others.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

//! Who serves the sockets: the link's own thread, or a thread of the program that waits for what they bring.
//!
//! Waking a thread takes longer than a short message is under way. So a thread that waits serves the sockets itself,
//! asking again and again for a while before it sleeps on them. The link's thread lets go of them when it is asked to,
//! and comes back when nobody has waited for a while, or is needed at once. Where the program comes back soon each time, it only
//! looks now and then whether there is anything to do: handing over takes longer than a short message, too.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_codecs::background;
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Notify;
use tokio::task::yield_now;

use super::inbox::Inbox;
use super::outbox::{Outbox, lock};
use super::service::{Server, State, Turn};
use crate::link::Drive;
use crate::link::flow::Flow;

/// How long a waiting thread asks the sockets before it takes the runtime over as well: to enter that, and to let its tasks have
/// their turns, takes 0.4 of the 8 µs of a short message.
const ALONE: Duration = Duration::from_micros(20);
/// But it has them take their turns first where they have had none for so long: many short waits must not keep off what only tasks
/// can do.
const TURNLESS: Duration = Duration::from_millis(1);
/// How long after bytes have moved a waiting thread asks the sockets before it sleeps.
const SPIN: Duration = Duration::from_micros(50);
/// The same in the middle of a message, whose rest is sure to be on the way (64 KiB take as long at 0.5 Gb/s), and where the
/// last sleep was over by then.
const LONG_SPIN: Duration = Duration::from_millis(1);
/// It lets others have its processor, and other tasks have their turn, each time that it has asked so often.
const ASKED_AT_ONCE: u32 = 4;
/// It asks so many connections by itself: asking for one takes a third of what asking for all that the runtime waits for does.
const FEW_CONNECTIONS: usize = 4;
/// Somebody serves the sockets, or is about to.
const SERVED: u8 = 0;
/// A waiting thread has left them.
const LEFT: u8 = 1;
/// And somebody has asked whether a request is finished.
const ASKED: u8 = 2;

/// The sockets of a link, and whose turn it is to serve them.
pub(super) struct Driver {
    /// Taken when it is dropped.
    runtime: Option<Runtime>,
    state: Mutex<State>,
    /// Whether anybody serves the sockets or is about to: for those who ask again and again, and are not to take the lock each time.
    service: AtomicU8,
    /// Tells the link's thread to look at the state.
    changed: Condvar,
    /// Asks the link's thread to let go of the sockets.
    wanted: Notify,
    ways: Vec<Way>,
    /// Whether the last thread that slept on the sockets did so within [`LONG_SPIN`] of when bytes had moved.
    sleeps_are_short: AtomicBool,
}

/// What goes on with a peer.
pub(super) struct Way {
    pub(super) flow: Arc<Flow>,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    pub(super) inbox: Arc<Inbox>,
}

impl Driver {
    pub(super) fn new(ways: Vec<Way>) -> io::Result<Self> {
        // Names are looked up on a thread that it starts, perhaps from a thread of the program.
        let runtime =
            Builder::new_current_thread().enable_all().on_thread_start(background::enter).build()?;
        let state = Mutex::new(State::new(Instant::now()));
        let (service, sleeps_are_short) = (AtomicU8::new(SERVED), AtomicBool::new(false));
        let (changed, wanted) = (Condvar::new(), Notify::new());
        Ok(Self { runtime: Some(runtime), state, service, changed, wanted, ways, sleeps_are_short })
    }

    /// Runs the link's own thread until `work` is done.
    pub(super) fn run(&self, work: impl Future<Output = ()> + Send + 'static) {
        let Some(runtime) = &self.runtime else { return };
        let mut work = runtime.spawn(work);
        let mut over = false;
        while !over {
            self.wait_for_turn();
            over = runtime.block_on(async {
                // What it was called for is done first, even if a waiting thread wants the sockets back at once.
                take_turns().await;
                tokio::select! {
                    _ = &mut work => true,
                    () = self.wanted.notified() => false,
                }
            });
        }
    }

    /// There is something to do for the link's thread that it does not find by looking.
    pub(super) fn call(&self) {
        self.call_in(self.lock());
    }

    /// Whether somebody asks for the second time since a thread has left the sockets, to which nobody has come meanwhile. Who asks once
    /// may be about to wait, and serve them itself.
    fn is_asked_again(&self) -> bool {
        match self.service.load(Ordering::Relaxed) {
            SERVED => false,
            LEFT => {
                let _ = self.service.compare_exchange(LEFT, ASKED, Ordering::Relaxed, Ordering::Relaxed);
                false
            }
            _ => true,
        }
    }

    fn call_in(&self, mut state: MutexGuard<'_, State>) {
        self.service.store(SERVED, Ordering::Relaxed);
        if state.call() {
            self.changed.notify_all();
        }
    }

    /// Waits until it is the turn of the link's thread.
    fn wait_for_turn(&self) {
        let mut state = self.lock();
        loop {
            let now = Instant::now();
            state = match state.turn(now) {
                Turn::Now => {
                    (state.server, state.needed) = (Server::Link, false);
                    self.service.store(SERVED, Ordering::Relaxed);
                    return;
                }
                Turn::IfNeeded => {
                    drop(state);
                    let needed = self.ways.iter().any(Way::needs_service);
                    let mut state = self.lock();
                    state.looked(now, needed);
                    state
                }
                Turn::NotBefore(later) => {
                    let waited = self.changed.wait_timeout(state, later - now);
                    waited.unwrap_or_else(PoisonError::into_inner).0
                }
                Turn::WhenTold => {
                    state.waits_to_be_told = true;
                    self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
                }
            };
        }
    }

    /// Asks the sockets for a moment, without the runtime; returns whether the future is ready.
    fn ask(&self, mut until: Pin<&mut (dyn Future<Output = ()> + Send)>, came: Instant) -> bool {
        if !self.are_few() {
            return false;
        }
        // Whoever goes on asks it again.
        let mut context = Context::from_waker(Waker::noop());
        let mut asked = 0u32;
        loop {
            if until.as_mut().poll(&mut context).is_ready() {
                return true;
            }
            if self.has_backlog() || came.elapsed() >= ALONE {
                return false;
            }
            self.receive();
            asked += 1;
            if asked.is_multiple_of(ASKED_AT_ONCE) {
                // Whoever is waited for may want this very processor.
                thread::yield_now();
            }
        }
    }

    /// Waits for a future, and does not let the thread sleep as long as bytes move.
    async fn spin_then_sleep(&self, mut until: Pin<&mut (dyn Future<Output = ()> + Send)>, came: Instant) {
        let (mut moved, mut asked) = (came, 0u32);
        let are_few = self.are_few();
        let mut now = came;
        while now.saturating_duration_since(moved) < self.patience(now) {
            let ready = poll_fn(|context| Poll::Ready(until.as_mut().poll(context).is_ready()));
            if ready.await {
                return;
            }
            asked = asked.wrapping_add(1);
            let asks_all = are_few && {
                self.receive();
                !self.has_backlog()
            };
            let is_late = asked.is_multiple_of(ASKED_AT_ONCE);
            if is_late {
                // Whoever is waited for may want this very processor.
                thread::yield_now();
            }
            if is_late || !asks_all {
                yield_now().await;
            }
            now = Instant::now();
            moved = self.ways.iter().map(|way| way.flow.last_moved(now)).fold(moved, Instant::max);
        }
        until.await;
        self.sleeps_are_short.store(moved.elapsed() < LONG_SPIN, Ordering::Relaxed);
    }

    /// Whether a thread that waits asks all connections by itself.
    fn are_few(&self) -> bool {
        self.ways.len() <= FEW_CONNECTIONS
            && self.ways.iter().map(|way| way.inbox.connections()).sum::<usize>() <= FEW_CONNECTIONS
    }

    /// Hands on what has come.
    fn receive(&self) {
        self.ways.iter().for_each(|way| way.inbox.receive());
    }

    /// Whether tasks have something to write.
    fn has_backlog(&self) -> bool {
        self.ways.iter().any(|way| way.flow.queued.any())
    }

    /// How long to ask the sockets when no bytes move.
    fn patience(&self, now: Instant) -> Duration {
        if self.sleeps_are_short.load(Ordering::Relaxed) || self.is_halfway(now) { LONG_SPIN } else { SPIN }
    }

    /// Whether the rest of a message is on its way. Not of one that is stuck, which others need not wait for.
    fn is_halfway(&self, now: Instant) -> bool {
        let stuck_for = |flow: &Flow| now.saturating_duration_since(flow.last_moved(now));
        let moves = |flow: &Flow| flow.is_halfway() && stuck_for(flow) < LONG_SPIN;
        self.ways.iter().any(|way| moves(&way.flow))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drive for Driver {
    fn drive(&self, mut until: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool {
        // A thread that runs futures must not block, but if it does, not on other futures. One that has ended but for its own memory
        // has no place left for a runtime.
        if !tokio::runtime::Handle::try_current().is_err_and(|error| error.is_missing_context()) {
            self.prompt(false);
            return false;
        }
        let Some(runtime) = &self.runtime else { return false };
        let came = Instant::now();
        let mut state = self.lock();
        match state.server {
            Server::Waiter => {
                // That one may leave first, and this one sleeps on.
                (state.needed, state.refused) = (true, Some(came));
                return false;
            }
            Server::Link => self.wanted.notify_one(),
            Server::Nobody => {}
        }
        let tasks_are_due = state.needed || came.saturating_duration_since(state.turns_taken) >= TURNLESS;
        state.take(came);
        self.service.store(SERVED, Ordering::Relaxed);
        drop(state);
        let _serving = Serving(self);
        if !tasks_are_due && self.ask(until.as_mut(), came) {
            return true;
        }
        runtime.block_on(async {
            if tasks_are_due {
                take_turns().await;
                self.lock().turns_taken = came;
            }
            self.spin_then_sleep(until, came).await;
        });
        true
    }

    fn prompt(&self, asks_again: bool) {
        if asks_again && !self.is_asked_again() {
            return;
        }
        let mut state = self.lock();
        if state.server == Server::Waiter {
            state.refused = Some(Instant::now());
        }
        self.call_in(state);
    }
}

/// Lets all tasks of the runtime that can go on do so, also those that hear of something only then.
async fn take_turns() {
    yield_now().await;
    yield_now().await;
}

/// A waiting thread serves the sockets for as long as this lives.
struct Serving<'a>(&'a Driver);

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        let now = Instant::now();
        let is_halfway = self.0.is_halfway(now);
        let mut state = self.0.lock();
        let service = if state.needed { SERVED } else { LEFT };
        self.0.service.store(service, Ordering::Relaxed);
        let tells = state.leave(now, is_halfway);
        drop(state);
        if tells {
            self.0.changed.notify_all();
        }
    }
}

impl Way {
    /// Whether the link's thread has something to do for it.
    fn needs_service(&self) -> bool {
        self.flow.queued.any() || self.inbox.has_more() || lock(&self.outbox).has_news()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_asks_again_and_again_calls_it_once() {
        let driver = Driver::new(Vec::new()).unwrap();
        let set_needed = |needed| std::mem::replace(&mut driver.lock().needed, needed);
        assert!(set_needed(false), "it is to begin");
        let wait = || assert!(driver.drive(std::pin::pin!(std::future::ready(()))));
        // Who asks once between waits serves the sockets itself.
        for _ in 0..3 {
            wait();
            driver.prompt(true);
            assert!(!set_needed(false), "it may wait now");
        }
        driver.prompt(true);
        assert!(set_needed(false));
        driver.prompt(true);
        assert!(!set_needed(false), "it was called");
        driver.prompt(false);
        assert!(set_needed(false), "who sleeps is sure");
        // And after the next wait again.
        wait();
        driver.prompt(true);
        driver.prompt(true);
        assert!(set_needed(false));
    }
}

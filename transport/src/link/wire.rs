//! The thread that imitates a slow link: holds every message back until its time has come.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

use mgcomp_codecs::background;

use super::Shaping;
use crate::pace::TokenBucket;

/// The senders' side of the thread, which ends with it.
pub(crate) struct Wire<T> {
    shared: Arc<Shared<T>>,
    thread: Option<JoinHandle<()>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    changed: Condvar,
}

struct State<T> {
    /// What each port into the wire is occupied by.
    ports: Vec<TokenBucket>,
    under_way: BinaryHeap<Reverse<Delivery<T>>>,
    sequence: u64,
    ended: bool,
}

/// Something under way.
struct Delivery<T> {
    at: Instant,
    /// Keeps what arrives at the same moment in order.
    sequence: u64,
    parcel: T,
}

impl<T: Send + 'static> Wire<T> {
    /// Starts a thread that gives what is posted to `deliver` when it arrives. Each of the `ports` has the rate
    /// of `shaping` for all that goes through it.
    pub(super) fn start(
        ports: usize,
        shaping: Shaping,
        deliver: impl Fn(T) + Send + 'static,
    ) -> io::Result<Self> {
        Self::spawn((0..ports).map(|_| TokenBucket::new(shaping)).collect(), deliver)
    }

    /// The same without ports: a thread that gives what is held back to `deliver` when its time has come.
    pub(crate) fn timer(deliver: impl Fn(T) + Send + 'static) -> io::Result<Self> {
        Self::spawn(Vec::new(), deliver)
    }

    fn spawn(ports: Vec<TokenBucket>, deliver: impl Fn(T) + Send + 'static) -> io::Result<Self> {
        let state = State { ports, under_way: BinaryHeap::new(), sequence: 0, ended: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let running = shared.clone();
        let thread = Some(background::spawn("mgcomp-wire", move || running.run(&deliver))?);
        Ok(Self { shared, thread })
    }

    /// Sends `parcel`, of `bytes` bytes, through a port; returns when it arrives.
    pub(super) fn post(&self, port: usize, bytes: u64, parcel: T) -> Instant {
        let mut state = self.shared.lock();
        let at = state.ports[port].arrival(bytes, Instant::now());
        self.shared.hold(state, at, parcel);
        at
    }

    /// Holds `parcel` back until `at`.
    pub(crate) fn hold_until(&self, at: Instant, parcel: T) {
        self.shared.hold(self.shared.lock(), at, parcel);
    }

    /// Ends the thread, waits for it, and returns what it still held. Not to be called by what it delivers.
    pub(crate) fn end(mut self) -> Vec<T> {
        self.tell_to_end();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let held = std::mem::take(&mut self.shared.lock().under_way);
        held.into_iter().map(|Reverse(delivery)| delivery.parcel).collect()
    }
}

impl<T> Wire<T> {
    fn tell_to_end(&self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl<T> Drop for Wire<T> {
    fn drop(&mut self) {
        self.tell_to_end();
    }
}

impl<T> Shared<T> {
    fn run(&self, deliver: &impl Fn(T)) {
        let mut state = self.lock();
        while !state.ended {
            let now = Instant::now();
            let wait = state.under_way.peek().map(|Reverse(first)| first.at.saturating_duration_since(now));
            state = match wait {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(wait) if !wait.is_zero() => {
                    self.changed.wait_timeout(state, wait).unwrap_or_else(PoisonError::into_inner).0
                }
                Some(_) => {
                    let due = state.under_way.pop();
                    drop(state);
                    if let Some(Reverse(delivery)) = due {
                        deliver(delivery.parcel);
                    }
                    self.lock()
                }
            };
        }
    }

    fn hold(&self, mut state: MutexGuard<'_, State<T>>, at: Instant, parcel: T) {
        let sequence = state.sequence;
        state.sequence += 1;
        // The thread wakes for the first arrival by itself: there is no need to wake it for a later one.
        let is_first = state.under_way.peek().is_none_or(|Reverse(first)| at < first.at);
        state.under_way.push(Reverse(Delivery { at, sequence, parcel }));
        drop(state);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T> PartialEq for Delivery<T> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<T> Eq for Delivery<T> {}

impl<T> PartialOrd for Delivery<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> Ord for Delivery<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

//! The thread that imitates a slow link: holds every message back until its time has come.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::Shaping;
use crate::pace::TokenBucket;

/// The senders' side of the thread, which ends with it.
pub(super) struct Wire<T> {
    shared: Arc<Shared<T>>,
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
        let state = State {
            ports: (0..ports).map(|_| TokenBucket::new(shaping)).collect(),
            under_way: BinaryHeap::new(),
            sequence: 0,
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let running = shared.clone();
        thread::Builder::new().name("mgcomp-wire".into()).spawn(move || running.run(&deliver))?;
        Ok(Self { shared })
    }

    /// Sends `parcel`, of `bytes` bytes, through a port; returns when it arrives.
    pub(super) fn post(&self, port: usize, bytes: u64, parcel: T) -> Instant {
        let mut state = self.shared.lock();
        let at = state.ports[port].arrival(bytes, Instant::now());
        let sequence = state.sequence;
        state.sequence += 1;
        // The thread wakes for the first arrival by itself: there is no need to wake it for a later one.
        let is_first = state.under_way.peek().is_none_or(|Reverse(first)| at < first.at);
        state.under_way.push(Reverse(Delivery { at, sequence, parcel }));
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
        at
    }
}

impl<T> Drop for Wire<T> {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
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

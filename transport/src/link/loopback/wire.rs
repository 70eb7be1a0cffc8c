//! The thread that imitates a slow link: holds every message back until its time has come.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::Parcel;
use crate::link::Shaping;
use crate::link::bucket::TokenBucket;
use crate::message::Rank;

/// A message under way.
pub(super) struct Delivery {
    at: Instant,
    /// Keeps messages that arrive at the same moment in order.
    sequence: u64,
    pub(super) from: Rank,
    pub(super) to: Rank,
    pub(super) parcel: Parcel,
}

/// The senders' side of the thread, which ends with it.
pub(super) struct Wire {
    shared: Arc<Shared>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// What each rank's port into the fabric is occupied by.
    ports: Vec<TokenBucket>,
    under_way: BinaryHeap<Reverse<Delivery>>,
    sequence: u64,
    ended: bool,
}

impl Wire {
    /// Starts a thread that gives what is posted to `deliver` when it arrives.
    pub(super) fn start(
        ranks: u32,
        shaping: Shaping,
        deliver: impl Fn(Delivery) + Send + 'static,
    ) -> io::Result<Self> {
        let state = State {
            ports: (0..ranks).map(|_| TokenBucket::new(shaping)).collect(),
            under_way: BinaryHeap::new(),
            sequence: 0,
            ended: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let running = shared.clone();
        thread::Builder::new().name("mgcomp-wire".into()).spawn(move || running.run(&deliver))?;
        Ok(Self { shared })
    }

    /// Sends `bytes` bytes through the port of `from`; returns when they arrive.
    pub(super) fn post(&self, from: Rank, to: Rank, bytes: u64, parcel: Parcel) -> Instant {
        let mut state = self.shared.lock();
        let at = state.ports[from.0 as usize].arrival(bytes, Instant::now());
        let sequence = state.sequence;
        state.sequence += 1;
        // The thread wakes for the first arrival by itself: there is no need to wake it for a later one.
        let is_first = state.under_way.peek().is_none_or(|Reverse(first)| at < first.at);
        state.under_way.push(Reverse(Delivery { at, sequence, from, to, parcel }));
        drop(state);
        if is_first {
            self.shared.changed.notify_one();
        }
        at
    }
}

impl Drop for Wire {
    fn drop(&mut self) {
        self.shared.lock().ended = true;
        self.shared.changed.notify_one();
    }
}

impl Shared {
    fn run(&self, deliver: &impl Fn(Delivery)) {
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
                        deliver(delivery);
                    }
                    self.lock()
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Delivery {}

impl PartialOrd for Delivery {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delivery {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

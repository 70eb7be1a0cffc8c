//! Gives a rank up if an operation does not end: nobody may wait for ever for a rank that is stuck.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mgcomp_transport::communicator::Communicator;

use super::operation::Op;
use crate::error::note;

/// What a rank that was given up may take to end. It does not take that, unless something is very wrong.
const PARTING: Duration = Duration::from_secs(20);

/// Watches over a rank for as long as it lives.
pub(super) struct Watchdog {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

struct State {
    since: Instant,
    /// What goes on; nothing until the first operation.
    step: Option<(Op, usize)>,
    is_late: bool,
    is_over: bool,
}

impl Watchdog {
    /// Gives every step of this rank of `world` so much time. What takes longer fails, since the sessions with all
    /// others are ended.
    pub(super) fn start(world: Communicator, limit: Duration) -> std::io::Result<Self> {
        Self::with(limit, move || {
            let node = world.node();
            node.position().peers().for_each(|peer| node.disconnect(peer));
        })
    }

    fn with(limit: Duration, give_up: impl FnOnce() + Send + 'static) -> std::io::Result<Self> {
        let state = State { since: Instant::now(), step: None, is_late: false, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), ended: Condvar::new() });
        let watching = shared.clone();
        let watch = move || {
            if watching.is_late(limit) {
                give_up();
                watching.end_process_unless_over();
            }
        };
        let thread = thread::Builder::new().name("mgcomp-watchdog".into()).spawn(watch)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// The next step begins.
    pub(super) fn step(&self, op: Op, bytes: usize) {
        let mut state = self.shared.lock();
        if !state.is_late {
            (state.since, state.step) = (Instant::now(), Some((op, bytes)));
        }
    }

    /// What took too long, if something did.
    pub(super) fn late(&self) -> Option<String> {
        let state = self.shared.lock();
        let what = state.step.map_or_else(
            || "agreeing on what to measure".to_owned(),
            |(op, bytes)| format!("{} of {bytes} bytes", op.name()),
        );
        state.is_late.then_some(what)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.ended.notify_one();
        // It holds the communicator, which is to end with the rank.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Returns when a step takes too long, or all is over.
    fn is_late(&self, limit: Duration) -> bool {
        let mut state = self.lock();
        while !state.is_over {
            let left = limit.saturating_sub(state.since.elapsed());
            if left.is_zero() {
                state.is_late = true;
                return true;
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn end_process_unless_over(&self) {
        let until = Instant::now() + PARTING;
        let mut state = self.lock();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                note("mgcomp: perf: an operation does not end, though all sessions have");
                std::process::exit(1);
            }
            state = self.ended.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    const HANGS: Duration = Duration::from_secs(50);

    #[test]
    fn what_is_late_is_given_up() {
        let (given_up, hears) = mpsc::channel();
        let watchdog = Watchdog::with(Duration::from_secs(3), move || given_up.send(()).unwrap()).unwrap();
        for _ in 0..3 {
            thread::sleep(Duration::from_millis(1));
            watchdog.step(Op::AllGather, 4096);
        }
        assert_eq!(watchdog.late(), None); // a busy machine may well let this thread wait for a second
        hears.recv_timeout(HANGS).unwrap();
        watchdog.step(Op::Barrier, 0);
        assert_eq!(watchdog.late(), Some("all_gather of 4096 bytes".to_owned()));
    }

    #[test]
    fn it_goes_with_its_rank() {
        let (given_up, hears) = mpsc::channel::<()>();
        drop(Watchdog::with(HANGS, move || given_up.send(()).unwrap()).unwrap());
        // The sender has gone with the thread, unused.
        assert_eq!(hears.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}

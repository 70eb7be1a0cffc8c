//! Gives a rank up if an operation does not end: nobody may wait for ever for a rank that is stuck.
//!
//! Only what goes on between ranks counts. What a rank does by itself takes as long as it takes: a slow machine may fill and
//! check long buffers for minutes, and nothing is wrong with that. The others hear of it meanwhile; where they have given it up, it
//! is stuck as well, in a call of a device's driver, say.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use mgcomp_transport::communicator::Communicator;
use mgcomp_transport::node::PeerState;

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
    changed: Condvar,
}

struct State {
    /// Since when something goes on between ranks, if it does.
    since: Option<Instant>,
    /// What it is for; nothing until the first operation.
    step: Option<(Op, usize)>,
    /// Whether the thread sleeps until it is told that something goes on. Else it looks by itself, so that operations need
    /// not wake it all the time.
    is_asleep: bool,
    is_late: bool,
    is_over: bool,
}

/// Something that goes on between ranks, for as long as this lives.
pub(super) struct Watched<'a> {
    shared: &'a Shared,
}

impl Watchdog {
    /// Gives what this rank of `world` has [watched](Self::watch) so much time each. What takes longer fails, since the
    /// sessions with all others are ended. What it does by itself has as much time from when one of them has ended such a session.
    pub(super) fn start(world: Communicator, limit: Duration) -> std::io::Result<Self> {
        let watched = world.clone();
        let is_left = move || {
            let node = watched.node();
            node.wait_for_peers(Duration::ZERO).iter().any(|(_, state)| matches!(state, PeerState::Over(_)))
        };
        let give_up = move || {
            let node = world.node();
            node.position().peers().for_each(|peer| node.disconnect(peer));
        };
        Self::with(limit, is_left, give_up)
    }

    fn with(
        limit: Duration,
        is_left: impl Fn() -> bool + Send + 'static,
        give_up: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let state = State { since: None, step: None, is_asleep: false, is_late: false, is_over: false };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new() });
        let watching = shared.clone();
        let watch = move || {
            if watching.is_late(limit, is_left) {
                give_up();
                watching.end_process_unless_over();
            }
        };
        let thread = thread::Builder::new().name("mgcomp-watchdog".into()).spawn(watch)?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// What goes on from now on belongs to this step.
    pub(super) fn step(&self, op: Op, bytes: usize) {
        let mut state = self.shared.lock();
        if !state.is_late {
            state.step = Some((op, bytes));
        }
    }

    /// Something begins that others have to do with; it goes on until what this returns is dropped. One thing at a time.
    #[must_use = "nothing counts any more when it is dropped"]
    pub(super) fn watch(&self) -> Watched<'_> {
        let mut state = self.shared.lock();
        state.since = Some(Instant::now());
        if state.is_asleep {
            self.shared.changed.notify_one();
        }
        Watched { shared: &self.shared }
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

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        self.shared.lock().since = None;
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.shared.lock().is_over = true;
        self.shared.changed.notify_one();
        // It holds the communicator, which is to end with the rank.
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Returns when something takes too long, or all is over.
    fn is_late(&self, limit: Duration, is_left: impl Fn() -> bool) -> bool {
        let mut state = self.lock();
        // Whether others had given this rank up when it was looked at last, and nothing has begun since.
        let mut was_left = false;
        while !state.is_over {
            let Some(since) = state.since else {
                state.is_asleep = true;
                let waited = self.changed.wait_timeout(state, limit).unwrap_or_else(PoisonError::into_inner);
                state = waited.0;
                state.is_asleep = false;
                if !waited.1.timed_out() || state.since.is_some() || state.is_over {
                    was_left = false;
                    continue;
                }
                drop(state);
                let is_left = is_left();
                state = self.lock();
                if was_left && is_left && state.since.is_none() && !state.is_over {
                    state.is_late = true;
                    return true;
                }
                was_left = is_left;
                continue;
            };
            was_left = false;
            let left = limit.saturating_sub(since.elapsed());
            if left.is_zero() {
                state.is_late = true;
                return true;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        false
    }

    fn end_process_unless_over(&self) {
        let until = Instant::now() + PARTING;
        let mut state = self.lock();
        while !state.is_over {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                note("mgcomp: perf: a rank does not end, though all its sessions have");
                std::process::exit(1);
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};
    use std::sync::mpsc;

    use super::*;

    const HANGS: Duration = Duration::from_secs(50);

    #[test]
    fn what_is_late_is_given_up() {
        let some_in_time = |watchdog: &Watchdog| {
            for _ in 0..3 {
                watchdog.step(Op::AllGather, 4096);
                drop(watchdog.watch());
            }
        };
        let patient = Watchdog::with(HANGS, || false, || ()).unwrap();
        some_in_time(&patient);
        assert_eq!(patient.late(), None);
        let (given_up, hears) = mpsc::channel();
        let give_up = move || given_up.send(()).unwrap();
        // So short that one of the others may be late as well, which comes to the same.
        let watchdog = Watchdog::with(Duration::from_millis(20), || false, give_up).unwrap();
        some_in_time(&watchdog);
        let _watched = watchdog.watch();
        hears.recv_timeout(HANGS).unwrap();
        watchdog.step(Op::Barrier, 0);
        assert_eq!(watchdog.late(), Some("all_gather of 4096 bytes".to_owned()));
    }

    #[test]
    fn what_a_rank_does_by_itself_takes_as_long_as_it_takes() {
        const LIMIT: Duration = Duration::from_millis(20);
        let (given_up, hears) = mpsc::channel();
        let watchdog = Watchdog::with(LIMIT, || false, move || given_up.send(()).unwrap()).unwrap();
        watchdog.step(Op::AllReduce, 1 << 30);
        // However long a busy machine lets this thread wait, nothing goes on between ranks.
        assert_eq!(hears.recv_timeout(10 * LIMIT), Err(mpsc::RecvTimeoutError::Timeout));
        assert_eq!(watchdog.late(), None);
        // The thread that slept sees what hangs then.
        let _watched = watchdog.watch();
        hears.recv_timeout(HANGS).unwrap();
        assert_eq!(watchdog.late(), Some("all_reduce of 1073741824 bytes".to_owned()));
    }

    #[test]
    fn whom_the_others_have_given_up_is_stuck_whatever_it_does() {
        const LIMIT: Duration = Duration::from_millis(20);
        let (given_up, hears) = mpsc::channel();
        let looks = AtomicU32::new(0);
        // From the third look on.
        let is_left = move || looks.fetch_add(1, Ordering::SeqCst) >= 2;
        let watchdog = Watchdog::with(LIMIT, is_left, move || given_up.send(()).unwrap()).unwrap();
        watchdog.step(Op::AllReduce, 8);
        hears.recv_timeout(HANGS).unwrap();
        assert_eq!(watchdog.late(), Some("all_reduce of 8 bytes".to_owned()));
    }

    #[test]
    fn it_goes_with_its_rank() {
        let (given_up, hears) = mpsc::channel::<()>();
        drop(Watchdog::with(HANGS, || false, move || given_up.send(()).unwrap()).unwrap());
        // The sender has gone with the thread, unused.
        assert_eq!(hears.try_recv(), Err(mpsc::TryRecvError::Disconnected));
    }
}

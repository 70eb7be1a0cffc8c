//! One after the other, in the order of the calls.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::link::driving;

/// Hands out turns.
#[derive(Debug, Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    /// Turns that were taken.
    taken: u64,
    /// Turns that are over.
    over: u64,
    /// Threads that wait for theirs: where there are none, which is usual, the system is not asked to wake any.
    waiting: usize,
}

/// A place in the order.
#[derive(Clone, Copy, Debug)]
pub(super) struct Turn(u64);

impl Turns {
    /// Takes the next place.
    pub(super) fn take(&self) -> Turn {
        let mut state = self.lock();
        state.taken += 1;
        Turn(state.taken - 1)
    }

    /// Does `work` when all places before are over. The turn ends with it, even if it panics.
    pub(super) fn in_turn<R>(&self, turn: Turn, work: impl FnOnce() -> R) -> R {
        let mut state = self.lock();
        while state.over < turn.0 {
            state.waiting += 1;
            state = driving::wait(&self.state, &self.changed, state, None);
            state.waiting -= 1;
        }
        drop(state);
        let _over = Over(self);
        work()
    }

    /// Waits until all turns that were taken are over, for at most `timeout`. Returns whether they are.
    pub(super) fn wait_for_all(&self, timeout: Option<Duration>) -> bool {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        while state.over < state.taken {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return false;
            }
            state.waiting += 1;
            state = driving::wait(&self.state, &self.changed, state, left);
            state.waiting -= 1;
        }
        drop(state);
        driving::settle();
        true
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a turn.
struct Over<'a>(&'a Turns);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        let mut state = self.0.lock();
        state.over += 1;
        if state.waiting > 0 {
            self.0.changed.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn work_is_done_in_the_order_of_the_turns() {
        let (turns, done) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let places: Vec<Turn> = (0..8).map(|_| turns.take()).collect();
        // Started the other way round.
        let threads: Vec<_> = places
            .into_iter()
            .enumerate()
            .rev()
            .map(|(place, turn)| {
                let (turns, done) = (turns.clone(), done.clone());
                thread::spawn(move || turns.in_turn(turn, || done.lock().unwrap().push(place)))
            })
            .collect();
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert_eq!(*done.lock().unwrap(), (0..8).collect::<Vec<_>>());
    }

    #[test]
    fn all_turns_are_waited_for() {
        let turns = Turns::default();
        assert!(turns.wait_for_all(None), "there are none");
        let turn = turns.take();
        assert!(!turns.wait_for_all(Some(Duration::from_millis(1))));
        thread::scope(|scope| {
            let waiting = scope.spawn(|| turns.wait_for_all(None));
            turns.in_turn(turn, || assert!(!waiting.is_finished()));
            assert!(waiting.join().unwrap());
        });
    }

    #[test]
    fn a_panic_ends_a_turn() {
        let turns = Arc::new(Turns::default());
        let (first, second) = (turns.take(), turns.take());
        let panicking = turns.clone();
        assert!(thread::spawn(move || panicking.in_turn(first, || panic!("on purpose"))).join().is_err());
        assert_eq!(turns.in_turn(second, || 7), 7);
    }
}

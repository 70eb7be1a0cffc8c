//! One after the other, in the order of the calls.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use crate::link::driving;

/// Something to be done in a turn.
pub(super) type Task = Box<dyn FnOnce() + Send>;

/// Hands out turns.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    all_over: Condvar,
}

#[derive(Default)]
struct State {
    /// Turns that were taken.
    taken: u64,
    /// Turns that are over.
    over: u64,
    /// Who waits for which turn.
    waiting: BTreeMap<u64, Waiting>,
    /// Threads that wait for all turns: where there are none, which is usual, the system is not asked to wake any.
    waiting_for_all: usize,
    /// How often a thread that waited for its turn was woken.
    #[cfg(test)]
    woken: usize,
}

/// What waits for a turn. Nobody else is woken when it comes.
enum Waiting {
    Thread(Arc<Condvar>),
    /// What is left to whoever ends the turn before.
    Task(Task),
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
        self.wait_for(turn);
        let _over = Over(self);
        work()
    }

    /// The same without waiting: if places before are not over, whoever ends the last of them does `task`, which is to be brief.
    pub(super) fn leave(&self, turn: Turn, task: Task) {
        let mut state = self.lock();
        if state.over < turn.0 {
            state.waiting.insert(turn.0, Waiting::Task(task));
            return;
        }
        drop(state);
        self.in_turn(turn, task);
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
            state.waiting_for_all += 1;
            state = driving::wait(&self.state, &self.all_over, state, left);
            state.waiting_for_all -= 1;
        }
        drop(state);
        driving::settle();
        true
    }

    fn wait_for(&self, turn: Turn) {
        let mut state = self.lock();
        if state.over == turn.0 {
            return;
        }
        let come = Arc::new(Condvar::new());
        state.waiting.insert(turn.0, Waiting::Thread(come.clone()));
        while state.over < turn.0 {
            state = driving::wait(&self.state, &come, state, None);
            #[cfg(test)]
            {
                state.woken += 1;
            }
        }
    }

    /// Ends the turn that it is. Returns what is to be done in the next one, if that is left to the caller.
    fn end(&self) -> Option<Task> {
        let mut state = self.lock();
        state.over += 1;
        if state.over == state.taken && state.waiting_for_all > 0 {
            self.all_over.notify_all();
        }
        let next = state.over;
        match state.waiting.remove(&next)? {
            Waiting::Thread(come) => {
                come.notify_one();
                None
            }
            Waiting::Task(task) => Some(task),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Ends a turn.
struct Over<'a>(&'a Turns);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        // Not each within the one before: there may be many.
        while let Some(task) = self.0.end() {
            // It is not this thread's, and its turn is to end, too.
            let _ = catch_unwind(AssertUnwindSafe(task));
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

    #[test]
    fn a_task_that_is_left_is_done_in_its_turn_by_who_ends_the_one_before() {
        let (turns, done) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let note = |what: &'static str| {
            let done = done.clone();
            move || done.lock().unwrap().push((what, thread::current().id()))
        };
        let own = thread::current().id();
        turns.leave(turns.take(), Box::new(note("at once")));
        let [first, second, third, fourth] = std::array::from_fn(|_| turns.take());
        turns.leave(third, Box::new(note("third")));
        turns.leave(second, Box::new(|| panic!("on purpose")));
        assert_eq!(*done.lock().unwrap(), [("at once", own)]);
        let other = thread::scope(|scope| {
            let ending = scope.spawn(|| turns.in_turn(first, note("first")));
            let other = ending.thread().id();
            ending.join().unwrap();
            other
        });
        assert_eq!(*done.lock().unwrap(), [("at once", own), ("first", other), ("third", other)]);
        assert_eq!(turns.in_turn(fourth, || 7), 7);
        assert!(turns.wait_for_all(None));
    }

    #[test]
    fn who_is_not_next_is_not_woken() {
        const QUEUED: usize = 64;
        let turns = &Turns::default();
        let first = turns.take();
        let places: Vec<Turn> = (0..QUEUED).map(|_| turns.take()).collect();
        thread::scope(|scope| {
            turns.in_turn(first, || {
                for turn in places {
                    scope.spawn(move || turns.in_turn(turn, || {}));
                }
                let started = Instant::now();
                while turns.lock().waiting.len() < QUEUED {
                    assert!(started.elapsed() < Duration::from_secs(120), "hangs: a thread does not wait");
                    thread::yield_now();
                }
            });
        });
        let woken = turns.lock().woken;
        // Some systems wake threads for no reason now and then.
        assert!((QUEUED..2 * QUEUED).contains(&woken), "{woken}");
    }
}

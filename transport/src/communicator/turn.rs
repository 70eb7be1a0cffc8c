//! One after the other, in the order of the calls.

use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::CommunicatorError;
use crate::link::driving;

/// Something to be done in a turn.
pub(super) type Task = Box<dyn FnOnce() + Send>;

/// Something to be done in a turn by a thread that there is for that; or, brief then, what says why there is none.
pub(super) type Work = Box<dyn FnOnce(Result<(), CommunicatorError>) + Send>;

/// Hands out turns.
#[derive(Default)]
pub(super) struct Turns {
    state: Mutex<State>,
    all_over: Condvar,
    /// What the worker waits for.
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Turns that were taken.
    taken: u64,
    /// Turns that are over.
    over: u64,
    /// Who waits for which turn.
    waiting: BTreeMap<u64, Waiting>,
    /// What the worker does in which turn, in their order.
    queue: VecDeque<(u64, Work)>,
    worker: Worker,
    /// Nothing is queued any more.
    is_closed: bool,
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

/// The thread that does what is queued: one at a time, since the turns are one after the other.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Worker {
    #[default]
    None,
    /// It looks at the queue before it sleeps or ends, as does one that is about to be started.
    Awake,
    Asleep,
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

    /// Takes the next place for `work`, which the worker does then. Returns whether there is no worker: the caller is to have a thread
    /// [serve](Self::serve), or to say why that [cannot be](Self::do_without).
    #[must_use]
    pub(super) fn queue(&self, work: Work) -> bool {
        let mut state = self.lock();
        let turn = state.taken;
        state.taken += 1;
        // With its place, under one lock: in another order, the worker would wait for a turn behind it in the queue.
        state.queue.push_back((turn, work));
        if state.worker == Worker::None {
            state.worker = Worker::Awake;
            return true;
        }
        if state.is_turn_of_queue() {
            self.call_worker(&state);
        }
        false
    }

    /// Does what is queued, each in its turn, until nothing was for as long as `linger`, or the queue is [closed](Self::close).
    pub(super) fn serve(&self, linger: Duration) {
        let mut idle_since = Instant::now();
        let mut state = self.lock();
        loop {
            if let Some(work) = state.next_of_queue() {
                drop(state);
                let over = Over(self);
                // A panic is told to whoever waits for this, and is not to keep what is behind it from being done.
                let _ = catch_unwind(AssertUnwindSafe(|| work(Ok(()))));
                drop(over);
                idle_since = Instant::now();
                state = self.lock();
                continue;
            }
            // What is queued will have its turn, however long that takes.
            let left = state.queue.is_empty().then(|| match state.is_closed {
                true => Duration::ZERO,
                false => linger.saturating_sub(idle_since.elapsed()),
            });
            if left.is_some_and(|left| left.is_zero()) {
                state.worker = Worker::None;
                return;
            }
            state.worker = Worker::Asleep;
            state = match left {
                Some(left) => self.called.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0,
                None => self.called.wait(state).unwrap_or_else(PoisonError::into_inner),
            };
            state.worker = Worker::Awake;
        }
    }

    /// There is no worker, for the reason that `error` says: what is queued is told so, each in its turn, by whoever ends the one before.
    pub(super) fn do_without(&self, error: &CommunicatorError) {
        let mut state = self.lock();
        state.worker = Worker::None;
        for (turn, work) in std::mem::take(&mut state.queue) {
            let error = error.clone();
            state.waiting.insert(turn, Waiting::Task(Box::new(move || work(Err(error)))));
        }
        // Nobody is at a turn that a worker was to begin.
        let next = state.over;
        if let Some(Waiting::Task(task)) = state.waiting.remove(&next) {
            drop(state);
            self.in_turn(Turn(next), task);
        }
    }

    /// Nothing is queued any more: the worker ends when it has done what is.
    pub(super) fn close(&self) {
        let mut state = self.lock();
        state.is_closed = true;
        self.call_worker(&state);
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
        if state.is_turn_of_queue() {
            self.call_worker(&state);
            return None;
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

    /// Wakes the worker, unless it will look by itself.
    fn call_worker(&self, state: &State) {
        if state.worker == Worker::Asleep {
            self.called.notify_one();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_turn_of_queue(&self) -> bool {
        self.queue.front().is_some_and(|&(turn, _)| turn == self.over)
    }

    fn next_of_queue(&mut self) -> Option<Work> {
        if self.is_turn_of_queue() { self.queue.pop_front().map(|(_, work)| work) } else { None }
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
    fn what_is_queued_is_done_in_turn_by_one_thread() {
        const QUEUED: usize = 1000;
        let (turns, done) = (Arc::new(Turns::default()), Arc::new(Mutex::new(Vec::new())));
        let note = |what: usize| {
            let done = done.clone();
            move || done.lock().unwrap().push((what, thread::current().id()))
        };
        let first = turns.take();
        let mut are_wanted = Vec::new();
        let mut middle = None;
        for place in 1..=QUEUED {
            if place == QUEUED / 2 {
                middle = Some(turns.take());
            } else {
                let note = note(place);
                are_wanted.push(turns.queue(Box::new(move |_| note())));
            }
        }
        assert!(are_wanted[0] && !are_wanted[1..].contains(&true), "one thread is enough");
        let serving = turns.clone();
        let worker = thread::spawn(move || serving.serve(Duration::ZERO));
        let id = worker.thread().id();
        turns.in_turn(first, note(0));
        turns.in_turn(middle.unwrap(), note(QUEUED / 2));
        assert!(turns.wait_for_all(None));
        worker.join().unwrap();
        let own = thread::current().id();
        let by = |place| if [0, QUEUED / 2].contains(&place) { own } else { id };
        let expected: Vec<_> = (0..=QUEUED).map(|place| (place, by(place))).collect();
        assert_eq!(*done.lock().unwrap(), expected);
    }

    #[test]
    fn a_worker_ends_when_it_is_idle_and_another_is_wanted() {
        let (turns, done) = (Turns::default(), Arc::new(Mutex::new(Vec::new())));
        for round in 0..3 {
            let note = |what: &'static str| -> Work {
                let done = done.clone();
                Box::new(move |thread| done.lock().unwrap().push((round, what, thread)))
            };
            assert!(turns.queue(note("first")));
            assert!(!turns.queue(Box::new(|_| panic!("on purpose"))));
            assert!(!turns.queue(note("third")));
            turns.serve(Duration::ZERO);
            assert_eq!(*done.lock().unwrap(), [(round, "first", Ok(())), (round, "third", Ok(()))]);
            done.lock().unwrap().clear();
        }
    }

    #[test]
    fn a_worker_that_sleeps_is_called_for_what_is_queued_and_for_the_end() {
        let turns = Arc::new(Turns::default());
        let asleep = || {
            let started = Instant::now();
            while turns.lock().worker != Worker::Asleep {
                assert!(started.elapsed() < Duration::from_secs(120), "hangs: the worker does not sleep");
                thread::yield_now();
            }
        };
        assert!(turns.queue(Box::new(|_| {})));
        let serving = turns.clone();
        let worker = thread::spawn(move || serving.serve(Duration::from_secs(1000)));
        asleep();
        assert!(!turns.queue(Box::new(|_| {})));
        assert!(turns.wait_for_all(Some(Duration::from_secs(120))), "hangs: it is not called");
        asleep();
        // What is queued is still done when nothing more is.
        let [first, second] = [turns.take(), turns.take()];
        assert!(!turns.queue(Box::new(|_| {})));
        turns.close();
        turns.in_turn(first, || {});
        assert!(!worker.is_finished(), "something is queued");
        turns.in_turn(second, || {});
        worker.join().unwrap();
        assert!(turns.wait_for_all(Some(Duration::ZERO)));
    }

    #[test]
    fn without_a_worker_what_is_queued_is_told_so_in_its_turn() {
        let (turns, told) = (Turns::default(), Arc::new(Mutex::new(Vec::new())));
        let note = |what: &'static str| -> Work {
            let told = told.clone();
            Box::new(move |thread| told.lock().unwrap().push((what, thread)))
        };
        let error = CommunicatorError::Thread("no more threads".into());
        let told_so = |what| (what, Err(error.clone()));
        let first = turns.take();
        assert!(turns.queue(note("second")));
        assert!(!turns.queue(note("third")));
        let fourth = turns.take();
        turns.do_without(&error);
        assert!(told.lock().unwrap().is_empty(), "their turn has not come");
        turns.in_turn(first, || {});
        assert_eq!(*told.lock().unwrap(), ["second", "third"].map(told_so));
        turns.in_turn(fourth, || {});
        // Another try is made, and who makes it says so where its turn has come.
        assert!(turns.queue(note("fifth")));
        turns.do_without(&error);
        assert_eq!(*told.lock().unwrap(), ["second", "third", "fifth"].map(told_so));
        assert!(turns.wait_for_all(Some(Duration::ZERO)));
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

//! Threads that wait to help with one piece of work after another.
//!
//! A pool for everything must run each job it was given, so its caller waits for the slowest thread to wake,
//! which takes longer than encoding half a megabyte. Here a call offers each thread a *seat*: a thread that
//! comes late finds it withdrawn, and the caller waits only for those who sit.
//!
//! Half a megabyte takes some ten microseconds, and a cache line a tenth of one from core to core. So a seat
//! is one line, with all that caller and thread tell each other, and nobody else looks at it.

// A thread outlives the borrow of the work it is handed; the seats keep it from touching it afterwards.
#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::thread::{self, JoinHandle, Thread};
use std::time::{Duration, Instant};

use super::apart::Apart;
use crate::background;

/// What a crew does: called with 0 on the caller's thread and with another number on each other.
pub(super) trait Work: Sync {
    fn work(&self, thread: usize);
}

impl<F: Fn(usize) + Sync> Work for F {
    fn work(&self, thread: usize) {
        self(thread);
    }
}

/// How long a thread looks for what it waits for before it sleeps: twice as long as waking it takes.
const SPIN_TIME: Duration = Duration::from_micros(20);

/// Looks between two looks at the clock.
const SPINS: u32 = 32;

/// Some threads that share the work of whoever calls [`run`](Self::run).
#[derive(Debug)]
pub(super) struct Crew {
    /// One call at a time has the crew.
    calls: Mutex<()>,
    members: Vec<Member>,
}

/// A thread with its seat.
#[derive(Debug)]
struct Member {
    seat: Arc<Apart<Seat>>,
    /// None once it was joined.
    thread: Option<JoinHandle<()>>,
}

/// What a thread is asked to do.
struct Seat {
    state: AtomicU8,
    /// Written while nobody sits, read by who does.
    work: Mutex<Option<&'static dyn Work>>,
    more: Box<More>,
}

/// What is seldom needed.
#[derive(Default)]
struct More {
    /// The caller, if it sleeps.
    caller: Mutex<Option<Thread>>,
    /// What the work died of.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
}

/// There is no work, and the thread looks for some.
const EMPTY: u8 = 0;
/// The same, but the thread sleeps, or is about to.
const ASLEEP: u8 = 1;
/// There is work, if the thread comes in time.
const OFFERED: u8 = 2;
/// The thread works.
const TAKEN: u8 = 3;
/// The same, and the caller sleeps until it is done.
const AWAITED: u8 = 4;
/// There will be no more work.
const CLOSED: u8 = 5;

impl Crew {
    /// Starts `threads` threads.
    pub(super) fn start(threads: usize) -> std::io::Result<Self> {
        let mut crew = Self { calls: Mutex::new(()), members: Vec::new() };
        for number in 1..=threads {
            let seat = Arc::new(Apart(Seat {
                state: AtomicU8::new(EMPTY),
                work: Mutex::new(None),
                more: Box::default(),
            }));
            let name = format!("mgcomp-codec-{number}");
            let own = Arc::clone(&seat);
            let thread = background::spawn(name, move || own.serve(number))?;
            crew.members.push(Member { seat, thread: Some(thread) });
        }
        Ok(crew)
    }

    /// Does `work` on this thread and on those of the crew that come in time; returns when all are done. While
    /// another call has the crew, this thread works alone.
    ///
    /// # Panics
    /// If `work` does, on any thread.
    pub(super) fn run(&self, work: &dyn Work) {
        let call = match self.calls.try_lock() {
            Ok(call) => call,
            Err(TryLockError::Poisoned(call)) => call.into_inner(),
            Err(TryLockError::WouldBlock) => return work.work(0),
        };
        // SAFETY: only who sits looks at the work, and `Sitting` is dropped, on every way out of this function,
        // only when nobody sits any more and nobody can.
        let lasting = unsafe { std::mem::transmute::<&dyn Work, &'static dyn Work>(work) };
        let mut sitting = Sitting { members: &self.members, panic: None };
        for member in &self.members {
            member.offer(lasting);
        }
        work.work(0);
        sitting.end();
        let panic = sitting.panic.take();
        // Before another call can have the crew: what a thread died of belongs to this one.
        drop(call);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        // Nobody sits: a call borrows the crew.
        for member in &self.members {
            member.seat.state.store(CLOSED, SeqCst);
            member.unpark();
        }
        for member in &mut self.members {
            // It catches what its work throws.
            let _ = member.thread.take().map(JoinHandle::join);
        }
    }
}

impl Member {
    fn offer(&self, work: &'static dyn Work) {
        *lock(&self.seat.work) = Some(work);
        if self.seat.state.swap(OFFERED, SeqCst) == ASLEEP {
            self.unpark();
        }
    }

    fn unpark(&self) {
        if let Some(thread) = &self.thread {
            thread.thread().unpark();
        }
    }
}

/// Takes back the offers and waits for those who sit when it goes.
struct Sitting<'a> {
    members: &'a [Member],
    panic: Option<Box<dyn Any + Send>>,
}

impl Sitting<'_> {
    fn end(&mut self) {
        // First all, so that nobody sits down while another is waited for.
        for Member { seat, .. } in self.members {
            let _ = seat.state.compare_exchange(OFFERED, EMPTY, SeqCst, SeqCst);
        }
        for Member { seat, .. } in std::mem::take(&mut self.members) {
            seat.wait_until_empty();
            if let Some(payload) = seat.take_panic() {
                self.panic = Some(payload);
            }
        }
    }
}

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

impl Seat {
    /// What each thread does all its life.
    fn serve(&self, number: usize) {
        while self.sit_down() {
            let work = *lock(&self.work);
            let outcome = work.map(|work| catch_unwind(AssertUnwindSafe(|| work.work(number))));
            if let Some(Err(payload)) = outcome {
                *lock(&self.more.panic) = Some(payload);
            }
            if self.state.swap(EMPTY, SeqCst) == AWAITED
                && let Some(caller) = lock(&self.more.caller).take()
            {
                caller.unpark();
            }
        }
    }

    /// Waits for work and takes it; `false` if there will be none.
    fn sit_down(&self) -> bool {
        loop {
            spin_until(|| matches!(self.state.load(SeqCst), OFFERED | CLOSED));
            match self.state.compare_exchange(OFFERED, TAKEN, SeqCst, SeqCst) {
                Ok(_) => return true,
                Err(CLOSED) => return false,
                Err(_) => self.sleep(),
            }
        }
    }

    /// Sleeps while there is nothing to do.
    fn sleep(&self) {
        if self.state.compare_exchange(EMPTY, ASLEEP, SeqCst, SeqCst).is_ok() {
            while self.state.load(SeqCst) == ASLEEP {
                thread::park();
            }
        }
    }

    /// Waits until the thread is done, if it works.
    fn wait_until_empty(&self) {
        let works = || matches!(self.state.load(SeqCst), TAKEN | AWAITED);
        spin_until(|| !works());
        if works() {
            *lock(&self.more.caller) = Some(thread::current());
            let _ = self.state.compare_exchange(TAKEN, AWAITED, SeqCst, SeqCst);
            while works() {
                thread::park();
            }
        }
        *lock(&self.work) = None;
    }

    fn take_panic(&self) -> Option<Box<dyn Any + Send>> {
        lock(&self.more.panic).take()
    }
}

/// Looks whether it is over until it is, or has taken long.
pub(super) fn spin_until(is_over: impl Fn() -> bool) {
    let mut start = None;
    loop {
        for _ in 0..SPINS {
            if is_over() {
                return;
            }
            std::hint::spin_loop();
        }
        if start.get_or_insert_with(Instant::now).elapsed() > SPIN_TIME {
            return;
        }
    }
}

impl std::fmt::Debug for Seat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Seat").field("state", &self.state).finish_non_exhaustive()
    }
}

/// What a thread leaves behind that panicked is whole: nothing here panics between two writes.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;

    #[test]
    fn every_call_runs_on_its_caller_and_at_most_once_on_each_thread() {
        let crew = Crew::start(3).unwrap();
        for _ in 0..2000 {
            let runs = Mutex::new(Vec::new());
            crew.run(&|number| lock(&runs).push((number, thread::current().id())));
            let runs = runs.into_inner().unwrap();
            assert!(runs.contains(&(0, thread::current().id())));
            let numbers: HashSet<_> = runs.iter().map(|run| run.0).collect();
            let threads: HashSet<_> = runs.iter().map(|run| run.1).collect();
            assert_eq!((numbers.len(), threads.len()), (runs.len(), runs.len()));
            assert!(numbers.iter().all(|&number| number <= 3), "{numbers:?}");
        }
    }

    #[test]
    fn the_crew_comes_if_there_is_time() {
        let crew = Crew::start(2).unwrap();
        for _ in 0..50 {
            // Nobody passes before all three are there.
            let barrier = Barrier::new(3);
            crew.run(&|_| {
                barrier.wait();
            });
        }
    }

    #[test]
    fn sleepers_wake_and_are_waited_for() {
        let crew = Crew::start(2).unwrap();
        let awhile = 4 * SPIN_TIME;
        for slow in 0..3 {
            thread::sleep(awhile);
            let (barrier, runs) = (Barrier::new(3), AtomicUsize::new(0));
            crew.run(&|number| {
                barrier.wait();
                if number == slow {
                    thread::sleep(awhile);
                }
                runs.fetch_add(1, SeqCst);
            });
            assert_eq!(runs.into_inner(), 3);
        }
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller_and_the_crew_goes_on() {
        let crew = Crew::start(1).unwrap();
        let caller = thread::current().id();
        for (caller_dies, other_dies) in [(false, true), (true, false), (true, true)] {
            let barrier = Barrier::new(2);
            let work = |_| {
                barrier.wait();
                let dies = if thread::current().id() == caller { caller_dies } else { other_dies };
                assert!(!dies, "as arranged");
            };
            assert!(catch_unwind(AssertUnwindSafe(|| crew.run(&work))).is_err());
        }
        let barrier = Barrier::new(2);
        crew.run(&|_| {
            barrier.wait();
        });
    }

    #[test]
    fn a_second_caller_works_alone() {
        let crew = Crew::start(1).unwrap();
        let runs = AtomicUsize::new(0);
        let inner = |_| {
            runs.fetch_add(1, SeqCst);
        };
        let barrier = Barrier::new(2);
        crew.run(&|_| {
            crew.run(&inner);
            barrier.wait(); // both threads of the outer call are here
        });
        assert_eq!(runs.into_inner(), 2);
    }
}

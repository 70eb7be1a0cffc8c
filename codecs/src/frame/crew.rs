//! Threads that wait to help with one piece of work after another.
//!
//! A pool for everything must run each job it was given, so its caller waits for the slowest thread to wake,
//! which takes longer than encoding half a megabyte. Here a call offers *seats*: a thread that comes late finds
//! them closed, and the caller waits only for those who sit.

// A thread outlives the borrow of the work it is handed; the seats keep it from touching it afterwards.
#![allow(unsafe_code)]

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

type Work<'a> = &'a (dyn Fn() + Sync);

/// How often a thread looks for what it waits for before it sleeps: some tens of microseconds.
const SPINS: usize = 2000;

/// Some threads that share the work of whoever calls [`run`](Self::run).
#[derive(Debug)]
pub(super) struct Crew {
    shared: Arc<Shared>,
    /// One call at a time has the crew.
    calls: Mutex<()>,
    threads: Vec<JoinHandle<()>>,
}

struct Shared {
    seats: Seats,
    /// What those who sit do. Only they may look.
    work: Mutex<Option<Work<'static>>>,
    /// What a thread died of.
    panic: Mutex<Option<Box<dyn Any + Send>>>,
    closing: AtomicBool,
    /// Threads asleep at the bell, and callers asleep until nobody sits.
    sleepers: AtomicUsize,
    door: Mutex<()>,
    bell: Condvar,
}

impl Crew {
    /// Starts `threads` threads.
    pub(super) fn start(threads: usize) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            seats: Seats(AtomicU64::new(0)),
            work: Mutex::new(None),
            panic: Mutex::new(None),
            closing: AtomicBool::new(false),
            sleepers: AtomicUsize::new(0),
            door: Mutex::new(()),
            bell: Condvar::new(),
        });
        let mut crew = Self { shared, calls: Mutex::new(()), threads: Vec::new() };
        for number in 0..threads {
            let shared = Arc::clone(&crew.shared);
            let name = format!("mgcomp-codec-{number}");
            crew.threads.push(std::thread::Builder::new().name(name).spawn(move || shared.serve())?);
        }
        Ok(crew)
    }

    /// Does `work` on this thread and on those of the crew that come in time; returns when all are done. While
    /// another call has the crew, this thread works alone.
    ///
    /// # Panics
    /// If `work` does, on any thread.
    pub(super) fn run(&self, work: Work<'_>) {
        let call = match self.calls.try_lock() {
            Ok(call) => call,
            Err(std::sync::TryLockError::Poisoned(call)) => call.into_inner(),
            Err(std::sync::TryLockError::WouldBlock) => return work(),
        };
        // SAFETY: only who sits looks at the work, and `Sitting` is dropped, on every way out of this function,
        // only when nobody sits any more and nobody can.
        let lasting = unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) };
        // Left behind by a call that died itself.
        *lock(&self.shared.panic) = None;
        *lock(&self.shared.work) = Some(lasting);
        let sitting = Sitting(&self.shared);
        self.shared.seats.open(self.threads.len());
        self.shared.ring();
        work();
        drop(sitting);
        // Before another call can have the crew: what a thread died of belongs to this one.
        let panic = lock(&self.shared.panic).take();
        drop(call);
        if let Some(payload) = panic {
            resume_unwind(payload);
        }
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.closing.store(true, SeqCst);
        self.shared.ring();
        for thread in self.threads.drain(..) {
            let _ = thread.join(); // it catches what its work throws
        }
    }
}

/// Closes the seats and waits until they are empty when it goes.
struct Sitting<'a>(&'a Shared);

impl Drop for Sitting<'_> {
    fn drop(&mut self) {
        self.0.seats.close();
        self.0.wait_until(|shared| shared.seats.taken() == 0);
        *lock(&self.0.work) = None;
    }
}

impl Shared {
    /// What each thread does all its life.
    fn serve(&self) {
        let mut last_call = 0;
        loop {
            self.wait_until(|shared| shared.seats.call() != last_call || shared.closing.load(SeqCst));
            if self.closing.load(SeqCst) {
                return;
            }
            last_call = self.seats.call();
            if self.seats.take(last_call) {
                let work = *lock(&self.work);
                if let Some(Err(payload)) = work.map(|work| catch_unwind(AssertUnwindSafe(work))) {
                    *lock(&self.panic) = Some(payload);
                }
                self.seats.leave();
                self.ring();
            }
        }
    }

    fn wait_until(&self, is_over: impl Fn(&Self) -> bool) {
        for _ in 0..SPINS {
            if is_over(self) {
                return;
            }
            std::hint::spin_loop();
        }
        let mut door = lock(&self.door);
        // Whoever changes something sees this count, or this thread sees the change.
        self.sleepers.fetch_add(1, SeqCst);
        while !is_over(self) {
            door = self.bell.wait(door).unwrap_or_else(PoisonError::into_inner);
        }
        self.sleepers.fetch_sub(1, SeqCst);
    }

    /// Wakes those who sleep.
    fn ring(&self) {
        if self.sleepers.load(SeqCst) > 0 {
            drop(lock(&self.door));
            self.bell.notify_all();
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("seats", &self.seats.0).finish_non_exhaustive()
    }
}

/// Number of the call in the upper 32 bits, seats open in the middle 16, seats taken in the lower 16.
struct Seats(AtomicU64);

impl Seats {
    const ONE_OPEN: u64 = 1 << 16;
    const ALL_OPEN: u64 = 0xffff << 16;

    fn call(&self) -> u64 {
        self.0.load(SeqCst) >> 32
    }

    fn taken(&self) -> u64 {
        self.0.load(SeqCst) & 0xffff
    }

    /// Starts the next call with `seats` seats; nobody sits.
    fn open(&self, seats: usize) {
        let next_call = self.call().wrapping_add(1) & 0xffff_ffff;
        self.0.store(next_call << 32 | (seats as u64) << 16, SeqCst);
    }

    fn close(&self) {
        self.0.fetch_and(!Self::ALL_OPEN, SeqCst);
    }

    /// Takes a seat of `call`, if one is open.
    fn take(&self, call: u64) -> bool {
        let taken = |seats: u64| {
            (seats >> 32 == call && seats & Self::ALL_OPEN != 0).then(|| seats - Self::ONE_OPEN + 1)
        };
        self.0.fetch_update(SeqCst, SeqCst, taken).is_ok()
    }

    fn leave(&self) {
        self.0.fetch_sub(1, SeqCst);
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
    use std::thread;

    #[test]
    fn every_call_runs_on_its_caller_and_at_most_once_on_each_thread() {
        let crew = Crew::start(3).unwrap();
        for _ in 0..2000 {
            let runs = Mutex::new(Vec::new());
            crew.run(&|| lock(&runs).push(thread::current().id()));
            let runs = runs.into_inner().unwrap();
            let distinct: HashSet<_> = runs.iter().copied().collect();
            assert!(distinct.contains(&thread::current().id()));
            assert_eq!(distinct.len(), runs.len());
            assert!(runs.len() <= 4);
        }
    }

    #[test]
    fn the_crew_comes_if_there_is_time() {
        let crew = Crew::start(2).unwrap();
        for _ in 0..50 {
            // Nobody passes before all three are there.
            let barrier = Barrier::new(3);
            crew.run(&|| {
                barrier.wait();
            });
        }
    }

    #[test]
    fn a_panic_of_any_thread_reaches_the_caller_and_the_crew_goes_on() {
        let crew = Crew::start(1).unwrap();
        let caller = thread::current().id();
        for (caller_dies, other_dies) in [(false, true), (true, false), (true, true)] {
            let barrier = Barrier::new(2);
            let work = || {
                barrier.wait();
                let dies = if thread::current().id() == caller { caller_dies } else { other_dies };
                assert!(!dies, "as arranged");
            };
            assert!(catch_unwind(AssertUnwindSafe(|| crew.run(&work))).is_err());
        }
        let barrier = Barrier::new(2);
        crew.run(&|| {
            barrier.wait();
        });
    }

    #[test]
    fn a_second_caller_works_alone() {
        let crew = Crew::start(1).unwrap();
        let runs = AtomicUsize::new(0);
        let inner = || {
            runs.fetch_add(1, SeqCst);
        };
        let barrier = Barrier::new(2);
        crew.run(&|| {
            crew.run(&inner);
            barrier.wait(); // both threads of the outer call are here
        });
        assert_eq!(runs.into_inner(), 2);
    }
}

//! The same work on several threads, again and again, timed without the start of the threads.

use std::hint;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Looks at a barrier this often before it lets another thread have the core.
const SPINS: u32 = 1 << 14;

/// Does `work` on each of `tasks`, one thread each, `calls` times over; all threads start each time together.
/// Returns the time of all calls.
///
/// # Panics
/// If there are no tasks.
pub(crate) fn lockstep<T: Send>(tasks: Vec<T>, calls: usize, work: impl Fn(&mut T) + Sync) -> Duration {
    let barrier = Barrier::new(tasks.len());
    let (barrier, work) = (&barrier, &work);
    let mut tasks = tasks.into_iter();
    let mut own = tasks.next().expect("at least one task");
    thread::scope(|scope| {
        for mut task in tasks {
            scope.spawn(move || {
                barrier.wait();
                for _ in 0..calls {
                    work(&mut task);
                    barrier.wait();
                }
            });
        }
        barrier.wait();
        let start = Instant::now();
        for _ in 0..calls {
            work(&mut own);
            barrier.wait();
        }
        start.elapsed()
    })
}

/// Lets nobody on before all have come. Waiters spin: waking a thread takes longer than much of the work.
struct Barrier {
    threads: usize,
    arrivals: AtomicUsize,
}

impl Barrier {
    fn new(threads: usize) -> Self {
        Self { threads, arrivals: AtomicUsize::new(0) }
    }

    fn wait(&self) {
        if self.threads == 1 {
            return;
        }
        let arrival = self.arrivals.fetch_add(1, Ordering::AcqRel);
        // Arrivals count on from round to round; this round is over with the next multiple.
        let all = (arrival / self.threads + 1) * self.threads;
        let mut spins = 0;
        while self.arrivals.load(Ordering::Acquire) < all {
            spins += 1;
            if spins < SPINS { hint::spin_loop() } else { thread::yield_now() }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_is_done_as_often_as_asked() {
        for threads in [1, 2, 3, 7] {
            let mut counts = vec![0; threads];
            let time = lockstep(counts.iter_mut().collect(), 100, |count| **count += 1);
            assert_eq!(counts, vec![100; threads]);
            assert!(time > Duration::ZERO);
        }
    }

    #[test]
    fn nobody_runs_ahead() {
        let done = AtomicUsize::new(0);
        let tasks: Vec<usize> = vec![0; 3];
        lockstep(tasks, 50, |own| {
            // Before its call n, a thread must see all three calls n − 1.
            assert!(done.load(Ordering::SeqCst) >= 3 * *own);
            *own += 1;
            done.fetch_add(1, Ordering::SeqCst);
        });
        assert_eq!(done.into_inner(), 150);
    }
}

//! Threads that run codecs.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use mgcomp_codecs::background;

type Job = Box<dyn FnOnce() + Send>;

/// At most so many threads as were asked for, which start when there is work for them.
pub(crate) struct Pool {
    shared: Arc<Shared>,
    limit: usize,
}

#[derive(Default)]
struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Job>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait.
    idle: usize,
    stopped: bool,
}

impl Pool {
    pub(crate) fn new(limit: usize) -> Self {
        Self { shared: Arc::default(), limit: limit.max(1) }
    }

    /// Runs `job` some time soon: on a thread of the pool, or here if the system gives none. A pool that was stopped drops it.
    pub(crate) fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut queue = self.shared.lock();
        if queue.stopped {
            return;
        }
        queue.jobs.push_back(Box::new(job));
        if queue.jobs.len() > queue.idle && queue.threads.len() < self.limit {
            self.add_thread(&mut queue);
        }
        if queue.threads.is_empty() {
            let job = queue.jobs.pop_back();
            drop(queue);
            job.into_iter().for_each(|job| job());
            return;
        }
        drop(queue);
        self.shared.wake.notify_one();
    }

    /// Ends the threads, after what they are at; what waits is dropped.
    pub(crate) fn stop(&self) {
        let mut queue = self.shared.lock();
        queue.stopped = true;
        let jobs = std::mem::take(&mut queue.jobs);
        let threads = std::mem::take(&mut queue.threads);
        drop(queue);
        drop(jobs);
        self.shared.wake.notify_all();
        threads.into_iter().for_each(|thread| drop(thread.join()));
    }

    fn add_thread(&self, queue: &mut Queue) {
        let shared = Arc::clone(&self.shared);
        let thread = background::spawn("mgcomp-net", move || shared.work());
        queue.threads.extend(thread);
    }
}

impl Shared {
    fn work(&self) {
        let mut queue = self.lock();
        loop {
            if queue.stopped {
                return;
            }
            let Some(job) = queue.jobs.pop_front() else {
                queue.idle += 1;
                queue = self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner);
                queue.idle -= 1;
                continue;
            };
            drop(queue);
            job();
            queue = self.lock();
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[test]
    fn all_jobs_run_and_all_threads_end() {
        let pool = Pool::new(3);
        let (ran, results) = mpsc::channel();
        for i in 0..100 {
            let ran = ran.clone();
            pool.submit(move || ran.send(i).unwrap());
        }
        let mut results: Vec<i32> = results.iter().take(100).collect();
        results.sort_unstable();
        assert_eq!(results, (0..100).collect::<Vec<_>>());
        assert!(pool.shared.lock().threads.len() <= 3);
        pool.stop();
        let (dropped, waits) = mpsc::channel::<()>();
        pool.submit(move || drop(dropped));
        assert!(waits.recv().is_err(), "what comes later is dropped, and does not run");
    }
}

//! What both ends have.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};

use super::ring::{Ring, Stage};
use crate::context::Context;
use crate::error::NetError;
use crate::objects::RequestNumber;

/// An end of a connection, but for what is done to its messages.
pub(super) struct End<T> {
    pub(super) context: Arc<Context>,
    pub(super) ring: Ring<T>,
    /// What went wrong first. Nothing works after it.
    fault: Arc<OnceLock<NetError>>,
    jobs: Arc<Jobs>,
    /// Buffers of slots that are free: as many as messages were ever under way at once, whichever slots they had.
    spare: Mutex<Vec<Vec<u8>>>,
}

/// What threads do for an end of a connection with memory that is lent to it.
#[derive(Default)]
struct Jobs {
    under_way: Mutex<UnderWay>,
    one_is_over: Condvar,
}

#[derive(Default)]
struct UnderWay {
    /// Jobs that were ever begun. Their numbers are below it.
    begun: u64,
    /// The numbers of those that are not over, at most one for each request.
    numbers: Vec<u64>,
}

struct Job {
    jobs: Arc<Jobs>,
    number: u64,
}

impl Jobs {
    fn begin(self: &Arc<Self>) -> Job {
        let mut under_way = self.lock();
        let number = under_way.begun;
        under_way.begun += 1;
        under_way.numbers.push(number);
        Job { jobs: Arc::clone(self), number }
    }

    /// Waits for those that were begun by now, and for none that begins meanwhile.
    fn wait(&self) {
        let mut under_way = self.lock();
        let begun = under_way.begun;
        while under_way.numbers.iter().any(|&number| number < begun) {
            under_way = self.one_is_over.wait(under_way).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn lock(&self) -> MutexGuard<'_, UnderWay> {
        self.under_way.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Job {
    fn drop(&mut self) {
        self.jobs.lock().numbers.retain(|&number| number != self.number);
        self.jobs.one_is_over.notify_all();
    }
}

impl<T: Default> End<T> {
    pub(super) fn new(context: Arc<Context>) -> Self {
        let (fault, jobs, spare) = (Arc::default(), Arc::default(), Mutex::default());
        Self { context, ring: Ring::new(), fault, jobs, spare }
    }
}

impl<T> End<T> {
    /// Whether anything has gone wrong.
    pub(super) fn check(&self) -> Result<(), NetError> {
        self.context.check()?;
        self.fault.get().map_or(Ok(()), |fault| Err(fault.clone()))
    }

    pub(super) fn fail(&self, fault: NetError) {
        // What was wrong first stays. NCCL is told by the next call.
        let _ = self.fault.set(fault);
    }

    /// What only one thread at a time has to do with, unless another is at it.
    pub(super) fn alone<'a, U>(&self, shared: &'a Mutex<U>) -> Option<MutexGuard<'a, U>> {
        match shared.try_lock() {
            Ok(alone) => Some(alone),
            Err(TryLockError::WouldBlock) => None,
            // Whoever panicked had it half changed, so nobody goes on with it, and that must be known.
            Err(TryLockError::Poisoned(_)) => {
                self.fail(NetError::Panic);
                None
            }
        }
    }

    /// A buffer, which may have any length.
    pub(super) fn buffer(&self) -> Vec<u8> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).pop().unwrap_or_default()
    }

    /// Keeps a buffer for another message.
    pub(super) fn keep(&self, buffer: Vec<u8>) {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner).push(buffer);
    }

    /// Has a thread do something; what becomes of it is known before [`wait`](Self::wait) returns.
    pub(super) fn run(&self, work: impl FnOnce() + Send + 'static) {
        let (job, fault) = (self.jobs.begin(), Arc::clone(&self.fault));
        self.context.engine.pool.submit(move || {
            if catch_unwind(AssertUnwindSafe(work)).is_err() {
                // What was wrong first stays.
                let _ = fault.set(NetError::Panic);
            }
            drop(job);
        });
    }

    /// Waits until no thread has anything to do with memory that was lent by now. None waits for anything itself, so that is soon.
    pub(super) fn wait(&self) {
        self.jobs.wait();
    }

    /// What a request has come to: no message of it, nothing yet, or its slot, which is free from now on.
    pub(super) fn finish<R>(
        &self,
        number: RequestNumber,
        drive: impl FnOnce(),
        result: impl FnOnce(&mut T) -> R,
    ) -> Result<Option<Option<R>>, NetError> {
        let Some(message) = self.ring.find(number) else { return Ok(None) };
        if self.ring.stage(message) != Stage::Done {
            self.check()?;
            drive();
        }
        if self.ring.stage(message) != Stage::Done {
            return self.check().map(|()| Some(None));
        }
        let mut slot = self.ring.content(message);
        if !self.ring.free(message) {
            return Ok(None);
        }
        Ok(Some(Some(result(&mut slot))))
    }
}

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use super::*;
    use crate::context::Engine;

    fn end() -> End<()> {
        let engine = Engine::start().unwrap();
        End::new(Arc::new(Context::new(Arc::new(engine), None)))
    }

    #[test]
    fn work_that_panics_is_told() {
        let end = end();
        end.run(|| {});
        end.wait();
        assert_eq!(end.check(), Ok(()));
        end.run(|| panic!("as a test wants it"));
        end.wait();
        assert_eq!(end.check(), Err(NetError::Panic));
        end.context.engine.stop();
    }

    #[test]
    fn what_begins_later_is_not_waited_for() {
        let jobs = Arc::new(Jobs::default());
        let [first, second] = [(); 2].map(|()| jobs.begin());
        drop(second);
        let waiting = {
            let jobs = Arc::clone(&jobs);
            thread::spawn(move || jobs.wait())
        };
        thread::sleep(Duration::from_millis(20));
        let later = jobs.begin();
        assert!(!waiting.is_finished(), "the first is not over");
        drop(first);
        waiting.join().unwrap();
        drop(later);
        jobs.wait();
    }

    #[test]
    fn what_a_panic_leaves_is_not_taken_for_busy() {
        let (end, shared) = (end(), Mutex::new(0));
        let held = end.alone(&shared).unwrap();
        assert!(end.alone(&shared).is_none());
        assert_eq!(end.check(), Ok(()), "somebody else is at it");
        drop(held);
        let half_done = || {
            let _held = end.alone(&shared).unwrap();
            panic!("as a test wants it");
        };
        assert!(catch_unwind(AssertUnwindSafe(half_done)).is_err());
        assert!(end.alone(&shared).is_none());
        assert_eq!(end.check(), Err(NetError::Panic));
        end.context.engine.stop();
    }
}

//! Waiting for requests.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use crate::fork::Process;
use crate::link::{Drive, driving};
use crate::session::TransferError;

/// What a request comes to: bytes moved, or why not.
pub type TransferResult = Result<u64, TransferError>;

/// A request under way. Requests finish in any order; dropping the handle does not stop one.
pub struct Handle {
    end: Arc<End>,
    /// What to do while waiting.
    driver: Option<Weak<dyn Drive>>,
    /// Where the request was made; nobody reports its end anywhere else.
    process: Process,
}

/// Where a request's end is reported. Dropped without a report, it says that the node is closed.
pub(super) struct Reply {
    end: Arc<End>,
}

/// Ends the wait for a request that may never end itself.
pub(super) struct Interrupt {
    end: Arc<End>,
}

#[derive(Debug, Default)]
struct End {
    state: Mutex<State>,
    reported: Condvar,
}

#[derive(Debug, Default)]
struct State {
    result: Option<TransferResult>,
    waker: Option<Waker>,
    /// Whether a thread sleeps until there is a report.
    sleeper: bool,
}

/// A handle, and where its end is reported.
pub(super) fn handle(driver: Option<Weak<dyn Drive>>) -> (Reply, Handle) {
    let end = Arc::<End>::default();
    (Reply { end: end.clone() }, Handle { end, driver, process: Process::current() })
}

impl Handle {
    /// Waits until the request is finished. Returns the bytes moved.
    ///
    /// # Errors
    /// [`TransferError`] if it failed.
    pub fn wait(self) -> TransferResult {
        if !self.process.is_current() {
            return Err(TransferError::Forked);
        }
        self.drive();
        let mut state = self.end.lock();
        loop {
            if let Some(result) = state.result.take() {
                drop(state);
                driving::settle();
                return result;
            }
            state.sleeper = true;
            state = driving::wait(&self.end.state, &self.end.reported, state, None);
        }
    }

    /// Waits for at most `timeout`; `None` if the request is not finished by then.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<TransferResult> {
        if !self.process.is_current() {
            return Some(Err(TransferError::Forked));
        }
        self.prompt(timeout.is_zero());
        let until = Instant::now().checked_add(timeout);
        let mut state = self.end.lock();
        while state.result.is_none() {
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return None;
            }
            state.sleeper = true;
            state = driving::wait(&self.end.state, &self.end.reported, state, Some(left));
        }
        let result = state.result.clone();
        drop(state);
        driving::settle();
        result
    }

    /// Whether the request is finished, one way or the other.
    pub fn is_finished(&mut self) -> bool {
        if !self.process.is_current() {
            return true;
        }
        self.end.is_reported() || {
            driving::drive();
            self.prompt(true);
            self.end.is_reported()
        }
    }

    /// What ends the wait for this request.
    pub(super) fn interrupt(&self) -> Interrupt {
        Interrupt { end: self.end.clone() }
    }

    /// Sees to it that somebody does the link's work, for a thread that sleeps or `asks_again`.
    fn prompt(&self, asks_again: bool) {
        if self.end.is_reported() {
            return;
        }
        if let Some(driver) = self.driver.as_ref().and_then(Weak::upgrade) {
            driver.prompt(asks_again);
        }
    }

    /// Does the link's work until the request is finished, unless another thread does.
    fn drive(&self) {
        if !self.end.is_reported()
            && let Some(driver) = self.driver.as_ref().and_then(Weak::upgrade)
        {
            driver.drive(pin!(poll_fn(|context| self.end.poll(context))));
        }
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let result = self.process.is_current().then(|| self.end.lock().result.clone()).flatten();
        write!(f, "Handle({result:?})")
    }
}

impl Reply {
    /// Reports the end.
    pub(super) fn send(self, result: TransferResult) {
        self.end.report(result);
    }
}

impl Interrupt {
    /// Whoever waits gets this error, unless the request has ended. It goes on without being waited for.
    pub(super) fn end_with(self, error: TransferError) {
        self.end.report(Err(error));
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.end.report(Err(TransferError::NodeClosed)); // no news if there was a report
    }
}

impl End {
    fn report(&self, result: TransferResult) {
        let mut state = self.lock();
        if state.result.is_some() {
            return;
        }
        state.result = Some(result);
        let (waker, sleeper) = (state.waker.take(), state.sleeper);
        drop(state);
        if sleeper {
            self.reported.notify_all();
        }
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_reported(&self) -> bool {
        self.lock().result.is_some()
    }

    fn poll(&self, context: &Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.result.is_some() {
            return Poll::Ready(());
        }
        if !state.waker.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
            state.waker = Some(context.waker().clone());
        }
        Poll::Pending
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;

    use super::*;

    /// Notes how it is called for, by whether the caller asks again.
    #[derive(Default)]
    struct Prompted(Mutex<Vec<bool>>);

    impl Drive for Prompted {
        fn drive(&self, _: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool {
            false
        }

        fn prompt(&self, asks_again: bool) {
            self.0.lock().unwrap().push(asks_again);
        }
    }

    #[test]
    fn who_asks_again_or_sleeps_has_the_link_go_on() {
        let link = Arc::<Prompted>::default();
        let driver: Arc<dyn Drive> = link.clone();
        let prompts = || std::mem::take(&mut *link.0.lock().unwrap());
        let (reply, mut asked) = handle(Some(Arc::downgrade(&driver)));
        assert!(!asked.is_finished() && asked.wait_for(Duration::ZERO).is_none());
        assert_eq!(prompts(), [true, true]);
        assert_eq!(asked.wait_for(Duration::from_millis(1)), None);
        assert_eq!(prompts(), [false]);
        reply.send(Ok(3));
        assert!(asked.is_finished() && asked.wait_for(Duration::from_millis(1)) == Some(Ok(3)));
        assert_eq!((asked.wait(), prompts()), (Ok(3), vec![]));
    }
}

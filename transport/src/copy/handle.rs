//! Waiting for copies.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use super::CopyError;
use crate::fork::Process;
use crate::patience::Patience;

/// For how long whoever waits for a copy looks for its end before it sleeps: as long as one of some MiB takes.
pub(super) const MOMENT: Duration = Duration::from_micros(300);

/// A copy under way. Dropping the handle does not stop it.
#[derive(Debug)]
pub struct CopyHandle<T> {
    end: Receiver<Result<T, CopyError>>,
    /// Taken out of `end` already.
    known: Option<Result<T, CopyError>>,
    process: Process,
}

/// Where the end is reported. Dropped without a report, it says that the copier is gone.
pub(super) type Reply<T> = Sender<Result<T, CopyError>>;

/// A handle, and where its end is reported.
pub(super) fn handle<T>() -> (Reply<T>, CopyHandle<T>) {
    let (reply, end) = mpsc::channel();
    (reply, CopyHandle { end, known: None, process: Process::current() })
}

impl<T> CopyHandle<T> {
    /// Waits until the copy is finished.
    ///
    /// # Errors
    /// [`CopyError`] if it failed.
    pub fn wait(mut self) -> Result<T, CopyError> {
        self.take_in(None);
        self.known.unwrap_or(Err(CopyError::Closed { written_bytes: 0 }))
    }

    /// Waits for at most `timeout`; whether the copy is finished by then.
    pub fn wait_for(&mut self, timeout: Duration) -> bool {
        self.take_in(Some(timeout));
        self.known.is_some()
    }

    /// Whether the copy is finished, one way or the other.
    pub fn is_finished(&mut self) -> bool {
        self.wait_for(Duration::ZERO)
    }

    fn take_in(&mut self, timeout: Option<Duration>) {
        if self.known.is_some() {
            return;
        }
        if !self.process.is_current() {
            self.known = Some(Err(CopyError::Forked));
            return;
        }
        let closed = || Some(Err(CopyError::Closed { written_bytes: 0 }));
        let until = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        self.known = match until {
            None => Patience::of(MOMENT).receive(&self.end).or_else(closed),
            Some(until) => match self.end.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => closed(),
            },
        };
    }
}

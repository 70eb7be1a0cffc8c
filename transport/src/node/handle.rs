//! Waiting for requests.

use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::Duration;

use crate::session::TransferError;

/// What a request comes to: bytes moved, or why not.
pub type TransferResult = Result<u64, TransferError>;

/// A request under way. Requests finish in any order; dropping the handle does not stop one.
#[derive(Debug)]
pub struct Handle {
    reports: Receiver<TransferResult>,
    result: Option<TransferResult>,
}

impl Handle {
    pub(super) fn new(reports: Receiver<TransferResult>) -> Self {
        Self { reports, result: None }
    }

    /// Waits until the request is finished. Returns the bytes moved.
    ///
    /// # Errors
    /// [`TransferError`] if it failed.
    pub fn wait(mut self) -> TransferResult {
        match self.result.take() {
            Some(result) => result,
            None => self.reports.recv().unwrap_or(Err(TransferError::NodeClosed)),
        }
    }

    /// Waits for at most `timeout`; `None` if the request is not finished by then.
    pub fn wait_for(&mut self, timeout: Duration) -> Option<&TransferResult> {
        if self.result.is_none() {
            self.result = match self.reports.recv_timeout(timeout) {
                Ok(result) => Some(result),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => Some(Err(TransferError::NodeClosed)),
            };
        }
        self.result.as_ref()
    }

    /// Whether the request is finished, one way or the other.
    pub fn is_finished(&mut self) -> bool {
        if self.result.is_none() {
            self.result = match self.reports.try_recv() {
                Ok(result) => Some(result),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => Some(Err(TransferError::NodeClosed)),
            };
        }
        self.result.is_some()
    }
}

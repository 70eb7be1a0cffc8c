//! Why MPI cannot be used, or no more.

use std::fmt;

/// What MPI says when a call fails.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MpiFailure {
    /// The call.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
    /// MPI's words for that.
    pub text: String,
}

impl fmt::Display for MpiFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} returned {}: {}", self.call, self.code, self.text)
    }
}

/// Why there is no link over MPI.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MpiError {
    /// MPI does not run.
    #[error("MPI is not initialized")]
    NotInitialized,
    /// MPI runs no more.
    #[error("MPI was finalized")]
    Finalized,
    /// The program promised to have one thread only.
    #[error(
        "MPI was initialized for programs of one thread, and this library has more: initialize it with \
         MPI_THREAD_FUNNELED or better"
    )]
    SingleThread,
    /// Only the thread that initialized MPI may call it.
    #[error(
        "under MPI_THREAD_FUNNELED only the thread that initialized MPI can make a link, and then let it go on; \
         initialize MPI with MPI_THREAD_MULTIPLE to use any thread"
    )]
    OtherThread,
    /// A call failed.
    #[error("{0}")]
    Failed(MpiFailure),
    /// The system gives no random bytes for the job secret.
    #[error("no random bytes for the job secret: {0}")]
    Secret(String),
}

impl From<MpiFailure> for MpiError {
    fn from(failure: MpiFailure) -> Self {
        Self::Failed(failure)
    }
}

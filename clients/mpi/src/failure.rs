//! Why a collective came to nothing.

use std::ffi::c_int;

use mgcomp_transport::attach::{OpenError, SealError};

/// Why a collective came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// MPI says so, and has told the communicator's error handler.
    #[error("MPI says {0}")]
    Told(c_int),
    /// MPI says so, and nobody has been told.
    #[error("MPI says {0}")]
    Untold(c_int),
    /// A message did not fit.
    #[error(transparent)]
    Seal(#[from] SealError),
    /// What came is no good message.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// What came is not as long as it should be.
    #[error("{found} bytes where {expected} were to come: does every rank run the same mgcomp?")]
    Length {
        /// Bytes there should be.
        expected: u64,
        /// Bytes there are.
        found: u64,
    },
    /// A rank has no part of the result, since what others sent it was not good.
    #[error("rank {rank} has no good part of the result to hand on")]
    Spoiled {
        /// Its rank in the communicator.
        rank: c_int,
    },
}

/// Whether all that came to this rank was good. What was not is the failure of this rank alone, which takes part in the rest of
/// the collective even so, since the others wait for it; it is told at the end. After a failure of MPI's own, which stands
/// around this where both may be, there is no rest.
pub(crate) type Came = Result<(), Failure>;

/// An error of MPI if `code` is one, in a call that told whoever is told of errors there.
pub(crate) fn told(code: c_int) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::Told(code)) }
}

/// The same in a call that told nobody.
pub(crate) fn untold(code: c_int) -> Result<(), Failure> {
    if code == 0 { Ok(()) } else { Err(Failure::Untold(code)) }
}

//! Why an operation over NCCL fails.

use std::path::PathBuf;
use std::time::Duration;

use mgcomp_codecs::device::{DeviceError, Refused};

use crate::communicator::{CommunicatorError, Datatype, Operation};

/// Why an operation failed, by who must act.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum NcclError {
    /// `MGCOMP_NCCL` would name another file in each working directory.
    #[error("MGCOMP_NCCL is {path:?}: it is no absolute path")]
    NotAbsolute {
        /// What it names.
        path: PathBuf,
    },
    /// There is no NCCL, or it does not load.
    #[error("{} does not load: {reason}", .file.display())]
    NotLoaded {
        /// What was looked for last.
        file: PathBuf,
        /// What the system has to say.
        reason: String,
    },
    /// The library is not NCCL, or one that is too old.
    #[error("NCCL has no function {symbol}")]
    MissingSymbol {
        /// What it lacks.
        symbol: &'static str,
    },
    /// NCCL is too old.
    #[error("NCCL has version {found}; the least that will do is {needed}")]
    TooOld {
        /// Its version.
        found: i32,
        /// What is needed.
        needed: i32,
    },
    /// The environment has all communicators of NCCL's block, whatever they are asked to be: no limit would hold.
    #[error("NCCL_COMM_BLOCKING is {value:?}: it has to be 0 or unset, for else NCCL waits without a limit")]
    Blocking {
        /// What it is set to.
        value: String,
    },
    /// NCCL refused a call, or failed later.
    #[error("{call} failed: NCCL error {code}, {text}")]
    Call {
        /// The call, or that which was made last.
        call: &'static str,
        /// Its `ncclResult_t`.
        code: i32,
        /// What NCCL says of that.
        text: String,
    },
    /// Something did not happen in time: a rank is gone, or does something else.
    #[error("{what} took longer than {limit:?}: another rank is gone, or makes other calls")]
    TimedOut {
        /// What was waited for.
        what: &'static str,
        /// The limit.
        limit: Duration,
    },
    /// Ranks were given different settings.
    #[error("{what} is {own} here and {theirs} on rank {rank}")]
    Settings {
        /// Which setting.
        what: &'static str,
        /// The other rank.
        rank: u32,
        /// Its value here.
        own: u64,
        /// Its value there.
        theirs: u64,
    },
    /// Ranks make different calls, or the same ones in another order.
    #[error("rank {rank} makes another call than this one, or describes it differently")]
    OtherCall {
        /// The other rank.
        rank: u32,
    },
    /// Another rank sends another number of bytes than this one expects.
    #[error("rank {rank} sends {got} bytes where {expected} are expected")]
    WrongLength {
        /// Who sends them.
        rank: u32,
        /// What it sends.
        got: u64,
        /// What was expected.
        expected: u64,
    },
    /// What another rank has sent does not decode.
    #[error("what rank {rank} has sent does not decode: {refused}")]
    NotDecoded {
        /// Who has sent it.
        rank: u32,
        /// What is wrong.
        refused: Refused,
    },
    /// This device has no kernels for what another rank sends.
    #[error("rank {rank} sends frames of an algorithm that this device cannot decode")]
    NoKernels {
        /// Who sends them.
        rank: u32,
    },
    /// NCCL does not compute this.
    #[error("NCCL has no {operation} of {datatype}")]
    Unsupported {
        /// The operation.
        operation: Operation,
        /// The numbers.
        datatype: Datatype,
    },
    /// Reductions in the order of the ranks cannot be recorded in a graph: the numbers come together in memory that is not
    /// the graph's.
    #[error("a reduction in the order of the ranks cannot be recorded in a graph")]
    Recorded,
    /// The arguments of a call do not fit each other.
    #[error(transparent)]
    Arguments(#[from] CommunicatorError),
    /// Whatever the driver says.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// The program has aborted the communicator.
    #[error("the communicator was aborted")]
    Aborted,
    /// An earlier operation failed, and the communicator was aborted.
    #[error("the communicator cannot be used since an operation failed: {0}")]
    Broken(Box<NcclError>),
}

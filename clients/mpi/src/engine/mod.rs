//! How a collective is carried out. All ranks come to the same way by what all of them know: bytes, not counts or datatypes.
//!
//! What is compressed travels as messages that say of themselves what they are. Where nothing is to be gained, the rank that
//! has the data says so in a few bytes, and the program's own call of MPI follows as it came.

pub(crate) mod allgather;
pub(crate) mod alltoall;
pub(crate) mod bcast;
mod chain;
mod exchange;
pub(crate) mod gather;
pub(crate) mod pieces;
pub(crate) mod reduce;
mod relay;
mod ring;

use std::ffi::c_int;
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::failure::Failure;
use crate::layer::{self, Layer};
use crate::types::Comm;

/// Blocks are exchanged with so many ranks at a time: what one of them waits for does not hold up the others.
pub(crate) const AT_ONCE: usize = 4;

/// Kinds of collectives, each a stream of traffic of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bcast = 0,
    Allgather = 1,
    Alltoall = 2,
    Gather = 3,
    Scatter = 4,
    Reduce = 5,
}

/// Collectives whose length all ranks know. Of a broadcast, the root need not wait for anybody; now and then it does, to know the rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Compared {
    Bcast,
    Allgather,
    Alltoall,
    Allreduce,
    ReduceScatter,
}

/// A message that a rank has, at the front of a buffer.
#[derive(Debug)]
struct Message {
    buffer: Vec<u8>,
    len: usize,
}

/// What became of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is done; MPI's own code, which is 0 or an error that was told.
    Done(c_int),
    /// MPI's own call is to follow.
    Plain,
}

/// Carries a call of the program out by `work`, or by MPI's own call where there is nothing to do. Panics end here.
pub(crate) fn guarded(
    comm: Comm,
    plain: impl Fn() -> c_int,
    work: impl FnOnce(&Layer, Comm) -> Result<Verdict, Failure>,
) -> c_int {
    let Some(layer) = layer::active() else { return plain() };
    let comm = layer.mpi.comm(comm);
    match catch_unwind(AssertUnwindSafe(|| work(layer, comm))) {
        Ok(Ok(Verdict::Done(code))) => code,
        Ok(Ok(Verdict::Plain)) => plain(),
        Ok(Err(Failure::Told(code))) => code,
        Ok(Err(Failure::Untold(code))) => layer.mpi.raise(comm, code),
        Ok(Err(failure)) => {
            tracing::error!(%failure, "a collective has failed");
            layer.mpi.raise(comm, layer.mpi.constants.err_other)
        }
        Err(_) => layer.mpi.raise(comm, layer.mpi.constants.err_intern),
    }
}

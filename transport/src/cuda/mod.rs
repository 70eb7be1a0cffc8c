//! What all that enqueues work for CUDA devices shares: the executor, copies between devices, ranks over NCCL.

pub(crate) mod copy;
pub(crate) mod kernels;
pub(crate) mod mark;
pub(crate) mod probe;
pub(crate) mod sampling;
pub(crate) mod scratch;
pub(crate) mod staging;
pub(crate) mod stopwatch;

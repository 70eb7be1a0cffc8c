//! Communicators over NCCL, by way of stubs of NCCL and of a CUDA driver: ranks are threads of one process, streams have
//! threads that dawdle, and kernels run on the CPU shim.

mod choices;
mod ends;
mod equal;
mod failures;
mod foreign;
mod growth;
mod limits;
mod ordered;
mod rig;

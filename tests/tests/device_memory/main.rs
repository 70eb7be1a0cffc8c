//! Buffers in the memory of a device, handed to nodes and communicators, by way of a CUDA driver that runs kernels on the
//! CPU shim. Streams have threads that dawdle, and memory that work uses must not be freed.

mod buddy;
mod collectives;
mod copies;
mod executor;
mod failures;
#[cfg(target_os = "linux")]
mod ipc_ends;
#[cfg(target_os = "linux")]
mod ipc_failures;
#[cfg(target_os = "linux")]
mod ipc_link;
mod peer_copies;
mod peer_link;
mod rig;
mod tables;
mod transfers;

//! Buffers in the memory of a device, handed to nodes and communicators, by way of a CUDA driver that runs kernels on the
//! CPU shim. Streams have threads that dawdle, and memory that work uses must not be freed.

mod buddy;
mod calibrate;
mod collectives;
#[cfg(target_os = "linux")]
#[allow(unexpected_cfgs, reason = "features of the crate whose tests these are")]
#[path = "../../../transport/tests/common/mod.rs"]
mod common;
mod copies;
mod executor;
mod failures;
mod foreign;
#[cfg(target_os = "linux")]
mod ipc_contract;
#[cfg(target_os = "linux")]
mod ipc_ends;
#[cfg(target_os = "linux")]
mod ipc_failures;
#[cfg(target_os = "linux")]
mod ipc_link;
mod peer_copies;
mod peer_learning;
mod peer_link;
mod peer_rig;
mod peer_streams;
mod reductions;
mod rig;
mod steered_copies;
mod tables;
mod transfers;

// What links promise, written once for all of them.
#[cfg(target_os = "linux")]
#[path = "../../../transport/tests/contract/closing.rs"]
mod closing;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "long messages are not for stubs")]
#[path = "../../../transport/tests/contract/order.rs"]
mod order;
#[cfg(target_os = "linux")]
#[allow(dead_code, reason = "small messages are not brought to devices")]
#[path = "../../../transport/tests/contract/pressure.rs"]
mod pressure;
#[cfg(target_os = "linux")]
#[path = "../../../transport/tests/contract/start.rs"]
mod start;

/// Messages that a rank may have queued for a peer, in bytes, where a test does not care.
#[cfg(target_os = "linux")]
const ROOMY: u64 = 1 << 30;

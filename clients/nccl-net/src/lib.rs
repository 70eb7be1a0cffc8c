//! Compression under NCCL: a network plugin, `libnccl-net-mgcomp.so`.
//!
//! NCCL loads it by name (`NCCL_NET_PLUGIN=mgcomp`) and hands it every message that goes from one machine to another. It
//! compresses what gains by it, without loss, and gives NCCL the same bytes on the other side.
//!
//! | module | what lives there |
//! |---|---|
//! | [`abi`] | what NCCL and a plugin call each other by, version by version; the functions that NCCL finds here |
//! | `plugin` | what these functions do, in terms of the modules below |
//! | `objects` | what NCCL holds handles to |
//! | `comm` | the two ends of a connection: requests, and when they are done |
//! | `carrier` | how messages get to the other side: TCP of our own, or another plugin |
//! | `context`, `pool` | settings and coder; threads that run codecs |
//! | `memory` | buffers that NCCL lends |
//!
//! No call waits for anything, but for those that give memory back (`deregMr`, `closeSend`, `closeRecv`): these wait for threads
//! that use it. Sockets are served by the call that asks whether a request is done (`test`), which NCCL makes
//! all the time; codecs run on threads of their own. Requests that are more than there is room for are refused with a
//! null request, which NCCL takes as "try again".

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("mgcomp runs on little-endian 64-bit targets only");

pub mod abi;
mod carrier;
mod comm;
mod context;
mod error;
mod logger;
mod memory;
mod objects;
mod plugin;
mod pool;

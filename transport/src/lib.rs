//! Compressed remote memory between the ranks of a job: messages, sessions, links.
//!
//! A program talks to a [`node::Node`]. The rest, from the outside in:
//!
//! | module | what lives there |
//! |---|---|
//! | [`node`] | the calls of the program; what runs the sessions of a rank, on whatever thread brings something |
//! | [`communicator`] | ranks that work together: messages by tag, collectives |
//! | [`session`] | what two ranks say to each other: a state machine without I/O or clock |
//! | [`message`] | the messages, bit by bit (`WIRE.md`) |
//! | [`region`] | memory opened to peers, and who may do what with it |
//! | [`executor`] | carries out codec work, on memory of the host and of CUDA devices |
//! | [`attach`] | messages that others carry, for libraries inside programs that do not know them |
//! | [`buddy`] | device memory that holds more than it has: compressed entries, and buddy memory for what does not fit |
//! | [`calibrate`] | how fast the codecs are on this machine |
//! | [`control`] | how an operator sees and steers a running program |
//! | [`link`] | carries messages: `loopback` in one process, `shm` between processes of one node, `tcp` between machines, `mpi` in an MPI job, `cuda` between devices, of one process or of several |
//! | `nccl` | ranks that work together on device memory, over NCCL (feature `cuda`) |
//! | [`copy`] | copies between host and device, compressed on their way; the offload queue |
//! | `peer_copy` | copies between two devices, compressed on their way (feature `cuda`) |
//! | [`fork`] | whether a process is a child that has none of its parent's threads |
//! | [`simulated`] | a link between host and device for machines without a GPU |
//! | [`table`] | rows that share bits, packed where they are; any of them at any time |
//! | [`payload`], [`memory`] | descriptors of payloads, and the buffers behind them |
//!
//! [`node`] has a runnable example.

#[cfg(not(all(target_endian = "little", target_pointer_width = "64")))]
compile_error!("mgcomp runs on little-endian 64-bit targets only");

pub mod attach;
pub mod buddy;
pub mod calibrate;
pub mod communicator;
mod comparison;
pub mod control;
pub mod copy;
#[cfg(feature = "cuda")]
mod cuda;
pub mod executor;
mod fanout;
pub mod fork;
pub mod link;
pub mod memory;
pub mod message;
#[cfg(feature = "cuda")]
pub mod nccl;
pub mod node;
mod pace;
mod patience;
pub mod payload;
#[cfg(feature = "cuda")]
pub mod peer_copy;
mod pool;
pub mod region;
pub mod regular;
pub mod session;
pub mod simulated;
pub mod table;

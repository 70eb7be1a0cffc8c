//! The C library: `libmgcomp.so`, `libmgcomp.a` and `mgcomp.h`.
//!
//! Everything here is written to be called from C, C++ or Fortran; a Rust program uses the crates below it. The header
//! `include/mgcomp.h` is made from these files, with their documentation, so that speaks to whoever reads only the header.
//!
//! | module | what lives there |
//! |---|---|
//! | [`version`] | which library this is |
//! | [`error`] | result codes, and the text of the last error; what keeps panics in |
//! | [`number`] | elements, algorithms: the numbers of `FORMAT.md` under names for C |
//! | [`workers`] | threads for large buffers |
//! | [`chunk`], [`frame`] | codecs |
//! | [`table`] | tables of rows |
//! | [`buddy`], [`profile`] | buddy pools, and which targets suit them |
//! | [`copy`], [`kept`], [`offload`] | compressed copies, those that stay compressed, and the queue for activations |
//! | [`peer`] | compressed copies from one device to another |
//! | [`node`], [`communicator`] | ranks, and what they do together |
//! | [`request`] | what goes on meanwhile |
//! | `device` | CUDA devices whose memory is handed over |
//! | `lending` | buffers that are used for longer than a call |
//! | `handle` | what programs hold of the library's objects: numbers that are checked, never addresses |
//! | `memory` | pointers of the program, checked before they are used |
//!
//! # Rules
//! Every function runs inside `error::call`, or `making`; it checks all that it can check before it does anything, and returns a
//! result code. Numbers from outside arrive as `MaybeUninit<enum>`, so that one without a meaning is an error and not
//! undefined behaviour. Handles are looked up in a table with generations.
#![allow(non_camel_case_types, reason = "the names of the header")]
#![allow(non_snake_case, reason = "the names of the header")]
#![allow(
    clippy::missing_safety_doc,
    reason = "documentation is for C; its rules are at the head of the header"
)]

pub mod buddy;
pub mod chunk;
pub mod communicator;
pub mod copy;
mod device;
pub mod error;
pub mod frame;
mod handle;
pub mod kept;
mod lending;
mod memory;
pub mod node;
pub mod number;
pub mod offload;
pub mod peer;
pub mod profile;
pub mod request;
pub mod table;
pub mod version;
pub mod workers;

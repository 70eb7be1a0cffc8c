//! A machine that runs PTX on the CPU, instruction by instruction: the kernels as they ship, without a GPU, without
//! CUDA and without a C++ compiler.
//!
//! | module | what it is |
//! |---|---|
//! | `parse`, `decode` | text to instructions; what the kernels have not is an error with its line |
//! | `instruction`, `compute` | instructions, and what they make of the operands of a lane |
//! | `collective` | shuffles, votes, matches and reductions |
//! | `memory` | buffers and objects; an access outside of them, or one that is not aligned, is an error |
//! | `warp`, `access` | 32 lanes in lock step, which part at branches and meet again |
//! | `grid` | blocks with barriers, one by one or in turn |
//! | `traffic` | counts of instructions, of bytes and sectors of global memory, and of bank conflicts |
//! | `kernels` | the kernels of an algorithm, given what hosts give them |
//! | `numbers` | the kernel that combines numbers, likewise |
//!
//! **Shape.** A register has 64 bits for each lane, whatever its type; predicates are 0 or 1. Addresses of global
//! memory are far apart for each buffer; objects of shared memory have gaps between them.
//!
//! **Not modelled:** time, memory that others see later than oneself, and which lanes of a warp the device really
//! runs together where they part. What the device leaves open has a value here all the same: a division by zero, and
//! a register that nothing was written to, which may hold anything. Shared memory is full of garbage at first.
//!
//! **Source.** NVIDIA, *PTX ISA 9.0*, sections 9.7 (instructions) and 7 (names, registers, memory).

mod access;
mod collective;
mod compute;
mod decode;
mod fault;
mod grid;
mod instruction;
mod kernels;
mod memory;
mod numbers;
mod parse;
mod traffic;
mod warp;

pub use fault::{Fault, ParseError, ParseProblem, Problem};
pub use grid::{Grid, Order, launch};
pub use instruction::Entry;
pub use kernels::{Answer, Job, Kernels, LoadError, Setup};
pub use memory::Global;
pub use numbers::Reducer;
pub use parse::Program;
pub use traffic::{Counts, SECTOR_LEN, Traffic};

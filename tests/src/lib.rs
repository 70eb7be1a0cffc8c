//! What the tests of several crates share: seeded data and damage, guarded buffers, and the GPU kernels on
//! the CPU.

pub mod damage;
pub mod data;
pub mod guarded;
pub mod shim;

//! What the tests of several crates share: seeded data and damage, guarded buffers, the GPU kernels on
//! the CPU, and a CUDA driver that runs them there.

pub mod compile;
pub mod damage;
pub mod data;
pub mod golden;
pub mod guarded;
pub mod series;
pub mod shim;
pub mod soak;
pub mod stub;

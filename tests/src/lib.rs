//! What the tests of several crates share: seeded data and damage, guarded buffers, the GPU kernels on
//! the CPU, a CUDA driver that runs them there, and what NCCL does with a network plugin.

pub mod bounds;
pub mod compile;
pub mod damage;
pub mod data;
pub mod foreign;
pub mod golden;
pub mod guarded;
pub mod proxy;
pub mod ptx;
pub mod rank_file;
pub mod series;
pub mod shim;
pub mod soak;
pub mod stub;
pub mod stub_nccl;

//! What the tests of several crates share: seeded data and damage, guarded buffers, the GPU kernels on
//! the CPU, a CUDA driver that runs them there, what NCCL does with a network plugin, and what processes have counted.

pub mod bounds;
pub mod compile;
pub mod damage;
pub mod data;
pub mod foreign;
pub mod golden;
pub mod guarded;
#[cfg(target_os = "linux")]
pub mod pages;
pub mod proxy;
pub mod ptx;
pub mod rank_file;
pub mod series;
pub mod shim;
pub mod soak;
pub mod stub;
pub mod stub_nccl;

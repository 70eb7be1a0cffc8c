//! The codecs on a device, by way of a CUDA driver that runs their kernels on the CPU shim.

mod arguments;
mod buddy;
mod failures;
mod late;
mod loading;
mod peers;
mod reductions;
mod rig;
mod round_trips;
mod rows;
mod sharing;
mod signals;
mod streams;

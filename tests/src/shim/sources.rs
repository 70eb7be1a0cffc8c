//! Which files the kernels and the shim consist of; the build script reads this file as well.

/// Where the kernels lie, seen from this package.
pub const KERNELS_DIR: &str = "../codecs/kernels";

/// The kernels.
pub const KERNELS: [&str; 2] = ["zvc.cu", "cpackz.cu"];

/// The shim's runtime, in its `shim` folder.
pub const RUNTIME: [&str; 5] = ["fiber.cpp", "launch.cpp", "memory.cpp", "scheduler.cpp", "sync.cpp"];

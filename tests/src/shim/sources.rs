//! Which files the kernels and the shim consist of; the build script reads this file as well.

/// Where the kernels lie, seen from this package.
pub const KERNELS_DIR: &str = "../codecs/kernels";

/// The table of the codecs that have kernels: a line `MGC_CODEC(name, algorithm, ...)` for each.
pub const CODECS: &str = include_str!("../../../codecs/kernels/codecs.h");

/// The shim's runtime, in its `shim` folder.
pub const RUNTIME: [&str; 5] = ["fiber.cpp", "launch.cpp", "memory.cpp", "scheduler.cpp", "sync.cpp"];

/// The stub of the CUDA driver, in the shim's `stub` folder. It takes kernels and runtime besides.
pub const STUB_DRIVER: [&str; 13] = [
    "arena.cpp",
    "capture.cpp",
    "context.cpp",
    "control.cpp",
    "copies.cpp",
    "device.cpp",
    "event.cpp",
    "graph.cpp",
    "ipc.cpp",
    "memory.cpp",
    "module.cpp",
    "queue.cpp",
    "vmm.cpp",
];

/// The stub of the run-time compiler, in the same folder.
pub const STUB_COMPILER: [&str; 1] = ["nvrtc.cpp"];

/// The stub of NCCL, in the shim's `stub_nccl` folder. It takes the stub of the driver besides.
pub const STUB_NCCL: [&str; 5] = ["communicator.cpp", "group.cpp", "numbers.cpp", "remote.cpp", "run.cpp"];

/// Name and algorithm number of each codec in the table.
///
/// # Panics
/// If a line of the table is not as its head says.
pub fn codecs() -> impl Iterator<Item = (&'static str, u8)> {
    let lines = CODECS.lines().filter_map(|line| line.strip_prefix("MGC_CODEC("));
    lines.map(|line| {
        let mut fields = line.split(',').map(str::trim);
        let name = fields.next().expect("a name");
        let algorithm = fields.next().and_then(|number| number.parse().ok());
        (name, algorithm.unwrap_or_else(|| panic!("codecs.h: {name} has no algorithm number")))
    })
}

/// Kernels that are compiled apart from those of codecs: what their names start with, and their file in [`KERNELS_DIR`].
pub const OTHERS: [(&str, &str); 3] =
    [("bpc_buddy", "buddy/bpc.cu"), ("xp_buddy", "buddy/xp.cu"), ("reduce", "reduce/reduce.cu")];

/// The file of each codec's kernels and of the others, in [`KERNELS_DIR`].
///
/// # Panics
/// If a line of the table is not as its head says.
#[must_use]
pub fn kernels() -> Vec<String> {
    codecs().map(|(name, _)| name).chain(OTHERS.map(|(name, _)| name)).map(source_of).collect()
}

/// The file of the kernels of this name, in [`KERNELS_DIR`].
#[must_use]
pub fn source_of(name: &str) -> String {
    match OTHERS.iter().find(|other| other.0 == name) {
        Some((_, file)) => (*file).to_owned(),
        None => format!("{name}/{name}.cu"),
    }
}

//! What can go wrong between the host and a device.

use std::fmt;
use std::io;
use std::path::PathBuf;

use super::{COMPILER_VARIABLE, ImageError, Target};
use crate::Algorithm;
use crate::reduction::Datatype;

/// Why the host could not do what it was asked to on a device.
///
/// What is wrong with a *frame* is not here: a kernel leaves that in device memory, see
/// [`Status`](super::Status).
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DeviceError {
    /// There is no CUDA driver on this machine.
    #[error("no CUDA driver: libcuda.so.1 is missing or does not load")]
    NoDriver,
    /// There is no run-time compiler on this machine.
    #[error("no CUDA run-time compiler: libnvrtc is missing or does not load")]
    NoCompiler,
    /// The environment names a folder for the run-time compiler that has none.
    #[error("{COMPILER_VARIABLE} is {folder:?}: {problem}")]
    CompilerFolder {
        /// The folder.
        folder: PathBuf,
        /// What is wrong with it.
        problem: Box<CompilerProblem>,
    },
    /// A library of CUDA lacks a function: it is too old.
    #[error("{library} has no {symbol}: it is too old")]
    MissingSymbol {
        /// Which library.
        library: &'static str,
        /// The function it lacks.
        symbol: &'static str,
    },
    /// The driver refused a call.
    #[error("{call} failed: CUDA error {code} ({name})")]
    Driver {
        /// The call.
        call: &'static str,
        /// Its `CUresult`.
        code: u32,
        /// The driver's name for it.
        name: &'static str,
    },
    /// No device has this number.
    #[error("there is no CUDA device {ordinal}; {count} are there")]
    NoDevice {
        /// The number asked for, from 0.
        ordinal: u32,
        /// Devices that the driver knows.
        count: u32,
    },
    /// The device is older than the kernels.
    #[error("the device has compute capability {found}; the kernels need {needed}")]
    TooOld {
        /// What it has.
        found: Capability,
        /// The least that will do.
        needed: Capability,
    },
    /// No kernels for an algorithm.
    #[error("algorithm {0} does not run on devices")]
    NoKernels(Algorithm),
    /// The run-time compiler refused a call.
    #[error("{call} failed for {file}, {target}: NVRTC error {code}{}", Log(.log))]
    Compiler {
        /// The call.
        call: &'static str,
        /// The kernel's source.
        file: &'static str,
        /// What it was to be compiled to.
        target: Target,
        /// Its `nvrtcResult`.
        code: u32,
        /// What the compiler has to say.
        log: String,
    },
    /// A kernel's code does not say where it ends, or lies.
    #[error("the code of the kernels is broken: {0}")]
    Image(ImageError),
    /// No PTX of the kernels ships with this crate.
    #[error("there is none")]
    NotShipped,
    /// Neither a compiled kernel nor the one that ships with this crate could be loaded.
    #[error("no kernels of {kernels} for this device: {compiled}; and of the PTX that ships: {shipped}")]
    NotLoaded {
        /// Which kernels: the name of their source.
        kernels: &'static str,
        /// Why there is none that was compiled for this device.
        compiled: Box<DeviceError>,
        /// Why the one that ships does not do.
        shipped: Box<DeviceError>,
    },
    /// A region of device memory is not where the kernels need it.
    #[error("{what} is at device address {address:#x}, which is no multiple of {align}")]
    Misaligned {
        /// Which region.
        what: &'static str,
        /// Where it is.
        address: u64,
        /// What its address must be a multiple of.
        align: u64,
    },
    /// A region of device memory is too short.
    #[error("{what} needs {needed} bytes and has {got}")]
    TooShort {
        /// Which region.
        what: &'static str,
        /// What it needs.
        needed: u64,
        /// What it has.
        got: u64,
    },
    /// A buffer is longer than a frame can be.
    #[error("{what} of {got} bytes is longer than {limit}")]
    TooLong {
        /// Which region.
        what: &'static str,
        /// The most that it may have.
        limit: u64,
        /// What it has.
        got: u64,
    },
    /// What a call reads and where its result goes have bytes in common where they may not.
    #[error("{what} and the result have bytes in common")]
    Overlap {
        /// What is read.
        what: &'static str,
    },
    /// A region does not hold whole numbers.
    #[error("{len} bytes are no whole number of {datatype}")]
    Width {
        /// Its bytes.
        len: u64,
        /// What it is to hold.
        datatype: Datatype,
    },
    /// Something was to wait for a stream that records a graph, and would be recorded with it.
    #[error("the stream records a graph: what is not to be recorded cannot come after its work")]
    Recording,
    /// A workspace was made for the calls on another stream.
    #[error("the workspace belongs to the calls on another stream")]
    OtherStream,
}

impl DeviceError {
    /// Whether the device's context is lost: every later call on it fails as well, in the whole process.
    ///
    /// An access outside of memory in any kernel does that, whoever launched it.
    #[must_use]
    pub const fn is_sticky(&self) -> bool {
        // Illegal address, launch timeout, what hardware or a kernel's code raise, a context that somebody has destroyed,
        // a client whose MPS server was told to end it, and a device elsewhere that does not answer.
        matches!(
            self,
            Self::Driver { code: 214 | 220 | 226 | 700 | 702 | 709 | 710 | 714..=719 | 721 | 809 | 911, .. }
        )
    }

    /// Whether device memory ran out.
    #[must_use]
    pub const fn is_out_of_memory(&self) -> bool {
        matches!(self, Self::Driver { code: 2, .. })
    }

    /// Whether kernels are missing that no later try would find.
    #[must_use]
    pub const fn is_for_good(&self) -> bool {
        matches!(self, Self::NoKernels(_) | Self::NotLoaded { .. } | Self::TooShort { .. })
    }
}

/// What is wrong with the folder that the environment names for the run-time compiler.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum CompilerProblem {
    /// It would be another one in each working directory.
    #[error("it is no absolute path")]
    NotAbsolute,
    /// It is no folder, or not for this user to read.
    #[error("it cannot be read: {0}")]
    Unreadable(io::ErrorKind),
    /// The compiler is not there.
    #[error("it has no libnvrtc.so")]
    Absent,
    /// The compiler or a part of it does not load.
    #[error("{file} does not load: {reason}")]
    NotLoaded {
        /// The file.
        file: String,
        /// What the system has to say.
        reason: String,
    },
}

/// The compute capability of a device, which says what instructions it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Capability {
    /// The generation.
    pub major: u32,
    /// The member of it.
    pub minor: u32,
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// A log on lines of its own, if there is one.
struct Log<'a>(&'a str);

impl fmt::Display for Log<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() { Ok(()) } else { write!(f, "\n{}", self.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lost_context_is_told_from_a_refused_call() {
        let is_sticky = |code| DeviceError::Driver { call: "cuStreamQuery", code, name: "" }.is_sticky();
        // CUDA_ERROR_ILLEGAL_ADDRESS, CONTEXT_IS_DESTROYED, LAUNCH_FAILED, TENSOR_MEMORY_LEAK, MPS_CLIENT_TERMINATED, EXTERNAL_DEVICE.
        assert!([700, 709, 719, 721, 809, 911].into_iter().all(is_sticky));
        // INVALID_VALUE, OUT_OF_MEMORY, NOT_READY, PRIMARY_CONTEXT_ACTIVE, MPS_RPC_FAILURE and _SERVER_NOT_READY,
        // STREAM_CAPTURE_IMPLICIT.
        assert!(![1, 2, 600, 708, 805, 806, 906].into_iter().any(is_sticky));
        assert!(!DeviceError::NoDriver.is_sticky());
    }
}

//! What becomes of a copy.

use mgcomp_codecs::Algorithm;
use mgcomp_codecs::device::{DeviceError, Refused};

/// How a copy goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CopyPath {
    /// Plain, from memory to memory.
    Plain,
    /// Plain, through page-locked memory of the host.
    PlainThroughHost,
    /// Coded, straight into the other device's memory.
    Coded(Algorithm),
    /// Coded, through page-locked memory of the host.
    CodedThroughHost(Algorithm),
}

impl CopyPath {
    /// Whether kernels code the bytes.
    #[must_use]
    pub const fn is_coded(self) -> bool {
        matches!(self, Self::Coded(_) | Self::CodedThroughHost(_))
    }
}

/// A copy that was enqueued, or recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "tells whether the copy went well"]
pub struct PeerCopy {
    /// How it goes.
    pub path: CopyPath,
    /// Its raw bytes.
    pub raw_bytes: u64,
    pub(super) segments: u64,
}

/// What came of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PeerCopyReport {
    /// How it went.
    pub path: CopyPath,
    /// Its raw bytes.
    pub raw_bytes: u64,
    /// Bytes that went from device to device.
    pub coded_bytes: u64,
}

/// Why a copy came to nothing. What its destination holds is anything then.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PeerCopyError {
    /// The driver, or what it was asked for.
    #[error(transparent)]
    Device(#[from] DeviceError),
    /// A kernel could not do its part: the memory between the two was written to by somebody else.
    #[error("segment {segment} of the copy: {refused}")]
    Segment {
        /// Which segment, from 0.
        segment: u64,
        /// What the kernel says.
        refused: Refused,
    },
}

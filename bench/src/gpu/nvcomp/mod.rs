//! nvCOMP as a subject to compare with, where it is installed.

mod batch;
mod library;

pub(super) use batch::Batch;
pub(super) use library::{Library, Method};

/// Why nvCOMP is not timed, or failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum NvcompError {
    #[error("not asked for")]
    NotAsked,
    #[error("it is timed on the first device only")]
    OtherDevice,
    #[error("{file} does not load: {reason}")]
    NotLoaded { file: String, reason: String },
    #[error("{file} has no {symbol}: it is no nvCOMP {wanted}")]
    Symbol { file: String, symbol: String, wanted: u32 },
    #[error("{file} is nvCOMP {found}; its calls are known for {wanted}")]
    Version { file: String, found: u32, wanted: u32 },
    #[error("{call} failed: nvCOMP status {status}")]
    Call { call: String, status: u32 },
    #[error("{call} wants buffers on multiples of {needed} bytes; they lie on multiples of {has}")]
    Alignment { call: String, needed: usize, has: usize },
    #[error("chunk {chunk}: nvCOMP status {status}")]
    Chunk { chunk: usize, status: u32 },
    #[error("chunk {chunk} came back with {got} bytes, not {wanted}")]
    Length { chunk: usize, got: u64, wanted: u64 },
    #[error("its chunks hold whole elements of {width} bytes; {bytes} bytes are none")]
    Elements { bytes: usize, width: usize },
}

impl NvcompError {
    /// Whether this is a way that the library does not go, and no failure of it.
    pub(super) const fn is_limit(&self) -> bool {
        matches!(self, Self::Alignment { .. } | Self::Elements { .. })
    }
}

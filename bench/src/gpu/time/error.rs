//! Why there is no figure.

use mgcomp_codecs::device::{DeviceError, Refused};
use mgcomp_transport::buddy::DeviceBuddyError;
use mgcomp_transport::copy::CopyError;
use mgcomp_transport::copy::offload::OffloadError;
use mgcomp_transport::table::DeviceTableError;

use crate::gpu::nvcomp::NvcompError;

/// Why something could not be timed, or was wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum TimeError {
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("buffer {set}: {refused}")]
    Refused { set: usize, refused: Refused },
    #[error("buffer {set}: byte {offset} came back different")]
    RoundTrip { set: usize, offset: usize },
    #[error("buffer {set}: estimated as {estimated} bytes; its frame has {coded}")]
    Estimate { set: usize, estimated: u64, coded: u64 },
    #[error("needs {needed} bytes of the device's memory; it has {has}")]
    Memory { needed: u64, has: u64 },
    #[error(transparent)]
    Offload(#[from] OffloadError),
    #[error(transparent)]
    Copy(#[from] CopyError),
    #[error(transparent)]
    Table(Box<DeviceTableError>),
    #[error("{rows}: byte {offset} of what was gathered is another one")]
    Gather { rows: String, offset: usize },
    #[error("byte {offset} of the sums is another one than the host's")]
    Reduction { offset: usize },
    #[error(transparent)]
    Pool(Box<DeviceBuddyError>),
    #[error("byte {offset} came back from buddy memory different")]
    Buddy { offset: usize },
    #[error(transparent)]
    Nvcomp(#[from] NvcompError),
}

impl From<DeviceTableError> for TimeError {
    fn from(error: DeviceTableError) -> Self {
        match error {
            DeviceTableError::Device(error) => error.into(),
            error => Self::Table(Box::new(error)),
        }
    }
}

impl TimeError {
    /// Whether this is how things are, and nobody's fault.
    pub(super) const fn is_no_failure(&self) -> bool {
        match self {
            Self::Memory { .. } => true,
            Self::Device(error) => error.is_out_of_memory(),
            Self::Nvcomp(error) => error.is_limit(),
            _ => false,
        }
    }

    /// Whether nothing works on the device any more.
    pub(super) const fn is_lost(&self) -> bool {
        matches!(self, Self::Device(error) if error.is_sticky())
    }
}

//! Why codec work came to nothing.

#[cfg(feature = "cuda")]
use mgcomp_codecs::device::DeviceError;

use crate::message::Status;
use crate::payload::FetchError;

/// Why a piece of work came to nothing.
#[derive(Debug, thiserror::Error)]
pub(super) enum Failure {
    #[cfg(feature = "cuda")]
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error("status {0:?}")]
    Status(Status),
}

impl Failure {
    /// What the session is told.
    pub(super) fn status(&self) -> Status {
        match self {
            #[cfg(feature = "cuda")]
            Self::Device(error) if error.is_sticky() => Status::DeviceLost,
            #[cfg(feature = "cuda")]
            Self::Device(_) => Status::Internal,
            Self::Status(status) => *status,
        }
    }

    /// What the driver says, if the device is lost.
    pub(super) fn lost(&self) -> Option<String> {
        match self {
            #[cfg(feature = "cuda")]
            Self::Device(error) if error.is_sticky() => Some(error.to_string()),
            #[cfg(feature = "cuda")]
            Self::Device(_) => None,
            Self::Status(_) => None,
        }
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Self::Status(status)
    }
}

impl From<FetchError> for Failure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Buffer => Self::Status(Status::Internal),
            #[cfg(feature = "cuda")]
            FetchError::Device(error) => Self::Device(error),
        }
    }
}

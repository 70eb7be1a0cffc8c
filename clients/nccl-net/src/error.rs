//! What can go wrong, and what NCCL is told.

use std::ffi::c_int;

use mgcomp_transport::attach::envelope::EnvelopeError;
use mgcomp_transport::attach::{EnvSettingsError, OpenError, SealError};
use rustix::io::Errno;

use crate::abi::loaded::CallError;
use crate::abi::{
    INTERNAL_ERROR, INVALID_ARGUMENT, INVALID_USAGE, REMOTE_ERROR, SUCCESS, SYSTEM_ERROR, Status,
};

/// What can go wrong.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NetError {
    #[error("{0}")]
    Settings(#[from] EnvSettingsError),
    #[error("{variable}={value:?} is not {wanted}")]
    Variable { variable: &'static str, value: String, wanted: &'static str },
    #[error("this process is a child made by fork, which cannot use the network of its parent")]
    Forked,
    #[error("nothing was started, or all of it was finalized")]
    NotStarted,
    #[error("{token:#x} is no {wanted}, or is closed")]
    Handle { token: u64, wanted: &'static str },
    #[error("{what} is a null pointer")]
    Null { what: &'static str },
    #[error("device {device} of {devices}")]
    Device { device: c_int, devices: usize },
    #[error("memory of kind {kind}: this plugin takes memory of the host alone")]
    Memory { kind: c_int },
    #[error("a receive of {count} messages at once: this plugin takes 1")]
    Receives { count: c_int },
    #[error("{bytes} bytes are no length of a buffer")]
    Bytes { bytes: usize },
    #[error("the other rank's handle begins with {found:02x?}: does every rank load this plugin?")]
    OtherPlugin { found: [u8; 8] },
    #[error("the other rank has version {found} of the plugin's protocol, this one {expected}")]
    Version { found: u16, expected: u16 },
    #[error("the other rank's handle is damaged or cut short")]
    DamagedHandle,
    #[error("the other rank refused the connection: {why}")]
    Refused { why: &'static str },
    #[error("the other end is gone, in message {message} at byte {at}: {why}")]
    Gone { message: u64, at: usize, why: Errno },
    #[error("a message of {raw_len} bytes, and a buffer of {room}")]
    TooLong { raw_len: u64, room: usize },
    #[error("message {message} is no message of this plugin, or damaged: {why}")]
    Message { message: u64, why: OpenError },
    #[error("message {message} could not be sealed: {why}")]
    Seal { message: u64, why: SealError },
    #[error("the plugin below this one: {0}")]
    Inner(#[from] CallError),
    #[error("{call} failed: {errno}")]
    System { call: &'static str, errno: Errno },
    #[error("this is a fault of the plugin; please report it")]
    Panic,
}

impl NetError {
    /// What NCCL is told.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Settings(_)
            | Self::Variable { .. }
            | Self::OtherPlugin { .. }
            | Self::Version { .. }
            | Self::Refused { .. }
            | Self::NotStarted
            | Self::TooLong { .. } => INVALID_USAGE,
            Self::Handle { .. }
            | Self::Null { .. }
            | Self::Device { .. }
            | Self::Memory { .. }
            | Self::Receives { .. }
            | Self::DamagedHandle
            | Self::Bytes { .. } => INVALID_ARGUMENT,
            Self::Gone { .. } | Self::Message { .. } => REMOTE_ERROR,
            Self::System { .. } | Self::Forked => SYSTEM_ERROR,
            // What it does not have, it has no status for.
            Self::Inner(CallError { status, .. }) if *status > SUCCESS => *status,
            Self::Inner(_) | Self::Seal { .. } | Self::Panic => INTERNAL_ERROR,
        }
    }

    /// Whether somebody has to mend something: how the job is set up, a machine, a network. Else it is what happens in a job that
    /// is ended, or a wrong call.
    pub(crate) fn is_to_be_mended(&self) -> bool {
        match self {
            Self::Settings(_)
            | Self::Variable { .. }
            | Self::OtherPlugin { .. }
            | Self::Version { .. }
            | Self::DamagedHandle
            | Self::Refused { .. }
            | Self::TooLong { .. }
            | Self::Message { .. }
            | Self::Seal { .. }
            | Self::Memory { .. }
            | Self::System { .. }
            | Self::Panic => true,
            Self::Inner(CallError { status, .. }) => *status != REMOTE_ERROR,
            Self::Forked
            | Self::NotStarted
            | Self::Handle { .. }
            | Self::Null { .. }
            | Self::Device { .. }
            | Self::Receives { .. }
            | Self::Bytes { .. }
            | Self::Gone { .. } => false,
        }
    }

    /// For calls of the system.
    pub(crate) fn system(call: &'static str) -> impl FnOnce(Errno) -> Self {
        move |errno| Self::System { call, errno }
    }

    /// For what comes of the bytes of a message.
    pub(crate) fn envelope(message: u64, why: EnvelopeError) -> Self {
        Self::Message { message, why: why.into() }
    }
}

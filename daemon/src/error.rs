//! Why a daemon does not start, or ends badly.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::settings::SettingsFileError;

/// Why a daemon does not start, or ends badly.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DaemonError {
    /// Another daemon has the socket or the folder.
    #[error("another mgcomp-daemon uses {}: stop it, or choose another --socket and --state-dir", path.display())]
    Second {
        /// What both want.
        path: PathBuf,
    },
    /// Something that is no socket is in the way.
    #[error("{} exists and is no socket: move it away, or choose another --socket", path.display())]
    NoSocket {
        /// What is in the way.
        path: PathBuf,
    },
    /// A file or folder that cannot be used.
    #[error("cannot use {}", path.display())]
    Path {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Nobody can listen there.
    #[error("cannot listen at {address}")]
    Listen {
        /// Where.
        address: SocketAddr,
        /// Why.
        source: io::Error,
    },
    /// The settings of the last daemon cannot be read.
    #[error(transparent)]
    Settings(#[from] SettingsFileError),
    /// Changes that were not yet on disk when it ended cannot be written.
    #[error("settings that were changed last are lost: {} cannot be written", path.display())]
    Lost {
        /// The folder that they are kept in.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The definition of the service is damaged.
    #[error("reflection cannot be offered")]
    Reflection(#[from] tonic_reflection::server::Error),
}

//! What can go wrong in the demo.

use std::io;

use mgcomp_codecs::device::DeviceError;
use mgcomp_daemon::DaemonError;
use mgcomp_transport::link::{LinkError, ShapingError};
use mgcomp_transport::message::Rank;
use mgcomp_transport::node::{NodeError, PeerState};
use mgcomp_transport::region::RegionError;
use mgcomp_transport::session::TransferError;

use crate::error::no_session;

/// Why the demo stopped.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum DemoError {
    #[error(transparent)]
    Shaping(#[from] ShapingError),
    #[error(transparent)]
    Device(#[from] DeviceError),
    #[error(transparent)]
    Link(#[from] LinkError),
    #[error("cannot start a rank")]
    Node(#[from] NodeError),
    #[error("cannot open memory to the other ranks")]
    Region(#[from] RegionError),
    #[error("rank {rank} has no session with rank {peer}: {}", no_session(.state))]
    NotConnected { rank: Rank, peer: Rank, state: PeerState },
    #[error("rank {rank}: a transfer failed")]
    Transfer { rank: Rank, source: TransferError },
    #[error("{dataset}: bytes arrived that are not those that were sent")]
    NotEqual { dataset: String },
    #[error("rank {0} panicked")]
    Panicked(Rank),
    #[error("rank {rank} cannot be run as a process")]
    Process { rank: Rank, source: io::Error },
    #[error("rank {0} ended early")]
    Ended(Rank),
    #[error("rank {0} does not answer")]
    Silent(Rank),
    #[error("rank {rank} said something unexpected: {line:?}")]
    Answer { rank: Rank, line: String },
    #[error("rank {rank} failed: {text}")]
    Rank { rank: Rank, text: String, is_cause: bool },
    #[error("this command is run by `mgcomp demo --tcp` alone; its input is not what that sends: {0:?}")]
    Input(String),
    #[error("cannot start a daemon for the demo")]
    Daemon(#[from] DaemonError),
    #[error("cannot start a daemon for the demo")]
    System(#[source] io::Error),
    #[error("no random bytes for the job secret")]
    Random(#[source] io::Error),
}

impl DemoError {
    /// Whether it says only that a connection is gone, and not why.
    pub(super) const fn is_of_connection(&self) -> bool {
        matches!(self, Self::NotConnected { .. } | Self::Transfer { .. } | Self::Rank { is_cause: false, .. })
    }
}

#[cfg(test)]
mod tests {
    use mgcomp_transport::session::SessionError;

    use super::*;

    #[test]
    fn sessions_that_are_over_say_why_in_words() {
        let state = PeerState::Over(SessionError::Silent(std::time::Duration::from_secs(4)));
        let text = DemoError::NotConnected { rank: Rank(0), peer: Rank(1), state }.to_string();
        assert_eq!(text, "rank 0 has no session with rank 1: peer has been silent for 4s");
    }
}

//! Talking to `mgcomp-daemon`.

mod target;

use std::io;
use std::path::PathBuf;

use mgcomp_proto::Channel;
use mgcomp_proto::v1::control_client::ControlClient;
use tonic::Status;

pub(crate) use target::{ScopeArgs, Target};

/// The daemon's service.
pub(crate) type Daemon = ControlClient<Channel>;

/// Does `work` with the daemon that `target` names.
pub(crate) fn with_daemon<T>(
    target: &Target,
    work: impl AsyncFnOnce(Daemon) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(ClientError::Runtime)?.block_on(async { work(target.connect().await?).await })
}

/// Why the daemon could not be asked, or what it said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClientError {
    #[error("no mgcomp-daemon at {place}: start it, or say with --socket or --address where it is")]
    Connect { place: String, source: io::Error },
    #[error("nobody has said where the daemon is: MGCOMP_SOCKET is empty; use --socket or --address")]
    Nowhere,
    #[error("what is at {place} does not speak as mgcomp-daemon does")]
    Http { place: String, source: hyper::Error },
    #[error("{address:?} is no address: HOST:PORT, http://HOST:PORT or https://HOST:PORT")]
    Address { address: String },
    #[error("--ca, --cert and --key are for TLS, but {address} is spoken to without: say https://")]
    InClear { address: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Certificates { path: PathBuf, what: String },
    #[error("--token-file: what is in there cannot be sent")]
    Token,
    #[error("TLS to {place}")]
    Tls { place: String, source: io::Error },
    #[error("the daemon says: {} ({})", .0.message(), name(.0))]
    Refused(Status),
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
    #[error("the terminal")]
    Terminal(#[source] io::Error),
}

// Not as its source: what a status prints says the same again.
impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        Self::Refused(status)
    }
}

/// What gRPC calls a status.
fn name(status: &Status) -> String {
    let mut name = String::new();
    for (index, letter) in format!("{:?}", status.code()).char_indices() {
        if letter.is_uppercase() && index > 0 {
            name.push('_');
        }
        name.push(letter.to_ascii_uppercase());
    }
    name
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_their_usual_names() {
        assert_eq!(name(&Status::invalid_argument("")), "INVALID_ARGUMENT");
        let error = ClientError::from(Status::not_found("nothing here is job \"x\""));
        assert_eq!(error.to_string(), "the daemon says: nothing here is job \"x\" (NOT_FOUND)");
    }
}

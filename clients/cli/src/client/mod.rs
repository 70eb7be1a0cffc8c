//! Talking to `mgcomp-daemon`.

mod heard;
mod target;

use std::error::Error;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use http::Uri;
use mgcomp_proto::Channel;
use mgcomp_proto::v1::Scope;
use mgcomp_proto::v1::control_client::ControlClient;
use tonic::{Code, Status};

pub(crate) use target::{ScopeArgs, Scoped, Target, WideScopeArgs};

use self::heard::Heard;
use crate::error::with_causes;
use crate::show;

/// The daemon's service.
pub(crate) type Daemon = ControlClient<Channel>;

/// Does `work` with the daemon that `target` names, all of it within the time that the daemon has for an answer.
pub(crate) fn with_daemon<T>(
    target: &Target,
    work: impl AsyncFnOnce(Daemon) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    with_patience(target, async |daemon, patience| patience.wait(work(daemon)).await)
}

/// The same for work that may take longer, and says itself what has to be answered in time.
pub(crate) fn with_patience<T>(
    target: &Target,
    work: impl AsyncFnOnce(Daemon, Patience) -> Result<T, ClientError>,
) -> Result<T, ClientError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ClientError::Runtime)?;
    let done = runtime.block_on(async {
        let heard = Heard::default();
        let (channel, patience) = target.connect(&heard).await?;
        let place = patience.place.clone();
        // The name is for form's sake: the connection is there.
        let origin = Uri::from_static("http://mgcomp-daemon");
        let daemon = Daemon::with_origin(channel.clone(), origin).max_decoding_message_size(usize::MAX);
        let done = work(daemon, patience).await;
        done.map_err(|error| error.at(&place, channel.has_answered(), &heard))
    });
    // A name that is still being looked up is not waited for.
    runtime.shutdown_background();
    done
}

/// How long the daemon at a place may take to answer.
#[derive(Clone, Debug)]
pub(crate) struct Patience {
    place: String,
    limit: Duration,
}

impl Patience {
    /// Waits for an answer, but no longer than that.
    pub(crate) async fn wait<T, E: Into<ClientError>>(
        &self,
        answer: impl Future<Output = Result<T, E>>,
    ) -> Result<T, ClientError> {
        match tokio::time::timeout(self.limit, answer).await {
            Ok(answer) => answer.map_err(|error| error.into().named(&self.place)),
            Err(_) => Err(ClientError::Late { place: self.place.clone(), limit: self.limit }),
        }
    }

    /// The same for what takes so long.
    pub(crate) fn at_least(self, limit: Duration) -> Self {
        Self { limit: self.limit.max(limit), ..self }
    }
}

/// Why the daemon could not be asked, or what it said.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ClientError {
    #[error("no mgcomp-daemon at {place}: start it, or say with --socket or --address where it is")]
    Connect { place: String, source: io::Error },
    #[error("the daemon at {place} has not answered within {} s", limit.as_secs_f64())]
    Late { place: String, limit: Duration },
    #[error(
        "the socket {place} is not open to this user: the daemon's `open_to_users` opens it to all, its `operators` to some"
    )]
    NotOpen { place: String },
    #[error("nobody has said where the daemon is: MGCOMP_SOCKET is empty; use --socket or --address")]
    Nowhere,
    #[error("what is at {place} does not speak as mgcomp-daemon does: {why}")]
    Http { place: String, why: String },
    /// Which of these it is, the daemon has had no occasion to say.
    #[error(
        "the daemon at {place} closed the connection without an answer: it is stopping, is not open to this user, or has too many connections ({why})"
    )]
    Closed { place: String, why: String },
    #[error("{address:?} is no address: HOST:PORT, http://HOST:PORT or https://HOST:PORT")]
    Address { address: String },
    #[error("--ca, --cert and --key are for TLS, but {address} is spoken to without: say https://")]
    InClear { address: String },
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{}: {what}", path.display())]
    Certificates { path: PathBuf, what: String },
    #[error("{}: what is in there cannot be sent as a token", path.display())]
    Token { path: PathBuf },
    #[error("TLS to {place}: name the authority of its certificate with --ca")]
    NoAuthority { place: String, source: io::Error },
    #[error("TLS to {place}")]
    Tls { place: String, source: io::Error },
    #[error("the daemon says: {} ({}){}", .0.message(), name(.0), advice(.0))]
    Refused(Status),
    /// Without a place where it is not known yet.
    #[error("the connection to the daemon{} is broken: {why}", place.iter().map(|place| format!(" at {place}")).collect::<String>())]
    Broken { place: Option<String>, why: String },
    #[error("the daemon has ended what it was to tell, without a word")]
    Ended,
    #[error("{place}: no such {kind}: `{lists}` lists those that run{}", if *ahead { ", and `--ahead` sets it before it runs" } else { "" })]
    Absent { place: String, kind: &'static str, lists: String, ahead: bool },
    #[error("cannot start a runtime")]
    Runtime(#[source] io::Error),
    #[error("the terminal")]
    Terminal(#[source] io::Error),
    #[error("there is no terminal, which `mgcomp top` needs; `mgcomp watch` tells the same without one")]
    NoTerminal(#[source] io::Error),
}

impl From<Status> for ClientError {
    /// A status that has a cause is none of the daemon's words: it stands for what became of the connection.
    fn from(status: Status) -> Self {
        match status.source() {
            Some(cause) => Self::Broken { place: None, why: with_causes(cause) },
            // Not as its source: what a status prints says the same again.
            None => Self::Refused(status),
        }
    }
}

impl ClientError {
    /// With the place of the daemon, where that is missing.
    fn named(self, at: &str) -> Self {
        match self {
            Self::Broken { place: None, why } => Self::Broken { place: Some(at.to_owned()), why },
            other => other,
        }
    }

    /// The same; `answered`: whether whoever is there has ever answered. If not, what was heard of it tells a daemon that was
    /// not there for long from what is none: that one who speaks something else is connected to shows in the first call.
    fn at(self, place: &str, answered: bool, heard: &Heard) -> Self {
        match self.named(place) {
            Self::Broken { why, .. } if heard.is_foreign() => Self::Http { place: place.to_owned(), why },
            Self::Broken { why, .. } if !answered => Self::Closed { place: place.to_owned(), why },
            other => other,
        }
    }

    /// What is said where a scope is asked for that is not there; `ahead`: where it could be set all the same.
    pub(crate) fn about(self, scope: &Scope, ahead: bool) -> Self {
        match self {
            Self::Refused(status) if status.code() == Code::NotFound => {
                let lists = match scope.peer {
                    Some(_) => format!("mgcomp jobs --job {}", scope.job),
                    None => "mgcomp jobs".to_owned(),
                };
                Self::Absent { place: show::place(scope), kind: show::kind(scope), lists, ahead }
            }
            other => other,
        }
    }
}

/// What helps against a status, if anything is known to.
fn advice(status: &Status) -> &'static str {
    match status.code() {
        Code::Unauthenticated => "; --token-file names the file with its token",
        _ => "",
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
        let reset = || io::Error::from(io::ErrorKind::ConnectionReset);
        let broken = || ClientError::from(Status::from_error(Box::new(reset())));
        let told = |error: ClientError| error.to_string();
        assert_eq!(told(broken()), "the connection to the daemon is broken: connection reset");
        let at =
            |error: ClientError, answered, said: &[u8]| told(error.at("/run/s", answered, &Heard::of(said)));
        let settings = [0, 0, 0, 4, 0, 0, 0, 0, 0];
        assert_eq!(
            at(broken(), true, &settings),
            "the connection to the daemon at /run/s is broken: connection reset"
        );
        let no_daemon = "what is at /run/s does not speak as mgcomp-daemon does: connection reset";
        assert_eq!(at(broken().named("/run/s"), false, b"HTTP/1.1 400 Bad Request"), no_daemon);
        // It need not have said anything, as where there are too many connections.
        for said in [&settings[..], &[]] {
            let closed = at(broken().named("/run/s"), false, said);
            assert!(
                closed.starts_with("the daemon at /run/s closed the connection without an answer: "),
                "{closed}"
            );
            assert!(closed.ends_with(" (connection reset)"), "{closed}");
        }
        let error = ClientError::from(Status::not_found("nothing here is job \"x\""));
        assert_eq!(error.to_string(), "the daemon says: nothing here is job \"x\" (NOT_FOUND)");
    }

    #[test]
    fn errors_say_what_to_do() {
        let absent = |scope: Scope, ahead| ClientError::from(Status::not_found("")).about(&scope, ahead);
        let job = Scope { job: "x".into(), ..Scope::default() };
        let expected =
            "job x: no such job: `mgcomp jobs` lists those that run, and `--ahead` sets it before it runs";
        assert_eq!(absent(job.clone(), true).to_string(), expected);
        let peer = Scope { peer: Some(3), ..job.clone() };
        let expected = "job x, peer 3: no such peer: `mgcomp jobs --job x` lists those that run";
        assert_eq!(absent(peer, false).to_string(), expected);
        // What has another reason keeps it.
        let stale = ClientError::from(Status::aborted("stale")).about(&job, true);
        assert_eq!(stale.to_string(), "the daemon says: stale (ABORTED)");
        let stranger = ClientError::from(Status::unauthenticated("no token")).to_string();
        assert!(stranger.ends_with("(UNAUTHENTICATED); --token-file names the file with its token"));
    }
}

//! Settings of the daemon itself: from a file, the environment and flags, in that order of rising weight.
//!
//! Each setting has one name: `state_dir` in the file, `MGCOMP_DAEMON_STATE_DIR` in the environment, `--state-dir` as a
//! flag. Everything that is wrong is told at once.

mod security;
mod sources;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use tokio_rustls::rustls;
use tracing::Level;

pub use security::Token;
pub use sources::Flags;
use sources::{Given, Setting};

/// Processes that may be connected, unless told otherwise.
const MAX_PROCESSES: usize = 4096;
/// Watch calls under way, unless told otherwise.
const MAX_WATCHERS: usize = 1024;

/// What a daemon goes by.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where programs and clients on this node connect.
    pub socket: PathBuf,
    /// Where settings are kept.
    pub state_dir: PathBuf,
    /// Where other clients connect, if they may.
    pub listen: Option<SocketAddr>,
    /// What these must show.
    pub token: Option<Token>,
    /// How these are talked to.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    /// Users who may change settings, beside root and the daemon's own.
    pub operators: Vec<u32>,
    /// Whether other users may hand over pages and look.
    pub open_to_users: bool,
    /// What is logged.
    pub log: Level,
    /// Processes that may be connected.
    pub max_processes: usize,
    /// How many of these one user may have who is no operator; `None` = half of them.
    pub max_processes_per_user: Option<usize>,
    /// Watch calls that may be under way; from half of them on, only operators may begin one.
    pub max_watchers: usize,
}

impl Config {
    /// A daemon for one user, on a Unix socket alone.
    #[must_use]
    pub fn private(socket: PathBuf, state_dir: PathBuf) -> Self {
        Self {
            socket,
            state_dir,
            listen: None,
            token: None,
            tls: None,
            operators: Vec::new(),
            open_to_users: false,
            log: Level::INFO,
            max_processes: MAX_PROCESSES,
            max_processes_per_user: None,
            max_watchers: MAX_WATCHERS,
        }
    }

    /// What flags, the environment and the file that either names say.
    ///
    /// # Errors
    /// [`Problems`]: all of them.
    pub fn load(flags: &Flags) -> Result<Self, Problems> {
        let mut problems = Vec::new();
        let names: Vec<_> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
        let given = sources::gather(flags, |name| std::env::var_os(name), &mut problems);
        sources::check_names(names.iter().map(String::as_str), &mut problems);
        let config = Self::from_given(&given, &mut problems);
        if problems.is_empty() { Ok(config) } else { Err(Problems(problems)) }
    }

    fn from_given(given: &Given, problems: &mut Vec<Problem>) -> Self {
        let mut config = Self::private(default_socket(), default_state_dir());
        given.parse(Setting::Socket, &mut config.socket, problems, path);
        given.parse(Setting::StateDir, &mut config.state_dir, problems, path);
        given.parse(Setting::Listen, &mut config.listen, problems, |text| {
            let wrong = |_| format!("{text:?} is no address with a port, such as 127.0.0.1:7411");
            if text.is_empty() { Ok(None) } else { text.parse().map(Some).map_err(wrong) }
        });
        given.parse(Setting::TokenFile, &mut config.token, problems, |text| {
            Token::read(text.as_ref()).map(Some)
        });
        given.parse(Setting::Operators, &mut config.operators, problems, users);
        given.parse(Setting::OpenToUsers, &mut config.open_to_users, problems, |text| match text {
            "true" => Ok(true),
            "false" => Ok(false),
            _ => Err(format!("{text:?} is neither true nor false")),
        });
        given.parse(Setting::Log, &mut config.log, problems, |text| {
            text.parse().map_err(|_| format!("{text:?} is no level; known: error warn info debug trace"))
        });
        given.parse(Setting::MaxProcesses, &mut config.max_processes, problems, count);
        given.parse(Setting::MaxProcessesPerUser, &mut config.max_processes_per_user, problems, |text| {
            count(text).map(Some)
        });
        given.parse(Setting::MaxWatchers, &mut config.max_watchers, problems, count);
        config.tls = security::tls(given, problems);
        config.check(given, problems);
        config
    }

    /// Processes of a user that may be connected.
    pub(crate) fn most_of_user(&self, is_operator: bool) -> usize {
        match is_operator {
            true => self.max_processes,
            false => self.max_processes_per_user.unwrap_or(self.max_processes.div_ceil(2)),
        }
    }

    /// Watch calls under way with which an operator, or somebody else, may begin no further one.
    pub(crate) fn most_watchers(&self, is_operator: bool) -> usize {
        // Rounded down: where there is but one, it is an operator's.
        if is_operator { self.max_watchers } else { self.max_watchers / 2 }
    }

    /// What settings demand of each other.
    fn check(&self, given: &Given, problems: &mut Vec<Problem>) {
        // What was given and is wrong has been told already.
        let has_token = self.token.is_some() || given.has(Setting::TokenFile);
        let has_tls = self.tls.is_some() || given.has(Setting::TlsCert) || given.has(Setting::TlsKey);
        let missing = self.missing(has_token, has_tls);
        problems.extend(missing.into_iter().map(|what| given.problem(Setting::Listen, what)));
    }

    /// What clients over TCP cannot do without.
    fn missing(&self, has_token: bool, has_tls: bool) -> Vec<String> {
        let Some(listen) = self.listen else { return Vec::new() };
        let mut missing = Vec::new();
        if !has_token {
            let what = "whoever connects over TCP must show a token: name a file with one as token_file";
            missing.push(what.to_owned());
        }
        if !listen.ip().is_loopback() && !has_tls {
            missing.push(format!(
                "{listen} can be reached from elsewhere, which takes TLS: set tls_cert and tls_key"
            ));
        }
        missing
    }

    /// What a daemon that runs by `old` goes by from now on. Its sockets and folders stay as they are, and the rest is taken
    /// over only if it is right for them.
    ///
    /// # Errors
    /// [`Problems`]: what is missing for where it listens.
    pub fn in_place_of(self, old: &Self) -> Result<Self, Problems> {
        if (&old.socket, &old.state_dir, old.listen) != (&self.socket, &self.state_dir, self.listen) {
            tracing::warn!("socket, state_dir and listen stay as they are until the daemon is started again");
        }
        let (socket, state_dir) = (old.socket.clone(), old.state_dir.clone());
        let merged = Self { socket, state_dir, listen: old.listen, ..self };
        let missing = merged.missing(merged.token.is_some(), merged.tls.is_some());
        let problem = |what| Problem { place: "listen, which stays as it is".to_owned(), what };
        let problems: Vec<_> = missing.into_iter().map(problem).collect();
        merged.token.iter().for_each(Token::warn_if_exposed);
        if problems.is_empty() { Ok(merged) } else { Err(Problems(problems)) }
    }
}

/// Where programs look for the daemon first.
fn default_socket() -> PathBuf {
    let sockets = mgcomp_transport::control::sockets();
    let system = || PathBuf::from("/run/mgcomp/mgcomp.sock");
    if rustix::process::getuid().is_root() && std::env::var_os("MGCOMP_SOCKET").is_none() {
        return system();
    }
    sockets.into_iter().next().unwrap_or_else(system)
}

/// What the service manager gives, or else the user's own.
fn default_state_dir() -> PathBuf {
    let var = |name| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let of_user = || var("XDG_STATE_HOME").or_else(|| Some(var("HOME")?.join(".local/state")));
    let root = rustix::process::getuid().is_root();
    var("STATE_DIRECTORY")
        .or_else(|| if root { None } else { Some(of_user()?.join("mgcomp")) })
        .unwrap_or_else(|| PathBuf::from("/var/lib/mgcomp"))
}

fn path(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    if path.is_absolute() { Ok(path) } else { Err(format!("{text:?} is no absolute path")) }
}

fn count(text: &str) -> Result<usize, String> {
    let known = text.parse().ok().filter(|count| (1..=1_000_000).contains(count));
    known.ok_or_else(|| format!("{text:?} is no number from 1 to 1000000"))
}

fn users(text: &str) -> Result<Vec<u32>, String> {
    let users = text.split(',').map(str::trim).filter(|user| !user.is_empty());
    users.map(|user| user.parse().map_err(|_| format!("{user:?} is no user id, which is a number"))).collect()
}

/// Something that is wrong with what was given.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {what}")]
pub struct Problem {
    /// Where it was given.
    pub place: String,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// Everything that is wrong, a line each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems(pub Vec<Problem>);

impl std::fmt::Display for Problems {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let lines: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&lines.join("\n"))
    }
}

impl std::error::Error for Problems {}

#[cfg(test)]
mod tests;

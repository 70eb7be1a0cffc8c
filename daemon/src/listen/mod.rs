//! Where programs and clients come in.
//!
//! On the Unix socket the first bytes tell them apart: those of a hand-over of a control page, or else HTTP, which is
//! gRPC or a request for `/metrics` or the dashboard. The kernel says who is at the other end. Over TCP there is only
//! HTTP, with a token, and with TLS where that is configured. Nobody stays who asks for nothing.

mod handover;
mod http;
mod stream;
mod tcp;
mod turns;
mod unix;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use rustix::fs::{FlockOperation, OFlags};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

pub(crate) use http::{Looks, Routes};
pub(crate) use tcp::serve_tcp;
pub(crate) use turns::Turns;
pub(crate) use unix::serve_unix;

use crate::config::{Config, Token};
use crate::crowd::Crowd;
use crate::error::DaemonError;

/// How long a stranger may take to say what it wants.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections at the same time, beside those of processes.
const MAX_CONNECTIONS: usize = 4096;
/// How long to wait when the system gives no more connections.
const BREATH: Duration = Duration::from_millis(50);

/// Who calls, and what it may do at the moment of the call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    /// Whether it may change anything.
    pub(crate) operator: bool,
    /// Whether each of its requests must show the token.
    pub(crate) by_token: bool,
}

/// Who is at the other end of a connection. What it may do is asked for each request: a reload can take it away.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Peer {
    /// A user of this machine, as the kernel says.
    User(u32),
    /// Whoever shows the token.
    TokenHolder,
}

impl Peer {
    /// What it may do as things are; `None` = not even connect.
    fn caller(self, config: &Config) -> Option<Caller> {
        let Self::User(uid) = self else { return Some(Caller { operator: true, by_token: true }) };
        let own = rustix::process::getuid().as_raw();
        let operator = uid == 0 || uid == own || config.operators.contains(&uid);
        (operator || config.open_to_users).then_some(Caller { operator, by_token: false })
    }
}

/// A daemon's sockets and the folder that is its own. Opened inside a runtime.
#[derive(Debug)]
pub struct Listener {
    pub(crate) config: Config,
    pub(crate) unix: UnixListener,
    pub(crate) tcp: Option<TcpListener>,
    /// Held for as long as the daemon runs.
    _locks: [Lock; 2],
}

impl Listener {
    /// Takes socket and state folder for this daemon alone.
    ///
    /// # Errors
    /// [`DaemonError`] if another daemon has them, or if the system gives them not.
    pub fn open(config: Config) -> Result<Self, DaemonError> {
        let socket_dir = config.socket.parent().unwrap_or(Path::new("/"));
        for folder in [socket_dir, &config.state_dir] {
            fs::create_dir_all(folder)
                .map_err(|source| DaemonError::Path { path: folder.to_owned(), source })?;
        }
        config.token.iter().for_each(Token::warn_if_exposed);
        let mut beside = config.socket.clone().into_os_string();
        beside.push(".lock");
        let locks = [Lock::take(PathBuf::from(beside))?, Lock::take(config.state_dir.join("lock"))?];
        let unix = bind_unix(&config)?;
        let tcp = config.listen.map(bind_tcp).transpose()?;
        Ok(Self { config, unix, tcp, _locks: locks })
    }

    /// Where clients connect over TCP, if they may: the port that was found if any would do.
    #[must_use]
    pub fn tcp_address(&self) -> Option<std::net::SocketAddr> {
        self.tcp.as_ref().and_then(|tcp| tcp.local_addr().ok())
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        // Whoever starts next finds the place clean; if not, it cleans up by itself.
        let _ = fs::remove_file(&self.config.socket);
    }
}

/// Gives each connection a task and a permit, as many as there is room for; further ones are closed. For ever.
async fn take_all<S, A, F>(
    crowd: &Crowd,
    accept: impl Fn() -> A,
    serve: impl Fn(S, OwnedSemaphorePermit) -> F,
) where
    A: Future<Output = io::Result<S>>,
    F: Future<Output = ()> + Send + 'static,
{
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        match (accept().await, room.clone().try_acquire_owned()) {
            (Ok(stream), Ok(permit)) => drop(tokio::spawn(serve(stream, permit))),
            (Ok(_), Err(_)) => crowd.closed("there are as many as the daemon takes"),
            (Err(error), _) => {
                tracing::warn!(%error, "no more connections for now");
                tokio::time::sleep(BREATH).await;
            }
        }
    }
}

/// Lock files are this user's alone.
const LOCK_MODE: u32 = 0o600;

/// A file that nobody else has locked; it goes away with this.
#[derive(Debug)]
struct Lock {
    path: PathBuf,
    file: File,
}

impl Lock {
    fn take(path: PathBuf) -> Result<Self, DaemonError> {
        let failed = |source| DaemonError::Path { path: path.clone(), source };
        loop {
            let options = &mut File::options();
            // Of a link the file elsewhere would be locked, of a pipe nothing would ever come.
            options.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits() as i32);
            // Whoever may read a file may lock it, and would keep the next daemon out.
            let file = options.create(true).append(true).mode(LOCK_MODE).open(&path).map_err(failed)?;
            if !file.metadata().map_err(failed)?.is_file() {
                return Err(failed(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it is no file, and cannot be the lock",
                )));
            }
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => {}
                Err(rustix::io::Errno::WOULDBLOCK) => return Err(DaemonError::Second { path }),
                Err(error) => return Err(failed(error.into())),
            }
            let lock = Self { path: path.clone(), file };
            // Whoever had it before may have taken the file away since it was opened here.
            if lock.is_in_place().map_err(failed)? {
                if let Err(error) = lock.close_to_others() {
                    tracing::warn!(path = %path.display(), %error, "others may lock this file, and keep the next daemon out");
                }
                return Ok(lock);
            }
        }
    }

    /// Takes it from all others to whom an earlier daemon has left it open, if it is this user's.
    fn close_to_others(&self) -> io::Result<()> {
        let found = self.file.metadata()?;
        let is_own = found.uid() == rustix::process::geteuid().as_raw();
        match is_own && found.mode() & 0o077 != 0 {
            true => self.file.set_permissions(fs::Permissions::from_mode(LOCK_MODE)),
            false => Ok(()),
        }
    }

    /// Whether others that open the path find this file.
    fn is_in_place(&self) -> io::Result<bool> {
        let own = self.file.metadata()?;
        match fs::symlink_metadata(&self.path) {
            Ok(found) => Ok((own.dev(), own.ino()) == (found.dev(), found.ino())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Before it is unlocked, so that it is nobody else's.
        if self.is_in_place().unwrap_or(false) {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Listens at the socket's path; what a daemon that was killed left there goes away.
fn bind_unix(config: &Config) -> Result<UnixListener, DaemonError> {
    let path = &config.socket;
    let failed = |source| DaemonError::Path { path: path.clone(), source };
    match fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => fs::remove_file(path).map_err(failed)?,
        Ok(_) => return Err(DaemonError::NoSocket { path: path.clone() }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(failed(error)),
    }
    let listener = UnixListener::bind(path).map_err(failed)?;
    open_to(config).map_err(failed)?;
    Ok(listener)
}

/// Lets other users connect, or not. Who they are is looked at for each connection anyway.
pub(crate) fn open_to(config: &Config) -> io::Result<()> {
    let others = config.open_to_users || !config.operators.is_empty();
    fs::set_permissions(&config.socket, fs::Permissions::from_mode(if others { 0o666 } else { 0o600 }))
}

/// Lets no other users connect for now, root apart.
fn shut(config: &Config) -> io::Result<()> {
    fs::set_permissions(&config.socket, fs::Permissions::from_mode(0o600))
}

fn bind_tcp(address: std::net::SocketAddr) -> Result<TcpListener, DaemonError> {
    let bind = || {
        let listener = std::net::TcpListener::bind(address)?;
        listener.set_nonblocking(true)?;
        TcpListener::from_std(listener)
    };
    bind().map_err(|source| DaemonError::Listen { address, source })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_else_can_open_a_lock() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lock");
        let mode = || fs::metadata(&path).unwrap().mode() & 0o777;
        let lock = Lock::take(path.clone()).unwrap();
        assert_eq!(mode(), LOCK_MODE);
        drop(lock);
        // As a daemon has left it that was killed, and made it like other files.
        fs::write(&path, "").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        let _lock = Lock::take(path.clone()).unwrap();
        assert_eq!(mode(), LOCK_MODE);
    }

    #[test]
    fn what_is_no_file_is_no_lock() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, pipe] = ["file", "link", "pipe"].map(|name| folder.path().join(name));
        fs::write(&file, "").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR)
            .unwrap();
        for path in [link, pipe] {
            assert!(
                matches!(Lock::take(path.clone()), Err(DaemonError::Path { path: named, .. }) if named == path)
            );
            assert!(fs::symlink_metadata(&path).is_ok(), "it is left as it was");
        }
    }
}

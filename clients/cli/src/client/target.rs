//! Which daemon a command talks to, and about what.

use std::fs;
use std::io;
use std::net::IpAddr;
use std::num::ParseIntError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderValue, Uri};
use mgcomp_proto::Channel;
use mgcomp_proto::v1::Scope;
use mgcomp_transport::control;
use rustix::net::sockopt;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::{TlsConnector, rustls};

use super::heard::{Heard, Hearing};
use super::{ClientError, Patience};
use crate::args;
use crate::error::with_causes;

/// How long the daemon may take to answer if nobody says otherwise.
const TIMEOUT: Duration = Duration::from_secs(5);
/// When the kernel asks whether the daemon's machine is there on a connection on which nothing moves, how long until it asks
/// again, and how often.
const KEEP_ALIVE: (Duration, Duration, u32) = (Duration::from_secs(10), Duration::from_secs(5), 3);

/// Which daemon.
#[derive(clap::Args, Clone, Debug)]
#[command(next_help_heading = "Daemon")]
pub(crate) struct Target {
    /// Its Unix socket [default: MGCOMP_SOCKET, or $XDG_RUNTIME_DIR/mgcomp.sock, or /run/mgcomp/mgcomp.sock]
    #[arg(long, value_name = "PATH", conflicts_with = "address")]
    socket: Option<PathBuf>,
    /// Its address: HOST:PORT, http:// or https://; without either, https but on this machine
    #[arg(long)]
    address: Option<String>,
    /// How long it may take to answer, in seconds [default: 5]
    #[arg(long, value_name = "SECONDS", value_parser = args::seconds)]
    timeout: Option<Duration>,
    /// File with the token for that address
    #[arg(long, value_name = "PATH", requires = "address")]
    token_file: Option<PathBuf>,
    /// Authorities that its certificate may come from, in PEM
    #[arg(long, value_name = "PATH", requires = "address")]
    ca: Option<PathBuf>,
    /// Certificates to show it, in PEM, if it asks for them
    #[arg(long, value_name = "PATH", requires = "address", requires = "key")]
    cert: Option<PathBuf>,
    /// The key that goes with them, in PEM
    #[arg(long, value_name = "PATH", requires = "cert")]
    key: Option<PathBuf>,
}

/// About what.
pub(crate) trait Scoped: clap::Args + std::fmt::Debug {
    fn scope(&self) -> Scope;
}

/// Any scope that there is.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Scope")]
pub(crate) struct ScopeArgs {
    /// This job; without it the whole node
    #[arg(long, value_name = "ID", value_parser = args::job())]
    pub(crate) job: Option<String>,
    /// What the job sends to this rank
    #[arg(long, value_name = "RANK", requires = "job")]
    pub(crate) peer: Option<u32>,
    /// This stream to that rank, in decimal or as in 0x1f
    #[arg(long, value_name = "NUMBER", requires = "peer", value_parser = stream)]
    pub(crate) stream: Option<u32>,
}

/// Parses the number of a stream: as tables show it, or as JSON has it.
fn stream(text: &str) -> Result<u32, ParseIntError> {
    match text.strip_prefix("0x") {
        // Where a sign is left, it is no number either way.
        Some(digits) if !digits.starts_with('+') => u32::from_str_radix(digits, 16),
        _ => text.parse(),
    }
}

impl Scoped for ScopeArgs {
    fn scope(&self) -> Scope {
        Scope { job: self.job.clone().unwrap_or_default(), peer: self.peer, stream: self.stream }
    }
}

/// A scope of what no peer and no stream has of its own.
#[derive(clap::Args, Clone, Debug, Default)]
#[command(next_help_heading = "Scope")]
pub(crate) struct WideScopeArgs {
    /// This job; without it the whole node
    #[arg(long, value_name = "ID", value_parser = args::job())]
    job: Option<String>,
}

impl Scoped for WideScopeArgs {
    fn scope(&self) -> Scope {
        Scope { job: self.job.clone().unwrap_or_default(), ..Scope::default() }
    }
}

/// Whatever carries bytes.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

impl Target {
    /// The daemon at a socket.
    pub(crate) fn at(socket: PathBuf) -> Self {
        Self {
            socket: Some(socket),
            address: None,
            timeout: None,
            token_file: None,
            ca: None,
            cert: None,
            key: None,
        }
    }

    /// A connection to the daemon, and how long it may take to answer. What is heard first there is in `heard`.
    pub(super) async fn connect(&self, heard: &Heard) -> Result<(Channel, Patience), ClientError> {
        let (place, stream): (String, Box<dyn Stream>) = match &self.address {
            Some(address) => self.connect_tcp(address).await?,
            None => {
                let (path, stream) = self.connect_unix().await?;
                (path.display().to_string(), Box::new(stream))
            }
        };
        let (authorization, patience) = (self.authorization()?, self.patience(&place));
        let opened = async {
            let channel = Channel::open(Hearing::new(stream, heard.clone()), authorization).await;
            channel.map_err(|error| ClientError::Broken { place: None, why: with_causes(&error) })
        };
        let channel = patience.wait(opened).await?;
        Ok((channel, patience))
    }

    fn patience(&self, place: &str) -> Patience {
        Patience { place: place.to_owned(), limit: self.timeout.unwrap_or(TIMEOUT) }
    }

    async fn connect_unix(&self) -> Result<(PathBuf, UnixStream), ClientError> {
        connect_any(self.socket.clone().map_or_else(control::sockets, |path| vec![path])).await
    }

    async fn connect_tcp(&self, address: &str) -> Result<(String, Box<dyn Stream>), ClientError> {
        let wrong = || ClientError::Address { address: address.to_owned() };
        let uri: Uri = address.parse().map_err(|_| wrong())?;
        let host = uri.host().ok_or_else(wrong)?.trim_matches(['[', ']']).to_owned();
        let port = uri.port_u16().ok_or_else(wrong)?;
        let local = host == "localhost" || host.parse().is_ok_and(|ip: IpAddr| ip.is_loopback());
        let tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            Some(_) => return Err(wrong()),
            None => !local || self.ca.is_some(),
        };
        // Whoever names certificates wants no token to go in clear.
        if !tls && (self.ca.is_some() || self.cert.is_some() || self.key.is_some()) {
            return Err(ClientError::InClear { address: address.to_owned() });
        }
        let place = format!("{host}:{port}");
        let tls = match tls {
            true => Some((self.tls()?, ServerName::try_from(host.clone()).map_err(|_| wrong())?)),
            false => None,
        };
        let connecting = async {
            let connected = open_tcp(&host, port).await;
            let stream = connected.map_err(|source| ClientError::Connect { place: place.clone(), source })?;
            let Some((tls, name)) = tls else { return Ok(Box::new(stream) as Box<dyn Stream>) };
            let secured = tls.connect(name, stream).await;
            let secured = secured.map_err(|source| match self.ca {
                // Nobody's certificate is good then.
                None => ClientError::NoAuthority { place: place.clone(), source },
                Some(_) => ClientError::Tls { place: place.clone(), source },
            });
            Ok(Box::new(secured?) as _)
        };
        let stream = self.patience(&place).wait::<_, ClientError>(connecting).await?;
        Ok((place, stream))
    }

    fn authorization(&self) -> Result<Option<HeaderValue>, ClientError> {
        let Some(path) = &self.token_file else { return Ok(None) };
        let token = fs::read_to_string(path).map_err(|source| read_error(path, source))?;
        let mut value = HeaderValue::from_str(&format!("Bearer {}", token.trim()))
            .map_err(|_| ClientError::Token { path: path.clone() })?;
        value.set_sensitive(true);
        Ok(Some(value))
    }

    /// TLS as a client; trusts --ca alone.
    fn tls(&self) -> Result<TlsConnector, ClientError> {
        let mut roots = rustls::RootCertStore::empty();
        if let Some(path) = &self.ca {
            for certificate in certificates(path)? {
                roots.add(certificate).map_err(|error| wrong(path, &error))?;
            }
        }
        let failed = |error| ClientError::Tls {
            place: self.address.clone().unwrap_or_default(),
            source: io::Error::other(error),
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder =
            rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions();
        let builder = builder.map_err(failed)?.with_root_certificates(roots);
        let mut config = match (&self.cert, &self.key) {
            (Some(cert), Some(key)) => {
                let read = PrivateKeyDer::from_pem_file(key).map_err(|error| wrong(key, &error))?;
                builder
                    .with_client_auth_cert(certificates(cert)?, read)
                    .map_err(|error| wrong(key, &error))?
            }
            _ => builder.with_no_client_auth(),
        };
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(TlsConnector::from(Arc::new(config)))
    }
}

/// A connection on which a machine that is gone is noticed.
async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    let _ = stream.set_nodelay(true); // only makes it faster
    let (idle, between, count) = KEEP_ALIVE;
    let patience = idle + between * count;
    // Whoever only watches owes nothing, and would show what was last told for ever. The last is for where something is on its
    // way, as word of what was read: nothing is asked then. Where the system cannot, that is merely found out later.
    let _ = sockopt::set_socket_keepalive(&stream, true)
        .and_then(|()| sockopt::set_tcp_keepidle(&stream, idle))
        .and_then(|()| sockopt::set_tcp_keepintvl(&stream, between))
        .and_then(|()| sockopt::set_tcp_keepcnt(&stream, count))
        .and_then(|()| sockopt::set_tcp_user_timeout(&stream, patience.as_millis() as u32));
    Ok(stream)
}

/// A connection to the first of some sockets at which anybody listens; or why there is none, with all places.
async fn connect_any(paths: Vec<PathBuf>) -> Result<(PathBuf, UnixStream), ClientError> {
    let (mut failed, mut places) = (ClientError::Nowhere, Vec::new());
    for path in paths {
        places.push(path.display().to_string());
        match UnixStream::connect(&path).await {
            Ok(stream) => return Ok((path, stream)),
            // One that is there, though closed to us, says more than one that is not.
            Err(_) if matches!(failed, ClientError::NotOpen { .. }) => {}
            Err(error) => failed = not_connected(path.display().to_string(), error),
        }
    }
    Err(match failed {
        ClientError::Connect { source, .. } => ClientError::Connect { place: places.join(" or "), source },
        other => other,
    })
}

/// Why there is no connection to a socket.
fn not_connected(place: String, source: io::Error) -> ClientError {
    match source.kind() {
        io::ErrorKind::PermissionDenied => ClientError::NotOpen { place },
        _ => ClientError::Connect { place, source },
    }
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect);
    let read: Vec<_> = read.map_err(|error| wrong(path, &error))?;
    if read.is_empty() { Err(wrong(path, &"it holds no certificate in PEM")) } else { Ok(read) }
}

fn wrong(path: &Path, error: &dyn std::fmt::Display) -> ClientError {
    ClientError::Certificates { path: path.to_owned(), what: error.to_string() }
}

fn read_error(path: &Path, source: io::Error) -> ClientError {
    ClientError::Read { path: path.to_owned(), source }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_of_others_is_told_from_none() {
        let told = |kind: io::ErrorKind| not_connected("/run/s".to_owned(), kind.into()).to_string();
        let closed = told(io::ErrorKind::PermissionDenied);
        assert!(closed.starts_with("the socket /run/s is not open to this user"), "{closed}");
        assert!(closed.contains("`open_to_users`"), "{closed}");
        assert!(told(io::ErrorKind::NotFound).starts_with("no mgcomp-daemon at /run/s"));
    }

    #[tokio::test]
    async fn all_places_are_named_where_nobody_is() {
        let folder = tempfile::tempdir().unwrap();
        let paths = ["user.sock", "system.sock"].map(|name| folder.path().join(name));
        let failed = connect_any(paths.to_vec()).await.unwrap_err().to_string();
        let [user, system] = paths.map(|path| path.display().to_string());
        assert!(failed.starts_with(&format!("no mgcomp-daemon at {user} or {system}: start it")), "{failed}");
        let only = connect_any(vec![user.clone().into()]).await.unwrap_err().to_string();
        assert!(only.starts_with(&format!("no mgcomp-daemon at {user}: start it")), "{only}");
        let _listener = tokio::net::UnixListener::bind(&system).unwrap();
        let (path, _) = connect_any(vec![user.into(), system.clone().into()]).await.unwrap();
        assert_eq!(path.display().to_string(), system);
    }

    #[tokio::test]
    async fn a_machine_that_is_gone_is_noticed_soon() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let stream = open_tcp("127.0.0.1", listener.local_addr().unwrap().port()).await.unwrap();
        assert!(sockopt::socket_keepalive(&stream).unwrap());
        let (idle, between) = (sockopt::tcp_keepidle(&stream), sockopt::tcp_keepintvl(&stream));
        let count = sockopt::tcp_keepcnt(&stream).unwrap();
        assert_eq!((idle.unwrap(), between.unwrap(), count), KEEP_ALIVE);
        assert_eq!(sockopt::tcp_user_timeout(&stream), Ok(25_000));
    }

    #[test]
    fn streams_are_said_as_they_are_shown() {
        for number in [0, 31, 1 << 31, u32::MAX] {
            assert_eq!(stream(&crate::show::stream(number)), Ok(number));
            assert_eq!(stream(&number.to_string()), Ok(number));
        }
        for wrong in ["", "0x", "1f", "0x+1", "0x100000000", "-1"] {
            assert!(stream(wrong).is_err(), "{wrong}");
        }
    }
}

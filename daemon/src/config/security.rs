//! Tokens and TLS.

use std::fmt;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls;
use tokio_rustls::rustls::server::WebPkiClientVerifier;

use super::Problem;
use super::sources::{Given, Setting};

/// The shortest token.
const LEAST_TOKEN_BYTES: usize = 16;
/// The bit of a file's mode by which every user may read it.
const EVERYBODY_READS: u32 = 0o004;

/// What clients show over TCP.
#[derive(Clone, PartialEq, Eq)]
pub struct Token {
    text: String,
    /// The file that it is from, and the mode of that, if everybody may read it.
    exposed: Option<(PathBuf, u32)>,
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

impl Token {
    /// The token in a file: one line of at least 16 characters.
    pub(crate) fn read(path: &Path) -> Result<Self, String> {
        let failed = |error| format!("{}: {error}", path.display());
        let text = fs::read_to_string(path).map_err(failed)?;
        let mode = fs::metadata(path).map_err(failed)?.permissions().mode() & 0o777;
        let token = text.trim();
        if token.len() < LEAST_TOKEN_BYTES || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return Err(format!(
                "{} holds no token: at least {LEAST_TOKEN_BYTES} printable characters, such as `openssl rand -hex 16` gives",
                path.display()
            ));
        }
        let exposed = (mode & EVERYBODY_READS != 0).then(|| (path.to_owned(), mode));
        Ok(Self { text: token.to_owned(), exposed })
    }

    /// Whether every user of the machine can read its file.
    #[cfg(test)]
    pub(super) fn is_exposed(&self) -> bool {
        self.exposed.is_some()
    }

    /// Says so in the log, which does not run yet when the token is read.
    pub(crate) fn warn_if_exposed(&self) {
        if let Some((path, mode)) = &self.exposed {
            let path = path.display();
            tracing::warn!(
                "every user can read the token in {path}, whose mode is {mode:o}: chmod o-r {path}"
            );
        }
    }

    /// Whether `shown` is this token. Takes as long wherever they differ.
    #[must_use]
    pub fn is(&self, shown: &str) -> bool {
        let (own, shown) = (self.text.as_bytes(), shown.as_bytes());
        let differ = own.iter().zip(shown).fold(0, |differ, (a, b)| differ | (a ^ b));
        own.len() == shown.len() && differ == 0
    }
}

/// The TLS side of what was given; `None` without certificates, or if something is wrong with them.
pub(super) fn tls(given: &Given, problems: &mut Vec<Problem>) -> Option<Arc<rustls::ServerConfig>> {
    let keys = [Setting::TlsCert, Setting::TlsKey];
    if !keys.into_iter().any(|key| given.has(key)) {
        if given.has(Setting::TlsClientCa) {
            let what = "takes tls_cert and tls_key as well".to_owned();
            problems.push(given.problem(Setting::TlsClientCa, what));
        }
        return None;
    }
    let before = problems.len();
    for (key, other, name) in [(keys[0], keys[1], "tls_key"), (keys[1], keys[0], "tls_cert")] {
        if given.has(key) && !given.has(other) {
            problems.push(given.problem(key, format!("takes {name} as well")));
        }
    }
    let chain = given.text(Setting::TlsCert).map(certificates);
    let key = given.text(Setting::TlsKey).map(private_key);
    let authorities = given.text(Setting::TlsClientCa).map(roots);
    let mut wrong = |key, error: Option<&String>| {
        if let Some(error) = error {
            problems.push(given.problem(key, error.clone()));
        }
    };
    wrong(Setting::TlsCert, chain.as_ref().and_then(|chain| chain.as_ref().err()));
    wrong(Setting::TlsKey, key.as_ref().and_then(|key| key.as_ref().err()));
    wrong(Setting::TlsClientCa, authorities.as_ref().and_then(|roots| roots.as_ref().err()));
    if problems.len() > before {
        return None;
    }
    match server(chain?.ok()?, key?.ok()?, authorities.and_then(Result::ok)) {
        Ok(config) => Some(Arc::new(config)),
        Err(error) => {
            problems.push(
                given.problem(Setting::TlsKey, format!("does not make a server with tls_cert: {error}")),
            );
            None
        }
    }
}

fn server(
    chain: Vec<CertificateDer<'static>>,
    key: PrivateKeyDer<'static>,
    authorities: Option<rustls::RootCertStore>,
) -> Result<rustls::ServerConfig, Box<dyn std::error::Error>> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()?;
    let builder = match authorities {
        None => builder.with_no_client_auth(),
        Some(roots) => {
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build()?;
            builder.with_client_cert_verifier(verifier)
        }
    };
    let mut config = builder.with_single_cert(chain, key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(path).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(chain) if !chain.is_empty() => Ok(chain),
        Ok(_) => Err(format!("{path} holds no certificate in PEM")),
        Err(error) => Err(format!("{path}: {error}")),
    }
}

fn private_key(path: &str) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_file(path).map_err(|error| format!("{path}: {error}"))
}

fn roots(path: &str) -> Result<rustls::RootCertStore, String> {
    let mut roots = rustls::RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(roots)
}

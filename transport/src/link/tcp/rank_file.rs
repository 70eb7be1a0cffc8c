//! Who takes part in a job: addresses by rank, and the secret they share.
//!
//! ```json
//! { "secret": "000102030405060708090a0b0c0d0e0f", "ranks": ["10.0.0.1:7400", "10.0.0.2:7400"] }
//! ```

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::message::{Rank, Secret, SecretError};

/// No rank file is longer than this, in bytes: room for 65,536 host names.
const MAX_LEN: u64 = 16 << 20;

/// The addresses of all ranks and the job secret.
#[derive(Clone, Debug)]
pub struct RankFile {
    /// What tells members of the job from strangers.
    pub secret: Secret,
    /// `host:port` of each rank.
    pub addresses: Vec<String>,
}

/// Why a rank file cannot be used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RankFileError {
    /// It cannot be read.
    #[error("cannot read rank file {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: io::Error,
    },
    /// What is in it is wrong.
    #[error("{}: {why}", path.display())]
    Wrong {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        why: Box<RankFileError>,
    },
    /// It is absurdly long.
    #[error("rank file is longer than {MAX_LEN} bytes")]
    TooLong,
    /// It is not the JSON expected.
    #[error("rank file: {0}")]
    Syntax(#[from] serde_json::Error),
    /// The secret is none.
    #[error("rank file, \"secret\": {0}")]
    Secret(#[from] SecretError),
    /// It names no rank.
    #[error("rank file, \"ranks\": no rank is named")]
    NoRanks,
    /// An address has no port.
    #[error("rank file, \"ranks\", rank {rank}: {address:?} is not host:port")]
    Address {
        /// Which rank.
        rank: Rank,
        /// What stands there.
        address: String,
    },
    /// Two ranks have one address.
    #[error("rank file, \"ranks\": ranks {first} and {second} both have address {address}")]
    Duplicate {
        /// One of them.
        first: Rank,
        /// The other.
        second: Rank,
        /// Their address.
        address: String,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content {
    secret: String,
    ranks: Vec<String>,
}

impl RankFile {
    /// Reads the rank file at `path`.
    ///
    /// # Errors
    /// [`RankFileError`] if there is none or it cannot be used.
    pub fn read(path: &Path) -> Result<Self, RankFileError> {
        let read = |file: File| {
            let mut text = String::new();
            file.take(MAX_LEN + 1).read_to_string(&mut text).map(|_| text)
        };
        let text = File::open(path)
            .and_then(read)
            .map_err(|source| RankFileError::Read { path: path.to_owned(), source })?;
        Self::parse(&text).map_err(|why| RankFileError::Wrong { path: path.to_owned(), why: why.into() })
    }

    /// Reads the text of a rank file.
    ///
    /// # Errors
    /// [`RankFileError`] naming what is wrong and where.
    pub fn parse(text: &str) -> Result<Self, RankFileError> {
        if text.len() as u64 > MAX_LEN {
            return Err(RankFileError::TooLong);
        }
        let content: Content = serde_json::from_str(text)?;
        let secret = content.secret.parse()?;
        check_addresses(&content.ranks)?;
        Ok(Self { secret, addresses: content.ranks })
    }

    /// How many ranks the job has.
    #[must_use]
    pub fn ranks(&self) -> u32 {
        self.addresses.len() as u32
    }

    /// How many ranks have an address on the host of `rank`, itself among them. A host that goes by several names counts as several,
    /// except for loopback addresses, which are all of the same one.
    #[must_use]
    pub fn ranks_beside(&self, rank: Rank) -> u32 {
        let beside = self.beside(rank).into_iter().filter(|&is_beside| is_beside);
        u32::try_from(beside.count()).unwrap_or(u32::MAX).max(1)
    }

    /// Of each rank, whether it has such an address.
    pub(super) fn beside(&self, rank: Rank) -> Vec<bool> {
        let Some(own) = self.addresses.get(rank.0 as usize).map(|own| host(own)) else { return Vec::new() };
        self.addresses.iter().map(|address| is_same(host(address), own)).collect()
    }
}

/// Whether both are certainly the same host.
fn is_same(one: &str, other: &str) -> bool {
    one.eq_ignore_ascii_case(other) || is_loopback(one) && is_loopback(other)
}

/// Whether it is a machine itself, which has many such addresses.
fn is_loopback(host: &str) -> bool {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    bare.eq_ignore_ascii_case("localhost") || bare.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

/// Of `host:port`.
pub(super) fn host(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

fn check_addresses(addresses: &[String]) -> Result<(), RankFileError> {
    if addresses.is_empty() {
        return Err(RankFileError::NoRanks);
    }
    let mut seen = std::collections::HashMap::new();
    for (rank, address) in (0..).map(Rank).zip(addresses) {
        let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty());
        if port.is_none_or(|(_, port)| !port.parse().is_ok_and(|port: u16| port != 0)) {
            return Err(RankFileError::Address { rank, address: address.clone() });
        }
        if let Some(first) = seen.insert(address, rank) {
            return Err(RankFileError::Duplicate { first, second: rank, address: address.clone() });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "000102030405060708090a0b0c0d0e0f";

    fn parse(ranks: &str) -> Result<RankFile, RankFileError> {
        RankFile::parse(&format!(r#"{{ "secret": "{SECRET}", "ranks": {ranks} }}"#))
    }

    #[test]
    fn addresses_keep_their_order() {
        let file = parse(r#"["b:2", "[::1]:1"]"#).unwrap();
        assert_eq!(file.addresses, ["b:2", "[::1]:1"]);
        assert_eq!((file.ranks(), file.secret), (2, SECRET.parse().unwrap()));
    }

    #[test]
    fn ranks_of_one_host_are_beside_each_other() {
        let file = parse(r#"["a:1", "[::1]:1", "a:2", "[::1]:3", "[::1]:2"]"#).unwrap();
        assert_eq!([0, 1, 2, 3, 4, 5].map(|rank| file.ranks_beside(Rank(rank))), [2, 3, 2, 3, 3, 1]);
        let beside = |ranks| {
            let file = parse(ranks).unwrap();
            (0..file.ranks()).map(|rank| file.ranks_beside(Rank(rank))).collect::<Vec<_>>()
        };
        assert_eq!(beside(r#"["a:1", "b:1", "a:2", "A:3", "c:1", "b:2"]"#), [3, 2, 3, 3, 1, 2]);
        assert_eq!(beside(r#"["10.0.0.1:1", "10.0.0.2:1", "10.0.0.1:2"]"#), [2, 1, 2]);
        assert_eq!(parse(r#"["a:1", "b:1", "a:2"]"#).unwrap().beside(Rank(2)), [true, false, true]);
        assert_eq!(file.beside(Rank(6)), Vec::<bool>::new());
        // A machine has many addresses that only itself reaches.
        let loopback = r#"["127.0.0.1:1", "127.0.1.2:1", "[::1]:1", "localhost:1", "10.0.0.1:1"]"#;
        assert_eq!(beside(loopback), [4, 4, 4, 4, 1]);
    }

    #[test]
    fn the_file_is_named_whatever_is_wrong() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("job.json");
        let message = || RankFile::read(&path).unwrap_err().to_string();
        assert_eq!(message(), format!("cannot read rank file {}", path.display()));
        let no_ranks = format!(r#"{{ "secret": "{SECRET}", "ranks": [] }}"#);
        for (text, what) in [("{", "rank file: EOF"), (&no_ranks, "rank file, \"ranks\": no rank is named")] {
            std::fs::write(&path, text).unwrap();
            let message = message();
            assert!(message.starts_with(&format!("{}: {what}", path.display())), "{message}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let message = |result: Result<RankFile, RankFileError>| result.unwrap_err().to_string();
        assert_eq!(message(parse("[]")), "rank file, \"ranks\": no rank is named");
        for bad in ["host", ":1", "host:", "host:x", "host:0", "host:65536"] {
            let expected = format!("rank file, \"ranks\", rank 1: {bad:?} is not host:port");
            assert_eq!(message(parse(&format!(r#"["a:1", "{bad}"]"#))), expected);
        }
        assert_eq!(
            message(parse(r#"["a:1", "b:1", "a:1"]"#)),
            "rank file, \"ranks\": ranks 0 and 2 both have address a:1"
        );
        assert!(message(RankFile::parse("{\n]")).contains("line 2"));
        let extra = format!(r#"{{ "secret": "{SECRET}", "ranks": ["a:1"], "port": 1 }}"#);
        assert!(message(RankFile::parse(&extra)).contains("unknown field `port`"));
        let short = r#"{ "secret": "00", "ranks": ["a:1"] }"#;
        assert_eq!(
            message(RankFile::parse(short)),
            "rank file, \"secret\": a job secret has 32 hexadecimal digits, not 2"
        );
    }
}

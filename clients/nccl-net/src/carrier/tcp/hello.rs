//! What is said on a socket before the first message.
//!
//! Whoever connects says hello, 64 bytes:
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | `mgcnccl`, zero |
//! | 8–9 | version of the protocol: 1 |
//! | 10 | sockets of the connection, 1 to 16 |
//! | 11 | which of them this is |
//! | 12–15 | rank |
//! | 16–31 | what the handle said that it has to know |
//! | 32–39 | number of the connection, the same on all of its sockets |
//! | 40–59 | zero |
//! | 60–63 | CRC32C of bytes 0 to 59 |
//!
//! and is answered, 16 bytes: the first 10 alike, then 0 if it is welcome, else why it is not ([`Refusal`]), a zero, and the CRC32C
//! of bytes 0 to 11.

use mgcomp_transport::message::Secret;

use super::MOST_LANES;
use crate::carrier::protocol::{MAGIC, PROTOCOL, checksum, part};
use crate::error::NetError;

pub(super) const HELLO_LEN: usize = 64;
pub(super) const ANSWER_LEN: usize = 16;

/// What whoever connects says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hello {
    pub(super) lanes: usize,
    pub(super) lane: usize,
    pub(super) rank: u32,
    pub(super) secret: Secret,
    pub(super) connection: u64,
}

/// Why somebody is not welcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// No word of this protocol: there is no answer to that.
    Stranger = 1,
    /// Another version.
    Version,
    /// What the handle says was not known.
    Secret,
    /// Sockets that there cannot be.
    Lanes,
}

impl Refusal {
    /// In words.
    pub(super) fn text(code: u8) -> &'static str {
        match code {
            2 => "it runs another version of the plugin",
            3 => "this is no rank of its job",
            4 => "the numbers of sockets make no sense",
            _ => "it does not say why",
        }
    }
}

impl Hello {
    pub(super) fn write(&self) -> [u8; HELLO_LEN] {
        let mut bytes = [0; HELLO_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
        bytes[10] = self.lanes as u8;
        bytes[11] = self.lane as u8;
        bytes[12..16].copy_from_slice(&self.rank.to_le_bytes());
        bytes[16..32].copy_from_slice(&self.secret.bytes());
        bytes[32..40].copy_from_slice(&self.connection.to_le_bytes());
        let checksum = checksum(&bytes[..60]);
        bytes[60..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    /// Reads a hello of somebody who has to know `secret`.
    pub(super) fn read(bytes: &[u8; HELLO_LEN], secret: &Secret) -> Result<Self, Refusal> {
        if bytes[..8] != MAGIC {
            return Err(Refusal::Stranger);
        }
        if u16::from_le_bytes(part(bytes, 8)) != PROTOCOL {
            return Err(Refusal::Version);
        }
        if u32::from_le_bytes(part(bytes, 60)) != checksum(&bytes[..60]) {
            return Err(Refusal::Stranger);
        }
        let hello = Self {
            lanes: bytes[10].into(),
            lane: bytes[11].into(),
            rank: u32::from_le_bytes(part(bytes, 12)),
            secret: Secret::new(part(bytes, 16)),
            connection: u64::from_le_bytes(part(bytes, 32)),
        };
        if hello.secret != *secret {
            return Err(Refusal::Secret);
        }
        let fits = (1..=MOST_LANES).contains(&hello.lanes) && hello.lane < hello.lanes;
        if fits { Ok(hello) } else { Err(Refusal::Lanes) }
    }
}

/// The answer to a hello.
pub(super) fn answer(refusal: Option<Refusal>) -> [u8; ANSWER_LEN] {
    let mut bytes = [0; ANSWER_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
    bytes[10] = refusal.map_or(0, |refusal| refusal as u8);
    let checksum = checksum(&bytes[..12]);
    bytes[12..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// Whether an answer is a welcome.
pub(super) fn check_answer(bytes: &[u8; ANSWER_LEN]) -> Result<(), NetError> {
    if bytes[..8] != MAGIC {
        return Err(NetError::OtherPlugin { found: part(bytes, 0) });
    }
    let version = u16::from_le_bytes(part(bytes, 8));
    if version != PROTOCOL {
        return Err(NetError::Version { found: version, expected: PROTOCOL });
    }
    if u32::from_le_bytes(part(bytes, 12)) != checksum(&bytes[..12]) {
        return Err(NetError::Refused { why: "its answer is damaged" });
    }
    if bytes[10] == 0 { Ok(()) } else { Err(NetError::Refused { why: Refusal::text(bytes[10]) }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: Secret = Secret::new([3; 16]);

    fn hello() -> Hello {
        Hello { lanes: 4, lane: 3, rank: 9, secret: SECRET, connection: 77 }
    }

    #[test]
    fn hellos_are_read_as_they_were_written() {
        assert_eq!(Hello::read(&hello().write(), &SECRET), Ok(hello()));
        assert_eq!(Hello::read(&hello().write(), &Secret::new([4; 16])), Err(Refusal::Secret));
        for (lanes, lane) in [(0, 0), (4, 4), (17, 0)] {
            let bad = Hello { lanes, lane, ..hello() };
            assert_eq!(Hello::read(&bad.write(), &SECRET), Err(Refusal::Lanes));
        }
        for byte in 0..HELLO_LEN {
            let mut bytes = hello().write();
            bytes[byte] ^= 1;
            assert!(Hello::read(&bytes, &SECRET).is_err(), "byte {byte}");
        }
    }

    #[test]
    fn answers_say_why() {
        assert_eq!(check_answer(&answer(None)), Ok(()));
        let refused = check_answer(&answer(Some(Refusal::Secret)));
        assert_eq!(refused, Err(NetError::Refused { why: "this is no rank of its job" }));
        assert!(matches!(check_answer(b"HTTP/1.1 400 Bad"), Err(NetError::OtherPlugin { .. })));
    }
}

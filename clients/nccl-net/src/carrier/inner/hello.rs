//! The first message of a connection: that it is one of this plugin's.
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | `mgcnccl`, zero |
//! | 8–9 | version of the protocol: 1 |
//! | 10–11 | zero |
//! | 12–15 | rank |
//! | 16–19 | CRC32C of bytes 0 to 15 |

use crate::carrier::protocol::{MAGIC, PROTOCOL, checksum, part};
use crate::error::NetError;

pub(super) const HELLO_LEN: usize = 20;

/// What rank `rank` says first.
pub(super) fn hello(rank: u32) -> [u8; HELLO_LEN] {
    let mut bytes = [0; HELLO_LEN];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
    bytes[12..16].copy_from_slice(&rank.to_le_bytes());
    let checksum = checksum(&bytes[..16]);
    bytes[16..].copy_from_slice(&checksum.to_le_bytes());
    bytes
}

/// The rank of whoever said this first.
pub(super) fn check(bytes: &[u8]) -> Result<u32, NetError> {
    let mut found = [0; 8];
    let len = bytes.len().min(8);
    found[..len].copy_from_slice(&bytes[..len]);
    if found != MAGIC || bytes.len() != HELLO_LEN {
        return Err(NetError::OtherPlugin { found });
    }
    let version = u16::from_le_bytes(part(bytes, 8));
    if version != PROTOCOL {
        return Err(NetError::Version { found: version, expected: PROTOCOL });
    }
    if u32::from_le_bytes(part(bytes, 16)) != checksum(&bytes[..16]) {
        return Err(NetError::Refused { why: "its first message is damaged" });
    }
    Ok(u32::from_le_bytes(part(bytes, 12)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_hellos_are_hellos() {
        assert_eq!(check(&hello(5)), Ok(5));
        for byte in 0..HELLO_LEN {
            let mut bytes = hello(5);
            bytes[byte] ^= 1;
            assert!(check(&bytes).is_err(), "byte {byte}");
            assert!(check(&hello(5)[..byte]).is_err(), "{byte} bytes");
        }
    }
}

//! How a listener is reached. NCCL brings these 128 bytes to the rank that is to connect.
//!
//! | bytes | field |
//! |---|---|
//! | 0–7 | `mgcnccl`, zero |
//! | 8–9 | version of the protocol: 1 |
//! | 10 | 4 or 6: of what kind the address is |
//! | 11 | zero |
//! | 12–13 | port |
//! | 14–15 | zero |
//! | 16–31 | address; one of kind 4 in bytes 16 to 19 |
//! | 32–35 | scope of an address of kind 6 |
//! | 36–39 | rank of the listener |
//! | 40–55 | what whoever connects has to know |
//! | 56–59 | zero |
//! | 60–63 | CRC32C of bytes 0 to 59 |
//! | 64–119 | zero |
//! | 120–127 | for whoever connects, to find the connection again: 0 before the first attempt |
//!
//! Numbers are little-endian.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use mgcomp_transport::message::Secret;

use crate::abi::HANDLE_LEN;
use crate::carrier::protocol::{MAGIC, PROTOCOL, checksum, part};
use crate::error::NetError;

/// What a handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Handle {
    pub(super) address: SocketAddr,
    pub(super) rank: u32,
    pub(super) secret: Secret,
}

const PENDING: usize = 120;
const CHECKED: usize = 60;

/// The number of the connection that a handle is used for.
pub(super) fn pending(handle: &[u8; HANDLE_LEN]) -> u64 {
    u64::from_le_bytes(part(handle, PENDING))
}

pub(super) fn set_pending(handle: &mut [u8; HANDLE_LEN], number: u64) {
    handle[PENDING..].copy_from_slice(&number.to_le_bytes());
}

impl Handle {
    pub(super) fn write(&self) -> [u8; HANDLE_LEN] {
        let mut bytes = [0; HANDLE_LEN];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..10].copy_from_slice(&PROTOCOL.to_le_bytes());
        match self.address {
            SocketAddr::V4(address) => {
                bytes[10] = 4;
                bytes[16..20].copy_from_slice(&address.ip().octets());
            }
            SocketAddr::V6(address) => {
                bytes[10] = 6;
                bytes[16..32].copy_from_slice(&address.ip().octets());
                bytes[32..36].copy_from_slice(&address.scope_id().to_le_bytes());
            }
        }
        bytes[12..14].copy_from_slice(&self.address.port().to_le_bytes());
        bytes[36..40].copy_from_slice(&self.rank.to_le_bytes());
        bytes[40..56].copy_from_slice(&self.secret.bytes());
        let checksum = checksum(&bytes[..CHECKED]);
        bytes[CHECKED..64].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn read(bytes: &[u8; HANDLE_LEN]) -> Result<Self, NetError> {
        let found: [u8; 8] = part(bytes, 0);
        if found != MAGIC {
            return Err(NetError::OtherPlugin { found });
        }
        let version = u16::from_le_bytes(part(bytes, 8));
        if version != PROTOCOL {
            return Err(NetError::Version { found: version, expected: PROTOCOL });
        }
        if u32::from_le_bytes(part(bytes, CHECKED)) != checksum(&bytes[..CHECKED]) {
            return Err(NetError::DamagedHandle);
        }
        let port = u16::from_le_bytes(part(bytes, 12));
        let address = match bytes[10] {
            4 => SocketAddr::new(IpAddr::V4(Ipv4Addr::from(part::<4>(bytes, 16))), port),
            6 => {
                let (address, scope) = (Ipv6Addr::from(part::<16>(bytes, 16)), part(bytes, 32));
                SocketAddr::V6(SocketAddrV6::new(address, port, 0, u32::from_le_bytes(scope)))
            }
            _ => return Err(NetError::DamagedHandle),
        };
        let (rank, secret) = (u32::from_le_bytes(part(bytes, 36)), Secret::new(part(bytes, 40)));
        Ok(Self { address, rank, secret })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle(address: &str) -> Handle {
        Handle { address: address.parse().unwrap(), rank: 7, secret: Secret::new([9; 16]) }
    }

    #[test]
    fn handles_are_read_as_they_were_written() {
        for address in ["10.1.2.3:4567", "[fe80::1%3]:80"] {
            let handle = handle(address);
            assert_eq!(Handle::read(&handle.write()), Ok(handle));
        }
    }

    #[test]
    fn damaged_and_foreign_handles_are_refused() {
        let good = handle("10.1.2.3:4567").write();
        for cut in 0..64 {
            let mut bytes = good;
            bytes[cut..].fill(0);
            // The bytes before the checksum may be zero anyway.
            assert!(Handle::read(&bytes).is_err(), "cut at {cut}");
        }
        for byte in 0..64 {
            let mut bytes = good;
            bytes[byte] ^= 1;
            assert!(Handle::read(&bytes).is_err(), "byte {byte}");
        }
        assert!(matches!(Handle::read(&[0; HANDLE_LEN]), Err(NetError::OtherPlugin { .. })));
        let mut newer = good;
        newer[8] = 2;
        assert_eq!(Handle::read(&newer), Err(NetError::Version { found: 2, expected: 1 }));
    }

    #[test]
    fn the_place_for_the_connection_is_not_part_of_it() {
        let mut bytes = handle("10.1.2.3:4567").write();
        assert_eq!(pending(&bytes), 0);
        set_pending(&mut bytes, 1 << 40);
        assert_eq!(pending(&bytes), 1 << 40);
        assert!(Handle::read(&bytes).is_ok());
    }
}

//! Something between two ends: counts what goes through, damages it, or cuts it off.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::Handle;

/// What happens to bytes on the way from whoever connects to whoever listens.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// Nothing.
    None,
    /// Each connection ends after so many.
    CutAfter(u64),
    /// One bit of this byte of each connection is turned over.
    Damage(u64),
}

/// A relay. It goes when its connections do.
#[derive(Clone, Debug)]
pub struct Relay {
    passed: Arc<AtomicU64>,
}

impl Relay {
    /// Puts a relay in front of whoever made `handle`, which leads to the relay then.
    ///
    /// # Panics
    /// If the handle is none of the plugin's, or there are no sockets.
    #[must_use]
    pub fn before(handle: &mut Handle, fault: Fault) -> Self {
        let target = address(handle);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("there is a port");
        set_address(handle, listener.local_addr().expect("it has an address"));
        let relay = Self { passed: Arc::default() };
        let passed = Arc::clone(&relay.passed);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let server = TcpStream::connect(target).expect("the listener is there");
                let (back_from, back_to) = (server.try_clone().unwrap(), client.try_clone().unwrap());
                let passed = Arc::clone(&passed);
                thread::spawn(move || pass(&back_from, &back_to, Fault::None, &AtomicU64::new(0)));
                thread::spawn(move || pass(&client, &server, fault, &passed));
            }
        });
        relay
    }

    /// Bytes that went through on the way there.
    #[must_use]
    pub fn passed(&self) -> u64 {
        self.passed.load(Ordering::Acquire)
    }
}

fn pass(mut from: &TcpStream, mut to: &TcpStream, fault: Fault, passed: &AtomicU64) {
    let mut buffer = vec![0; 64 << 10];
    let mut at = 0u64;
    while let Ok(len @ 1..) = from.read(&mut buffer) {
        let mut piece = &mut buffer[..len];
        match fault {
            Fault::Damage(byte) if (at..at + len as u64).contains(&byte) => {
                piece[(byte - at) as usize] ^= 0x10;
            }
            Fault::CutAfter(limit) => piece = &mut piece[..len.min((limit - at) as usize)],
            _ => {}
        }
        at += piece.len() as u64;
        passed.fetch_add(piece.len() as u64, Ordering::AcqRel);
        if to.write_all(piece).is_err() || matches!(fault, Fault::CutAfter(limit) if at == limit) {
            break;
        }
    }
    // Both may be gone already.
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Where a handle leads.
///
/// # Panics
/// If that is no address of version 4.
#[must_use]
pub fn address(handle: &Handle) -> SocketAddr {
    assert_eq!((&handle[..8], handle[10]), (&b"mgcnccl\0"[..], 4), "a handle of the plugin");
    let ip: [u8; 4] = handle[16..20].try_into().expect("4 bytes");
    (Ipv4Addr::from(ip), u16::from_le_bytes([handle[12], handle[13]])).into()
}

fn set_address(handle: &mut Handle, address: SocketAddr) {
    handle[12..14].copy_from_slice(&address.port().to_le_bytes());
    handle[16..20].copy_from_slice(&Ipv4Addr::LOCALHOST.octets());
    seal(handle);
}

/// Writes the checksum that a handle is to have.
pub fn seal(handle: &mut Handle) {
    let checksum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &handle[..60]) as u32;
    handle[60..64].copy_from_slice(&checksum.to_le_bytes());
}

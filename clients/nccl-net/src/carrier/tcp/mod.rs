//! Messages over TCP: several sockets for a connection, which take turns. Message k goes through socket k modulo their
//! number, so both sides know where each one is, and all of them work for a program that has several under way.

mod connecting;
mod handle;
mod hello;
mod incoming;
mod interfaces;
mod listening;
mod outgoing;
mod socket;

use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mgcomp_transport::link::tcp::Connections;
use mgcomp_transport::message::Secret;
use rustix::io::Errno;

use self::connecting::Connecting;
use self::handle::Handle;
use self::interfaces::Interface;
use self::listening::TcpListener;
use self::outgoing::TcpOutgoing;
use super::{Carrier, Listener, Outgoing};
use crate::abi::{Facts, HANDLE_LEN, MAX_MESSAGE_BYTES, PTR_HOST, Text};
use crate::error::NetError;

/// Sockets for a connection, if nobody says how many.
const LANES: usize = 2;
const MOST_LANES: usize = Connections::MOST.count();

/// TCP.
pub(crate) struct Tcp {
    rank: u32,
    lanes: usize,
    interfaces: Vec<Interface>,
    /// Connections that are not up yet; their handles have the number.
    pending: Mutex<Pending>,
}

#[derive(Default)]
struct Pending {
    last: u64,
    connections: HashMap<u64, Connecting>,
}

impl Tcp {
    /// As the environment says.
    pub(crate) fn from_env(rank: u32, sockets: Option<Connections>) -> Result<Self, NetError> {
        let lanes = sockets.map_or(LANES, Connections::count);
        Ok(Self { rank, lanes, interfaces: interfaces::from_env()?, pending: Mutex::default() })
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Display for Tcp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} TCP sockets for a connection, over", self.lanes)?;
        self.interfaces.iter().try_for_each(|interface| write!(f, " {interface}"))
    }
}

impl Carrier for Tcp {
    fn devices(&self) -> usize {
        self.interfaces.len()
    }

    fn facts(&self, device: usize) -> Result<Facts, NetError> {
        let interface = &self.interfaces[device];
        Ok(Facts {
            device: device as i32,
            name: interface.name,
            // Without a place on the PCI bus, NCCL takes the network for far away, and leaves its protocol LL128 alone.
            pci_path: Text(std::ptr::null()),
            guid: device as u64,
            ptr_support: PTR_HOST,
            speed_mbps: interface.speed_mbps(),
            port: 0,
            latency: 0.0,
            max_comms: 65_536,
            max_bytes: MAX_MESSAGE_BYTES,
        })
    }

    fn listen(&self, device: usize, handle: &mut [u8; HANDLE_LEN]) -> Result<Box<dyn Listener>, NetError> {
        let secret = Secret::new(random()?);
        let (listener, address) = TcpListener::new(self.interfaces[device].address, secret)?;
        *handle = Handle { address, rank: self.rank, secret }.write();
        Ok(Box::new(listener))
    }

    fn connect(
        &self,
        _device: usize,
        handle: &mut [u8; HANDLE_LEN],
    ) -> Result<Option<Box<dyn Outgoing>>, NetError> {
        let number = handle::pending(handle);
        let mut pending = self.pending();
        let known = pending.connections.remove(&number);
        if known.is_none() {
            // Not on every call: a process that was held up as a whole asks for what it has begun first, as a rule.
            let now = Instant::now();
            pending.connections.retain(|_, connecting| now < connecting.until);
        }
        // It leads to sockets, which do not wait; other threads may well.
        drop(pending);
        let mut connecting = match known {
            Some(connecting) => connecting,
            None => Connecting::start(&Handle::read(handle)?, self.rank, self.lanes)?,
        };
        if let Some(sockets) = connecting.poll()? {
            handle::set_pending(handle, 0);
            return Ok(Some(Box::new(TcpOutgoing::new(connecting.peer(), sockets))));
        }
        pending = self.pending();
        pending.last += 1;
        let number = pending.last;
        pending.connections.insert(number, connecting);
        handle::set_pending(handle, number);
        Ok(None)
    }
}

/// Bytes that nobody can guess.
fn random<const N: usize>() -> Result<[u8; N], NetError> {
    let mut bytes = [0; N];
    let read = File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    match read {
        Ok(()) => Ok(bytes),
        Err(error) => {
            let errno = Errno::from_io_error(&error).unwrap_or(Errno::IO);
            Err(NetError::System { call: "reading /dev/urandom", errno })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_that_are_given_up_go() {
        let tcp = Tcp { rank: 1, lanes: 2, interfaces: Vec::new(), pending: Mutex::default() };
        // Nobody answers here.
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, secret) = (listener.local_addr().unwrap(), Secret::new([7; 16]));
        let mut handles = [Handle { address, rank: 0, secret }.write(); 3];
        let mut connect = |which: usize| assert!(tcp.connect(0, &mut handles[which]).unwrap().is_none());
        connect(0);
        connect(1);
        let given_up = |number| tcp.pending().connections.get_mut(&number).unwrap().until = Instant::now();
        given_up(1);
        given_up(2);
        connect(1); // It was late, but is asked for.
        assert_eq!(tcp.pending().connections.len(), 2);
        connect(2);
        let mut left: Vec<_> = tcp.pending().connections.keys().copied().collect();
        left.sort_unstable();
        assert_eq!(left, [3, 4]);
    }
}

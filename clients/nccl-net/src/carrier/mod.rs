//! How messages get to the other side: each connection goes one way and keeps their order, and no call waits.

mod inner;
mod protocol;
mod tcp;

use std::fmt::Display;

use mgcomp_selector::LinkFacts;
use mgcomp_transport::link::tcp::Connections;

use crate::abi::{Facts, HANDLE_LEN};
use crate::comm::{Arrived, Receiving, Ring, Sending};
use crate::error::NetError;

/// A kind of network.
pub(crate) trait Carrier: Display + Send + Sync {
    /// How many devices it has.
    fn devices(&self) -> usize;

    /// What is known of one of them.
    fn facts(&self, device: usize) -> Result<Facts, NetError>;

    /// Listens on a device, and writes to `handle` how that is reached.
    fn listen(&self, device: usize, handle: &mut [u8; HANDLE_LEN]) -> Result<Box<dyn Listener>, NetError>;

    /// Connects to whoever made `handle`; `None` as long as that takes. Calls for the same connection have the same handle,
    /// with whatever was written to it.
    fn connect(
        &self,
        device: usize,
        handle: &mut [u8; HANDLE_LEN],
    ) -> Result<Option<Box<dyn Outgoing>>, NetError>;

    /// Nothing of it is used any more.
    fn stop(&self) {}
}

/// Takes connections.
pub(crate) trait Listener: Send {
    /// The next connection, if there is one.
    fn accept(&mut self) -> Result<Option<Box<dyn Incoming>>, NetError>;
}

/// The end of a connection that sends.
pub(crate) trait Outgoing: Send {
    /// The other side's rank, or 0 if that is not known.
    fn peer(&self) -> u32;

    /// Sends on what is sealed, as far as that goes without waiting.
    fn drive(&mut self, ring: &Ring<Sending>) -> Result<(), NetError>;

    /// What is known of the way there.
    fn facts(&self) -> Option<LinkFacts>;

    /// Whether it may be driven by threads that NCCL knows nothing of.
    fn is_for_any_thread(&self) -> bool {
        true
    }
}

/// The end that receives.
pub(crate) trait Incoming: Send {
    /// The other side's rank, or 0 if that is not known.
    fn peer(&self) -> u32;

    /// Receives on, as far as that goes without waiting. What is there is told to `arrived`.
    fn drive(&mut self, ring: &Ring<Receiving>, arrived: &mut Arrived) -> Result<(), NetError>;
}

/// What the environment asks for: the plugin that it names, else TCP, over so many sockets if that says.
pub(crate) fn from_env(rank: u32, sockets: Option<Connections>) -> Result<Box<dyn Carrier>, NetError> {
    match inner::Inner::from_env(rank)? {
        Some(inner) => Ok(Box::new(inner)),
        None => Ok(Box::new(tcp::Tcp::from_env(rank, sockets)?)),
    }
}

//! From the memory of one CUDA device to that of another, between ranks of one process.
//!
//! [`Cuda`] is a link whose ranks have a device each: payloads that were made on the device of one rank are copied to that
//! of another as they are, from memory to memory, where the kernels there find them. Only headers, and payloads that were made
//! on the host, change hands as they do in a [`Loopback`]. While one payload is copied, the next
//! is encoded and the one before decoded, each on a stream of its own.
//!
//! [`ipc`] is the same for ranks that are processes. Copies by themselves, without ranks, are those of
//! [`peer_copy`](crate::peer_copy).

#[cfg(target_os = "linux")]
pub mod ipc;
mod mover;

use std::sync::Arc;
use std::time::Instant;

use mgcomp_codecs::device::Device;
use mgcomp_selector::LinkFacts;

use self::mover::Mover;
use super::loopback::{DEFAULT_QUEUE_BYTES, Loopback};
use super::{Link, LinkError, LinkSink, Message, Position, SendError, Sent};
use crate::executor::Outlet;
use crate::message::Rank;

/// One rank's end of a fabric of devices.
///
/// Buffers of a rank should be in the memory of its device. Others do as well, but their payloads go by way of the host.
pub struct Cuda {
    mover: Mover,
    ends: Arc<Loopback>,
    has_device: bool,
}

impl Cuda {
    /// The ends of a fabric of as many ranks as there are `devices`: what goes to a rank comes in the memory of its device, or
    /// of the host where it has none. They may be devices, contexts of one, or the same several times. Ranks that take more at once than
    /// others do, by limits of their own, are joined by [`fabric_with_queue`](Self::fabric_with_queue).
    ///
    /// # Errors
    /// [`LinkError`] if the system gives no threads.
    pub fn fabric(devices: Vec<Option<Device>>) -> Result<Vec<Self>, LinkError> {
        Self::fabric_with_queue(devices, DEFAULT_QUEUE_BYTES)
    }

    /// As [`fabric`](Self::fabric), with at most `queue_bytes` bytes under way from one rank to another.
    ///
    /// # Errors
    /// As [`fabric`](Self::fabric).
    pub fn fabric_with_queue(devices: Vec<Option<Device>>, queue_bytes: u64) -> Result<Vec<Self>, LinkError> {
        let ranks = u32::try_from(devices.len()).unwrap_or(u32::MAX);
        let devices: Arc<[_]> = devices.into();
        let end = |(end, device): (Loopback, &Option<Device>)| {
            let ends = Arc::new(end);
            let mover = Mover::start(&ends, &devices)?;
            Ok(Self { mover, ends, has_device: device.is_some() })
        };
        let ends = Loopback::fabric_with_queue(ranks, None, queue_bytes)?;
        ends.into_iter().zip(devices.iter()).map(end).collect()
    }
}

impl Link for Cuda {
    fn position(&self) -> Position {
        self.ends.position()
    }

    fn ranks_here(&self) -> u32 {
        self.ends.ranks_here()
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        self.ends.listen(sink)
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        let credit = self.ends.admit(to, &message)?;
        self.mover.send(to, message, credit);
        Ok(Sent::Queued)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        self.ends.moved_since(peer, since)
    }

    fn facts(&self, peer: Rank) -> Option<LinkFacts> {
        self.mover.facts(peer)
    }

    fn outlet(&self) -> Outlet {
        if self.has_device { Outlet::Anywhere } else { Outlet::Host }
    }

    fn owns_arrived(&self) -> bool {
        false
    }

    fn close(&self, peer: Rank) {
        if self.ends.give_up(peer) {
            self.mover.say_closed(peer);
        }
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        self.position().peers().for_each(|peer| self.close(peer));
        // The mover goes next, once it has sent what it has, and then the end, which says nothing any more.
    }
}

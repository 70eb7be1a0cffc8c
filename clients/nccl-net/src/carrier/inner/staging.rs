//! Buffers of ours that the inner plugin knows, one for each message that may be under way.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{Shared, Theirs};
use crate::abi::{MAX_REQUESTS, Opaque, PTR_HOST};
use crate::error::NetError;

/// Memory is made known in pieces that are so long at least, so that it is not done often.
const LEAST_BYTES: usize = 64 << 10;

/// An end of one of the inner plugin's connections, its buffers, and what it does with them.
pub(super) struct Staging {
    shared: Arc<Shared>,
    end: Theirs,
    slots: Vec<Slot>,
    /// Places where nothing is, the last used one last: so there are no more buffers than messages under way.
    free: Vec<usize>,
}

#[derive(Default)]
struct Slot {
    bytes: Vec<u8>,
    /// The handle of the memory, which may be null.
    memory: Option<Theirs>,
    request: Option<Theirs>,
}

/// Which end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Out,
    In,
}

impl Staging {
    pub(super) fn new(shared: Arc<Shared>, end: Theirs) -> Self {
        // One for the first message of the connection, which is nobody's.
        let slots = (0..=MAX_REQUESTS).map(|_| Slot::default()).collect();
        Self { shared, end, slots, free: (0..MAX_REQUESTS).rev().collect() }
    }

    /// The place that the next message will take; there is one for each that may be under way.
    pub(super) fn next_place(&self) -> Option<usize> {
        self.free.last().copied()
    }

    /// The place of what comes before the first message.
    pub(super) const HELLO: usize = MAX_REQUESTS;

    /// A buffer with room for so many bytes. Nothing may be under way there.
    pub(super) fn room(&mut self, place: usize, len: usize) -> Result<&mut [u8], NetError> {
        let slot = &mut self.slots[place];
        debug_assert!(slot.request.is_none(), "nothing is under way");
        if slot.bytes.len() < len || slot.memory.is_none() {
            if let Some(memory) = slot.memory.take() {
                // SAFETY: a handle of its own, for memory that it does nothing with.
                unsafe { self.shared.loaded.deregister(self.end.pointer(), memory.pointer()) }?;
            }
            slot.bytes = vec![0; len.next_power_of_two().max(LEAST_BYTES)];
            let (start, len) = (slot.bytes.as_mut_ptr(), slot.bytes.len());
            // SAFETY: the bytes are there until the memory is forgotten, above or at the end.
            let memory =
                unsafe { self.shared.loaded.register(self.end.pointer(), start.cast(), len, PTR_HOST) }?;
            slot.memory = Some(Theirs(memory as usize));
        }
        Ok(&mut slot.bytes[..len])
    }

    /// Starts to send or to receive the first `len` bytes of a buffer; whether that was possible.
    pub(super) fn start(&mut self, way: Way, place: usize, len: usize) -> Result<bool, NetError> {
        let (loaded, end, slot) = (&self.shared.loaded, self.end.pointer(), &mut self.slots[place]);
        let memory = slot.memory.map_or(std::ptr::null_mut(), Theirs::pointer);
        let data: Opaque = slot.bytes[..len].as_mut_ptr().cast();
        // SAFETY: the bytes are there, and nobody else's, until the request is done or the end is closed.
        let request = unsafe {
            match way {
                Way::Out => loaded.send(end, data, len, memory),
                Way::In => loaded.receive(end, data, len, memory, 0),
            }
        }?;
        slot.request = Theirs::new(request);
        let started = slot.request.is_some();
        if started && place != Self::HELLO {
            self.free.retain(|&free| free != place);
        }
        Ok(started)
    }

    /// How many bytes were sent or received in a buffer, if that is over.
    pub(super) fn test(&mut self, place: usize) -> Result<Option<usize>, NetError> {
        let slot = &mut self.slots[place];
        let Some(request) = slot.request else { return Ok(None) };
        // SAFETY: a request of its own, which is not over yet.
        let done = unsafe { self.shared.loaded.test(request.pointer()) }?;
        if done.is_some() {
            slot.request = None;
            if place != Self::HELLO {
                self.free.push(place);
            }
        }
        Ok(done)
    }

    /// The first `len` bytes of a buffer.
    pub(super) fn bytes(&self, place: usize, len: usize) -> &[u8] {
        &self.slots[place].bytes[..len]
    }

    /// Closes the end, and lets go of the buffers. There is nobody to tell of an error.
    pub(super) fn close(&mut self, way: Way) {
        if self.shared.stopped.load(Ordering::Acquire) {
            // It takes no calls any more, but nobody has told it to leave memory alone that it knows or has a request for.
            let known = |slot: &Slot| slot.memory.is_some() || slot.request.is_some();
            self.slots.drain(..).filter(known).for_each(std::mem::forget);
            return;
        }
        let (loaded, end) = (&self.shared.loaded, self.end.pointer());
        for memory in self.slots.iter_mut().filter_map(|slot| slot.memory.take()) {
            // SAFETY: handles of its own, as NCCL gives them back before it closes an end.
            let _ = unsafe { loaded.deregister(end, memory.pointer()) };
        }
        // SAFETY: an end of its own, which is used no more.
        let _ = unsafe {
            match way {
                Way::Out => loaded.close_send(end),
                Way::In => loaded.close_recv(end),
            }
        };
    }
}

#[cfg(test)]
mod tests {
    use super::super::stub::Stub;
    use super::super::{Carrier, Inner};
    use super::*;

    /// What becomes of three slots, one of them with a request, if the plugin is stopped first: slots that are left to be freed,
    /// calls that take memory back, and calls that close the end.
    fn closed_after_stop(version: u32) -> (usize, usize, usize) {
        let (shared, end, stub) = Stub::end(0, version);
        let mut staging = Staging::new(Arc::clone(&shared), end);
        for place in 0..3 {
            staging.room(place, 10).unwrap();
        }
        assert!(staging.start(Way::Out, 1, 10).unwrap());
        Inner { shared, rank: 0, devices: 1 }.stop();
        staging.close(Way::Out);
        // SAFETY: it stays, and nothing calls the plugin meanwhile.
        let (deregistered, closed) = unsafe { ((*stub).deregistered, (*stub).closed) };
        (staging.slots.len(), deregistered, closed)
    }

    #[test]
    fn memory_that_a_stopped_plugin_knows_stays() {
        assert_eq!(closed_after_stop(11), (0, 0, 0));
    }

    #[test]
    fn versions_that_do_not_stop_give_memory_back() {
        assert_eq!(closed_after_stop(10), (MAX_REQUESTS + 1, 3, 1));
    }
}

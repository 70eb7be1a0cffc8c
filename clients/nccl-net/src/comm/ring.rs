//! Slots for requests, in the order in which they were made.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::abi::MAX_REQUESTS;
use crate::objects::RequestNumber;

/// Who has a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Stage {
    /// Nobody.
    Free,
    /// A thread that encodes or decodes.
    Coding,
    /// What carries messages.
    Carrier,
    /// NCCL, once it asks.
    Done,
}

/// Slots, each with a `T`.
pub(crate) struct Ring<T> {
    slots: Box<[Slot<T>]>,
    /// Messages that were ever put in. Only whoever puts one in changes it.
    posted: AtomicU64,
    posting: Mutex<()>,
}

struct Slot<T> {
    /// The message and its stage: the stage in the lowest two bits.
    state: AtomicU64,
    content: Mutex<T>,
}

impl<T: Default> Ring<T> {
    pub(crate) fn new() -> Self {
        let slot = |_| Slot { state: AtomicU64::new(0), content: Mutex::default() };
        Self {
            slots: (0..MAX_REQUESTS).map(slot).collect(),
            posted: AtomicU64::new(0),
            posting: Mutex::default(),
        }
    }
}

impl<T> Ring<T> {
    /// Puts the next message in, if its slot is free; `fill` says in which stage. Returns its number.
    pub(crate) fn post(&self, fill: impl FnOnce(&mut T) -> Stage) -> Option<u64> {
        let _alone = self.posting.lock().unwrap_or_else(PoisonError::into_inner);
        let message = self.posted.load(Ordering::Relaxed);
        let slot = self.slot(message);
        if stage_of(slot.state.load(Ordering::Acquire)) != Stage::Free {
            return None;
        }
        let stage = fill(&mut slot.lock());
        self.set(message, stage);
        self.posted.store(message + 1, Ordering::Release);
        Some(message)
    }

    /// How many messages were ever put in.
    pub(crate) fn posted(&self) -> u64 {
        self.posted.load(Ordering::Acquire)
    }

    /// The stage of a message that was put in.
    pub(crate) fn stage(&self, message: u64) -> Stage {
        let state = self.slot(message).state.load(Ordering::Acquire);
        if state >> 2 == message & (u64::MAX >> 2) { stage_of(state) } else { Stage::Free }
    }

    /// Hands a message on.
    pub(crate) fn set(&self, message: u64, stage: Stage) {
        self.slot(message).state.store(message << 2 | stage as u64, Ordering::Release);
    }

    /// Frees the slot of a message that is done; whether nobody else has.
    pub(crate) fn free(&self, message: u64) -> bool {
        let [done, free] = [Stage::Done, Stage::Free].map(|stage| message << 2 | stage as u64);
        self.slot(message).state.compare_exchange(done, free, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// What is in the slot of a message, for whoever has it in this stage.
    pub(crate) fn content(&self, message: u64) -> MutexGuard<'_, T> {
        self.slot(message).lock()
    }

    /// The message that a request is for, if it is under way.
    pub(crate) fn find(&self, number: RequestNumber) -> Option<u64> {
        let state = self.slots[number.slot(self.slots.len())].state.load(Ordering::Acquire);
        let message = state >> 2;
        (stage_of(state) != Stage::Free && number.is_of(message)).then_some(message)
    }

    /// Messages that are under way.
    pub(crate) fn under_way(&self) -> usize {
        let states = self.slots.iter().map(|slot| stage_of(slot.state.load(Ordering::Relaxed)));
        states.filter(|&stage| stage != Stage::Free).count()
    }

    fn slot(&self, message: u64) -> &Slot<T> {
        &self.slots[(message % self.slots.len() as u64) as usize]
    }
}

impl<T> Slot<T> {
    fn lock(&self) -> MutexGuard<'_, T> {
        self.content.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn stage_of(state: u64) -> Stage {
    match state & 3 {
        0 => Stage::Free,
        1 => Stage::Coding,
        2 => Stage::Carrier,
        _ => Stage::Done,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_used_in_order_and_again() {
        let ring: Ring<u64> = Ring::new();
        let post = |value| {
            ring.post(|content| {
                *content = value;
                Stage::Carrier
            })
        };
        for i in 0..MAX_REQUESTS as u64 {
            assert_eq!(post(i), Some(i));
        }
        assert_eq!((post(99), ring.under_way()), (None, MAX_REQUESTS));
        ring.set(1, Stage::Done);
        assert!(!ring.free(0) && ring.free(1) && !ring.free(1));
        assert_eq!(post(99), None, "the next slot is that of message 0");
        ring.set(0, Stage::Done);
        assert!(ring.free(0));
        assert_eq!(post(99), Some(32));
        assert_eq!((*ring.content(32), ring.stage(32), ring.stage(0)), (99, Stage::Carrier, Stage::Free));
        assert_eq!(ring.posted(), 33);
    }
}

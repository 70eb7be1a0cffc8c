//! The side of a session that answers: holds the peer to the limits that it was told.

use std::collections::HashSet;

use rustc_hash::FxHashMap;

use super::error::Violation;
use super::lanes::Lane;
use crate::message::{Limits, MessageId, OfferId};

/// Requests of the peer that are not answered yet.
#[derive(Debug, Default)]
pub(super) struct Responder {
    served: FxHashMap<MessageId, (Lane, u32)>,
    /// Reads and writes among these.
    memory: usize,
    memory_bytes: u64,
    tagged_bytes: u64,
    offers: HashSet<OfferId>,
}

impl Responder {
    /// Takes in a request of `length` bytes.
    ///
    /// # Errors
    /// [`Violation`] if the peer must not make it now.
    pub(super) fn admit(
        &mut self,
        id: MessageId,
        lane: Lane,
        length: u32,
        limits: Limits,
    ) -> Result<(), Violation> {
        if self.served.contains_key(&id) {
            return Err(Violation::IdInUse(id));
        }
        if self.served.len() >= limits.max_in_flight as usize {
            return Err(Violation::TooManyRequests { limit: limits.max_in_flight });
        }
        let in_flight = *self.bytes(lane) + u64::from(length);
        if in_flight > limits.window_bytes {
            return Err(Violation::WindowExceeded { in_flight, limit: limits.window_bytes });
        }
        *self.bytes(lane) = in_flight;
        self.served.insert(id, (lane, length));
        self.memory += usize::from(lane == Lane::Memory);
        Ok(())
    }

    /// Whether more than one read or write is being answered.
    pub(super) fn serves_others(&self) -> bool {
        self.memory > 1
    }

    /// Takes in an offer of the peer.
    ///
    /// # Errors
    /// [`Violation`] if the peer must not make it now.
    pub(super) fn admit_offer(&mut self, offer: OfferId, limits: Limits) -> Result<(), Violation> {
        if self.offers.len() >= limits.max_in_flight as usize {
            return Err(Violation::TooManyOffers { limit: limits.max_in_flight });
        }
        if self.offers.insert(offer) { Ok(()) } else { Err(Violation::OfferInUse(offer)) }
    }

    /// Notes that the answer to an offer has gone out.
    pub(super) fn answered_offer(&mut self, offer: OfferId) {
        self.offers.remove(&offer);
    }

    /// Notes that the answer has gone out.
    pub(super) fn answered(&mut self, id: MessageId) {
        if let Some((lane, length)) = self.served.remove(&id) {
            *self.bytes(lane) -= u64::from(length);
            self.memory -= usize::from(lane == Lane::Memory);
        }
    }

    fn bytes(&mut self, lane: Lane) -> &mut u64 {
        match lane {
            Lane::Memory => &mut self.memory_bytes,
            Lane::Tagged | Lane::Groups => &mut self.tagged_bytes,
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.served.is_empty()
            && self.offers.is_empty()
            && self.memory == 0
            && self.memory_bytes + self.tagged_bytes == 0
    }

    #[cfg(test)]
    pub(super) fn may_take_one_more(&self, limits: Limits) -> bool {
        self.served.len() < limits.max_in_flight as usize
    }
}

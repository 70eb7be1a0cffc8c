//! Sends that wait here for a receive at the peer: it was told of them, and fetches them when it wants them.

use std::collections::HashMap;

use super::error::Violation;
use super::lanes::{Lane, left_to_others};
use super::requester::TransferNumber;
use crate::message::{Limits, OfferId};

/// Offers that the peer has not answered.
#[derive(Debug, Default)]
pub(super) struct Offers {
    open: HashMap<OfferId, Offered>,
    /// How many of these are of operations of groups.
    of_groups: usize,
    next: u32,
}

#[derive(Debug)]
struct Offered {
    transfer: TransferNumber,
    lane: Lane,
    /// Whether the offer has left.
    is_told: bool,
    /// Fetches that are not answered yet.
    fetches: u32,
}

impl Offers {
    /// Whether one more leaves enough to those of the other lane.
    pub(super) fn leave_room(&self, lane: Lane, limits: Limits) -> bool {
        let of_lane = if lane == Lane::Groups { self.of_groups } else { self.open.len() - self.of_groups };
        (of_lane as u64) < u64::from(limits.max_in_flight - left_to_others(limits.max_in_flight).max(1))
    }

    /// Takes in a send that is to be offered, unless the peer takes no more offers.
    pub(super) fn open(&mut self, transfer: TransferNumber, lane: Lane, limits: Limits) -> Option<OfferId> {
        if self.open.len() >= limits.max_in_flight as usize {
            return None;
        }
        self.of_groups += usize::from(lane == Lane::Groups);
        while self.open.contains_key(&OfferId(self.next)) {
            self.next = self.next.wrapping_add(1);
        }
        let offer = OfferId(self.next);
        self.next = self.next.wrapping_add(1);
        self.open.insert(offer, Offered { transfer, lane, is_told: false, fetches: 0 });
        Some(offer)
    }

    /// Notes that the offer leaves now; returns which send it is.
    pub(super) fn tell(&mut self, offer: OfferId) -> Option<TransferNumber> {
        let offered = self.open.get_mut(&offer)?;
        offered.is_told = true;
        Some(offered.transfer)
    }

    /// Which send the peer means by `offer`.
    pub(super) fn told(&self, offer: OfferId) -> Option<TransferNumber> {
        self.open.get(&offer).filter(|offered| offered.is_told).map(|offered| offered.transfer)
    }

    /// The sends that were offered, or are about to be.
    pub(super) fn transfers(&self) -> impl Iterator<Item = TransferNumber> {
        self.open.values().map(|offered| offered.transfer)
    }

    /// Notes that bytes are on their way to whoever fetches them.
    pub(super) fn begin_fetch(&mut self, offer: OfferId) {
        if let Some(offered) = self.open.get_mut(&offer) {
            offered.fetches += 1;
        }
    }

    /// Notes that a fetch was answered.
    pub(super) fn end_fetch(&mut self, offer: OfferId) {
        if let Some(offered) = self.open.get_mut(&offer) {
            offered.fetches -= 1;
        }
    }

    /// Ends an offer, which the peer has answered; returns which send it was.
    ///
    /// # Errors
    /// [`Violation`] if there is none, or the peer is still owed bytes of it.
    pub(super) fn end(&mut self, offer: OfferId) -> Result<TransferNumber, Violation> {
        match self.open.get(&offer) {
            Some(&Offered { is_told: true, fetches: 0, transfer, lane }) => {
                self.open.remove(&offer);
                self.of_groups -= usize::from(lane == Lane::Groups);
                Ok(transfer)
            }
            Some(Offered { is_told: true, .. }) => Err(Violation::OfferInUse(offer)),
            _ => Err(Violation::NoSuchOffer(offer)),
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.open.is_empty() && self.of_groups == 0
    }
}

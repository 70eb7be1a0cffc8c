//! Groups of ranks of whose operations nothing is sent or received any more.

use super::error::TransferError;
use super::inbox::Arrival;
use super::{Phase, Session};
use crate::message::{GivingUp, Status, Tag};

/// The end of a group on this rank.
#[derive(Clone, Copy, Debug)]
pub struct GroupOver {
    /// Which group.
    pub group: u32,
    /// Why.
    pub status: Status,
    /// All operations that this rank took part in are over on it: what it has sent may still be on its way to others, and is theirs.
    pub is_orderly: bool,
}

impl Session {
    /// This rank takes part in no operation of a group any more. What it has asked for of them ends: receives, and unless the end is
    /// an orderly one, sends that have not left. What the peer sends of them is let go of and answered with the status, for as
    /// long as the peer `goes_on`: until it says that it has given up, or left, as well.
    pub fn end_group(&mut self, GroupOver { group, status, is_orderly }: GroupOver, goes_on: bool) {
        let is_of_group = |tag| GivingUp::operation_of(tag) == Some(group);
        let error = TransferError::GivenUp { peer: self.config.local, status };
        let (posted, arrived) = self.inbox.take_all_of(group);
        for posted in posted {
            self.fail(posted, error.clone());
        }
        for arrival in arrived {
            self.turn_away(arrival, status);
        }
        let ended = if is_orderly { Vec::new() } else { self.requester.end_all_of(is_of_group, &error) };
        for ended in ended {
            if let Some(offer) = ended.fetched {
                self.acknowledge_offer(offer, status);
            }
            if let Some(finished) = ended.finished {
                self.deliver(finished);
            }
        }
        if goes_on && !matches!(self.phase, Phase::Over(_)) {
            self.groups_over.insert(group, status);
        }
        self.start_pieces(); // others may have waited for room
    }

    /// The peer has given up as well: nothing more comes of the group.
    pub(super) fn forget_group(&mut self, group: u32) {
        self.groups_over.remove(&group);
    }

    /// Why nobody here receives what comes with this tag.
    pub(super) fn refusal_of(&self, tag: Tag) -> Option<Status> {
        self.groups_over.get(&GivingUp::operation_of(tag)?).copied()
    }

    /// Answers what nobody will receive.
    pub(super) fn turn_away(&mut self, arrival: Arrival, status: Status) {
        match arrival {
            Arrival::Sent(sent) => self.acknowledge(sent.id, status),
            Arrival::Offered { offer, .. } => self.acknowledge_offer(offer, status),
        }
    }
}

//! What goes to a peer, in lanes that do not hold up each other.

use std::collections::VecDeque;

use super::request::Request;
use super::requester::TransferNumber;

/// This part of the sends and offers that may be in flight is for operations of groups: messages may wait for receives that come only when such
/// an operation is over.
const GROUPS_SHARE: u32 = 8;

/// Transfers that share a window. Sends wait for a receive at the peer, perhaps for long, and must not hold
/// up reads and writes, which the peer answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Memory,
    Tagged,
}

/// Receives are here only once they were matched with an offer, which the peer answers by itself.
pub(super) fn lane_of(request: &Request) -> Lane {
    if matches!(request, Request::Send { .. }) { Lane::Tagged } else { Lane::Memory }
}

/// How many of so many sends, or offers, may be of a group, or not.
pub(super) fn most_of(all: u32, is_of_group: bool) -> u32 {
    if is_of_group { all } else { all - all / GROUPS_SHARE }
}

#[derive(Debug, Default)]
pub(super) struct LaneState {
    waiting: VecDeque<TransferNumber>,
    /// Sends of groups: they wait for nothing but each other.
    of_groups: VecDeque<TransferNumber>,
    pub(super) in_flight: u32,
    pub(super) in_flight_bytes: u64,
}

impl LaneState {
    /// Where transfers wait in order, those of groups apart.
    pub(super) fn queue(&mut self, is_of_group: bool) -> &mut VecDeque<TransferNumber> {
        if is_of_group { &mut self.of_groups } else { &mut self.waiting }
    }

    /// The transfer that a piece is started of next.
    pub(super) fn next(&self) -> Option<TransferNumber> {
        self.of_groups.front().or(self.waiting.front()).copied()
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.next().is_none() && self.in_flight == 0 && self.in_flight_bytes == 0
    }
}

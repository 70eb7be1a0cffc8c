//! What goes to a peer, in lanes that do not hold up each other.

use std::collections::VecDeque;

use super::request::Request;
use super::requester::TransferNumber;
use crate::message::Limits;

/// Of the sends and the offers that may be in flight, this part is left to those of the other lane: messages may wait for receives that come only when
/// an operation of a group is over, and the other way round.
const OTHERS_SHARE: u32 = 8;

/// Transfers that share a window. Sends wait for a receive at the peer, perhaps for long, and must not hold
/// up reads and writes, which the peer answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Memory,
    Tagged,
    /// Sends of operations of groups, which the peer takes for tagged ones like any other.
    Groups,
}

impl Lane {
    pub(super) const ALL: [Self; 3] = [Self::Memory, Self::Tagged, Self::Groups];

    /// Receives are here only once they were matched with an offer, which the peer answers by itself.
    pub(super) fn of(request: &Request) -> Self {
        match request {
            Request::Send { .. } if request.is_of_group() => Self::Groups,
            Request::Send { .. } => Self::Tagged,
            _ => Self::Memory,
        }
    }

    /// Whether it has sends.
    pub(super) fn is_tagged(self) -> bool {
        self != Self::Memory
    }
}

/// How many of so many sends or offers are left to the other lane.
pub(super) fn left_to_others(all: u32) -> u32 {
    all / OTHERS_SHARE
}

/// What is in a lane.
#[derive(Debug, Default)]
pub(super) struct LaneState {
    /// In the order of submission.
    pub(super) waiting: VecDeque<TransferNumber>,
    pub(super) in_flight: u32,
    pub(super) in_flight_bytes: u64,
}

/// All lanes.
#[derive(Debug, Default)]
pub(super) struct Lanes {
    memory: LaneState,
    tagged: LaneState,
    groups: LaneState,
}

impl Lanes {
    pub(super) fn get(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Memory => &mut self.memory,
            Lane::Tagged => &mut self.tagged,
            Lane::Groups => &mut self.groups,
        }
    }

    /// Pieces in flight.
    pub(super) fn in_flight(&self) -> u32 {
        self.memory.in_flight + self.sends()
    }

    fn sends(&self) -> u32 {
        self.tagged.in_flight + self.groups.in_flight
    }

    /// Whether a lane has room for one more transfer of `length` bytes. Sends leave half of the ids to reads and
    /// writes.
    pub(super) fn has_room(&self, lane: Lane, length: u32, limits: Limits) -> bool {
        let most_sends = limits.max_in_flight.div_ceil(2);
        let most_of_lane = most_sends - left_to_others(most_sends);
        let (fits, bytes) = match lane {
            Lane::Memory => (true, self.memory.in_flight_bytes),
            Lane::Tagged => (self.tagged.in_flight < most_of_lane, self.send_bytes()),
            Lane::Groups => (self.groups.in_flight < most_of_lane, self.send_bytes()),
        };
        let fits = fits && (lane == Lane::Memory || self.sends() < most_sends);
        fits && bytes.saturating_add(length.into()) <= limits.window_bytes
    }

    fn send_bytes(&self) -> u64 {
        self.tagged.in_flight_bytes + self.groups.in_flight_bytes
    }

    /// A piece of so many bytes begins.
    pub(super) fn enter(&mut self, lane: Lane, length: u32) {
        let state = self.get(lane);
        state.in_flight += 1;
        state.in_flight_bytes += u64::from(length);
    }

    /// One ends.
    pub(super) fn leave(&mut self, lane: Lane, length: u32) {
        let state = self.get(lane);
        state.in_flight -= 1;
        state.in_flight_bytes -= u64::from(length);
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let lanes = [&self.memory, &self.tagged, &self.groups];
        lanes.iter().all(|lane| lane.waiting.is_empty() && lane.in_flight == 0 && lane.in_flight_bytes == 0)
    }
}

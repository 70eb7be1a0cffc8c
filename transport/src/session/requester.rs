//! The side of a session that asks: cuts requests into pieces and keeps them within the peer's limits.

use std::collections::{BTreeMap, HashMap, VecDeque};

use mgcomp_codecs::Algorithm;

use super::action::JobId;
use super::error::TransferError;
use super::request::{Request, RequestId};
use crate::message::{Limits, MessageId};
use crate::payload::Payload;

/// Transfers that share a window. Sends wait for a receive at the peer, perhaps for long, and must not hold
/// up reads and writes, which the peer answers by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    Memory,
    Tagged,
}

/// Counts transfers in the order of submission. Whoever makes requests may use a `RequestId` twice.
type TransferNumber = u64;

/// A request that is being worked on.
#[derive(Debug)]
struct Transfer {
    id: RequestId,
    request: Request,
    length: u64,
    /// Where the next piece starts; `None` once the last one has.
    next: Option<u64>,
    in_flight: u32,
    failed: Option<TransferError>,
}

/// A part of a transfer that is in one message.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    transfer: TransferNumber,
    pub(super) lane: Lane,
    pub(super) offset: u64,
    pub(super) length: u32,
    pub(super) stage: Stage,
    /// What encoded it, once that is done.
    pub(super) encoded_by: Option<JobId>,
}

/// How far a piece has come.
#[derive(Clone, Debug)]
pub(super) enum Stage {
    /// Its bytes are being encoded here.
    Encoding,
    /// A send that is encoded and waits for earlier ones, so that sends arrive in order.
    Held(Algorithm, Payload),
    /// A read that the peer has to answer with bytes.
    AwaitingData,
    /// A write or send that the peer has to acknowledge.
    AwaitingAck,
    /// Bytes of a read are being decoded here.
    Decoding,
}

/// The most raw bytes that the peer takes in one message.
pub(super) fn longest_message(limits: Limits) -> u64 {
    u64::from(limits.max_transfer_bytes).min(limits.window_bytes)
}

/// A request's end: what to deliver.
pub(super) type Finished = (RequestId, Result<u64, TransferError>);

#[derive(Debug, Default)]
pub(super) struct Requester {
    transfers: BTreeMap<TransferNumber, Transfer>,
    next_transfer: TransferNumber,
    /// Transfers with pieces yet to start, by lane, in the order of submission.
    memory: LaneState,
    tagged: LaneState,
    /// Whether it is the sends' turn.
    sends_next: bool,
    pieces: HashMap<MessageId, Piece>,
    /// The read of no bytes that finds out whether the peer is there.
    probe: Option<MessageId>,
    next_id: u16,
    /// Sends under way that have not left yet, in order.
    unsent: VecDeque<MessageId>,
}

#[derive(Debug, Default)]
struct LaneState {
    waiting: VecDeque<TransferNumber>,
    in_flight: u32,
    in_flight_bytes: u64,
}

impl Requester {
    /// Takes in a request; its pieces start with [`start_piece`](Self::start_piece).
    pub(super) fn submit(&mut self, id: RequestId, request: Request) {
        let length = request.memory().capacity();
        let lane = if matches!(request, Request::Send { .. }) { Lane::Tagged } else { Lane::Memory };
        let number = self.next_transfer;
        self.next_transfer += 1;
        self.lane(lane).waiting.push_back(number);
        let transfer = Transfer { id, request, length, next: Some(0), in_flight: 0, failed: None };
        self.transfers.insert(number, transfer);
    }

    /// The next piece that the peer's limits allow to start, with its request. Lanes take turns: where few
    /// requests may be in flight, a long read must not hold up sends either.
    pub(super) fn start_piece(&mut self, limits: Limits, piece_bytes: u32) -> Option<(MessageId, Request)> {
        let lanes = if self.sends_next { [Lane::Tagged, Lane::Memory] } else { [Lane::Memory, Lane::Tagged] };
        let started =
            lanes.into_iter().find_map(|lane| Some((lane, self.start_in(lane, limits, piece_bytes)?)));
        let (lane, piece) = started?;
        self.sends_next = lane == Lane::Memory;
        Some(piece)
    }

    fn start_in(&mut self, lane: Lane, limits: Limits, piece_bytes: u32) -> Option<(MessageId, Request)> {
        let number = *self.lane(lane).waiting.front()?;
        let transfer = self.transfers.get(&number)?;
        let offset = transfer.next?;
        let most = match lane {
            Lane::Memory => longest_message(limits).min(u64::from(piece_bytes)),
            Lane::Tagged => longest_message(limits), // whole: its length was checked against this
        };
        let length = (transfer.length - offset).min(most) as u32;
        if !self.fits(lane, length, limits) {
            return None;
        }
        let id = self.free_id()?;
        let transfer = self.transfers.get_mut(&number)?;
        let end = offset + u64::from(length);
        transfer.next = (end < transfer.length).then_some(end);
        transfer.in_flight += 1;
        let request = transfer.request.clone();
        let last = transfer.next.is_none();

        let state = self.lane(lane);
        state.in_flight += 1;
        state.in_flight_bytes += u64::from(length);
        if last {
            state.waiting.pop_front();
        }
        let stage = match request {
            Request::Read { .. } => Stage::AwaitingData,
            _ => Stage::Encoding,
        };
        if lane == Lane::Tagged {
            self.unsent.push_back(id);
        }
        self.pieces.insert(id, Piece { transfer: number, lane, offset, length, stage, encoded_by: None });
        Some((id, request))
    }

    /// Whether one more transfer of `length` bytes keeps to the peer's limits. Sends leave half of the ids to
    /// reads and writes.
    fn fits(&mut self, lane: Lane, length: u32, limits: Limits) -> bool {
        let sends_fit = lane == Lane::Memory || self.tagged.in_flight < limits.max_in_flight.div_ceil(2);
        let in_flight_bytes = self.lane(lane).in_flight_bytes;
        self.in_flight() < limits.max_in_flight
            && sends_fit
            && in_flight_bytes.saturating_add(u64::from(length)) <= limits.window_bytes
    }

    pub(super) fn piece(&mut self, id: MessageId) -> Option<&mut Piece> {
        self.pieces.get_mut(&id)
    }

    /// The memory of the read that waits for answer `id`, and which piece of it that is.
    pub(super) fn awaited(&self, id: MessageId) -> Option<(&Payload, &Piece)> {
        let piece = self.pieces.get(&id).filter(|piece| matches!(piece.stage, Stage::AwaitingData))?;
        Some((self.request(piece)?.memory(), piece))
    }

    /// The request that a piece belongs to.
    pub(super) fn request(&self, piece: &Piece) -> Option<&Request> {
        self.transfers.get(&piece.transfer).map(|transfer| &transfer.request)
    }

    /// Takes the first send that has not left, if it is encoded by now.
    pub(super) fn next_held(&mut self) -> Option<(MessageId, Algorithm, Payload)> {
        let id = *self.unsent.front()?;
        let piece = self.pieces.get_mut(&id)?;
        let Stage::Held(algorithm, payload) = &piece.stage else { return None };
        let held = (id, *algorithm, payload.clone());
        piece.stage = Stage::AwaitingAck;
        self.unsent.pop_front();
        Some(held)
    }

    /// Ends a piece; returns its request's end if this was what it waited for.
    pub(super) fn finish(&mut self, id: MessageId, result: Result<(), TransferError>) -> Option<Finished> {
        let piece = self.pieces.remove(&id)?;
        if matches!(piece.stage, Stage::Encoding | Stage::Held(..)) {
            self.unsent.retain(|&unsent| unsent != id);
        }
        let state = self.lane(piece.lane);
        state.in_flight -= 1;
        state.in_flight_bytes -= u64::from(piece.length);

        let transfer = self.transfers.get_mut(&piece.transfer)?;
        transfer.in_flight -= 1;
        if let Err(error) = result {
            transfer.failed.get_or_insert(error);
            if transfer.next.take().is_some() {
                // What has not started never will.
                self.lane(piece.lane).waiting.retain(|&waiting| waiting != piece.transfer);
            }
        }
        let transfer = self.transfers.get(&piece.transfer)?;
        if transfer.in_flight > 0 || transfer.next.is_some() {
            return None;
        }
        let transfer = self.transfers.remove(&piece.transfer)?;
        Some((transfer.id, transfer.failed.map_or(Ok(transfer.length), Err)))
    }

    /// Whether a probe may start: none is under way, and the peer takes one more request.
    pub(super) fn may_probe(&self, limits: Limits) -> bool {
        self.probe.is_none() && self.in_flight() < limits.max_in_flight
    }

    /// Reserves an id for a probe that [may](Self::may_probe) start.
    pub(super) fn start_probe(&mut self) -> Option<MessageId> {
        self.probe = self.free_id();
        self.probe
    }

    /// Whether `id` was the probe; it no longer is.
    pub(super) fn end_probe(&mut self, id: MessageId) -> bool {
        let ended = self.probe == Some(id);
        if ended {
            self.probe = None;
        }
        ended
    }

    /// Whether the peer owes an answer, or will once a piece has started.
    pub(super) fn is_busy(&self) -> bool {
        !self.transfers.is_empty()
    }

    /// Removes all requests; returns them in the order of submission.
    pub(super) fn take_all(&mut self) -> impl Iterator<Item = RequestId> + use<> {
        std::mem::take(self).transfers.into_values().map(|transfer| transfer.id)
    }

    fn in_flight(&self) -> u32 {
        self.memory.in_flight + self.tagged.in_flight + u32::from(self.probe.is_some())
    }

    fn lane(&mut self, lane: Lane) -> &mut LaneState {
        match lane {
            Lane::Memory => &mut self.memory,
            Lane::Tagged => &mut self.tagged,
        }
    }

    fn free_id(&mut self) -> Option<MessageId> {
        if self.pieces.len() + usize::from(self.probe.is_some()) > usize::from(u16::MAX) {
            return None;
        }
        loop {
            let id = MessageId(self.next_id);
            self.next_id = self.next_id.wrapping_add(1);
            if !self.pieces.contains_key(&id) && self.probe != Some(id) {
                return Some(id);
            }
        }
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        let idle =
            |lane: &LaneState| lane.waiting.is_empty() && lane.in_flight == 0 && lane.in_flight_bytes == 0;
        let lanes = idle(&self.memory) && idle(&self.tagged) && self.unsent.is_empty();
        lanes && self.transfers.is_empty() && self.pieces.is_empty() && self.probe.is_none()
    }
}

//! The side of a session that asks: cuts requests into pieces and keeps them within the peer's limits.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::time::Instant;

use mgcomp_codecs::Algorithm;
use rustc_hash::FxHashMap;

use super::action::JobId;
use super::error::{TransferError, Violation};
use super::lanes::{Lane, Lanes};
use super::offers::Offers;
use super::pace::{Pace, Turn};
use super::request::{Completion, Owner, Request, RequestId};
use crate::message::{Limits, MAX_HEADER_LEN, MessageId, OfferId, Status, Tag};
use crate::payload::Payload;

/// Counts transfers in the order of submission. Whoever makes requests may use a `RequestId` twice.
pub(super) type TransferNumber = u64;

/// A request that is being worked on.
#[derive(Debug)]
struct Transfer {
    owner: Owner,
    request: Request,
    /// Of a receive: the offer that it was matched with.
    fetches: Option<OfferId>,
    length: u64,
    /// Where the next piece starts; `None` once the last one has.
    next: Option<u64>,
    in_flight: u32,
    failed: Option<TransferError>,
    /// Whether the program was told that it is done, before the peer has answered.
    is_told: bool,
}

impl Transfer {
    /// What has not started never will; returns the lane in which it waits for that.
    fn fail(&mut self, error: TransferError) -> Option<Lane> {
        self.failed.get_or_insert(error);
        self.next.take().map(|_| Lane::of(&self.request))
    }
}

/// A part of a transfer that is in one message.
#[derive(Clone, Debug)]
pub(super) struct Piece {
    transfer: TransferNumber,
    pub(super) lane: Lane,
    pub(super) offset: u64,
    pub(super) length: u32,
    /// Of a part that has a window.
    turn: Option<Turn>,
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
    /// A read or fetch that the peer has to answer with bytes.
    AwaitingData,
    /// A write or send that the peer has to acknowledge.
    AwaitingAck,
    /// Bytes of a read or fetch are being decoded here.
    Decoding,
}

/// Whatever a peer takes: on some links the length of a message, with its header, has 32 bits.
const LONGEST_TRANSFER_BYTES: u32 = u32::MAX - MAX_HEADER_LEN as u32;

/// The most raw bytes that the peer takes in one message.
pub(super) fn longest_message(limits: Limits) -> u64 {
    u64::from(limits.max_transfer_bytes.min(LONGEST_TRANSFER_BYTES)).min(limits.window_bytes)
}

/// A request's end: what to deliver.
pub(super) type Finished = (Owner, Result<u64, TransferError>);

/// A transfer's end.
pub(super) struct Ended {
    /// `None` if the program was told already.
    pub(super) finished: Option<Finished>,
    /// The offer that it has fetched, or failed to.
    pub(super) fetched: Option<OfferId>,
}

/// What was started.
pub(super) enum Started {
    /// A piece of this request.
    Piece(MessageId, Request),
    /// An offer, which waits to leave.
    Offer,
}

/// Something that has to leave in its turn.
pub(super) enum Leaving {
    Send(MessageId, Algorithm, Payload),
    Offer(OfferId),
}

/// A send under way that has not left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unsent {
    Send(MessageId),
    Offer(OfferId),
}

#[derive(Debug, Default)]
pub(super) struct Requester {
    transfers: BTreeMap<TransferNumber, Transfer>,
    next_transfer: TransferNumber,
    lanes: Lanes,
    /// Whether it is the sends' turn.
    sends_next: bool,
    pieces: FxHashMap<MessageId, Piece>,
    /// The read of no bytes that finds out whether the peer is there.
    probe: Option<MessageId>,
    next_id: u16,
    /// Sends under way that have not left yet, in order.
    unsent: VecDeque<Unsent>,
    offers: Offers,
    /// What keeps parts of messages within their windows.
    pub(super) pace: Pace,
}

impl Requester {
    /// Takes in a request; its pieces start with [`start_piece`](Self::start_piece).
    pub(super) fn submit(&mut self, owner: Owner, request: Request) {
        self.add(owner, request, None);
    }

    /// Takes in a receive that was matched with an offer, and has exactly as much room.
    pub(super) fn fetch(&mut self, owner: Owner, receive: Request, offer: OfferId) {
        self.add(owner, receive, Some(offer));
    }

    fn add(&mut self, owner: Owner, request: Request, fetches: Option<OfferId>) {
        let length = request.memory().capacity();
        let lane = Lane::of(&request);
        let number = self.next_transfer;
        self.next_transfer += 1;
        self.lanes.get(lane).waiting.push_back(number);
        let transfer = Transfer {
            owner,
            request,
            fetches,
            length,
            next: Some(0),
            in_flight: 0,
            failed: None,
            is_told: false,
        };
        self.transfers.insert(number, transfer);
    }

    /// The next piece that the peer's limits allow to start, with its request. Lanes take turns: where few
    /// requests may be in flight, a long read must not hold up sends either.
    pub(super) fn start_piece(&mut self, limits: Limits, piece_bytes: u32, now: Instant) -> Option<Started> {
        let lanes = if self.sends_next {
            [Lane::Groups, Lane::Tagged, Lane::Memory]
        } else {
            [Lane::Memory, Lane::Groups, Lane::Tagged]
        };
        let started =
            lanes.into_iter().find_map(|lane| Some((lane, self.start_in(lane, limits, piece_bytes, now)?)));
        let (lane, piece) = started?;
        self.sends_next = lane == Lane::Memory;
        Some(piece)
    }

    fn start_in(&mut self, lane: Lane, limits: Limits, piece_bytes: u32, now: Instant) -> Option<Started> {
        let number = *self.lanes.get(lane).waiting.front()?;
        let transfer = self.transfers.get(&number)?;
        let offset = transfer.next?;
        let most = match lane {
            Lane::Memory => longest_message(limits).min(u64::from(piece_bytes)),
            Lane::Tagged | Lane::Groups => longest_message(limits),
        };
        let left = transfer.length - offset;
        let length = left.min(most) as u32;
        let window = transfer.request.window();
        if window.is_some_and(|window| !self.pace.may_begin(window, left, now)) {
            return None;
        }
        if left > most && lane.is_tagged() || !self.lanes.has_room(lane, length, limits) {
            return if lane.is_tagged() { self.start_offer(number, lane, limits) } else { None };
        }
        if self.in_flight() >= limits.max_in_flight {
            return None; // reads and writes will be answered, whatever the peer receives
        }
        let id = self.free_id()?;
        let transfer = self.transfers.get_mut(&number)?;
        let end = offset + u64::from(length);
        transfer.next = (end < transfer.length).then_some(end);
        transfer.in_flight += 1;
        let request = transfer.request.clone();
        let last = transfer.next.is_none();

        self.lanes.enter(lane, length);
        if last {
            self.lanes.get(lane).waiting.pop_front();
        }
        let stage = match request {
            Request::Read { .. } | Request::Receive { .. } => Stage::AwaitingData,
            _ => Stage::Encoding,
        };
        if lane.is_tagged() {
            self.unsent.push_back(Unsent::Send(id));
        }
        let turn = window.map(|_| self.pace.begin(length.into()));
        let piece = Piece { transfer: number, lane, offset, length, turn, stage, encoded_by: None };
        self.pieces.insert(id, piece);
        Some(Started::Piece(id, request))
    }

    /// Offers a send that cannot go out as it is: it is longer than the peer takes in one message, or what the peer
    /// takes unasked is used up. It holds up nobody then, whatever the peer receives next.
    fn start_offer(&mut self, number: TransferNumber, lane: Lane, limits: Limits) -> Option<Started> {
        if !self.offers.leave_room(lane, limits) {
            return None;
        }
        let offer = self.offers.open(number, lane, limits)?;
        let transfer = self.transfers.get_mut(&number)?;
        (transfer.next, transfer.in_flight) = (None, 1);
        self.lanes.get(lane).waiting.pop_front();
        self.unsent.push_back(Unsent::Offer(offer));
        Some(Started::Offer)
    }

    /// Offers a send that has failed on its way out: the peer learns of it and fetches it, which may succeed, and if it does not, both
    /// sides know. False if the peer takes no more offers.
    pub(super) fn offer_instead(&mut self, id: MessageId, limits: Limits) -> bool {
        let Some(&Piece { transfer, lane, .. }) = self.pieces.get(&id) else { return false };
        let Some(offer) = self.offers.open(transfer, lane, limits) else { return false };
        if let Some(piece) = self.pieces.remove(&id) {
            self.leave_lane(&piece);
        }
        let place = self.unsent.iter_mut().find(|unsent| **unsent == Unsent::Send(id));
        place.into_iter().for_each(|place| *place = Unsent::Offer(offer));
        true
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

    /// The request of the program that a piece belongs to, if it is one by itself.
    pub(super) fn asked_by(&self, piece: &Piece) -> Option<RequestId> {
        self.transfers.get(&piece.transfer)?.owner.request()
    }

    /// The offer that a piece is fetched of.
    pub(super) fn fetches(&self, id: MessageId) -> Option<OfferId> {
        self.transfers.get(&self.pieces.get(&id)?.transfer)?.fetches
    }

    /// The send that the peer was told of by this offer, and what the program calls it.
    pub(super) fn offered(&self, offer: OfferId) -> Option<(RequestId, &Request)> {
        let transfer = self.transfers.get(&self.offers.told(offer)?)?;
        Some((transfer.owner.request()?, &transfer.request))
    }

    /// Why the peer gets nothing of this offer any more, if it was [ended](Self::end_all_of).
    pub(super) fn let_go(&self, offer: OfferId) -> Option<Status> {
        let transfer = self.transfers.get(&self.offers.told(offer)?)?;
        transfer.failed.as_ref().map(TransferError::status)
    }

    /// As [`offered`](Self::offered), of an offer that leaves now; with its length.
    pub(super) fn tell_offer(&mut self, offer: OfferId) -> Option<(&Request, u64)> {
        let transfer = self.transfers.get(&self.offers.tell(offer)?)?;
        Some((&transfer.request, transfer.length))
    }

    /// Where it is noted which offers are being fetched.
    pub(super) fn offers(&mut self) -> &mut Offers {
        &mut self.offers
    }

    /// Takes the first send that has not left, if it is encoded by now or need not be.
    pub(super) fn next_leaving(&mut self) -> Option<Leaving> {
        let leaving = match *self.unsent.front()? {
            Unsent::Offer(offer) => Leaving::Offer(offer),
            Unsent::Send(id) => {
                let piece = self.pieces.get_mut(&id)?;
                let Stage::Held(algorithm, payload) = &piece.stage else { return None };
                let leaving = Leaving::Send(id, *algorithm, payload.clone());
                piece.stage = Stage::AwaitingAck;
                leaving
            }
        };
        self.unsent.pop_front();
        Some(leaving)
    }

    /// Ends an offer that the peer has answered; returns its request's end.
    ///
    /// # Errors
    /// [`Violation`] if the peer cannot answer it now.
    pub(super) fn finish_offer(
        &mut self,
        offer: OfferId,
        result: Result<(), TransferError>,
    ) -> Result<Option<Ended>, Violation> {
        let number = self.offers.end(offer)?;
        Ok(self.finish_part(number, result))
    }

    /// Ends a piece; returns its request's end if this was what it waited for.
    pub(super) fn finish(&mut self, id: MessageId, result: Result<(), TransferError>) -> Option<Ended> {
        let piece = self.pieces.remove(&id)?;
        if matches!(piece.stage, Stage::Encoding | Stage::Held(..)) {
            self.unsent.retain(|&unsent| unsent != Unsent::Send(id));
        }
        self.leave_lane(&piece);
        self.finish_part(piece.transfer, result)
    }

    /// A piece of so many bytes is in flight no more.
    fn leave_lane(&mut self, &Piece { lane, length, turn, .. }: &Piece) {
        self.lanes.leave(lane, length);
        if let Some(turn) = turn {
            self.pace.end(turn, length.into());
        }
    }

    /// Ends a part of a transfer, a piece or an offer.
    fn finish_part(&mut self, number: TransferNumber, result: Result<(), TransferError>) -> Option<Ended> {
        let transfer = self.transfers.get_mut(&number)?;
        transfer.in_flight -= 1;
        if let Err(error) = result
            && let Some(lane) = transfer.fail(error)
        {
            self.lanes.get(lane).waiting.retain(|&waiting| waiting != number);
        }
        self.take_over(number)
    }

    /// Takes a transfer out, if nothing of it is to start or under way.
    fn take_over(&mut self, number: TransferNumber) -> Option<Ended> {
        let transfer = self.transfers.get(&number)?;
        if transfer.in_flight > 0 || transfer.next.is_some() {
            return None;
        }
        let Transfer { owner, fetches, length, failed, is_told, .. } = self.transfers.remove(&number)?;
        let finished = (!is_told).then(|| (owner, failed.map_or(Ok(length), Err)));
        Some(Ended { finished, fetched: fetches })
    }

    /// A send is out of this side's hands; returns its end if that is all that it waited for. The peer still owes an
    /// answer, and holds room until then.
    pub(super) fn written(&mut self, id: MessageId) -> Option<Finished> {
        let piece = self.pieces.get(&id)?;
        // A peer may have answered before this is heard of; then the id may be that of a send which has not left yet.
        if !matches!(piece.stage, Stage::AwaitingAck) {
            return None;
        }
        let transfer = self.transfers.get_mut(&piece.transfer)?;
        let is_done = matches!(transfer.request, Request::Send { completion: Completion::Local, .. });
        if !is_done || transfer.is_told {
            return None;
        }
        transfer.is_told = true;
        if let Request::Send { from, .. } = &mut transfer.request {
            *from = Payload::empty(); // the program may do with it as it likes now
        }
        Some((transfer.owner, Ok(transfer.length)))
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

    /// Ends the sends and fetches whose tag `is_one` with `error`, at once if nothing of them is under way. Pieces that are, come to
    /// their end: sends leave, and bytes that were asked for come. Offers are answered by the peer, but get it no bytes.
    pub(super) fn end_all_of(&mut self, is_one: impl Fn(Tag) -> bool, error: &TransferError) -> Vec<Ended> {
        let offered: HashSet<_> = self.offers.transfers().collect();
        let is_one = |transfer: &Transfer| transfer.request.tag().is_some_and(&is_one);
        let ended = self.transfers.iter().filter(|(_, transfer)| is_one(transfer)).map(|(&number, _)| number);
        let ended: Vec<_> = ended.collect();
        let end = |number| {
            if offered.contains(&number) { self.let_go_of(number, error) } else { self.end(number, error) }
        };
        let over = ended.iter().copied().filter_map(end).collect();
        // In one go: thousands may wait. The numbers rise, and nothing of these starts any more.
        for lane in Lane::ALL {
            self.lanes.get(lane).waiting.retain(|waiting| ended.binary_search(waiting).is_err());
        }
        over
    }

    /// Ends a send that was offered. Its memory is not used any more.
    fn let_go_of(&mut self, number: TransferNumber, error: &TransferError) -> Option<Ended> {
        let transfer = self.transfers.get_mut(&number)?;
        if let Request::Send { from, .. } = &mut transfer.request {
            *from = Payload::empty();
        }
        transfer.failed.get_or_insert_with(|| error.clone());
        let finished = (!transfer.is_told).then(|| (transfer.owner, Err(error.clone())));
        transfer.is_told = true;
        Some(Ended { finished, fetched: None })
    }

    /// Ends a transfer of which not all has started, or bytes are yet to come; its lane has yet to forget it.
    fn end(&mut self, number: TransferNumber, error: &TransferError) -> Option<Ended> {
        let transfer = self.transfers.get_mut(&number)?;
        let lane = Lane::of(&transfer.request);
        if lane.is_tagged() && transfer.next.is_none() {
            return None; // it is leaving
        }
        transfer.fail(error.clone());
        self.take_over(number)
    }

    /// Removes all requests; returns those that the program waits for in the order of submission, each with its pieces that are
    /// being decoded.
    pub(super) fn take_all(&mut self) -> Vec<(Owner, Vec<MessageId>)> {
        let Self { transfers, pieces, .. } = std::mem::take(self);
        let mut decoding = FxHashMap::<TransferNumber, Vec<MessageId>>::default();
        for (id, piece) in pieces {
            if matches!(piece.stage, Stage::Decoding) {
                decoding.entry(piece.transfer).or_default().push(id);
            }
        }
        let transfers = transfers.into_iter().filter(|(_, transfer)| !transfer.is_told);
        transfers
            .map(|(number, transfer)| (transfer.owner, decoding.remove(&number).unwrap_or_default()))
            .collect()
    }

    fn in_flight(&self) -> u32 {
        self.lanes.in_flight() + u32::from(self.probe.is_some())
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
        let lanes = self.lanes.is_idle() && self.unsent.is_empty() && self.offers.is_idle();
        lanes
            && self.pace.is_idle()
            && self.transfers.is_empty()
            && self.pieces.is_empty()
            && self.probe.is_none()
    }
}

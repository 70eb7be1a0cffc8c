//! What runs a node: takes in what happens, tells the sessions, and does what they ask.
//!
//! It never waits for anything: links queue, executors have threads of their own.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{LinkFacts, Overlap};
use rustc_hash::FxHashMap;

use super::coding::{Coder, Finished, JobResult};
use super::comparison::{Direction, Kind, Move};
use super::groups::{GroupBoard, Watch};
use super::handle::{Reply, TransferResult};
use super::mailbox::Input;
use super::peers::PeerBoard;
use super::{NodeConfig, Position};
use crate::executor::RETRY;
use crate::link::{Link, LinkEvent, Message, SendError, Sent};
use crate::message::{GivingUp, Header, Rank};
use crate::region::RegionTable;
use crate::session::{
    Action, Completion, GroupOver, Request, RequestId, Session, SessionConfig, SessionError, TransferError,
};

/// Of transfers that are under way at the same time, so much is in the same stage at once, for all that a policy needs to know: a small
/// part of those that are worth encoding.
const OVERLAPPING_BYTES: u64 = 64 << 10;
/// One for the link where that is the cores' work, and one for codecs.
const LEAST_CORES: f64 = 2.0;
/// A link that waits for cores which run codecs, or something else, may be so many times as fast as it looks. For one whose rate is set that is
/// too much, and does little harm.
const SLOWED: f64 = 2.0;

pub(super) struct Engine {
    pub(super) link: Box<dyn Link>,
    /// By rank; none for this one.
    pub(super) sessions: Vec<Option<Session>>,
    pub(super) coder: Coder,
    pub(super) regions: Arc<RwLock<RegionTable>>,
    pub(super) board: Arc<PeerBoard>,
    pub(super) groups: Arc<GroupBoard>,
    pub(super) replies: FxHashMap<RequestId, Asked>,
    pub(super) next_request: u64,
    /// No session needs to hear of the time for longer than this.
    pub(super) tick: Duration,
    /// Cores that this rank has.
    pub(super) cores: f64,
    /// When the time is looked at next.
    pub(super) next_look: Instant,
}

/// A request under way.
pub(super) struct Asked {
    reply: Reply,
    /// The group that it is for an operation of.
    group: Option<u32>,
}

impl Engine {
    /// Sends the hellos. Returns when to look at the time.
    pub(super) fn greet(&mut self) -> Instant {
        self.carry_out_all();
        self.next_check(Instant::now())
    }

    /// Takes in one thing that happened. Returns when to look at the time next, where that has changed.
    pub(super) fn take_in(&mut self, input: Input) -> Option<Instant> {
        let mut next_check = None;
        let next_look = self.next_look;
        match input {
            Input::Time { due } => next_check = Some(self.on_time(due)),
            Input::Stop => self.stop(),
            input => self.happen(input),
        }
        if self.coder.is_waiting() {
            self.resume_work();
            next_check = self.coder.is_waiting().then(|| Instant::now() + RETRY).or(next_check);
        }
        // Something waits in its window, for less than was known.
        if self.next_look < next_check.unwrap_or(next_look) {
            next_check = Some(self.next_look);
        }
        // All that this has led to is on its way.
        self.coder.learn();
        next_check
    }

    /// Ends what has gone wrong beyond repair.
    pub(super) fn abandon(&mut self) {
        self.replies.clear();
    }

    fn stop(&mut self) {
        for session in self.sessions.iter_mut().flatten() {
            session.close(SessionError::Closed);
        }
        self.carry_out_all();
        // Nobody hears of what is still decoded, and the link may wait for a thread that waits for that.
        self.abandon();
    }

    fn on_time(&mut self, due: Instant) -> Instant {
        let now = Instant::now();
        let late_by = now.saturating_duration_since(due);
        if late_by > self.tick {
            self.excuse_peers(late_by, now);
        }
        self.check_time(now);
        self.next_check(now)
    }

    fn happen(&mut self, input: Input) {
        match input {
            Input::Submit { peer, request, reply } => self.submit(peer, request, reply),
            Input::Disconnect { peer } => self.tell(peer, |session| session.close(SessionError::Closed)),
            Input::GroupOver { watch, over } => self.end_group(&watch, over),
            Input::Link(LinkEvent::Message { from, message, credit }) => {
                let regions = self.regions.clone();
                self.tell(from, |session| {
                    let regions = regions.read().unwrap_or_else(PoisonError::into_inner);
                    session.on_message(message.header, message.payload, &regions, Instant::now());
                });
                drop(credit); // looked at: the link may receive more
            }
            Input::Link(LinkEvent::Coming { from, header, len, landing }) => {
                if let Some(Some(session)) = self.sessions.get(from.0 as usize)
                    && let Some(place) = session.landing(&header, len).and_then(|place| place.try_hold_mut())
                {
                    let _ = landing.send(place); // there is room for one, and the link may be gone
                }
            }
            Input::Link(LinkEvent::Written { to, send }) => self.tell(to, |session| session.written(send)),
            Input::Link(LinkEvent::Malformed { from, error }) => {
                self.tell(from, |session| session.on_malformed(error));
            }
            Input::Link(LinkEvent::Closed { peer, error }) => {
                self.tell(peer, |session| session.close(error.into()));
            }
            Input::Done(mut done) => {
                // Also of a session that wanted the work and is over.
                self.lose_device_if(done.lost.take());
                self.coder.done(done);
                self.hear_of_jobs();
            }
            #[cfg(feature = "cuda")]
            Input::DeviceLost(text) => self.lose_device(&text),
            Input::Time { .. } | Input::Stop => {}
        }
    }

    /// Ends all sessions if the work that is done says that the device is lost. First: what the work was for hears of the
    /// cause.
    fn lose_device_if(&mut self, lost: Option<String>) {
        if let Some(text) = lost {
            self.lose_device(&text);
        }
    }

    /// Ends all sessions: what is asked of a device that is lost fails from now on, on whichever rank it is waited for.
    fn lose_device(&mut self, text: &str) {
        for session in self.sessions.iter_mut().flatten() {
            session.close(SessionError::Device(text.to_owned()));
        }
        self.carry_out_all();
    }

    fn submit(&mut self, peer: Rank, mut request: Request, reply: Reply) {
        let position = self.link.position();
        if !position.is_peer(peer) {
            let (last, local) = (position.ranks - 1, position.rank);
            reply.send(Err(TransferError::NoSuchPeer { peer, last, local }));
            return;
        }
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.replies.insert(id, Asked { reply, group: group_of(&request) });
        let link = &self.link;
        let clear_byte_ns = || clear_byte_ns(link.facts(peer), link.is_cores_work(peer));
        let comparisons = &mut self.coder.comparisons;
        match &mut request {
            Request::Read { into, raw, .. } => {
                let read = Move { peer, kind: Kind::Read, bytes: into.capacity(), continued: false };
                *raw = comparisons.begin(id, read, clear_byte_ns, Instant::now);
            }
            Request::Write { from, .. } => {
                let write = Move { peer, kind: Kind::Write, bytes: from.capacity(), continued: false };
                comparisons.begin(id, write, clear_byte_ns, Instant::now);
            }
            &mut Request::Send { ref from, completion: Completion::Remote, part_of, continued, .. } => {
                let bytes = part_of.unwrap_or_else(|| from.capacity());
                let send = Move { peer, kind: Kind::Send, bytes, continued };
                comparisons.begin(id, send, clear_byte_ns, Instant::now);
            }
            // Nobody is told when that has arrived.
            Request::Send { completion: Completion::Local, .. } | Request::Receive { .. } => {}
        }
        self.tell(peer, |session| session.submit(id, request, Instant::now()));
    }

    /// Tells the sessions with all members; there is none with this rank.
    fn end_group(&mut self, watch: &Watch, over: GroupOver) {
        for &member in watch.members() {
            let goes_on = !watch.has_given_up(member);
            self.tell(member, |session| session.end_group(over, goes_on));
        }
    }

    fn resume_work(&mut self) {
        while self.coder.resume() {
            self.hear_of_jobs();
        }
    }

    /// Tells sessions that their work is done, and does what they then ask.
    fn hear_of_jobs(&mut self) {
        while let Some(finished) = self.coder.next_finished() {
            let peer = finished.peer;
            self.job_done(finished);
            self.carry_out(peer);
        }
    }

    /// Tells a session that its work is done. What it then asks is still to be carried out.
    fn job_done(&mut self, Finished { peer, job, result, lost }: Finished) {
        self.lose_device_if(lost);
        if let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) {
            match result {
                JobResult::Encoded(result) => session.encoded(job, result),
                JobResult::Decoded(result, took) => session.decoded(job, result, took),
            }
        }
    }

    /// Tells the session with `peer` something and does what it then asks.
    fn tell(&mut self, peer: Rank, tell: impl FnOnce(&mut Session)) {
        if let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) {
            tell(session);
            self.carry_out(peer);
        }
    }

    fn carry_out_all(&mut self) {
        self.link.position().peers().for_each(|peer| self.carry_out(peer));
    }

    fn carry_out(&mut self, peer: Rank) {
        while let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize)
            && let Some(action) = session.poll_action()
        {
            self.act(peer, action);
        }
        if let Some(Some(session)) = self.sessions.get(peer.0 as usize) {
            self.board.set(peer, session.is_open(), session.error());
            if let Some(patience_ends) = session.patience_ends() {
                self.next_look = self.next_look.min(patience_ends);
            }
        }
    }

    fn act(&mut self, peer: Rank, action: Action) {
        match action {
            Action::Encode { job, source, element, stream, allowed, purpose, overlaps } => {
                let (link, is_cores_work) = (self.link.facts(peer), self.link.is_cores_work(peer));
                self.board.ways.note(peer, link.filter(|_| !is_cores_work));
                let overlaps = overlaps && can_overlap(self.cores, is_cores_work);
                let link = link.map(|link| if overlaps { overlapping(link) } else { link });
                let facts = (allowed, link);
                self.coder.comparisons.pass(peer, Direction::ToPeer, source.capacity());
                let done = self.coder.encode((peer, job), source, element, stream, facts, purpose);
                done.into_iter().for_each(|finished| self.job_done(finished));
            }
            Action::Decode { job, algorithm, payload, read, destination, all_or_nothing } => {
                let by = (peer, job);
                self.coder.comparisons.pass(peer, Direction::FromPeer, destination.capacity());
                if let Some(read) = read.filter(|_| algorithm != Algorithm::None) {
                    self.coder.comparisons.arrived(read, destination.capacity(), payload.capacity());
                }
                let done = self.coder.decode(by, algorithm, payload, destination, all_or_nothing);
                done.into_iter().for_each(|finished| self.job_done(finished));
            }
            Action::Send { header, payload, with_next } => {
                self.send(peer, Message { header, payload }, with_next);
            }
            Action::Acknowledged { job } => self.coder.acknowledged((peer, job)),
            Action::Decoded { job, took } => self.coder.decoded((peer, job), took),
            Action::Deliver { request, result } => {
                // What is counted for it is counted by the time that it is over.
                self.coder.learn_of(peer);
                self.coder.comparisons.end(request, result.is_ok(), Instant::now);
                self.deliver(request, result);
            }
            Action::GivenUp(given_up) => {
                // What has come of a group that is gone, nobody will receive.
                if self.groups.hear(peer, given_up)
                    && let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize)
                {
                    let GivingUp { group, status, .. } = given_up;
                    session.end_group(GroupOver { group, status, is_orderly: true }, false);
                }
            }
            Action::Close { error } => {
                tracing::debug!(%peer, %error, "session over");
                self.coder.forget(peer);
                self.link.close(peer);
            }
        }
    }

    /// Whoever waits for a request of a group may be waiting for another one first, perhaps for ever: if the session is over that
    /// this one went by, its operation is, too. That the session is over is none of the group's affair: the peer may have done its part.
    fn deliver(&mut self, request: RequestId, result: TransferResult) {
        let Some(Asked { reply, group }) = self.replies.remove(&request) else { return };
        if let (Some(group), Err(error @ TransferError::Session { .. })) = (group, &result) {
            self.groups.fail(group, error);
        }
        reply.send(result);
    }

    fn send(&mut self, peer: Rank, message: Message, with_next: bool) {
        let send = if let Header::TaggedSend(send) = &message.header {
            if !self.coder.is_switched_off() {
                self.board.ways.sent(peer, send.length, message.payload.capacity());
            }
            Some(send.id)
        } else {
            None
        };
        let sent =
            if with_next { self.link.send_with_next(peer, message) } else { self.link.send(peer, message) };
        let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) else { return };
        match (sent, send) {
            (Ok(Sent::Written), Some(id)) => session.written(id),
            // A closed link has said why, or is about to.
            (Ok(_) | Err(SendError::Closed(_)), _) => {}
            (Err(error), _) => session.close(error.into()),
        }
    }

    /// Nobody looked at the time for a while, perhaps because the job was suspended. No peer is to blame for what it
    /// could not be heard to say meanwhile. The rest of its silence counts: where this side is late again and again, a
    /// peer that is gone must be given up all the same.
    fn excuse_peers(&mut self, late_by: Duration, now: Instant) {
        self.sessions.iter_mut().flatten().for_each(|session| session.on_pause(late_by, now));
    }

    fn check_time(&mut self, now: Instant) {
        for peer in self.link.position().peers() {
            let Some(Some(session)) = self.sessions.get_mut(peer.0 as usize) else { continue };
            if session.deadline().is_some_and(|deadline| deadline <= now) {
                if session.is_open() && self.link.moved_since(peer, session.last_heard()) {
                    session.on_activity(now);
                }
                session.on_time(now);
                self.carry_out(peer);
            }
        }
    }

    /// A session that starts to wait does so for at least a tick, so looking that often is enough; but for what waits in its window, which
    /// says so.
    fn next_check(&mut self, now: Instant) -> Instant {
        let deadlines = self.sessions.iter().flatten().filter_map(Session::deadline);
        self.next_look = deadlines.fold(now + self.tick, Instant::min);
        self.next_look
    }
}

/// The group that a request is for an operation of.
fn group_of(request: &Request) -> Option<u32> {
    match *request {
        Request::Send { tag, .. } | Request::Receive { tag, .. } => GivingUp::operation_of(tag),
        Request::Read { .. } | Request::Write { .. } => None,
    }
}

/// Whether codecs can work while the link does: not where that is the work of cores too, and a rank has none but the one that does it.
fn can_overlap(cores: f64, is_cores_work: bool) -> bool {
    cores >= LEAST_CORES || !is_cores_work
}

/// What less time for a raw byte than that speaks for compression without a comparison, in nanoseconds; 0 where nothing does. What is known of
/// the way to a peer is taken for that from it too.
fn clear_byte_ns(link: Option<LinkFacts>, is_cores_work: bool) -> f64 {
    match link {
        // What cores carry is no faster than they are at the time.
        Some(link) if !is_cores_work => 8.0 / link.rate_gbps() / SLOWED,
        _ => 0.0,
    }
}

/// A link on which transfers follow each other, so that codecs work while it does.
fn overlapping(link: LinkFacts) -> LinkFacts {
    match link.overlap() {
        Overlap::None => link.with_overlap(Overlap::Segments(OVERLAPPING_BYTES)).unwrap_or(link),
        _ => link,
    }
}

/// A session for each peer, greeting it.
pub(super) fn sessions(position: Position, config: &NodeConfig, keeps_arrived: bool) -> Vec<Option<Session>> {
    let now = Instant::now();
    let session = |peer| {
        let config = SessionConfig {
            local: position.rank,
            peer,
            ranks: position.ranks,
            secret: config.secret,
            limits: config.limits,
            piece_bytes: config.piece_bytes,
            greeting_timeout: config.greeting_timeout,
            silence_timeout: config.silence_timeout,
            keeps_arrived,
        };
        Session::new(config, now)
    };
    (0..position.ranks).map(Rank).map(|rank| (rank != position.rank).then(|| session(rank))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codecs_overlap_with_what_leaves_them_a_core() {
        // Two ranks on two cores: each has one, which moves the bytes.
        assert!(!can_overlap(1.0, true) && !can_overlap(0.5, true) && !can_overlap(1.5, true));
        assert!(can_overlap(2.0, true) && can_overlap(64.0, true));
        // A wire, or what imitates one, has no need of it.
        assert!(can_overlap(1.0, false) && can_overlap(0.5, false));
    }

    #[test]
    fn what_is_clear_is_so_by_more_than_cores_may_hide_of_a_link() {
        let link = LinkFacts::try_new(4.0, 1000, Overlap::None).ok();
        let clear = [(link, false), (link, true), (None, false)].map(|(link, by)| clear_byte_ns(link, by));
        assert_eq!(clear, [1.0, 0.0, 0.0]);
    }
}

//! The link's work: meeting peers, emptying rings, and filling those that callers found full.
//!
//! Whoever does it goes round the peers while there is anything to do, looks for a moment longer, and then sleeps until a
//! peer or a caller wakes it. Peers are told through their rings that it sleeps, so that nobody makes a call to wake a thread
//! that is awake.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::thread;
use std::time::{Duration, Instant};

use super::guest::{self, Guest, Line, Words};
use super::meeting::{Door, Met};
use super::pace::{Next, Pace};
use super::peer::{Outlet, Peer, Queue};
use super::poller::{Poller, Token};
use super::record::{Broken, Intake, Taken, out_of_place};
use super::ring::{Reader, Writer};
use super::segment::{Direction, Segment};
use super::socket;
use super::waker::Waker;
use crate::link::flow::FLUSH_TIMEOUT;
use crate::link::{LinkError, LinkEvent, LinkSink, Message, landing};
use crate::message::{Header, Hello, Rank};
use crate::payload::Payload;
use crate::pool::Pool;

/// How often a busy thread looks at its sockets.
const SOCKETS_PERIOD: Duration = Duration::from_millis(1);
/// How long nothing must happen until memory for what is received goes back to the system.
const QUIET: Duration = Duration::from_secs(1);
/// Messages, or pieces of them, that are taken of one peer before the next one's turn.
const TURN: usize = 32;

/// What has to be done for a link; one thread at a time does it.
pub(super) struct Server {
    pub(super) ends: Vec<End>,
    pub(super) door: Door,
    pub(super) poller: Poller,
    pub(super) waker: Arc<Waker>,
    pub(super) ended: Arc<AtomicBool>,
    pub(super) pool: Pool,
    pub(super) sink: LinkSink,
    /// What lives on this link, if anything does.
    pub(super) guest: Option<Arc<dyn Guest>>,
    /// Longest message in bytes.
    pub(super) record_limit: u64,
    /// How long an idle thread stays awake.
    pub(super) awake: Duration,
}

/// The thread's side of a peer.
pub(super) struct End {
    pub(super) peer: Arc<Peer>,
    stage: Stage,
    /// When the peer is left, whatever is still queued.
    flush_until: Option<Instant>,
}

enum Stage {
    Meeting,
    Open(Box<Connection>),
    Over,
}

/// A peer that was met.
struct Connection {
    reader: Reader,
    /// `None` once what came made no sense: nothing more is taken in.
    intake: Option<Intake>,
    socket: Arc<OwnedFd>,
    /// Becomes readable when the peer's process ends.
    process: Option<Arc<OwnedFd>>,
    queue: Queue,
    hung_up: bool,
    /// Why it ends, once the ring is empty, if the guest has heard that it does.
    failure: Option<LinkError>,
}

impl End {
    pub(super) fn new(peer: Arc<Peer>) -> Self {
        Self { peer, stage: Stage::Meeting, flush_until: None }
    }
}

impl Server {
    /// Goes round once; and when it is time, looks at the sockets, or sleeps because nothing has happened for a while.
    pub(super) fn step(&mut self, pace: &mut Pace) {
        let busy = self.go_round();
        if !pace.count(busy, self.awake) {
            std::hint::spin_loop();
            return;
        }
        let now = Instant::now();
        match pace.next(now, self.awake) {
            Next::Round => {}
            Next::Sleep => {
                if self.sleep(now) {
                    pace.quiet_since = Instant::now();
                }
                pace.sockets_at = Instant::now() + SOCKETS_PERIOD;
            }
            Next::Sockets => {
                self.look_at_sockets(Some(Duration::ZERO));
                pace.sockets_at = now + SOCKETS_PERIOD;
            }
            Next::Yield => thread::yield_now(),
        }
    }

    /// Whether somebody has to go on: there is more to write than there was room for.
    pub(super) fn has_backlog(&self) -> bool {
        self.ends.iter().any(|end| match &end.stage {
            Stage::Open(connection) => connection.queue != Queue::Empty || end.peer.is_wanted(),
            Stage::Meeting | Stage::Over => false,
        })
    }

    /// Whether nothing is left to do, ever.
    pub(super) fn is_over(&self) -> bool {
        self.ended.load(Ordering::SeqCst) && self.ends.iter().all(|end| matches!(end.stage, Stage::Over))
    }

    /// Gives every peer a turn. Returns whether anything was done.
    fn go_round(&mut self) -> bool {
        let mut busy = false;
        for i in 0..self.ends.len() {
            let end = &mut self.ends[i];
            if matches!(end.stage, Stage::Over) {
                continue;
            }
            let wanted = end.peer.take_wanted();
            if end.peer.is_closing() {
                busy |= self.part(i);
            } else if matches!(end.stage, Stage::Open(_)) {
                match end.turn(wanted, &self.sink, self.guest.as_deref()) {
                    Ok(moved) => busy |= moved,
                    Err(error) => self.finish(i, error),
                }
            }
        }
        busy
    }

    /// What is left to do with a peer that the program gave up: sending what is queued. Returns whether some was sent.
    fn part(&mut self, i: usize) -> bool {
        let end = &mut self.ends[i];
        let now = Instant::now();
        let until = *end.flush_until.get_or_insert(now + FLUSH_TIMEOUT);
        let queue = match &mut end.stage {
            Stage::Open(connection) if !connection.hung_up => {
                connection.queue = end.peer.pump().unwrap_or(Queue::Empty);
                connection.queue
            }
            _ => Queue::Empty,
        };
        if queue == Queue::Empty || now >= until {
            self.finish(i, None);
        }
        queue == Queue::Moving
    }

    /// Ends all that there is with a peer; reports `error` if there is one.
    fn finish(&mut self, i: usize, error: Option<LinkError>) {
        let end = &mut self.ends[i];
        let peer = end.peer.rank;
        end.peer.end();
        end.flush_until = None; // or the thread would wake for it over and over
        match std::mem::replace(&mut end.stage, Stage::Over) {
            Stage::Open(connection) => {
                self.poller.remove(&connection.socket);
                connection.process.iter().for_each(|process| self.poller.remove(process));
                // A guest still has something to say there. Else the end is heard now, whoever has copies of the socket.
                if self.guest.is_none() {
                    socket::end(&connection.socket);
                }
            }
            Stage::Meeting => self.door.give_up(peer, &self.poller),
            Stage::Over => {}
        }
        self.guest.iter().for_each(|guest| guest.gone(peer));
        if let Some(error) = error.filter(|_| !end.peer.is_closing()) {
            (self.sink)(LinkEvent::Closed { peer, error });
        }
    }

    /// Sleeps until something is to be done. Returns whether anything was while it was about to.
    fn sleep(&mut self, now: Instant) -> bool {
        self.waker.fall_asleep();
        let mut ready = self.waker.take_called() || self.ended.load(Ordering::SeqCst) && self.is_over();
        for end in &mut self.ends {
            ready |= end.fall_asleep();
        }
        if !ready {
            let deadline =
                self.ends.iter().filter_map(|end| end.flush_until).fold(self.door.deadline(), earlier);
            let timeout = deadline.map(|deadline| deadline.saturating_duration_since(now));
            let until_quiet = self.pool.keeps_any().then_some(QUIET);
            let longest = [timeout, until_quiet].into_iter().flatten().min();
            let woken = self.look_at_sockets(longest);
            if !woken && longest == until_quiet {
                self.pool.clear();
            }
            ready = woken;
        } else {
            // What is left of a message in a ring keeps the thread awake; that its sender is gone stands at a socket.
            self.look_at_sockets(Some(Duration::ZERO));
        }
        self.waker.wake_up();
        self.ends.iter_mut().for_each(End::wake_up);
        ready
    }

    /// Takes in what happens at sockets, waiting for it for at most so long. Returns whether anything did.
    fn look_at_sockets(&mut self, timeout: Option<Duration>) -> bool {
        let tokens = self.poller.wait(timeout);
        for &token in &tokens {
            match token {
                Token::Waker => self.waker.hush(),
                Token::Peer(rank) => self.heed(rank),
                Token::Door(visitor) => self.door.visit(visitor, &self.poller),
            }
        }
        for (peer, met) in self.door.meet(&self.poller, Instant::now()) {
            self.welcome(peer, met);
        }
        !tokens.is_empty()
    }

    /// A peer rang, or is gone.
    fn heed(&mut self, rank: Rank) {
        let Some(i) = self.ends.iter().position(|end| end.peer.rank == rank) else { return };
        let Stage::Open(connection) = &mut self.ends[i].stage else { return };
        let is_there = match &self.guest {
            Some(guest) => guest::listen(&**guest, rank, &connection.socket),
            None => Ok(socket::hush(&connection.socket)),
        };
        // What the peer wrote before still lies in the ring.
        let is_there = is_there.unwrap_or_else(|error| {
            connection.failure.get_or_insert(error);
            false
        });
        let ended = |process: &Arc<OwnedFd>| Poller::is_ready(process);
        if !is_there || connection.process.as_ref().is_some_and(ended) {
            connection.hung_up = true;
            // Both would be ready for ever.
            self.poller.remove(&connection.socket);
            connection.process.iter().for_each(|process| self.poller.remove(process));
        }
    }

    /// A peer was met, or will not be.
    fn welcome(&mut self, rank: Rank, met: Met) {
        let Some(i) = self.ends.iter().position(|end| end.peer.rank == rank) else { return };
        if !matches!(self.ends[i].stage, Stage::Meeting) {
            return;
        }
        match met {
            Met::Peer { socket, segment, is_maker } => {
                if let Err(error) = self.connect(i, socket, segment, is_maker) {
                    self.finish(i, Some(LinkError::io("waiting for rank", rank, &error)));
                }
            }
            Met::Refusal(status) => {
                let (header, payload) = (Header::Hello(Hello::refusal(status)), Payload::empty());
                if !self.ends[i].peer.is_closing() {
                    let message = Message { header, payload };
                    let credit = crate::link::Credit::none();
                    (self.sink)(LinkEvent::Message { from: rank, message, credit });
                }
                self.finish(i, Some(LinkError::PeerClosed(rank)));
            }
            Met::Nobody(error) => self.finish(i, Some(error)),
        }
    }

    fn connect(&mut self, i: usize, socket: OwnedFd, segment: Segment, is_maker: bool) -> io::Result<()> {
        let peer = self.ends[i].peer.clone();
        let process = super::credentials::Credentials::of(&socket)?.watch();
        // Whose process has ended since it was met is heard of no more; what it has written before is still there.
        let hung_up = process.is_err();
        let process = process.ok().flatten().map(Arc::new);
        self.poller.add(&socket, Token::Peer(peer.rank))?;
        if let Some(process) = &process {
            self.poller.add(process, Token::Peer(peer.rank))?;
        }
        let (socket, segment) = (Arc::new(socket), Arc::new(segment));
        let (out, back) = match is_maker {
            true => (Direction::FromMaker, Direction::ToMaker),
            false => (Direction::ToMaker, Direction::FromMaker),
        };
        let reader = Reader::new(segment.clone(), back);
        let takes_placed = self.guest.is_some();
        let intake = Some(Intake::new(peer.rank, self.record_limit, self.pool.clone(), takes_placed));
        let words = |direction| Words { segment: segment.clone(), direction };
        if let Some(guest) = &self.guest {
            let (theirs, own) = (words(out), words(back));
            guest.met(peer.rank, Line { socket: socket.clone(), process: process.clone(), theirs, own });
        }
        let queue = Queue::Empty;
        let (socket_of, failure) = (socket.clone(), None);
        let connection = Connection { reader, intake, socket: socket_of, process, queue, hung_up, failure };
        self.ends[i].stage = Stage::Open(Box::new(connection));
        peer.open(Outlet { writer: Writer::new(segment, out), socket });
        Ok(())
    }
}

impl Connection {
    /// Takes messages out of the ring while there are any, for a turn.
    fn take_in(
        &mut self,
        peer: &Arc<Peer>,
        sink: &LinkSink,
        guest: Option<&dyn Guest>,
    ) -> Result<bool, Option<LinkError>> {
        let (from, mut reading) = (peer.rank, None);
        for _ in 0..TURN {
            let Some(intake) = self.intake.as_mut().filter(|_| peer.window.is_open()) else { break };
            let taken = intake.take(&mut self.reader, |header, len| landing(sink, from, header, len));
            if matches!(taken, Ok(Taken::Nothing)) {
                break;
            }
            reading.get_or_insert_with(|| Reading::begin(&peer.reading));
            match taken {
                Ok(Taken::Nothing | Taken::Part) => {}
                Ok(Taken::Message(message, len)) => {
                    let credit = peer.window.credit(len);
                    if !peer.is_closing() {
                        sink(LinkEvent::Message { from, message, credit });
                    }
                }
                Ok(Taken::Placed(header, place, len)) => {
                    // Without a guest there are none.
                    let Some(guest) = guest else { continue };
                    let payload = guest.payload_at(from, place).map_err(Some)?;
                    let (message, credit) = (Message { header, payload }, peer.window.credit(len));
                    if !peer.is_closing() {
                        sink(LinkEvent::Message { from, message, credit });
                    }
                }
                // Not the end of the connection: the peer may still be told what was wrong.
                Err(Broken::Malformed(error)) => {
                    self.intake = None;
                    if !peer.is_closing() {
                        sink(LinkEvent::Malformed { from, error });
                    }
                }
                Err(Broken::Ring(error)) => return Err(Some(error)),
            }
            if self.reader.should_publish() {
                self.publish();
            }
        }
        if reading.is_some() {
            self.publish();
            peer.flow.read.note(Instant::now());
        }
        Ok(reading.is_some())
    }

    fn publish(&mut self) {
        if self.reader.publish() && !socket::ring(&self.socket) {
            self.reader.let_writer_sleep();
        }
    }
}

/// Says that bytes are being taken in, for as long as it lives.
struct Reading<'a>(&'a AtomicBool);

impl<'a> Reading<'a> {
    fn begin(reading: &'a AtomicBool) -> Self {
        reading.store(true, Ordering::Release);
        Self(reading)
    }
}

impl Drop for Reading<'_> {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

impl End {
    /// Takes in and gives out what is due. Returns whether anything was, or why the peer is gone.
    fn turn(
        &mut self,
        wanted: bool,
        sink: &LinkSink,
        guest: Option<&dyn Guest>,
    ) -> Result<bool, Option<LinkError>> {
        let Stage::Open(connection) = &mut self.stage else { return Ok(false) };
        let peer = &self.peer;
        if let Some(error) = wanted.then(|| peer.take_failure()).flatten() {
            return Err(Some(error));
        }
        // Before looking into the ring: what was written before the end is there by then. And so with the window, which only this thread
        // closes: if others opened it in between, nothing would have been taken in and yet something be there.
        let ends = connection.hung_up && peer.window.is_open();
        let mut busy = connection.take_in(peer, sink, guest)?;
        if ends && !busy {
            let end = || connection.intake.as_ref().map(|intake| intake.end(&mut connection.reader));
            return Err(connection.failure.take().or_else(end));
        }
        if wanted || connection.queue != Queue::Empty {
            connection.queue = peer.pump().map_err(|misplaced| Some(out_of_place(peer.rank, misplaced)))?;
            busy |= connection.queue == Queue::Moving;
        }
        Ok(busy)
    }

    /// Says that the thread sleeps, and looks a last time. Returns whether there is something to do.
    fn fall_asleep(&mut self) -> bool {
        if matches!(self.stage, Stage::Over) {
            return false; // whatever callers still want of it
        }
        if self.peer.is_wanted() {
            return true;
        }
        let Stage::Open(connection) = &mut self.stage else { return false };
        let reads = connection.intake.is_some() && self.peer.window.is_open() && !self.peer.is_closing();
        let mut ready = connection.hung_up && self.peer.window.is_open();
        if reads && !connection.hung_up {
            connection.reader.set_sleeping(true);
            fence(Ordering::SeqCst);
            ready |= connection.reader.has_news();
        }
        if matches!(connection.queue, Queue::Stuck | Queue::Moving) {
            ready |= self.peer.has_room(true);
        }
        ready
    }

    fn wake_up(&mut self) {
        let Stage::Open(connection) = &mut self.stage else { return };
        connection.reader.set_sleeping(false);
        if matches!(connection.queue, Queue::Stuck | Queue::Moving) {
            self.peer.has_room(false);
        }
    }
}

/// The earlier of two times, if there are any.
fn earlier(a: Option<Instant>, b: Instant) -> Option<Instant> {
    Some(a.map_or(b, |a| a.min(b)))
}

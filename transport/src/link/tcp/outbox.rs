//! The way out to a peer: a queue for each connection, and the sockets, which whoever sends may write to.

use std::io::ErrorKind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mgcomp_selector::{LinkFacts, Overlap};
use rustix::time::{ClockId, clock_gettime};
use tokio::sync::{Notify, mpsc};

use super::counters::Counters;
use super::gauge::Gauge;
use super::pace::LONG_BYTES;
use super::record::Record;
use super::turn::Dealer;
use crate::link::Sent;
use crate::link::flow::{Flow, held_bytes};
use crate::link::movement::Movement;
use crate::link::rate::{Rate, TimedRate};
use crate::message::MessageId;

/// A message that is to be written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) record: Record,
    /// Length of the message in bytes.
    pub(super) len: u64,
    /// Which tagged send it is, if it is one.
    pub(super) send: Option<MessageId>,
}

/// When a message is to leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Push {
    Now,
    /// With the next one, or a moment later.
    WithNext,
}

/// The longest message that is held back, with its framing, in bytes.
const HELD_BYTES: usize = 64;
/// So many bytes may wait for the next message.
const MOST_HELD_BYTES: usize = 1024;
/// Of so many long messages, it is seen of one what it costs the cores.
const EFFORTS: u32 = 16;
/// What all cores do until the peer has read it, as a multiple of what it takes to write. Over sockets of one machine that is 2.2 to 3.4
/// (Linux 6.18, 64 KiB to 16 MiB both ways); and codecs, whose times are those of the clock, seem to take longer where cores are shared.
const ALL_FOR_A_WRITE: u32 = 4;

impl Outgoing {
    /// What it counts for in a queue.
    pub(super) fn held_bytes(&self) -> u64 {
        held_bytes(self.len)
    }
}

/// What a connection's task takes messages from.
#[derive(Debug)]
pub(super) struct Queue {
    /// Comes before all others.
    first: Option<Outgoing>,
    rest: mpsc::UnboundedReceiver<Outgoing>,
}

impl Queue {
    /// The next message, or `None` when this side has closed and there are no more.
    pub(super) async fn recv(&mut self) -> Option<Outgoing> {
        match self.first.take() {
            Some(first) => Some(first),
            None => self.rest.recv().await,
        }
    }

    /// The next message, if there is one already.
    fn try_recv(&mut self) -> Option<Outgoing> {
        self.first.take().or_else(|| self.rest.try_recv().ok())
    }

    /// Has a message that was taken last be the next one again.
    pub(super) fn put_back(&mut self, message: Outgoing) {
        debug_assert!(self.first.is_none(), "one was taken");
        self.first = Some(message);
    }
}

/// Where messages to a peer go in.
#[derive(Debug)]
pub(super) struct Outbox {
    /// One for each connection, and one while there is none. None once the peer is given up and nothing is on the way
    /// there any more.
    lanes: Vec<Lane>,
    dealer: Dealer,
    is_closed: bool,
    /// Messages on the imitated link, which come later.
    on_wire: usize,
}

/// The way over one connection.
#[derive(Debug)]
struct Lane {
    /// Records that leave with the next one.
    held: Vec<u8>,
    /// Tells the connection's task that there are some, when there were none.
    holds: Arc<Notify>,
    /// For what the socket does not take at once.
    queue: mpsc::UnboundedSender<Outgoing>,
    /// The socket, while there is a connection: whoever sends may write to it while nothing is queued.
    socket: Option<Arc<std::net::TcpStream>>,
    gauge: Gauge,
    /// How fast the peer takes what is written, where the kernel does not say.
    rate: Arc<Rate>,
    /// What the connection would carry if a core worked on it all the time.
    effort: TimedRate,
    /// Long messages since that was seen last.
    unseen: u32,
}

impl Outbox {
    /// The way out to a peer that there is no connection with yet.
    pub(super) fn new() -> (Self, Queue) {
        let (lane, queue) = Lane::new();
        (Self { lanes: vec![lane], dealer: Dealer::new(1), is_closed: false, on_wire: 0 }, queue)
    }

    /// Whether it takes messages.
    pub(super) fn is_open(&self) -> bool {
        !self.is_closed && self.lanes.iter().all(|lane| !lane.queue.is_closed())
    }

    /// Sends a message: at once if nothing is queued and the socket takes all of it, else by the queue. Returns `None`
    /// if the peer is given up.
    pub(super) fn send(
        &mut self,
        message: Outgoing,
        push: Push,
        queued_bytes: u64,
        flow: &Flow,
    ) -> Option<Sent> {
        // Where there are several connections, those that follow on another one would have to wait for what is held.
        let may_hold = push == Push::WithNext && queued_bytes == 0 && self.lanes.len() == 1;
        let lane = self.lanes.get_mut(self.dealer.deal(message.len))?;
        lane.gauge.sending(message.len, queued_bytes);
        if may_hold && lane.hold(&message.record) {
            return Some(Sent::Queued);
        }
        lane.send(message, queued_bytes, flow)
    }

    /// Sends what is held back on a connection.
    pub(super) fn release(&mut self, connection: usize, flow: &Flow) {
        if let Some(lane) = self.lanes.get_mut(connection) {
            lane.release(flow);
        }
    }

    /// A message was sent to the imitated link.
    pub(super) fn post(&mut self) {
        self.on_wire += 1;
    }

    /// A message has crossed the imitated link.
    pub(super) fn arrive(&mut self, message: Outgoing, flow: &Flow) {
        self.on_wire -= 1;
        if let Some(lane) = self.lanes.get(self.dealer.deal(message.len)) {
            let _ = lane.queue.send(message); // a queue that is gone has no use for it
        }
        self.end_if_over(flow);
    }

    /// Takes no more messages. What was sent still goes out.
    pub(super) fn close(&mut self, flow: &Flow) {
        self.is_closed = true;
        self.end_if_over(flow);
    }

    /// The peer is gone, and what is queued with it: nobody has to look after that any more.
    pub(super) fn abandon(&mut self, flow: &Flow) {
        self.is_closed = true;
        self.lanes.clear();
        flow.queued.abandon();
    }

    /// There are so many connections now: gives each a queue, with its part of what waits in the `first` one. If a message
    /// was `said` over the first connection already, that is its length.
    pub(super) fn spread(
        &mut self,
        mut first: Queue,
        said: Option<u64>,
        connections: usize,
        flow: &Flow,
    ) -> Vec<Queue> {
        if connections == 1 {
            return vec![first];
        }
        self.release(0, flow);
        let (lanes, queues) = (0..connections).map(|_| Lane::new()).unzip();
        (self.lanes, self.dealer) = (lanes, Dealer::new(connections));
        // It counts for the turn: the peer counts it, too.
        if let Some(len) = said {
            self.dealer.deal(len);
        }
        while let Some(message) = first.try_recv() {
            let _ = self.lanes[self.dealer.deal(message.len)].queue.send(message); // its end is in `queues`
        }
        self.end_if_over(flow);
        queues
    }

    /// Whether the link's thread has something to do for the connections beside writing: bytes have come, or one of them is yet
    /// to be made or to be given up.
    pub(super) fn has_news(&self) -> bool {
        self.lanes.iter().any(Lane::has_news)
    }

    /// What is known of the way out, which is looked at again if enough was sent since the last time. Where it is the work of cores, which
    /// may be `shared` by so much else, it is no slower than by what it costs them: what makes it slower is what else they have to do,
    /// and that makes codecs slower as well. Where it is slower still, there is something else that cores wait for: a tunnel, say.
    pub(super) fn facts(&self, shared: Option<f64>) -> Option<LinkFacts> {
        let seen = Gauge::together(self.lanes.iter().filter_map(Lane::facts))?;
        let efforts = self.lanes.iter().filter_map(|lane| lane.effort.facts(Overlap::None));
        let gbps = efforts.fold(seen.rate_gbps(), |gbps, effort| gbps.max(effort.rate_gbps()));
        let is_plausible = shared.is_some_and(|shared| gbps <= seen.rate_gbps() * shared);
        let by_effort = || LinkFacts::try_new(gbps, seen.latency_ns(), seen.overlap()).ok();
        if is_plausible { by_effort() } else { Some(seen) }
    }

    fn end_if_over(&mut self, flow: &Flow) {
        if self.is_closed && self.on_wire == 0 {
            self.lanes.iter_mut().for_each(|lane| lane.release(flow));
            self.lanes.clear();
        }
    }
}

impl Lane {
    fn new() -> (Self, Queue) {
        let (queue, rest) = mpsc::unbounded_channel();
        let (held, holds) = (Vec::new(), Arc::default());
        let end = Queue { first: None, rest };
        let (gauge, effort) = (Gauge::default(), TimedRate::new(Duration::ZERO));
        (Self { held, holds, queue, socket: None, gauge, rate: Arc::default(), effort, unseen: 0 }, end)
    }

    /// Holds a message back until the next one, if it is short. Only while nothing is queued.
    fn hold(&mut self, record: &Record) -> bool {
        let Some(bytes) = record.short(HELD_BYTES.min(MOST_HELD_BYTES - self.held.len())) else {
            return false;
        };
        if self.held.is_empty() {
            self.holds.notify_one();
        }
        self.held.extend(bytes);
        true
    }

    /// Sends a message, behind what was held back.
    fn send(&mut self, mut message: Outgoing, queued_bytes: u64, flow: &Flow) -> Option<Sent> {
        if !self.held.is_empty() {
            message.record = message.record.behind(std::mem::take(&mut self.held));
        }
        if queued_bytes == 0 && self.write_at_once(&mut message, &flow.written) {
            return Some(Sent::Written);
        }
        flow.queued.add(message.held_bytes());
        self.queue.send(message).is_ok().then_some(Sent::Queued)
    }

    /// Sends what is held back.
    fn release(&mut self, flow: &Flow) {
        if !self.held.is_empty() {
            let nothing = Outgoing { record: Record::empty(), len: 0, send: None };
            self.send(nothing, flow.queued.get(), flow); // if there is no way out any more, nobody needs it
        }
    }

    /// Writes to the socket what it takes; returns whether that was all. Only while nothing is queued.
    fn write_at_once(&mut self, message: &mut Outgoing, movement: &Movement) -> bool {
        let Some(socket) = &self.socket else { return false };
        let left = message.record.remaining();
        let started = (left >= LONG_BYTES && self.unseen == 0).then(core_time);
        // An error is left to the link's thread, which will meet it again and report it.
        let is_all = message.record.try_write(&**socket, movement).unwrap_or(false);
        if left >= LONG_BYTES {
            self.unseen = (self.unseen + 1) % EFFORTS;
        }
        if let Some(started) = started {
            let written = left - message.record.remaining();
            if written >= LONG_BYTES {
                self.effort.learn(written, core_time().saturating_sub(started) * ALL_FOR_A_WRITE);
            }
        }
        is_all
    }

    fn has_news(&self) -> bool {
        let has_come = |socket: &Arc<std::net::TcpStream>| socket.peek(&mut [0]);
        // An end, or an error, is something as well.
        !matches!(self.socket.as_ref().map(has_come), Some(Err(error)) if error.kind() == ErrorKind::WouldBlock)
    }

    fn facts(&self) -> Option<LinkFacts> {
        // The latency is not known then; it is the same for raw and coded bytes.
        let slower = || LinkFacts::try_new(self.rate.gbps()?, 0, Overlap::None).ok();
        self.gauge.facts_by(|| Counters::of(self.socket.as_ref()?)).or_else(slower)
    }
}

/// How long this thread has had a core.
fn core_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap_or_default()
}

pub(super) fn lock(outbox: &Mutex<Outbox>) -> MutexGuard<'_, Outbox> {
    outbox.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A connection that whoever sends may write to, for as long as this lives.
pub(super) struct Lent<'a> {
    outbox: &'a Mutex<Outbox>,
    connection: usize,
}

impl<'a> Lent<'a> {
    /// Lends `socket`. With it comes where to note how fast the peer takes what is written, and what tells when something
    /// is held back.
    pub(super) fn new(
        socket: Arc<std::net::TcpStream>,
        outbox: &'a Mutex<Outbox>,
        connection: usize,
    ) -> (Arc<Rate>, Arc<Notify>, Self) {
        let (mut rate, mut holds) = <(Arc<Rate>, Arc<Notify>)>::default();
        // There is none if the peer was given up meanwhile.
        if let Some(lane) = lock(outbox).lanes.get_mut(connection) {
            (lane.socket, rate, holds) = (Some(socket), lane.rate.clone(), lane.holds.clone());
        }
        (rate, holds, Self { outbox, connection })
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(lane) = lock(self.outbox).lanes.get_mut(self.connection) {
            lane.socket = None;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::io::{Read as _, Write as _};
    use std::net::{Shutdown, TcpListener};

    use bytes::Bytes;
    use mgcomp_codecs::Algorithm;

    use super::*;
    use crate::link::rate::{Backlog, Buffers, RateMeter};
    use crate::message::{Header, Tag, TaggedSend};

    pub(in crate::link::tcp) fn message(len: usize) -> Outgoing {
        let header = Header::TaggedSend(TaggedSend {
            id: MessageId(1),
            algorithm: Algorithm::None,
            continued: false,
            unawaited: false,
            tag: Tag(1),
            length: len as u32,
        });
        let record = Record::new(&header, Bytes::from(vec![b'a'; len]));
        Outgoing { record, len: 15 + len as u64, send: None }
    }

    #[test]
    fn what_is_cores_work_is_no_slower_than_by_what_it_costs_them() {
        use std::time::Instant;
        let (mut outbox, _queue) = Outbox::new();
        let lane = &mut outbox.lanes[0];
        // Half a megabyte in 4 ms, of which 2 may have gone to buffers: 1 Gb/s.
        let (now, ms) = (Instant::now(), Duration::from_millis(1));
        let mut meter = RateMeter::new(&*lane.rate, Buffers::Some);
        meter.wrote(500_000, now, now + 4 * ms, Backlog::None);
        let gbps = |outbox: &Outbox| {
            [None, Some(8.0), Some(3.0)].map(|shared| outbox.facts(shared).unwrap().rate_gbps())
        };
        assert_eq!(gbps(&outbox), [1.0; 3], "nothing is known of the cost");
        // A megabyte in 2 ms of a core: 4 Gb/s.
        let learn = |outbox: &mut Outbox, took| {
            let lane = &mut outbox.lanes[0];
            lane.effort = TimedRate::new(Duration::ZERO);
            (0..2).for_each(|_| lane.effort.learn(1_000_000, took));
        };
        learn(&mut outbox, 2 * ms);
        assert_eq!(gbps(&outbox), [1.0, 4.0, 1.0], "three could not make it so slow");
        // It is faster than by that.
        learn(&mut outbox, 16 * ms);
        assert_eq!(gbps(&outbox), [1.0; 3]);
        // Nothing that cores do makes it so slow.
        learn(&mut outbox, ms / 2);
        assert_eq!(gbps(&outbox), [1.0; 3]);
    }

    #[test]
    fn long_messages_show_what_they_cost() {
        let listener = TcpListener::bind("localhost:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let (flow, (mut outbox, _queue)) = (Flow::new(), Outbox::new());
        outbox.lanes[0].socket = Some(Arc::new(stream));
        let mut send = |len: usize| {
            assert_eq!(outbox.send(message(len), Push::Now, 0, &flow), Some(Sent::Written));
            let mut got = vec![0; 4 + 15 + len];
            peer.read_exact(&mut got).unwrap();
            outbox.lanes[0].effort.facts(Overlap::None)
        };
        let long = LONG_BYTES as usize;
        (0..40).for_each(|_| assert_eq!(send(1000), None, "short ones do not count"));
        // The first and the seventeenth are seen.
        (0..16).for_each(|_| assert_eq!(send(long), None));
        assert!(send(long).is_some_and(|facts| facts.rate_gbps() > 0.0));
    }

    #[test]
    fn nothing_is_left_to_write_to_a_peer_that_is_gone() {
        let message = || message(3);
        let flow = Flow::new();
        let (mut outbox, queue) = Outbox::new();
        for queued in [18 + 256, 2 * (18 + 256)] {
            assert_eq!(outbox.send(message(), Push::Now, flow.queued.get(), &flow), Some(Sent::Queued));
            assert_eq!(flow.queued.get(), queued);
        }
        // One more is on an imitated link.
        flow.queued.add(message().held_bytes());
        outbox.post();
        // The connection's task ends, and somebody sends before that is known.
        drop(queue);
        assert_eq!(outbox.send(message(), Push::Now, flow.queued.get(), &flow), None);
        outbox.abandon(&flow);
        assert!(!flow.queued.any() && !outbox.is_open());
        outbox.arrive(message(), &flow);
        assert_eq!(outbox.send(message(), Push::Now, flow.queued.get(), &flow), None);
        assert!(!flow.queued.any());
    }

    #[test]
    fn news_are_bytes_and_connections_that_begin_or_end() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let _runtime = runtime.enter();
        let listener = TcpListener::bind("localhost:0").unwrap();
        let mut peer = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (stream, _) = listener.accept().unwrap();
        stream.set_nonblocking(true).unwrap();
        let wait_for_bytes = stream.try_clone().unwrap();
        let (outbox, _queue) = Outbox::new();
        let outbox = Mutex::new(outbox);
        assert!(lock(&outbox).has_news(), "there is no connection yet");
        let (.., lent) = Lent::new(Arc::new(stream), &outbox, 0);
        assert!(!lock(&outbox).has_news());
        peer.write_all(&[7; 2]).unwrap();
        wait_for_bytes.set_nonblocking(false).unwrap();
        wait_for_bytes.peek(&mut [0]).unwrap();
        wait_for_bytes.set_nonblocking(true).unwrap();
        assert!(lock(&outbox).has_news());
        assert!(lock(&outbox).has_news(), "whoever looks takes nothing");
        std::io::Read::read_exact(&mut (&wait_for_bytes), &mut [0; 2]).unwrap();
        assert!(!lock(&outbox).has_news());
        peer.shutdown(Shutdown::Both).unwrap();
        wait_for_bytes.set_nonblocking(false).unwrap();
        assert_eq!(wait_for_bytes.peek(&mut [0]).unwrap(), 0);
        wait_for_bytes.set_nonblocking(true).unwrap();
        assert!(lock(&outbox).has_news());
        drop(lent);
        assert!(lock(&outbox).has_news(), "a connection that is over");
        let flow = Flow::new();
        lock(&outbox).close(&flow);
        assert!(!lock(&outbox).has_news(), "nothing is to be done for a peer that was given up");
    }
}

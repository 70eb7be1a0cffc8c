//! The way out to a peer: a queue for each connection, and the sockets, which whoever sends may write to.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use mgcomp_selector::{LinkFacts, Overlap};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::counters::Counters;
use super::gauge::Gauge;
use super::peer::Traffic;
use super::record::Record;
use super::turn::Dealer;
use crate::link::QUEUED_MESSAGE_BYTES;
use crate::link::movement::Movement;
use crate::link::rate::Rate;

/// A message that is to be written.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) record: Record,
    /// Length of the message in bytes.
    pub(super) len: u64,
}

impl Outgoing {
    /// What it counts for in a queue.
    pub(super) fn queued_len(&self) -> u64 {
        self.len + QUEUED_MESSAGE_BYTES
    }
}

/// What a connection's task takes messages from.
pub(super) type Queue = mpsc::UnboundedReceiver<Outgoing>;

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
    /// For what the socket does not take at once.
    queue: mpsc::UnboundedSender<Outgoing>,
    /// The socket, while there is a connection: whoever sends may write to it while nothing is queued.
    socket: Option<std::net::TcpStream>,
    gauge: Gauge,
    /// How fast the peer takes what is written, where the kernel does not say.
    rate: Arc<Rate>,
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

    /// Sends a message: at once if nothing is queued and the socket takes all of it, else by the queue. Returns whether
    /// that was possible.
    pub(super) fn send(&mut self, mut message: Outgoing, queued_bytes: u64, traffic: &Traffic) -> bool {
        let Some(lane) = self.lanes.get(self.dealer.deal(message.len)) else { return false };
        lane.gauge.sending(message.len, queued_bytes);
        if queued_bytes == 0 && lane.write_at_once(&mut message, &traffic.written) {
            return true;
        }
        traffic.queued(&message);
        lane.queue.send(message).is_ok()
    }

    /// A message was sent to the imitated link.
    pub(super) fn post(&mut self) {
        self.on_wire += 1;
    }

    /// A message has crossed the imitated link.
    pub(super) fn arrive(&mut self, message: Outgoing) {
        self.on_wire -= 1;
        if let Some(lane) = self.lanes.get(self.dealer.deal(message.len)) {
            let _ = lane.queue.send(message); // a queue that is gone has no use for it
        }
        self.end_if_over();
    }

    /// Takes no more messages. What was sent still goes out.
    pub(super) fn close(&mut self) {
        self.is_closed = true;
        self.end_if_over();
    }

    /// There are so many connections now: gives each a queue, with its part of what waits in the `first` one.
    pub(super) fn spread(&mut self, mut first: Queue, connections: usize) -> Vec<Queue> {
        if connections == 1 {
            return vec![first];
        }
        let (lanes, queues) = (0..connections).map(|_| Lane::new()).unzip();
        (self.lanes, self.dealer) = (lanes, Dealer::new(connections));
        while let Ok(message) = first.try_recv() {
            let _ = self.lanes[self.dealer.deal(message.len)].queue.send(message); // its end is in `queues`
        }
        self.end_if_over();
        queues
    }

    /// What is known of the way out, which is looked at again if enough was sent since the last time.
    pub(super) fn facts(&self) -> Option<LinkFacts> {
        Gauge::together(self.lanes.iter().filter_map(Lane::facts))
    }

    fn end_if_over(&mut self) {
        if self.is_closed && self.on_wire == 0 {
            self.lanes.clear();
        }
    }
}

impl Lane {
    fn new() -> (Self, Queue) {
        let (queue, end) = mpsc::unbounded_channel();
        (Self { queue, socket: None, gauge: Gauge::default(), rate: Arc::default() }, end)
    }

    /// Writes to the socket what it takes; returns whether that was all. Only while nothing is queued.
    fn write_at_once(&self, message: &mut Outgoing, movement: &Movement) -> bool {
        // An error is left to the link's thread, which will meet it again and report it.
        self.socket.as_ref().is_some_and(|socket| message.record.try_write(socket, movement).unwrap_or(false))
    }

    fn facts(&self) -> Option<LinkFacts> {
        // The latency is not known then; it is the same for raw and coded bytes.
        let slower = || LinkFacts::try_new(self.rate.gbps()?, 0, Overlap::None).ok();
        self.gauge.facts_by(|| Counters::of(self.socket.as_ref()?)).or_else(slower)
    }
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
    /// Lends `stream`. With it comes where to note how fast the peer takes what is written.
    pub(super) fn new(
        stream: TcpStream,
        outbox: &'a Mutex<Outbox>,
        connection: usize,
    ) -> std::io::Result<(TcpStream, Arc<Rate>, Self)> {
        let stream = stream.into_std()?;
        let second = stream.try_clone()?;
        let mut rate = Arc::default();
        // There is none if the peer was given up meanwhile.
        if let Some(lane) = lock(outbox).lanes.get_mut(connection) {
            (lane.socket, rate) = (Some(second), lane.rate.clone());
        }
        Ok((TcpStream::from_std(stream)?, rate, Self { outbox, connection }))
    }
}

impl Drop for Lent<'_> {
    fn drop(&mut self) {
        if let Some(lane) = lock(self.outbox).lanes.get_mut(self.connection) {
            lane.socket = None;
        }
    }
}

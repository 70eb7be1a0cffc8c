//! Ranks in one process: messages move by reference, at the pace of memory or of a link that is imitated.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Instant;

use super::bucket::TokenBucket;
use super::{Credit, Link, LinkError, LinkEvent, LinkSink, Message, Position, SendError, Shaping};
use crate::message::Rank;

/// Bytes that one rank may have under way to another unless another limit is given.
pub const DEFAULT_QUEUE_BYTES: u64 = 1 << 30;

/// One rank's end of a loopback fabric.
pub struct Loopback {
    fabric: Arc<Fabric>,
    rank: Rank,
    /// Ends the wire thread with the last rank.
    wire: Option<Sender<Delivery>>,
}

struct Fabric {
    ranks: u32,
    queue_limit: u64,
    ears: Vec<Mutex<Ear>>,
    paths: Vec<Path>,
    /// What each rank's port into the fabric is occupied by, where a link is imitated.
    ports: Vec<Option<Mutex<TokenBucket>>>,
}

/// Where a rank hears of events; keeps them until it has started to listen.
enum Ear {
    Waiting(Vec<LinkEvent>),
    Listening(LinkSink),
}

/// The way from one rank to another.
#[derive(Default)]
struct Path {
    closed: AtomicBool,
    queued_bytes: AtomicU64,
}

/// A message that arrives later.
struct Delivery {
    at: Instant,
    sequence: u64,
    from: Rank,
    to: Rank,
    parcel: Parcel,
}

enum Parcel {
    Message(Message, Credit),
    Close,
}

impl Loopback {
    /// The ends of a fabric of `ranks` ranks. With `shaping`, each rank has one port of that rate for all that
    /// it sends, and every message takes the latency on top.
    ///
    /// # Errors
    /// [`LinkError`] if the system gives no thread to imitate the link with.
    pub fn fabric(ranks: u32, shaping: Option<Shaping>) -> Result<Vec<Self>, LinkError> {
        Self::fabric_with_queue(ranks, shaping, DEFAULT_QUEUE_BYTES)
    }

    /// As [`fabric`](Self::fabric), with at most `queue_bytes` bytes under way from one rank to another.
    ///
    /// # Errors
    /// As [`fabric`](Self::fabric).
    pub fn fabric_with_queue(
        ranks: u32,
        shaping: Option<Shaping>,
        queue_bytes: u64,
    ) -> Result<Vec<Self>, LinkError> {
        let count = ranks as usize;
        let fabric = Arc::new(Fabric {
            ranks,
            queue_limit: queue_bytes,
            ears: (0..count).map(|_| Mutex::new(Ear::Waiting(Vec::new()))).collect(),
            paths: (0..count * count).map(|_| Path::default()).collect(),
            ports: (0..count).map(|_| shaping.map(|s| Mutex::new(TokenBucket::new(s)))).collect(),
        });
        let wire = match shaping {
            Some(_) => Some(start_wire(fabric.clone())?),
            None => None,
        };
        let end = |rank| Self { fabric: fabric.clone(), rank: Rank(rank), wire: wire.clone() };
        Ok((0..ranks).map(end).collect())
    }

    fn post(&self, to: Rank, bytes: u64, parcel: Parcel) {
        let (Some(wire), Some(port)) = (&self.wire, &self.fabric.ports[self.rank.0 as usize]) else {
            return self.fabric.deliver(self.rank, to, parcel);
        };
        let mut port = port.lock().unwrap_or_else(PoisonError::into_inner);
        let at = port.arrival(bytes, Instant::now());
        // Sent under the lock, so that the wire sees each port's messages in order.
        let _ = wire.send(Delivery { at, sequence: 0, from: self.rank, to, parcel });
    }
}

impl Link for Loopback {
    fn position(&self) -> Position {
        Position { rank: self.rank, ranks: self.fabric.ranks }
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        let mut ear = self.fabric.ear(self.rank);
        match std::mem::replace(&mut *ear, Ear::Listening(sink.clone())) {
            // Reported under the lock: nothing that comes now may overtake.
            Ear::Waiting(events) => events.into_iter().for_each(|event| sink(event)),
            Ear::Listening(_) => return Err(LinkError::StartedTwice),
        }
        Ok(())
    }

    fn send(&self, to: Rank, message: Message) -> Result<(), SendError> {
        if !self.position().is_peer(to) || self.fabric.path(self.rank, to).closed.load(Ordering::SeqCst) {
            return Err(SendError::Closed(to));
        }
        let path = self.fabric.path(self.rank, to);
        let (bytes, limit) = (message.wire_len(), self.fabric.queue_limit);
        let queued_bytes = path.queued_bytes.load(Ordering::SeqCst);
        if queued_bytes.saturating_add(bytes) > limit {
            return Err(SendError::Full { queued_bytes, limit });
        }
        path.queued_bytes.fetch_add(bytes, Ordering::SeqCst);
        let credit = Credit::holding(Queued { fabric: self.fabric.clone(), from: self.rank, to, bytes });
        self.post(to, bytes, Parcel::Message(message, credit));
        Ok(())
    }

    fn moved_since(&self, peer: Rank, _: Instant) -> bool {
        // What is under way is moving: the fabric itself never stalls.
        let queued = |from, to| self.fabric.path(from, to).queued_bytes.load(Ordering::SeqCst) > 0;
        self.wire.is_some() && (queued(self.rank, peer) || queued(peer, self.rank))
    }

    fn close(&self, peer: Rank) {
        if self.position().is_peer(peer)
            && !self.fabric.path(self.rank, peer).closed.swap(true, Ordering::SeqCst)
        {
            self.post(peer, 0, Parcel::Close);
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.position().peers().for_each(|peer| self.close(peer));
    }
}

/// Counts a message's bytes as under way until it was looked at.
struct Queued {
    fabric: Arc<Fabric>,
    from: Rank,
    to: Rank,
    bytes: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.fabric.path(self.from, self.to).queued_bytes.fetch_sub(self.bytes, Ordering::SeqCst);
    }
}

impl Fabric {
    fn path(&self, from: Rank, to: Rank) -> &Path {
        &self.paths[from.0 as usize * self.ranks as usize + to.0 as usize]
    }

    fn deliver(&self, from: Rank, to: Rank, parcel: Parcel) {
        // A rank that has given the sender up hears nothing more of it.
        if self.path(to, from).closed.load(Ordering::SeqCst) {
            return;
        }
        let event = match parcel {
            Parcel::Message(message, credit) => LinkEvent::Message { from, message, credit },
            Parcel::Close => LinkEvent::Closed { peer: from, error: LinkError::PeerClosed(from) },
        };
        match &mut *self.ear(to) {
            Ear::Waiting(events) => events.push(event),
            Ear::Listening(sink) => sink(event),
        }
    }

    fn ear(&self, rank: Rank) -> MutexGuard<'_, Ear> {
        self.ears[rank.0 as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Starts the thread that hands over what is under way when its time has come.
fn start_wire(fabric: Arc<Fabric>) -> Result<Sender<Delivery>, LinkError> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new()
        .name("mgcomp-wire".into())
        .spawn(move || run_wire(&fabric, &receiver))
        .map_err(|error| LinkError::io("starting the wire thread of", "loopback", &error))?;
    Ok(sender)
}

fn run_wire(fabric: &Fabric, incoming: &Receiver<Delivery>) {
    let mut under_way = BinaryHeap::new();
    let mut sequence = 0;
    loop {
        let now = Instant::now();
        while under_way.peek().is_some_and(|Reverse(next): &Reverse<Delivery>| next.at <= now) {
            if let Some(Reverse(next)) = under_way.pop() {
                fabric.deliver(next.from, next.to, next.parcel);
            }
        }
        let received = match under_way.peek() {
            Some(Reverse(next)) => incoming.recv_timeout(next.at.saturating_duration_since(now)),
            None => incoming.recv().map_err(|_| RecvTimeoutError::Disconnected),
        };
        match received {
            Ok(delivery) => {
                sequence += 1;
                under_way.push(Reverse(Delivery { sequence, ..delivery }));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return, // every end is gone: nobody listens
        }
    }
}

impl PartialEq for Delivery {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.sequence) == (other.at, other.sequence)
    }
}

impl Eq for Delivery {}

impl PartialOrd for Delivery {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Delivery {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.sequence).cmp(&(other.at, other.sequence))
    }
}

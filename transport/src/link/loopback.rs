//! Ranks in one process: messages move by reference, at the pace of memory or of a link that is imitated.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use mgcomp_selector::LinkFacts;

use super::flow::{QueuedBytes, held_bytes, usual_queue_bytes};
use super::movement::Movement;
use super::wire::Wire;
use super::{Credit, Link, LinkError, LinkEvent, LinkSink, Message, Position, SendError, Sent, Shaping};
use crate::message::{Limits, Rank};

/// Bytes that one rank may have under way to another unless something else is said: enough for the limits of
/// [`NodeConfig`](crate::node::NodeConfig) that nobody has changed.
pub const DEFAULT_QUEUE_BYTES: u64 = 1 << 30;

/// One rank's end of a loopback fabric.
pub struct Loopback {
    fabric: Arc<Fabric>,
    rank: Rank,
    /// What imitates a slow link, if one is imitated; ends with the last rank.
    wire: Option<Arc<Wire<Delivery>>>,
    shaping: Option<Shaping>,
}

struct Fabric {
    ranks: u32,
    queue_limit: u64,
    ears: Vec<Mutex<Ear>>,
    paths: Vec<Path>,
}

/// Where a rank hears of events; keeps them until it has started to listen.
enum Ear {
    Waiting(Vec<LinkEvent>),
    Listening(LinkSink),
    Gone,
}

/// The way from one rank to another.
struct Path {
    /// By the rank that it starts from, or because the other is gone.
    closed: AtomicBool,
    /// Until they were looked at.
    queued: QueuedBytes,
    movement: Movement,
}

/// Something that one rank hands another.
struct Delivery {
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
    /// it sends, and every message takes the latency on top. Ranks that take more at once than others do, by limits of their own, are
    /// joined by [`fabric_for`](Self::fabric_for).
    ///
    /// # Errors
    /// [`LinkError`] if the system gives no thread to imitate the link with.
    pub fn fabric(ranks: u32, shaping: Option<Shaping>) -> Result<Vec<Self>, LinkError> {
        Self::fabric_with_queue(ranks, shaping, DEFAULT_QUEUE_BYTES)
    }

    /// As [`fabric`](Self::fabric), for ranks that take what `limits` allow: as much may be under way as their peers may rightly ask
    /// for, three windows and as many messages, and 1 GiB at least.
    ///
    /// # Errors
    /// As [`fabric`](Self::fabric).
    pub fn fabric_for(ranks: u32, shaping: Option<Shaping>, limits: Limits) -> Result<Vec<Self>, LinkError> {
        Self::fabric_with_queue(ranks, shaping, usual_queue_bytes(limits))
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
            paths: (0..count * count).map(|_| Path::new()).collect(),
        });
        let start_wire = |shaping| {
            let fabric = fabric.clone();
            Wire::start(count, shaping, move |delivery| fabric.deliver(delivery))
                .map(Arc::new)
                .map_err(|error| LinkError::io("starting the wire thread of", "loopback", &error))
        };
        let wire = shaping.map(start_wire).transpose()?;
        let end = |rank| Self { fabric: fabric.clone(), rank: Rank(rank), wire: wire.clone(), shaping };
        Ok((0..ranks).map(end).collect())
    }

    /// Reports to `sink` from now on, beginning with what has come. Not to be called by two at once.
    pub(super) fn listen(&self, sink: LinkSink) -> Result<(), LinkError> {
        loop {
            let mut ear = self.fabric.ear(self.rank);
            let Ear::Waiting(events) = &mut *ear else { return Err(LinkError::StartedTwice) };
            if events.is_empty() {
                *ear = Ear::Listening(sink);
                return Ok(());
            }
            let events = std::mem::take(events);
            drop(ear);
            // What comes meanwhile waits, and so does not overtake. It is bounded, since what is not looked at has no more room in a queue.
            events.into_iter().for_each(|event| sink(event));
        }
    }

    /// Counts a message as under way to `to`, if it may be: the first half of sending it.
    pub(super) fn admit(&self, to: Rank, message: &Message) -> Result<Credit, SendError> {
        if !self.position().is_peer(to) || self.fabric.path(self.rank, to).closed.load(Ordering::SeqCst) {
            return Err(SendError::Closed(to));
        }
        let path = self.fabric.path(self.rank, to);
        let held_bytes = held_bytes(message.wire_len());
        path.queued.check_room(held_bytes, self.fabric.queue_limit)?;
        path.queued.add(held_bytes);
        Ok(Credit::holding(Queued { fabric: self.fabric.clone(), from: self.rank, to, held_bytes }))
    }

    /// Sends a message that was admitted.
    pub(super) fn forward(&self, to: Rank, message: Message, credit: Credit) {
        self.post(to, message.wire_len(), Parcel::Message(message, credit));
    }

    /// From now on nothing is admitted to `peer`, and nothing reported of it; `false` if that was so before.
    pub(super) fn give_up(&self, peer: Rank) -> bool {
        let is_peer = self.position().is_peer(peer);
        is_peer && !self.fabric.path(self.rank, peer).closed.swap(true, Ordering::SeqCst)
    }

    /// Tells `peer` that it was given up, behind what it was sent.
    pub(super) fn say_closed(&self, peer: Rank) {
        self.post(peer, 0, Parcel::Close);
    }

    /// Bytes are on their way to `peer`.
    #[cfg(feature = "cuda")]
    pub(super) fn note_movement(&self, peer: Rank) {
        self.fabric.path(self.rank, peer).movement.note(Instant::now());
    }

    /// Ends the way to `peer` for `error`, and reports it at both ends.
    #[cfg(feature = "cuda")]
    pub(super) fn cut(&self, peer: Rank, error: &LinkError) {
        self.fabric.cut(self.rank, peer, error);
    }

    /// The same of all ways of `rank`, which may be any of the fabric's.
    #[cfg(feature = "cuda")]
    pub(super) fn cut_off(&self, rank: Rank, error: &LinkError) {
        let peers = Position { rank, ..self.position() }.peers();
        peers.for_each(|peer| self.fabric.cut(rank, peer, error));
    }

    fn post(&self, to: Rank, bytes: u64, parcel: Parcel) {
        let movement = &self.fabric.path(self.rank, to).movement;
        let delivery = Delivery { from: self.rank, to, parcel };
        match &self.wire {
            Some(wire) => movement.note(wire.post(self.rank.0 as usize, bytes, delivery)),
            None => {
                movement.note(Instant::now());
                self.fabric.deliver(delivery);
            }
        }
    }
}

impl Link for Loopback {
    fn position(&self) -> Position {
        Position { rank: self.rank, ranks: self.fabric.ranks }
    }

    fn ranks_here(&self) -> u32 {
        self.fabric.ranks
    }

    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError> {
        self.listen(sink)
    }

    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        let credit = self.admit(to, &message)?;
        self.forward(to, message, credit);
        Ok(Sent::Queued)
    }

    fn moved_since(&self, peer: Rank, since: Instant) -> bool {
        let moved = |from, to, since| self.fabric.path(from, to).movement.since(since);
        // Of what goes out, only what has not arrived counts. The fabric itself never stalls.
        self.position().is_peer(peer)
            && (moved(peer, self.rank, since) || moved(self.rank, peer, since.max(Instant::now())))
    }

    /// Known only of a link that is made slower: otherwise bytes change hands without being moved.
    fn facts(&self, _peer: Rank) -> Option<LinkFacts> {
        self.shaping.and_then(Shaping::facts)
    }

    fn owns_arrived(&self) -> bool {
        false
    }

    fn close(&self, peer: Rank) {
        if self.give_up(peer) {
            self.say_closed(peer);
        }
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.position().peers().for_each(|peer| self.close(peer));
        // Events that wait hold the fabric, which holds them: without this, neither would ever go.
        let ear = std::mem::replace(&mut *self.fabric.ear(self.rank), Ear::Gone);
        drop(ear); // after the lock
    }
}

/// Counts a message's bytes as under way until it was looked at.
struct Queued {
    fabric: Arc<Fabric>,
    from: Rank,
    to: Rank,
    held_bytes: u64,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.fabric.path(self.from, self.to).queued.remove(self.held_bytes);
    }
}

impl Path {
    fn new() -> Self {
        Self { closed: AtomicBool::new(false), queued: QueuedBytes::default(), movement: Movement::new() }
    }
}

impl Fabric {
    fn path(&self, from: Rank, to: Rank) -> &Path {
        &self.paths[from.0 as usize * self.ranks as usize + to.0 as usize]
    }

    fn deliver(&self, Delivery { from, to, parcel }: Delivery) {
        // A rank that has given the sender up hears nothing more of it.
        if self.path(to, from).closed.load(Ordering::SeqCst) {
            return;
        }
        let event = match parcel {
            Parcel::Message(message, credit) => LinkEvent::Message { from, message, credit },
            Parcel::Close => {
                self.path(to, from).closed.store(true, Ordering::SeqCst);
                LinkEvent::Closed { peer: from, error: LinkError::PeerClosed(from) }
            }
        };
        self.report(to, event);
    }

    /// Ends the way between two ranks for `error`, and reports it to both.
    #[cfg(feature = "cuda")]
    fn cut(&self, rank: Rank, peer: Rank, error: &LinkError) {
        for (here, there) in [(rank, peer), (peer, rank)] {
            if !self.path(here, there).closed.swap(true, Ordering::SeqCst) {
                self.report(here, LinkEvent::Closed { peer: there, error: error.clone() });
            }
        }
    }

    /// Tells `to` of something.
    fn report(&self, to: Rank, event: LinkEvent) {
        let sink = match &mut *self.ear(to) {
            Ear::Waiting(events) => return events.push(event),
            Ear::Listening(sink) => sink.clone(),
            Ear::Gone => return,
        };
        sink(event); // after the lock: whoever hears of it may answer at once
    }

    fn ear(&self, rank: Rank) -> MutexGuard<'_, Ear> {
        self.ears[rank.0 as usize].lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_that_take_more_at_once_have_longer_queues() {
        let queue_limit = |window_bytes| {
            let limits = Limits { max_transfer_bytes: 64 << 20, window_bytes, max_in_flight: 1024 };
            Loopback::fabric_for(2, None, limits).unwrap()[0].fabric.queue_limit
        };
        assert_eq!(queue_limit(256 << 20), DEFAULT_QUEUE_BYTES);
        // Three windows, and 256 bytes for each of 4,096 messages.
        assert_eq!(queue_limit(2 << 30), (6 << 30) + (1 << 20));
        assert_eq!(queue_limit(u64::MAX), u64::MAX);
    }
}

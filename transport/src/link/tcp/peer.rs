//! What goes on with one peer, over one connection or several.

use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;

use super::inbox::Inbox;
use super::lane::{Connection, LaneTask};
use super::outbox::{Outbox, Outgoing, Queue, lock};
use super::turn::Place;
use crate::link::movement::Movement;
use crate::link::{LinkError, LinkEvent, LinkSink};
use crate::message::Rank;
use crate::pool::Pool;

/// Bytes of messages that were received and not looked at yet; connections are not read beyond them, but for one message
/// of each that waits for its turn.
pub(super) const UNSEEN_BYTES: u32 = 64 << 20;

/// What goes on between this rank and a peer.
#[derive(Debug)]
pub(super) struct Traffic {
    /// Bytes of messages that are not written yet, or not to the end.
    queued_bytes: AtomicU64,
    pub(super) written: Movement,
    pub(super) read: Arc<Movement>,
}

impl Traffic {
    pub(super) fn new() -> Self {
        Self { queued_bytes: AtomicU64::new(0), written: Movement::new(), read: Arc::new(Movement::new()) }
    }

    /// Bytes that are queued.
    pub(super) fn queued_bytes(&self) -> u64 {
        self.queued_bytes.load(Ordering::SeqCst)
    }

    /// A message was queued.
    pub(super) fn queued(&self, message: &Outgoing) {
        self.queued_bytes.fetch_add(message.queued_len(), Ordering::SeqCst);
    }

    /// A message that counted so much is written; returns whether anything else is queued.
    pub(super) fn unqueued(&self, queued_len: u64) -> bool {
        self.queued_bytes.fetch_sub(queued_len, Ordering::SeqCst) > queued_len
    }

    /// What is queued will never be written.
    pub(super) fn abandon(&self) {
        self.queued_bytes.store(0, Ordering::SeqCst);
    }

    /// Whether the link's thread has something to write.
    pub(super) fn has_backlog(&self) -> bool {
        self.queued_bytes() > 0
    }

    /// When bytes last moved that somebody here may soon have more to do with than to wait. Those on an imitated link are left to
    /// themselves until they are there.
    pub(super) fn last_moved(&self, now: Instant) -> Instant {
        let (read, written) = (self.read.latest(), self.written.latest());
        if written > now { read } else { read.max(written) }
    }

    /// Whether the rest of a message is to come from the peer, or to be taken by it.
    pub(super) fn is_halfway(&self) -> bool {
        self.read.is_halfway() || self.has_backlog()
    }

    /// What was written may still lie in a buffer of this machine's while the peer hangs. So writing counts only
    /// while there is more to write: then those buffers are full, and headway is the peer's.
    pub(super) fn moved_since(&self, since: Instant) -> bool {
        self.read.since(since) || self.has_backlog() && self.written.since(since)
    }
}

/// Serves one peer from the first attempt to connect to the end.
pub(super) struct PeerTask {
    pub(super) peer: Rank,
    /// Ends when this side closes.
    pub(super) queue: Queue,
    pub(super) outbox: Arc<Mutex<Outbox>>,
    pub(super) inbox: Arc<Inbox>,
    /// Turns true when this side closes.
    pub(super) closed: watch::Receiver<bool>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) record_limit: u64,
    pub(super) sink: LinkSink,
}

impl PeerTask {
    /// Waits for the connections that `connecting` makes and serves them until either end closes them.
    pub(super) async fn run(self, connecting: impl Future<Output = Result<Vec<Connection>, LinkError>>) {
        let (peer, sink, mut closed) = (self.peer, self.sink.clone(), self.closed.clone());
        let (outbox, traffic) = (self.outbox.clone(), self.traffic.clone());
        let connections = tokio::select! {
            connections = connecting => Some(connections),
            _ = closed.wait_for(|&closed| closed) => None,
        };
        let end = match connections {
            Some(Ok(connections)) => self.serve(connections).await,
            Some(Err(error)) => Some(LinkEvent::Closed { peer, error }),
            None => None,
        };
        lock(&outbox).abandon(&traffic);
        if let Some(event) = end {
            sink(event);
        }
    }

    /// Serves all connections until the end; returns what is to be reported of it.
    async fn serve(self, connections: Vec<Connection>) -> Option<LinkEvent> {
        let queues = lock(&self.outbox).spread(self.queue, connections.len(), &self.traffic);
        let (unseen, pool) = (Arc::new(Semaphore::new(UNSEEN_BYTES as usize)), Pool::default());
        let mut lanes = JoinSet::new();
        for ((place, connection), queue) in Place::all(connections.len()).zip(connections).zip(queues) {
            let lane = LaneTask {
                peer: self.peer,
                place,
                queue,
                outbox: self.outbox.clone(),
                inbox: self.inbox.clone(),
                closed: self.closed.clone(),
                traffic: self.traffic.clone(),
                unseen: unseen.clone(),
                pool: pool.clone(),
                record_limit: self.record_limit,
                sink: self.sink.clone(),
            };
            lanes.spawn(lane.run(connection));
        }
        while let Some(ended) = lanes.join_next().await {
            // None of them is of use without the others.
            if let Ok(Some(event)) = ended {
                lanes.shutdown().await;
                return Some(event);
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use mgcomp_codecs::Algorithm;

    use super::*;
    use crate::link::Sent;
    use crate::link::tcp::outbox::Push;
    use crate::link::tcp::record::Record;
    use crate::message::{Header, MessageId, Tag, TaggedSend};

    #[test]
    fn nothing_is_left_to_write_to_a_peer_that_is_given_up_before_it_has_come() {
        let (outbox, queue) = Outbox::new();
        let (outbox, traffic) = (Arc::new(Mutex::new(outbox)), Arc::new(Traffic::new()));
        let header = Header::TaggedSend(TaggedSend {
            id: MessageId(1),
            algorithm: Algorithm::None,
            unawaited: false,
            tag: Tag(1),
            length: 0,
        });
        let hello = Outgoing { record: Record::new(&header, bytes::Bytes::new()), len: 16, send: None };
        assert_eq!(lock(&outbox).send(hello, Push::Now, 0, &traffic), Some(Sent::Queued));
        assert!(traffic.has_backlog());
        let (close, closed) = watch::channel(false);
        let task = PeerTask {
            peer: Rank(1),
            queue,
            outbox: outbox.clone(),
            inbox: Arc::default(),
            closed,
            traffic: traffic.clone(),
            record_limit: 1000,
            sink: Arc::new(|_| panic!("nothing is to be said of it")),
        };
        close.send_replace(true);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(task.run(std::future::pending()));
        assert!(!traffic.has_backlog() && !lock(&outbox).is_open());
    }

    #[test]
    fn what_is_on_an_imitated_link_does_not_move_before_it_is_there() {
        let traffic = Traffic::new();
        let start = traffic.last_moved(Instant::now());
        let at = |ms| start + Duration::from_millis(ms);
        traffic.read.note(at(10));
        traffic.written.note(at(500));
        assert_eq!(traffic.last_moved(at(100)), traffic.read.latest());
        assert_eq!(traffic.last_moved(at(600)), traffic.written.latest());
        traffic.read.note(at(700));
        assert_eq!(traffic.last_moved(at(900)), traffic.read.latest());
    }
}

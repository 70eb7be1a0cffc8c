//! What the program's side of the link and the thread that calls MPI share of a peer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use bytes::Bytes;

use crate::link::movement::Movement;
use crate::link::rate::Rate;
use crate::link::{Credit, QUEUED_MESSAGE_BYTES, SendError};
use crate::message::{Header, Rank};

/// A message that is to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) payload: Bytes,
}

impl Outgoing {
    /// What it counts for in a queue.
    pub(super) fn queued_len(&self) -> u64 {
        (self.header.kind().header_len() + self.payload.len()) as u64 + QUEUED_MESSAGE_BYTES
    }
}

/// A peer as both sides see it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) rank: Rank,
    queue: Mutex<Queue>,
    /// Bytes of messages that the peer has not begun to take, or not to the end.
    queued_bytes: AtomicU64,
    /// Bytes of messages that came and were not looked at.
    unseen_bytes: Arc<AtomicU64>,
    silenced: AtomicBool,
    /// Whether a message has pieces that MPI does not have yet.
    pub(super) has_rest: AtomicBool,
    pub(super) written: Movement,
    pub(super) read: Movement,
    /// How fast the peer takes what is sent.
    pub(super) rate: Arc<Rate>,
}

#[derive(Debug, Default)]
struct Queue {
    messages: VecDeque<Outgoing>,
    /// When this side gave the peer up, or learnt that it is gone.
    closed: Option<Instant>,
}

impl Peer {
    pub(super) fn new(rank: Rank) -> Self {
        Self {
            rank,
            queue: Mutex::default(),
            queued_bytes: AtomicU64::new(0),
            unseen_bytes: Arc::default(),
            silenced: AtomicBool::new(false),
            has_rest: AtomicBool::new(false),
            written: Movement::new(),
            read: Movement::new(),
            rate: Arc::default(),
        }
    }

    /// Queues `message` unless there are more than `limit` bytes then.
    pub(super) fn push(&self, message: Outgoing, limit: u64) -> Result<(), SendError> {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return Err(SendError::Closed(self.rank));
        }
        let queued_bytes = self.queued_bytes.load(Ordering::SeqCst);
        if queued_bytes.saturating_add(message.queued_len()) > limit {
            return Err(SendError::Full { queued_bytes, limit });
        }
        self.queued_bytes.fetch_add(message.queued_len(), Ordering::SeqCst);
        queue.messages.push_back(message);
        Ok(())
    }

    /// The next message to send; `Err` with the time of the end if there will be none any more.
    pub(super) fn pop(&self) -> Result<Option<Outgoing>, Instant> {
        let mut queue = self.queue();
        match (queue.messages.pop_front(), queue.closed) {
            (None, Some(closed)) => Err(closed),
            (message, _) => Ok(message),
        }
    }

    /// Whether there is something that MPI does not have yet.
    pub(super) fn has_queued(&self) -> bool {
        self.has_rest.load(Ordering::SeqCst) || !self.queue().messages.is_empty()
    }

    /// What counted for so much is sent.
    pub(super) fn release(&self, queued_len: u64) {
        self.queued_bytes.fetch_sub(queued_len, Ordering::SeqCst);
    }

    /// Takes no more messages from now on; what is queued still goes out.
    pub(super) fn close(&self) {
        self.queue().closed.get_or_insert_with(Instant::now);
    }

    /// Takes no more messages, and forgets those that are queued: there is nobody to send them to.
    pub(super) fn clear(&self) {
        self.close();
        // Payloads may take time to free, and the lock is also taken by senders.
        let messages = std::mem::take(&mut self.queue().messages);
        self.release(messages.iter().map(Outgoing::queued_len).sum());
    }

    pub(super) fn closed(&self) -> Option<Instant> {
        self.queue().closed
    }

    /// Nothing more is reported of the peer.
    pub(super) fn silence(&self) {
        self.silenced.store(true, Ordering::SeqCst);
    }

    pub(super) fn is_silenced(&self) -> bool {
        self.silenced.load(Ordering::SeqCst)
    }

    /// What a message that came counts for until it was looked at.
    pub(super) fn credit(&self, len: u64) -> Credit {
        let held_bytes = len + QUEUED_MESSAGE_BYTES;
        self.unseen_bytes.fetch_add(held_bytes, Ordering::SeqCst);
        Credit::holding(Unseen { of: self.unseen_bytes.clone(), held_bytes })
    }

    pub(super) fn unseen_bytes(&self) -> u64 {
        self.unseen_bytes.load(Ordering::SeqCst)
    }

    /// A send is over once the peer has begun to take it, so that is a sign of life; but only while there is more to
    /// send are the buffers on the way full, and headway goes on.
    pub(super) fn moved_since(&self, since: Instant) -> bool {
        let writing = self.queued_bytes.load(Ordering::SeqCst) > 0;
        self.read.since(since) || writing && self.written.since(since)
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Counts bytes as unseen until dropped.
struct Unseen {
    of: Arc<AtomicU64>,
    held_bytes: u64,
}

impl Drop for Unseen {
    fn drop(&mut self) {
        self.of.fetch_sub(self.held_bytes, Ordering::SeqCst);
    }
}

//! What the program's side of the link and the thread that calls MPI share of a peer.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;
use std::time::Instant;

use bytes::Bytes;

use crate::link::SendError;
use crate::link::flow::{Flow, ReceiveWindow, held_bytes};
use crate::link::rate::Rate;
use crate::message::{Header, Rank};

/// A message that is to be sent.
#[derive(Debug)]
pub(super) struct Outgoing {
    pub(super) header: Header,
    pub(super) payload: Bytes,
}

impl Outgoing {
    /// What it counts for in a queue.
    pub(super) fn held_bytes(&self) -> u64 {
        held_bytes((self.header.kind().header_len() + self.payload.len()) as u64)
    }
}

/// A peer as both sides see it.
#[derive(Debug)]
pub(super) struct Peer {
    pub(super) rank: Rank,
    queue: Mutex<Queue>,
    /// What the peer has not begun to take counts as queued. A send is over once it has, so that is a sign of life.
    pub(super) flow: Flow,
    /// While it is closed, no record is received.
    pub(super) window: Arc<ReceiveWindow>,
    silenced: AtomicBool,
    /// Whether a message has pieces that MPI does not have yet.
    pub(super) has_rest: AtomicBool,
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
            flow: Flow::new(),
            window: ReceiveWindow::new(Waker::noop().clone()), // which is looked at all the time
            silenced: AtomicBool::new(false),
            has_rest: AtomicBool::new(false),
            rate: Arc::default(),
        }
    }

    /// Queues `message` unless there are more than `limit` bytes then.
    pub(super) fn push(&self, message: Outgoing, limit: u64) -> Result<(), SendError> {
        let mut queue = self.queue();
        if queue.closed.is_some() {
            return Err(SendError::Closed(self.rank));
        }
        self.flow.queued.check_room(message.held_bytes(), limit)?;
        self.flow.queued.add(message.held_bytes());
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

    /// Takes no more messages from now on; what is queued still goes out.
    pub(super) fn close(&self) {
        self.queue().closed.get_or_insert_with(Instant::now);
    }

    /// Takes no more messages, and forgets those that are queued: there is nobody to send them to.
    pub(super) fn clear(&self) {
        self.close();
        // Payloads may take time to free, and the lock is also taken by senders.
        let messages = std::mem::take(&mut self.queue().messages);
        self.flow.queued.remove(messages.iter().map(Outgoing::held_bytes).sum());
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

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

//! Carrying messages between ranks.
//!
//! A link carries whole messages, each as two pieces, header and payload. It keeps the messages from one
//! rank to another in order, loses none while both ends live, and says when an end is gone.

mod badge;
#[cfg(feature = "cuda")]
pub mod cuda;
pub(crate) mod driving;
mod error;
mod flow;
pub mod loopback;
mod movement;
#[cfg(feature = "mpi")]
pub mod mpi;
pub mod rate;
#[cfg(target_os = "linux")]
pub mod shm;
pub mod tcp;
pub(crate) mod wire;

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Instant;

use mgcomp_selector::LinkFacts;

pub use driving::drive;
pub use error::{LinkError, SendError};

use crate::executor::Outlet;
use crate::memory::HeldMut;
use crate::message::{Header, MessageError, MessageId, Rank};
pub use crate::pace::{Shaping, ShapingError};
use crate::payload::Payload;

/// A message on its way.
#[derive(Clone, Debug)]
pub struct Message {
    /// What it says.
    pub header: Header,
    /// The bytes that come with it.
    pub payload: Payload,
}

impl Message {
    /// Bytes that the message takes on a link, the link's own framing not counted.
    #[must_use]
    pub fn wire_len(&self) -> u64 {
        self.header.kind().header_len() as u64 + self.payload.capacity()
    }
}

/// How far a message has come when it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sent {
    /// Its memory is not used any more, and the peer gets it even if this end goes away, if it takes it within two seconds.
    Written,
    /// It waits for others, or for room, or the peer will take it from where it is.
    Queued,
}

/// Who a link belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position {
    /// The rank on this side.
    pub rank: Rank,
    /// Ranks that the link joins, this one counted.
    pub ranks: u32,
}

impl Position {
    /// All ranks but this one.
    pub fn peers(self) -> impl Iterator<Item = Rank> {
        (0..self.ranks).map(Rank).filter(move |&rank| rank != self.rank)
    }

    /// Whether `rank` is one of the others.
    #[must_use]
    pub fn is_peer(self, rank: Rank) -> bool {
        rank != self.rank && rank.0 < self.ranks
    }
}

/// What a link has to report.
#[derive(Debug)]
pub enum LinkEvent {
    /// A message is coming whose payload is long. Whoever expects it may say where it is to be put; the message then
    /// has that memory as its payload, and is reported as usual when all of it is there.
    Coming {
        /// Who is sending it.
        from: Rank,
        /// Its header.
        header: Header,
        /// Length of the payload in bytes.
        len: u64,
        /// Takes the memory, as long as the payload, or is dropped.
        landing: SyncSender<HeldMut>,
    },
    /// A message came.
    Message {
        /// Who sent it.
        from: Rank,
        /// The message.
        message: Message,
        /// What the link holds back until the message was looked at.
        credit: Credit,
    },
    /// A tagged send that was [queued](Sent::Queued) has been [written](Sent::Written) now. Not all links say so.
    Written {
        /// Whom it was sent to.
        to: Rank,
        /// Which one.
        send: MessageId,
    },
    /// Bytes came that are no message; nothing more will come from this peer.
    Malformed {
        /// Who sent them.
        from: Rank,
        /// What is wrong with them.
        error: MessageError,
    },
    /// The way to a peer is gone; nothing more will come from it.
    Closed {
        /// Which peer.
        peer: Rank,
        /// Why.
        error: LinkError,
    },
}

/// Something of the link's that is released when it is dropped: its way of not receiving faster than messages
/// are looked at.
pub struct Credit(#[allow(dead_code, reason = "held for its drop")] Held);

#[allow(dead_code, reason = "held for its drop")]
enum Held {
    Nothing,
    Unseen(flow::Unseen),
    Other(Box<dyn Any + Send>),
}

impl Credit {
    /// Releases nothing.
    #[must_use]
    pub fn none() -> Self {
        Self(Held::Nothing)
    }

    /// Releases `held` when dropped.
    #[must_use]
    pub fn holding(held: impl Any + Send) -> Self {
        Self(Held::Other(Box::new(held)))
    }
}

impl fmt::Debug for Credit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credit")
    }
}

/// Where a link reports. Called from any thread, for the events of one peer one after the other; must not block. It may
/// send before it returns, and so hear of what that brings about: a link holds no lock while it reports that sending or closing
/// asks for.
pub type LinkSink = Arc<dyn Fn(LinkEvent) + Send + Sync>;

/// A way to carry messages between the ranks of a job.
///
/// The first message to each peer is a hello: some links let nobody in without.
pub trait Link: Send {
    /// Who this end is.
    fn position(&self) -> Position;

    /// Starts reporting to `sink`. Called once, before anything else is sent.
    ///
    /// # Errors
    /// [`LinkError`] if the link cannot work at all.
    fn start(&mut self, sink: LinkSink) -> Result<(), LinkError>;

    /// Writes or queues a message. Never blocks.
    ///
    /// # Errors
    /// [`SendError`] if the peer is gone or does not drain its queue; the message is not sent then.
    fn send(&self, to: Rank, message: Message) -> Result<Sent, SendError>;

    /// Sends a message that may wait for the next one to the same peer, or for a moment: so both take one packet,
    /// where that saves anything.
    ///
    /// # Errors
    /// As [`send`](Self::send).
    fn send_with_next(&self, to: Rank, message: Message) -> Result<Sent, SendError> {
        self.send(to, message)
    }

    /// Whether bytes have come from `peer` since then, or are on the way in either direction.
    ///
    /// What was handed over to be sent is no sign of life, and on the way only while it makes headway.
    fn moved_since(&self, peer: Rank, since: Instant) -> bool;

    /// What is known of the way to `peer`: what it was made to be, or what was seen of it. `None` while nothing is.
    fn facts(&self, peer: Rank) -> Option<LinkFacts>;

    /// How many ranks of the job share this machine, itself among them, as far as the link knows.
    fn ranks_here(&self) -> u32 {
        1
    }

    /// Whether what gets bytes to `peer` is the work of this machine's cores alone, and nothing that they wait for.
    fn is_cores_work(&self, _peer: Rank) -> bool {
        false
    }

    /// Collectives cut what they send into parts of so many bytes, at most [`MOST_PART_BYTES`], in whole numbers of 64: while one is on the link, the
    /// next is encoded and the one before decoded. All ranks have the same link, and cut alike.
    fn part_bytes(&self) -> usize {
        MOST_PART_BYTES
    }

    /// Where it takes payloads from.
    fn outlet(&self) -> Outlet {
        Outlet::Host
    }

    /// Whether what it brings is this side's own memory, and not the sender's.
    fn owns_arrived(&self) -> bool {
        true
    }

    /// What a thread that waits for messages may do meanwhile, where the link has a use for it.
    fn driver(&self) -> Option<Weak<dyn Drive>> {
        None
    }

    /// Gives `peer` up, once what is queued for it is sent. Nothing more is reported of it from now on.
    ///
    /// The peer gets what it takes in bounded time, and nothing if there is no way to it yet.
    fn close(&self, peer: Rank);
}

/// The work of a link, done by whoever waits for what it brings: no other thread needs to be woken for it.
pub trait Drive: Send + Sync {
    /// Does the link's work until `until` is ready; returns `false` at once if another thread is doing it.
    fn drive(&self, until: Pin<&mut (dyn Future<Output = ()> + Send)>) -> bool;

    /// A thread wants what the link brings and does not drive it: somebody else is to, soon. For one that `asks_again` it is enough
    /// that another thread does now.
    fn prompt(&self, asks_again: bool) {
        let _ = asks_again; // a link's own thread may come back by itself soon enough
    }
}

/// Parts of collectives are no longer: members that exchange blocks in place have room for two.
pub const MOST_PART_BYTES: usize = 512 << 10;

/// Payloads of this length and more are worth asking [where they go](LinkEvent::Coming).
const LONG_PAYLOAD_BYTES: u64 = 32 << 10;

/// Asks where a payload of `len` bytes is to be put, if it is worth it.
fn landing(sink: &LinkSink, from: Rank, header: &Header, len: u64) -> Option<HeldMut> {
    if len < LONG_PAYLOAD_BYTES {
        return None;
    }
    let (landing, place) = sync_channel(1);
    sink(LinkEvent::Coming { from, header: *header, len, landing });
    place.recv().ok().filter(|place| place.len() as u64 == len)
}

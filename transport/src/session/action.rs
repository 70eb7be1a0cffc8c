//! What a session wants done.

use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use super::error::{SessionError, TransferError};
use super::request::RequestId;
use crate::message::{Address, GivingUp, Header, Status, Tag};
use crate::payload::Payload;

/// Names a piece of codec work towards its session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct JobId(pub u64);

/// The stream of traffic that a transfer belongs to: what a policy keeps its state by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Stream {
    /// A region of the rank that owns the memory.
    Region(u16),
    /// Sends with this tag.
    Tag(Tag),
}

impl From<Address> for Stream {
    fn from(address: Address) -> Self {
        Self::Region(address.region())
    }
}

/// What encoded bytes are sent as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// The answer to a read of the peer, from memory that the program may change meanwhile.
    Answer {
        /// Whether the peer wants it raw; see [`ReadRequest::raw`](crate::message::ReadRequest::raw).
        raw: bool,
    },
    /// A write, from memory that the program leaves alone until it is finished; [`Action::Acknowledged`] says when the
    /// peer has it.
    Write {
        /// What asked for it.
        request: RequestId,
    },
    /// A tagged send, from memory that the program leaves alone until it is finished.
    Send {
        /// What asked for it.
        request: RequestId,
    },
}

/// One thing to do. Actions are to be carried out in the order in which they come.
#[derive(Clone, Debug)]
pub enum Action {
    /// Choose an algorithm for `source` and encode it; answer with `encoded`.
    Encode {
        /// What to answer with.
        job: JobId,
        /// The raw bytes.
        source: Payload,
        /// What they are.
        element: Element,
        /// What the transfer belongs to.
        stream: Stream,
        /// What the peer can decode.
        allowed: AlgorithmSet,
        /// What the bytes are sent as.
        purpose: Purpose,
        /// Whether others like it are under way: while one is on the link, the next is encoded and the one before decoded.
        overlaps: bool,
    },
    /// Decode `payload` into the whole of `destination`; answer with `decoded`.
    Decode {
        /// What to answer with.
        job: JobId,
        /// How the payload is coded.
        algorithm: Algorithm,
        /// What came from the peer.
        payload: Payload,
        /// The read that it is a part of the answer to.
        read: Option<RequestId>,
        /// Where the raw bytes go.
        destination: Payload,
        /// Whether the destination is to stay as it is if the payload turns out bad: the peer chose it, not the
        /// program.
        all_or_nothing: bool,
    },
    /// Send a message to the peer.
    Send {
        /// Its header.
        header: Header,
        /// What follows the header.
        payload: Payload,
        /// Whether it may wait until something else is sent, for a moment.
        with_next: bool,
    },
    /// The peer has the bytes of a write that this job encoded.
    Acknowledged {
        /// That job.
        job: JobId,
    },
    /// The peer has decoded the frame that this job encoded.
    Decoded {
        /// That job.
        job: JobId,
        /// How long it took.
        took: Duration,
    },
    /// A request is finished: bytes moved, or why not.
    Deliver {
        /// Which request.
        request: RequestId,
        /// Bytes moved.
        result: Result<u64, TransferError>,
    },
    /// The peer has given up an operation that it and this rank take part in.
    GivenUp(GivingUp),
    /// The session is over: nothing follows but receives of what had come before, and the failure of all other requests
    /// that are made later. Close the link to the peer after what was sent.
    Close {
        /// Why.
        error: SessionError,
    },
}

/// What an encoding came to.
pub type Encoded = Result<(Algorithm, Payload), Status>;
/// What a decoding came to.
pub type Decoded = Result<(), Status>;

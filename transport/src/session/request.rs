//! What the program asks of a session.

use mgcomp_codecs::Element;

use super::pace::Window;
use crate::message::{Address, GivingUp, Tag};
use crate::payload::Payload;

/// Names a request towards whoever made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RequestId(pub u64);

/// Something to be done with a peer. Local memory is a buffer's payload in each case.
#[derive(Clone, Debug)]
pub enum Request {
    /// Fill `into` from the peer's memory.
    Read {
        /// First byte at the peer.
        from: Address,
        /// Where the bytes go.
        into: Payload,
        /// Whether the peer is asked not to compress them; see [`ReadRequest::raw`](crate::message::ReadRequest::raw).
        raw: bool,
    },
    /// Put `from` into the peer's memory.
    Write {
        /// The bytes.
        from: Payload,
        /// What they are.
        element: Element,
        /// First byte at the peer.
        to: Address,
    },
    /// Hand `from`, of any length, to whoever at the peer receives with the same tag.
    Send {
        /// The bytes.
        from: Payload,
        /// What they are.
        element: Element,
        /// What it is matched by.
        tag: Tag,
        /// When it is done.
        completion: Completion,
        /// The bytes of what it is a part of, if it is, and the other parts are sent at the same time.
        part_of: Option<u64>,
        /// Whether the next send with this tag is for the same receive, which gets both, one behind the other.
        continued: bool,
        /// What it waits for that is sent before it. Sends wait in order, so what is behind it does, too.
        window: Option<Window>,
    },
    /// Take the next send of the peer with this tag, and those that continue it.
    Receive {
        /// What it is matched by.
        tag: Tag,
        /// Where the bytes go; what is longer is refused.
        into: Payload,
    },
}

/// Whom the end of a transfer is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Request(RequestId),
    /// A part of this message, which is longer.
    Part(MessageNumber),
}

/// Counts the [messages of several sends](super::parts) that were begun to be received.
pub(super) type MessageNumber = u64;

impl Owner {
    /// The request of the program, if it is one by itself.
    pub(super) fn request(self) -> Option<RequestId> {
        if let Self::Request(request) = self { Some(request) } else { None }
    }
}

impl From<RequestId> for Owner {
    fn from(request: RequestId) -> Self {
        Self::Request(request)
    }
}

/// When a send is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Completion {
    /// Once it is out of this side's hands: it was [written](crate::link::Sent::Written), or at the latest when it was
    /// received. What the peer makes of it is told to whoever receives it.
    Local,
    /// Once it was received.
    Remote,
}

impl Request {
    /// The local memory.
    pub(super) fn memory(&self) -> &Payload {
        match self {
            Self::Read { into, .. } | Self::Receive { into, .. } => into,
            Self::Write { from, .. } | Self::Send { from, .. } => from,
        }
    }

    /// The window that it has to itself and others, if it has one.
    pub(super) fn window(&self) -> Option<Window> {
        if let Self::Send { window, .. } = *self { window } else { None }
    }

    /// Whether it is a send of an operation of a group, or says that one is given up.
    pub(super) fn is_of_group(&self) -> bool {
        matches!(self, Self::Send { tag, .. } if GivingUp::is_of_group(*tag))
    }

    /// What it is matched by, if it is.
    pub(super) fn tag(&self) -> Option<Tag> {
        match *self {
            Self::Send { tag, .. } | Self::Receive { tag, .. } => Some(tag),
            Self::Read { .. } | Self::Write { .. } => None,
        }
    }
}

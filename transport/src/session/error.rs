//! Why transfers and sessions fail, by who is to blame.

use std::time::Duration;

use crate::link::{LinkError, SendError};
use crate::message::{MessageError, MessageId, OfferId, Rank, Status};

/// Why a request was not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TransferError {
    /// The peer refused it, or could not carry it out.
    #[error("rank {peer} refused: {status}")]
    Refused {
        /// Who.
        peer: Rank,
        /// Its reason.
        status: Status,
    },
    /// What the peer sent cannot be used.
    #[error("payload from rank {peer} is unusable: {status}")]
    Unusable {
        /// Who sent it.
        peer: Rank,
        /// What is wrong with it.
        status: Status,
    },
    /// The bytes here could not be encoded.
    #[error("could not encode the payload: {0}")]
    Encode(Status),
    /// A send arrived that does not fit the receive it was matched with; the sender was told.
    #[error("rank {peer} sent {len} bytes, but the buffer has room for {capacity}")]
    BufferTooSmall {
        /// Who sent it.
        peer: Rank,
        /// Length of the send in bytes.
        len: u64,
        /// Room in bytes.
        capacity: u64,
    },
    /// The range runs past the last address.
    #[error("{len} bytes from {address:#014x} run past the end of the address space")]
    AddressRange {
        /// First address.
        address: u64,
        /// Length in bytes.
        len: u64,
    },
    /// The session with the peer is over.
    #[error("session with rank {peer} is over: {error}")]
    Session {
        /// With whom.
        peer: Rank,
        /// Why.
        error: SessionError,
    },
    /// The peer has given up an operation of several ranks; its own error says more.
    #[error("rank {peer} has given the operation up: {status}")]
    GivenUp {
        /// Who.
        peer: Rank,
        /// Its reason.
        status: Status,
    },
    /// There is no such rank to talk to.
    #[error("rank {peer} is no peer: ranks are 0 to {last} and this is rank {local}")]
    NoSuchPeer {
        /// Who was asked for.
        peer: Rank,
        /// The highest rank.
        last: u32,
        /// This rank.
        local: Rank,
    },
    /// The node on this side was closed.
    #[error("the node is closed")]
    NodeClosed,
    /// This process is a child, made by `fork`, of the one that started the node: it has none of its threads.
    #[error("the node belongs to the process that this one was forked from")]
    Forked,
}

impl TransferError {
    /// What ranks are told that have to do with it.
    pub(crate) fn status(&self) -> Status {
        match self {
            Self::Refused { status, .. } | Self::Unusable { status, .. } => *status,
            Self::Encode(status) | Self::GivenUp { status, .. } => *status,
            Self::Session { error: SessionError::Refused(status), .. } => *status,
            Self::Session { error, .. } => error.farewell().unwrap_or(Status::Internal),
            _ => Status::Internal,
        }
    }
}

/// Why a session ended.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// The connection is gone.
    #[error("link failed: {0}")]
    Link(#[from] LinkError),
    /// The peer sent something that is no message.
    #[error("peer sent a malformed message: {0}")]
    Malformed(#[from] MessageError),
    /// The peer broke a rule of the protocol.
    #[error("peer broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// The peer turned this side's hello down, or ended the session for a reason.
    #[error("peer ended the session: {0}")]
    Refused(Status),
    /// This side turned the peer's hello down.
    #[error("peer's hello was refused: {0}")]
    PeerRefused(Status),
    /// The peer sent no hello in time.
    #[error("no hello from the peer within {0:?}")]
    GreetingTimeout(Duration),
    /// The peer owes an answer and has not been heard of.
    #[error("peer has been silent for {0:?}")]
    Silent(Duration),
    /// The link does not take a message, because the peer does not drain what was sent before, say.
    #[error("message cannot be sent: {0}")]
    Send(#[from] SendError),
    /// This side closed the session.
    #[error("closed on this side")]
    Closed,
    /// A device of this side is lost, and with it what it was to send and receive. The same for all peers, for good.
    #[error("a device of this rank is lost: {0}")]
    Device(String),
    /// This process is a child, made by `fork`, of the one that has the session.
    #[error("the session belongs to the process that this one was forked from")]
    Forked,
}

impl SessionError {
    /// What the peer is told, if it is told anything.
    #[must_use]
    pub fn farewell(&self) -> Option<Status> {
        match self {
            Self::Malformed(error) => Some(error.refusal_status().unwrap_or(Status::Protocol)),
            Self::Violation(_) => Some(Status::Protocol),
            Self::PeerRefused(status) => Some(*status).filter(|status| !status.is_good()),
            Self::Closed => Some(Status::Closing),
            Self::Device(_) => Some(Status::DeviceLost),
            // These peers are gone, know already, or do not listen.
            Self::Link(_) | Self::Refused(_) | Self::Forked => None,
            Self::Silent(_) | Self::GreetingTimeout(_) | Self::Send(_) => None,
        }
    }
}

/// A rule of the protocol that a peer broke.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Violation {
    /// Something came before the hello.
    #[error("message before hello")]
    BeforeHello,
    /// A second hello.
    #[error("second hello")]
    SecondHello,
    /// An answer to no request, or to one of another kind.
    #[error("response {0} answers no request")]
    NoSuchRequest(MessageId),
    /// A request under an id whose request is still unanswered.
    #[error("message id {0} is already in flight")]
    IdInUse(MessageId),
    /// A fetch of, or an answer to, an offer that was not made or is answered already.
    #[error("there is no offer {0}")]
    NoSuchOffer(OfferId),
    /// An offer under a number whose offer is still unanswered, or an answer to one that is still being fetched.
    #[error("offer {0} is in use")]
    OfferInUse(OfferId),
    /// More offers at once than this side announced.
    #[error("more than {limit} unanswered offers")]
    TooManyOffers {
        /// What was announced.
        limit: u32,
    },
    /// More requests at once than this side announced.
    #[error("more than {limit} requests in flight")]
    TooManyRequests {
        /// What was announced.
        limit: u32,
    },
    /// More bytes at once than this side announced.
    #[error("{in_flight} bytes in flight, the window has {limit}")]
    WindowExceeded {
        /// Bytes that would be in flight.
        in_flight: u64,
        /// What was announced.
        limit: u64,
    },
    /// A payload longer than raw bytes of its length.
    #[error("payload of {payload_len} bytes for a transfer of {length}")]
    PayloadTooLong {
        /// Bytes of payload.
        payload_len: u64,
        /// Raw length of the transfer in bytes.
        length: u32,
    },
}

//! What can be wrong with a message.

use super::{Kind, MAX_IN_FLIGHT, MIN_IN_FLIGHT, Status, VERSION};

/// Why bytes are no message of this version.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum MessageError {
    /// The message ends inside its header. So far nothing is wrong with it.
    #[error("{} incomplete: the header needs {needed} bytes, {got} are there", name(.kind))]
    Incomplete {
        /// What the message is, unless it has no first byte.
        kind: Option<Kind>,
        /// Length of the header in bytes.
        needed: usize,
        /// Bytes there.
        got: usize,
    },
    /// A hello of another protocol version; nothing behind its first 8 bytes was looked at.
    #[error("the peer's hello speaks version {got} (byte 2) of the protocol, this side version {VERSION}")]
    Version {
        /// The peer's version.
        got: u16,
    },
    /// A complete header that cannot mean anything.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl MessageError {
    /// The status with which to refuse a peer whose hello gave this error, if it deserves an answer.
    #[must_use]
    pub const fn refusal_status(&self) -> Option<Status> {
        match self {
            Self::Version { .. } => Some(Status::WrongVersion),
            _ => None,
        }
    }
}

/// What in a message has no meaning. Offsets count from the message's first bit or byte.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Invalid {
    /// A type number without a meaning.
    #[error("bit 0: message type {got} is unknown; 1 to {} are known", Kind::LAST.number())]
    Type {
        /// The number.
        got: u8,
    },
    /// An algorithm number without a meaning.
    #[error("{kind}, bit {bit_offset}: algorithm {got} is unknown")]
    Algorithm {
        /// What the message is.
        kind: Kind,
        /// Where the field starts.
        bit_offset: usize,
        /// The number.
        got: u8,
    },
    /// Bits that must be zero are not.
    #[error("{kind}, bit {bit_offset}: reserved bit is set, the reserved field holds {got:#x}")]
    Reserved {
        /// What the message is.
        kind: Kind,
        /// Where the first of them stands.
        bit_offset: usize,
        /// What the reserved field holds.
        got: u128,
    },
    /// A hello without the magic number.
    #[error("no hello of mgcomp: byte 4 should start with 4d 47 43 57 (\"MGCW\"), found {got:02x?}")]
    Magic {
        /// What stands there.
        got: [u8; 4],
    },
    /// A hello whose rank is none of the job's.
    #[error("hello, byte 24: rank {rank} in a job of {ranks} ranks")]
    Rank {
        /// The rank.
        rank: u32,
        /// The number of ranks.
        ranks: u32,
    },
    /// A hello that allows no transfer of any length.
    #[error("hello, byte 32: the longest transfer is 0 bytes")]
    MaxTransfer,
    /// A hello that allows no bytes in flight.
    #[error("hello, byte 36: the window is 0 bytes")]
    Window,
    /// A hello that allows no request in flight, or more than there are ids.
    #[error("hello, byte 44: {got} requests in flight; {MIN_IN_FLIGHT} to {MAX_IN_FLIGHT} may be")]
    InFlight {
        /// The number of requests.
        got: u32,
    },
    /// A hello of a rank that does not take raw payloads, which every rank must.
    #[error("hello, byte 48: algorithm set {got:#06x} lacks algorithm 0")]
    AlgorithmSet {
        /// The set's bits.
        got: u16,
    },
    /// Bytes follow a message that carries none.
    #[error("{kind}: a payload of {got} bytes follows byte {header_len}; this message carries none")]
    Trailing {
        /// What the message is.
        kind: Kind,
        /// Length of the header in bytes.
        header_len: usize,
        /// Bytes behind it.
        got: usize,
    },
}

fn name(kind: &Option<Kind>) -> &'static str {
    kind.map_or("message", Kind::name)
}

//! The messages between two ranks: what goes in front of a payload, bit by bit.
//!
//! [`Header`] reads and writes all of them; the payload travels beside it and is never looked at here.
//! `WIRE.md` in the repository tells the same to someone who wants to write the other end.
//!
//! ```
//! use mgcomp_transport::message::{Address, Header, MessageId, ReadRequest};
//!
//! let header = Header::ReadRequest(ReadRequest {
//!     id: MessageId(7),
//!     address: Address::new(3, 0x1000),
//!     length: 64,
//!     raw: false,
//! });
//! let bytes = header.encode();
//! assert_eq!(bytes.len(), 16);
//! assert_eq!(Header::parse(&bytes)?, (header, 16));
//! # Ok::<(), mgcomp_transport::message::MessageError>(())
//! ```
//!
//! | type | message | header | payload |
//! |---|---|---|---|
//! | 1 | [`ReadRequest`] | 16 bytes | none |
//! | 2 | [`DataReady`] | 4 bytes | what was read |
//! | 3 | [`WriteRequest`] | 13 bytes | what to write |
//! | 4 | [`WriteAck`] | 4 bytes | none |
//! | 5 | [`Hello`] | 64 bytes | none |
//! | 6 | [`TaggedSend`] | 16 bytes | what is sent |
//! | 7 | [`Offer`] | 24 bytes | none |
//! | 8 | [`Fetch`] | 20 bytes | none |
//! | 9 | [`OfferAck`] | 8 bytes | none |
//! | 10 | [`DecodeTime`] | 8 bytes | none |

mod address;
mod data_ready;
mod decode_time;
mod error;
mod fetch;
mod giving_up;
mod header;
mod hello;
mod id;
mod kind;
mod layout;
mod limits;
mod offer;
mod offer_ack;
mod rank;
mod read_request;
mod secret;
mod status;
mod tagged_send;
mod write_ack;
mod write_request;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod wire_doc_tests;

pub use address::Address;
pub use data_ready::DataReady;
pub use decode_time::DecodeTime;
pub use error::{Invalid, MessageError};
pub use fetch::Fetch;
pub(crate) use giving_up::{GROUP_SHIFT, GROUP_TAG, MOST_GROUPS, OPERATION_TAG};
pub use giving_up::{GivingUp, OperationId};
pub use header::{Header, HeaderBytes};
pub use hello::{Expected, Greeting, Hello, MAX_HELLO_LEN, Refusal, VERSION};
pub use id::{MessageId, OfferId, Tag};
pub use kind::Kind;
pub use limits::{Limits, MAX_IN_FLIGHT, MIN_IN_FLIGHT};
pub use offer::Offer;
pub use offer_ack::OfferAck;
pub use rank::Rank;
pub use read_request::ReadRequest;
pub use secret::{Secret, SecretError};
pub use status::Status;
pub use tagged_send::TaggedSend;
pub use write_ack::WriteAck;
pub use write_request::WriteRequest;

/// Length of the longest header in bytes: the hello's.
pub const MAX_HEADER_LEN: usize = Kind::Hello.header_len();

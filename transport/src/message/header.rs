//! All messages under one roof.

use std::fmt;
use std::ops::Deref;

use super::{
    DataReady, DecodeTime, Fetch, Hello, Invalid, Kind, MAX_HEADER_LEN, MessageError, Offer, OfferAck,
    ReadRequest, TaggedSend, WriteAck, WriteRequest,
};

/// A message without its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Header {
    /// Type 1.
    ReadRequest(ReadRequest),
    /// Type 2.
    DataReady(DataReady),
    /// Type 3.
    WriteRequest(WriteRequest),
    /// Type 4.
    WriteAck(WriteAck),
    /// Type 5.
    Hello(Hello),
    /// Type 6.
    TaggedSend(TaggedSend),
    /// Type 7.
    Offer(Offer),
    /// Type 8.
    Fetch(Fetch),
    /// Type 9.
    OfferAck(OfferAck),
    /// Type 10.
    DecodeTime(DecodeTime),
}

impl Header {
    /// Reads the header at the front of `message`, and says how many bytes it has. The rest is the payload.
    ///
    /// A payload behind a message that carries none is an error; the length of any other payload is not
    /// looked at.
    ///
    /// # Errors
    /// [`MessageError::Incomplete`] if the message ends too early, [`MessageError::Version`] for a hello of
    /// another version, else [`MessageError::Invalid`] naming the first bit that is wrong.
    pub fn parse(message: &[u8]) -> Result<(Self, usize), MessageError> {
        Self::parse_front(message, message.len())
    }

    /// As [`parse`](Self::parse), of a message of `message_len` bytes of which only the front is there: all of it,
    /// or at least as much as the longest header has.
    ///
    /// # Errors
    /// As [`parse`](Self::parse).
    pub fn parse_front(message: &[u8], message_len: usize) -> Result<(Self, usize), MessageError> {
        let first = *message.first().ok_or(MessageError::Incomplete { kind: None, needed: 1, got: 0 })?;
        let number = first >> 4;
        let header = match Kind::from_number(number).ok_or(Invalid::Type { got: number })? {
            Kind::ReadRequest => Self::ReadRequest(ReadRequest::parse(message)?),
            Kind::DataReady => Self::DataReady(DataReady::parse(message)?),
            Kind::WriteRequest => Self::WriteRequest(WriteRequest::parse(message)?),
            Kind::WriteAck => Self::WriteAck(WriteAck::parse(message)?),
            Kind::Hello => Self::Hello(Hello::parse(message)?),
            Kind::TaggedSend => Self::TaggedSend(TaggedSend::parse(message)?),
            Kind::Offer => Self::Offer(Offer::parse(message)?),
            Kind::Fetch => Self::Fetch(Fetch::parse(message)?),
            Kind::OfferAck => Self::OfferAck(OfferAck::parse(message)?),
            Kind::DecodeTime => Self::DecodeTime(DecodeTime::parse(message)?),
        };
        let header_len = header.kind().header_len();
        if message_len > header_len && !header.carries_payload() {
            let (kind, got) = (header.kind(), message_len - header_len);
            return Err(Invalid::Trailing { kind, header_len, got }.into());
        }
        Ok((header, header_len))
    }

    /// The header as it goes on the wire.
    #[must_use]
    pub fn encode(&self) -> HeaderBytes {
        match self {
            Self::ReadRequest(message) => message.encode(),
            Self::DataReady(message) => message.encode(),
            Self::WriteRequest(message) => message.encode(),
            Self::WriteAck(message) => message.encode(),
            Self::Hello(message) => message.encode(),
            Self::TaggedSend(message) => message.encode(),
            Self::Offer(message) => message.encode(),
            Self::Fetch(message) => message.encode(),
            Self::OfferAck(message) => message.encode(),
            Self::DecodeTime(message) => message.encode(),
        }
    }

    /// What the message is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self {
            Self::ReadRequest(_) => Kind::ReadRequest,
            Self::DataReady(_) => Kind::DataReady,
            Self::WriteRequest(_) => Kind::WriteRequest,
            Self::WriteAck(_) => Kind::WriteAck,
            Self::Hello(_) => Kind::Hello,
            Self::TaggedSend(_) => Kind::TaggedSend,
            Self::Offer(_) => Kind::Offer,
            Self::Fetch(_) => Kind::Fetch,
            Self::OfferAck(_) => Kind::OfferAck,
            Self::DecodeTime(_) => Kind::DecodeTime,
        }
    }

    /// Whether a payload follows: in writes, tagged sends, and the answer to a read or fetch that went well.
    #[must_use]
    pub const fn carries_payload(&self) -> bool {
        match self {
            Self::WriteRequest(_) | Self::TaggedSend(_) => true,
            Self::DataReady(message) => message.status.is_good(),
            Self::ReadRequest(_) | Self::WriteAck(_) | Self::Hello(_) => false,
            Self::Offer(_) | Self::Fetch(_) | Self::OfferAck(_) | Self::DecodeTime(_) => false,
        }
    }
}

/// A header as it goes on the wire: 4 to 64 bytes, kept in place.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct HeaderBytes {
    bytes: [u8; MAX_HEADER_LEN],
    len: u8,
}

impl HeaderBytes {
    pub(super) const fn zeroed(len: usize) -> Self {
        assert!(len <= MAX_HEADER_LEN);
        Self { bytes: [0; MAX_HEADER_LEN], len: len as u8 }
    }

    pub(super) fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.bytes[..usize::from(self.len)]
    }
}

impl Deref for HeaderBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl AsRef<[u8]> for HeaderBytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for HeaderBytes {
    /// Shows the length alone: the bytes of a hello hold the job secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "HeaderBytes({} bytes)", self.len)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::data_ready::tests::any_data_ready;
    use crate::message::decode_time::tests::any_decode_time;
    use crate::message::fetch::tests::any_fetch;
    use crate::message::hello::tests::any_hello;
    use crate::message::offer::tests::any_offer;
    use crate::message::offer_ack::tests::any_offer_ack;
    use crate::message::read_request::tests::any_read_request;
    use crate::message::tagged_send::tests::any_tagged_send;
    use crate::message::write_ack::tests::any_write_ack;
    use crate::message::write_request::tests::any_write_request;
    use crate::message::{MessageId, Status};

    /// Any message of any kind.
    pub(crate) fn any_header() -> impl Strategy<Value = Header> {
        prop_oneof![
            any_read_request().prop_map(Header::ReadRequest),
            any_data_ready().prop_map(Header::DataReady),
            any_write_request().prop_map(Header::WriteRequest),
            any_write_ack().prop_map(Header::WriteAck),
            any_hello().prop_map(Header::Hello),
            any_tagged_send().prop_map(Header::TaggedSend),
            any_offer().prop_map(Header::Offer),
            any_fetch().prop_map(Header::Fetch),
            any_offer_ack().prop_map(Header::OfferAck),
            any_decode_time().prop_map(Header::DecodeTime),
        ]
    }

    #[test]
    fn nothing_at_all_is_incomplete() {
        assert_eq!(Header::parse(&[]), Err(MessageError::Incomplete { kind: None, needed: 1, got: 0 }));
    }

    #[test]
    fn type_numbers_without_a_meaning_are_invalid_whatever_follows() {
        for got in [0, 11, 12, 13, 14, 15] {
            let error = MessageError::Invalid(Invalid::Type { got });
            assert_eq!(Header::parse(&[got << 4]), Err(error.clone()));
            assert_eq!(Header::parse(&[got << 4 | 0xf; 80]), Err(error));
        }
    }

    #[test]
    fn debug_text_of_encoded_bytes_tells_nothing() {
        let ack = WriteAck { id: MessageId(1), status: Status::Good };
        assert_eq!(format!("{:?}", Header::WriteAck(ack).encode()), "HeaderBytes(4 bytes)");
    }
}

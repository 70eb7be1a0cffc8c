//! The 4-bit type at the front of every message.

use std::fmt;

use super::{
    data_ready, decode_time, fetch, hello, offer, offer_ack, read_request, tagged_send, write_ack,
    write_request,
};

/// What a message is. The numbers 0 and 11 to 15 have no meaning in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Kind {
    /// Asks for bytes of the receiver's memory.
    ReadRequest = 1,
    /// Answers a read request or a fetch.
    DataReady = 2,
    /// Carries bytes into the receiver's memory.
    WriteRequest = 3,
    /// Answers a write request or a tagged send.
    WriteAck = 4,
    /// Opens a session, or refuses to.
    Hello = 5,
    /// Carries bytes to whoever asks for this tag.
    TaggedSend = 6,
    /// Says that there are bytes for whoever asks for this tag.
    Offer = 7,
    /// Asks for bytes of an offer.
    Fetch = 8,
    /// Answers an offer.
    OfferAck = 9,
    /// Says how long a payload took to decode.
    DecodeTime = 10,
}

impl Kind {
    /// Every kind, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::ReadRequest,
        Self::DataReady,
        Self::WriteRequest,
        Self::WriteAck,
        Self::Hello,
        Self::TaggedSend,
        Self::Offer,
        Self::Fetch,
        Self::OfferAck,
        Self::DecodeTime,
    ];

    /// The kind with the highest number.
    pub(super) const LAST: Self = Self::ALL[Self::ALL.len() - 1];

    /// The number on the wire, 1 to 10.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The kind with this number, if there is one.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.number() == number)
    }

    /// The name that `WIRE.md` and error texts use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadRequest => "Read request",
            Self::DataReady => "Data-Ready",
            Self::WriteRequest => "Write request",
            Self::WriteAck => "Write-ACK",
            Self::Hello => "hello",
            Self::TaggedSend => "tagged send",
            Self::Offer => "offer",
            Self::Fetch => "fetch",
            Self::OfferAck => "Offer-ACK",
            Self::DecodeTime => "decode time",
        }
    }

    /// Length of the header in bytes; the payload, if there is one, follows at once.
    #[must_use]
    pub const fn header_len(self) -> usize {
        match self {
            Self::ReadRequest => read_request::LAYOUT.bytes(),
            Self::DataReady => data_ready::LAYOUT.bytes(),
            Self::WriteRequest => write_request::LAYOUT.bytes(),
            Self::WriteAck => write_ack::LAYOUT.bytes(),
            Self::Hello => hello::LAYOUT.bytes(),
            Self::TaggedSend => tagged_send::LAYOUT.bytes(),
            Self::Offer => offer::LAYOUT.bytes(),
            Self::Fetch => fetch::LAYOUT.bytes(),
            Self::OfferAck => offer_ack::LAYOUT.bytes(),
            Self::DecodeTime => decode_time::LAYOUT.bytes(),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::Invalid;

    #[test]
    fn sixteen_numbers_ten_kinds() {
        let known: Vec<u8> = (0..16).filter(|&n| Kind::from_number(n).is_some()).collect();
        assert_eq!(known, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for kind in Kind::ALL {
            assert_eq!(Kind::from_number(kind.number()), Some(kind));
        }
        let (first, last) = (known[0], known[known.len() - 1]);
        let text = Invalid::Type { got: 11 }.to_string();
        assert_eq!(text, format!("bit 0: message type 11 is unknown; {first} to {last} are known"));
    }

    #[test]
    fn header_lengths_are_those_of_the_paper_and_ours() {
        let bits = Kind::ALL.map(|kind| kind.header_len() * 8);
        assert_eq!(bits, [128, 32, 104, 32, 512, 128, 192, 160, 64, 64]);
    }
}

//! Type 9, Offer-ACK: answers an offer.
//!
//! ```text
//! bit 0     4                24        32           64
//!     type  reserved         status    offer
//!     9     20 bits, zero    8 bits    32 bits
//! ```

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, OfferId, Status};

pub(super) const LAYOUT: Layout<4> =
    Layout::new(Kind::OfferAck, [("type", 4), ("reserved", 20), ("status", 8), ("offer", 32)]);

/// Says that the bytes of an [`Offer`](super::Offer) are in the buffer of a receive, or why they never will be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OfferAck {
    /// How the send went.
    pub status: Status,
    /// The offer's number.
    pub offer: OfferId,
}

impl OfferAck {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, reserved, status, offer] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(1, reserved)?;
        Ok(Self { status: Status::from_code(status as u8), offer: OfferId(offer as u32) })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { status, offer } = *self;
        LAYOUT.write([Kind::OfferAck.number().into(), 0, status.code().into(), offer.0.into()])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::status::tests::any_status;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_offer_ack() -> impl Strategy<Value = OfferAck> {
        (any_status(), any::<u32>()).prop_map(|(status, offer)| OfferAck { status, offer: OfferId(offer) })
    }

    /// 9 | 0 0000 | 0b | 0000 0005.
    const BYTES: [u8; 8] = [0x90, 0, 0, 0x0b, 0, 0, 0, 5];
    const MESSAGE: OfferAck = OfferAck { status: Status::ReceiveTooSmall, offer: OfferId(5) };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::OfferAck(MESSAGE), 8)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for bit_offset in 4..24 {
            let mut bytes = BYTES;
            bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
            let got = 1 << (23 - bit_offset);
            let error = Invalid::Reserved { kind: Kind::OfferAck, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::OfferAck, header_len: 8, got: 2 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0, 0]].concat()), Err(error.into()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_offer_ack()) {
            let header = Header::OfferAck(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 8)));
        }
    }
}

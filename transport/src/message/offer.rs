//! Type 7, offer: says that bytes are there for whoever asks for their tag, and leaves them where they are.
//!
//! ```text
//! bit 0     4                28           32           64            128           192
//!     type  reserved         continued    offer        tag           length
//!     7     24 bits, zero    0 or 1       32 bits      64 bits       64 bits
//! ```

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, OfferId, Tag};

pub(super) const LAYOUT: Layout<6> = Layout::new(
    Kind::Offer,
    [("type", 4), ("reserved", 24), ("continued", 4), ("offer", 32), ("tag", 64), ("length", 64)],
);

/// A send of `length` bytes for the receive that asks for `tag`, which [fetches](super::Fetch) them; answered by an
/// [`OfferAck`](super::OfferAck) with the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Chosen by the sender, and in no other of its offers that wait for an answer.
    pub offer: OfferId,
    /// Whether what is sent or offered next with this tag is for the same receive, behind it.
    pub continued: bool,
    /// Which receive it is for.
    pub tag: Tag,
    /// How many bytes there are.
    pub length: u64,
}

impl Offer {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, reserved, continued, offer, tag, length] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(1, reserved)?;
        LAYOUT.expect_zero(2, continued & !1)?;
        Ok(Self {
            offer: OfferId(offer as u32),
            continued: continued == 1,
            tag: Tag(tag as u64),
            length: length as u64,
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { offer, continued, tag, length } = *self;
        let kind = Kind::Offer.number().into();
        LAYOUT.write([kind, 0, continued.into(), offer.0.into(), tag.0.into(), length.into()])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_offer() -> impl Strategy<Value = Offer> {
        let numbers = (any::<u32>(), any::<u64>(), any::<u64>());
        (numbers, any::<bool>()).prop_map(|((offer, tag, length), continued)| Offer {
            offer: OfferId(offer),
            continued,
            tag: Tag(tag),
            length,
        })
    }

    /// 7 | 000 0000 | 0000 0005 | 0123 4567 89ab cdef | 0000 0001 0000 0000.
    const BYTES: [u8; 24] =
        [0x70, 0, 0, 0, 0, 0, 0, 5, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 0, 0, 1, 0, 0, 0, 0];
    const MESSAGE: Offer =
        Offer { offer: OfferId(5), continued: false, tag: Tag(0x0123_4567_89ab_cdef), length: 1 << 32 };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::Offer(MESSAGE), 24)));
    }

    #[test]
    fn more_may_follow() {
        let mut bytes = BYTES;
        bytes[3] |= 1;
        let message = Offer { continued: true, ..MESSAGE };
        assert_eq!(*message.encode(), bytes);
        assert_eq!(Header::parse(&bytes), Ok((Header::Offer(message), 24)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for bit_offset in 4..31 {
            let mut bytes = BYTES;
            bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
            // Of the 24 bits that it is among, or of four.
            let got = 1 << if bit_offset < 28 { 27 - bit_offset } else { 31 - bit_offset };
            let error = Invalid::Reserved { kind: Kind::Offer, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::Offer, header_len: 24, got: 1 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0]].concat()), Err(error.into()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_offer()) {
            let header = Header::Offer(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 24)));
        }
    }
}

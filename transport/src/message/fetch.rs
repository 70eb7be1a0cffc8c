//! Type 8, fetch: asks for bytes of an offer.
//!
//! ```text
//! bit 0     4             20               32           64            128          160
//!     type  message id    reserved         offer        offset        length
//!     8     16 bits       12 bits, zero    32 bits      64 bits       32 bits
//! ```

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, MessageId, OfferId};

pub(super) const LAYOUT: Layout<6> = Layout::new(
    Kind::Fetch,
    [("type", 4), ("message id", 16), ("reserved", 12), ("offer", 32), ("offset", 64), ("length", 32)],
);

/// Asks for `length` bytes of an [`Offer`](super::Offer), from `offset` on; answered by a
/// [`DataReady`](super::DataReady) with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetch {
    /// Chosen by the sender, and in no other of its requests that wait for an answer.
    pub id: MessageId,
    /// The receiver's offer.
    pub offer: OfferId,
    /// The first byte, counted from the first of the offer.
    pub offset: u64,
    /// How many bytes.
    pub length: u32,
}

impl Fetch {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, reserved, offer, offset, length] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(2, reserved)?;
        Ok(Self {
            id: MessageId(id as u16),
            offer: OfferId(offer as u32),
            offset: offset as u64,
            length: length as u32,
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, offer, offset, length } = *self;
        LAYOUT.write([
            Kind::Fetch.number().into(),
            id.0.into(),
            0,
            offer.0.into(),
            offset.into(),
            length.into(),
        ])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_fetch() -> impl Strategy<Value = Fetch> {
        (any::<u16>(), any::<u32>(), any::<u64>(), any::<u32>()).prop_map(|(id, offer, offset, length)| {
            Fetch { id: MessageId(id), offer: OfferId(offer), offset, length }
        })
    }

    /// 8 | 0abf | 000 | 0000 0005 | 0000 0000 0010 0000 | 0000 0008.
    const BYTES: [u8; 20] = [0x80, 0xab, 0xf0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 8];
    const MESSAGE: Fetch = Fetch { id: MessageId(0xabf), offer: OfferId(5), offset: 1 << 20, length: 8 };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::Fetch(MESSAGE), 20)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for bit_offset in 20..32 {
            let mut bytes = BYTES;
            bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
            let got = 1 << (31 - bit_offset);
            let error = Invalid::Reserved { kind: Kind::Fetch, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::Fetch, header_len: 20, got: 1 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0]].concat()), Err(error.into()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_fetch()) {
            let header = Header::Fetch(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 20)));
        }
    }
}

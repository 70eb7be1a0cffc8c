//! Type 1, Read request: asks for bytes of the receiver's memory.
//!
//! ```text
//! bit 0     4             20                  68            100       104               128
//!     type  message id    physical address    length        raw       reserved
//!     1     16 bits       48 bits             32 bits       4 bits    24 bits, zero
//! ```

use super::layout::Layout;
use super::{Address, HeaderBytes, Kind, MessageError, MessageId};

pub(super) const LAYOUT: Layout<6> = Layout::new(
    Kind::ReadRequest,
    [("type", 4), ("message id", 16), ("physical address", 48), ("length", 32), ("raw", 4), ("reserved", 24)],
);

/// Asks for `length` bytes from `address` on; answered by a [`DataReady`](super::DataReady) with the same id.
///
/// # Source
/// IPDPS 2019, Figure 4. There, `raw` is reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReadRequest {
    /// Chosen by the sender, and in no other of its requests that wait for an answer.
    pub id: MessageId,
    /// The first byte to read.
    pub address: Address,
    /// How many bytes to read.
    pub length: u32,
    /// Whether the answer is to be raw where predicted times alone speak for compression: whoever asks compares what takes longer.
    pub raw: bool,
}

impl ReadRequest {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, address, length, raw, reserved] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(4, raw & !1)?;
        LAYOUT.expect_zero(5, reserved)?;
        Ok(Self {
            id: MessageId(id as u16),
            address: Address::from_field(address),
            length: length as u32,
            raw: raw == 1,
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, address, length, raw } = *self;
        LAYOUT.write([
            Kind::ReadRequest.number().into(),
            id.0.into(),
            address.bits().into(),
            length.into(),
            raw.into(),
            0,
        ])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::address::tests::any_address;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_read_request() -> impl Strategy<Value = ReadRequest> {
        (any::<u16>(), any_address(), any::<u32>(), any::<bool>())
            .prop_map(|(id, address, length, raw)| ReadRequest { id: MessageId(id), address, length, raw })
    }

    /// 1 | 0abc | 0003 0000 1000 | 0000 0040 | 0 | 000000, one hexadecimal digit for four bits.
    const BYTES: [u8; 16] =
        [0x10, 0xab, 0xc0, 0x00, 0x30, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x04, 0x00, 0x00, 0x00, 0x00];
    const MESSAGE: ReadRequest =
        ReadRequest { id: MessageId(0x0abc), address: Address::new(3, 0x1000), length: 64, raw: false };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::ReadRequest(MESSAGE), 16)));
        let (mut bytes, message) = (BYTES, ReadRequest { raw: true, ..MESSAGE });
        bytes[12] |= 1;
        assert_eq!(*message.encode(), bytes);
        assert_eq!(Header::parse(&bytes), Ok((Header::ReadRequest(message), 16)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        // The last bit of `raw` means something.
        for bit_offset in (100..128).filter(|bit| *bit != 103) {
            let mut bytes = BYTES;
            bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
            let last = if bit_offset < 104 { 103 } else { 127 };
            let error =
                Invalid::Reserved { kind: Kind::ReadRequest, bit_offset, got: 1 << (last - bit_offset) };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::ReadRequest, header_len: 16, got: 1 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0]].concat()), Err(error.into()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_read_request()) {
            let header = Header::ReadRequest(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 16)));
        }
    }
}

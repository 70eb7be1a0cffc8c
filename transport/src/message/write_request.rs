//! Type 3, Write request: carries bytes into the receiver's memory.
//!
//! ```text
//! bit 0     4             20                  68            100         104
//!     type  message id    physical address    length        algorithm   payload …
//!     3     16 bits       48 bits             32 bits       4 bits
//! ```

use mgcomp_codecs::Algorithm;

use super::layout::Layout;
use super::{Address, HeaderBytes, Kind, MessageError, MessageId};

pub(super) const LAYOUT: Layout<5> = Layout::new(
    Kind::WriteRequest,
    [("type", 4), ("message id", 16), ("physical address", 48), ("length", 32), ("algorithm", 4)],
);

/// Brings `length` bytes for `address`; answered by a [`WriteAck`](super::WriteAck) with the same id.
///
/// # Source
/// IPDPS 2019, Figure 4.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteRequest {
    /// Chosen by the sender, and in no other of its requests that wait for an answer.
    pub id: MessageId,
    /// Where the first byte goes.
    pub address: Address,
    /// How many bytes the payload stands for when it is decoded.
    pub length: u32,
    /// How the payload is coded.
    pub algorithm: Algorithm,
}

impl WriteRequest {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, address, length, algorithm] = LAYOUT.read(message)?;
        Ok(Self {
            id: MessageId(id as u16),
            address: Address::from_field(address),
            length: length as u32,
            algorithm: LAYOUT.algorithm(4, algorithm)?,
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, address, length, algorithm } = *self;
        LAYOUT.write([
            Kind::WriteRequest.number().into(),
            id.0.into(),
            address.bits().into(),
            length.into(),
            algorithm.number().into(),
        ])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::address::tests::any_address;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_write_request() -> impl Strategy<Value = WriteRequest> {
        let algorithm = proptest::sample::select(&Algorithm::ALL[..]);
        (any::<u16>(), any_address(), any::<u32>(), algorithm).prop_map(|(id, address, length, algorithm)| {
            WriteRequest { id: MessageId(id), address, length, algorithm }
        })
    }

    /// 3 | 0abd | 0003 0000 1000 | 0000 0008 | 0, then the payload.
    const BYTES: [u8; 21] = [
        0x30, 0xab, 0xd0, 0x00, 0x30, 0x00, 0x01, 0x00, 0x00, 0x00, 0x00, 0x00, 0x80, 1, 2, 3, 4, 5, 6, 7, 8,
    ];
    const MESSAGE: WriteRequest = WriteRequest {
        id: MessageId(0x0abd),
        address: Address::new(3, 0x1000),
        length: 8,
        algorithm: Algorithm::None,
    };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES[..13]);
        assert_eq!(Header::parse(&BYTES), Ok((Header::WriteRequest(MESSAGE), 13)));
    }

    #[test]
    fn unknown_algorithms_are_invalid() {
        for got in 11..16 {
            let mut bytes = BYTES;
            bytes[12] |= got;
            let error = Invalid::Algorithm { kind: Kind::WriteRequest, bit_offset: 100, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_write_request()) {
            let header = Header::WriteRequest(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 13)));
        }
    }
}

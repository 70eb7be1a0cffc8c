//! Type 4, Write-ACK: answers a Write request or a tagged send.
//!
//! ```text
//! bit 0     4              20           24       32
//!     type  response id    reserved     status
//!     4     16 bits        4 bits, zero 8 bits
//! ```

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, MessageId, Status};

pub(super) const LAYOUT: Layout<4> =
    Layout::new(Kind::WriteAck, [("type", 4), ("response id", 16), ("reserved", 4), ("status", 8)]);

/// Says that what a [`WriteRequest`](super::WriteRequest) or [`TaggedSend`](super::TaggedSend) brought is in
/// place, or why not.
///
/// # Source
/// IPDPS 2019, Figure 4; the status rides in the last 8 of its 12 reserved bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriteAck {
    /// The request's id.
    pub id: MessageId,
    /// How the write went.
    pub status: Status,
}

impl WriteAck {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, reserved, status] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(2, reserved)?;
        Ok(Self { id: MessageId(id as u16), status: Status::from_code(status as u8) })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, status } = *self;
        LAYOUT.write([Kind::WriteAck.number().into(), id.0.into(), 0, status.code().into()])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::status::tests::any_status;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_write_ack() -> impl Strategy<Value = WriteAck> {
        (any::<u16>(), any_status()).prop_map(|(id, status)| WriteAck { id: MessageId(id), status })
    }

    /// 4 | 0abd | 0 | 03.
    const BYTES: [u8; 4] = [0x40, 0xab, 0xd0, 0x03];
    const MESSAGE: WriteAck = WriteAck { id: MessageId(0x0abd), status: Status::NotOpened };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::WriteAck(MESSAGE), 4)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for (bit_offset, got) in [(20, 8), (21, 4), (22, 2), (23, 1)] {
            let bytes = [0x40, 0xab, 0xd0 | got as u8, 0];
            let error = Invalid::Reserved { kind: Kind::WriteAck, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::WriteAck, header_len: 4, got: 2 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0, 0]].concat()), Err(error.into()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_write_ack()) {
            let header = Header::WriteAck(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 4)));
        }
    }
}

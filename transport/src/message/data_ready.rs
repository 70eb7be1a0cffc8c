//! Type 2, Data-Ready: answers a Read request.
//!
//! ```text
//! bit 0     4              20           24                 32
//!     type  response id    algorithm    reserved = status  payload …
//!     2     16 bits        4 bits       8 bits
//! ```

use mgcomp_codecs::Algorithm;

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, MessageId, Status};

pub(super) const LAYOUT: Layout<4> =
    Layout::new(Kind::DataReady, [("type", 4), ("response id", 16), ("algorithm", 4), ("status", 8)]);

/// Brings the bytes that a [`ReadRequest`](super::ReadRequest) asked for, or says why not.
///
/// With a status other than good it has no payload, and the algorithm means nothing.
///
/// # Source
/// IPDPS 2019, Figure 4; the status rides in its 8 reserved bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DataReady {
    /// The request's id.
    pub id: MessageId,
    /// How the payload is coded.
    pub algorithm: Algorithm,
    /// How the read went.
    pub status: Status,
}

impl DataReady {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, algorithm, status] = LAYOUT.read(message)?;
        Ok(Self {
            id: MessageId(id as u16),
            algorithm: LAYOUT.algorithm(2, algorithm)?,
            status: Status::from_code(status as u8),
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, algorithm, status } = *self;
        LAYOUT.write([
            Kind::DataReady.number().into(),
            id.0.into(),
            algorithm.number().into(),
            status.code().into(),
        ])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::status::tests::any_status;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_data_ready() -> impl Strategy<Value = DataReady> {
        (any::<u16>(), proptest::sample::select(&Algorithm::ALL[..]), any_status())
            .prop_map(|(id, algorithm, status)| DataReady { id: MessageId(id), algorithm, status })
    }

    /// 2 | 0abc | 4 | 00, then the payload.
    const BYTES: [u8; 6] = [0x20, 0xab, 0xc4, 0x00, 0xaa, 0xbb];
    const MESSAGE: DataReady =
        DataReady { id: MessageId(0x0abc), algorithm: Algorithm::Zvc, status: Status::Good };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES[..4]);
        assert_eq!(Header::parse(&BYTES), Ok((Header::DataReady(MESSAGE), 4)));
    }

    #[test]
    fn a_refusal_has_a_status_and_no_payload() {
        let refusal = DataReady { algorithm: Algorithm::None, status: Status::OutOfBounds, ..MESSAGE };
        let bytes = [0x20, 0xab, 0xc0, 0x02, 0xff];
        assert_eq!(Header::parse(&bytes[..4]), Ok((Header::DataReady(refusal), 4)));
        let error = Invalid::Trailing { kind: Kind::DataReady, header_len: 4, got: 1 };
        assert_eq!(Header::parse(&bytes), Err(error.into()));
    }

    #[test]
    fn unknown_algorithms_are_invalid_and_unknown_statuses_are_not() {
        for got in 11..16 {
            let error = Invalid::Algorithm { kind: Kind::DataReady, bit_offset: 20, got };
            assert_eq!(Header::parse(&[0x20, 0xab, 0xc0 | got, 0]), Err(error.into()));
        }
        let newer = DataReady { status: Status::Unknown(0xee), ..MESSAGE };
        assert_eq!(Header::parse(&[0x20, 0xab, 0xc4, 0xee]), Ok((Header::DataReady(newer), 4)));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_data_ready()) {
            let header = Header::DataReady(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 4)));
        }
    }
}

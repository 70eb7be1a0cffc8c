//! Type 6, tagged send: carries bytes to whoever asks for their tag.
//!
//! ```text
//! bit 0     4             20           24           28           32         96         128
//!     type  message id    algorithm    continued    unawaited    tag        length     payload …
//!     6     16 bits       4 bits       0 or 1       0 or 1       64 bits    32 bits
//! ```

use mgcomp_codecs::Algorithm;

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, MessageId, Tag};

pub(super) const LAYOUT: Layout<7> = Layout::new(
    Kind::TaggedSend,
    [
        ("type", 4),
        ("message id", 16),
        ("algorithm", 4),
        ("continued", 4),
        ("unawaited", 4),
        ("tag", 64),
        ("length", 32),
    ],
);

/// Brings `length` bytes for the receive that asks for `tag`; answered by a [`WriteAck`](super::WriteAck)
/// with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaggedSend {
    /// Chosen by the sender, and in no other of its requests that wait for an answer.
    pub id: MessageId,
    /// How the payload is coded.
    pub algorithm: Algorithm,
    /// Whether what is sent or offered next with this tag is for the same receive, behind it.
    pub continued: bool,
    /// Whether nobody waits for the answer, so that it may go out with whatever is sent next.
    pub unawaited: bool,
    /// Which receive it is for.
    pub tag: Tag,
    /// How many bytes the payload stands for when it is decoded.
    pub length: u32,
}

impl TaggedSend {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, algorithm, continued, unawaited, tag, length] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(3, continued & !1)?;
        LAYOUT.expect_zero(4, unawaited & !1)?;
        Ok(Self {
            id: MessageId(id as u16),
            algorithm: LAYOUT.algorithm(2, algorithm)?,
            continued: continued == 1,
            unawaited: unawaited == 1,
            tag: Tag(tag as u64),
            length: length as u32,
        })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, algorithm, continued, unawaited, tag, length } = *self;
        LAYOUT.write([
            Kind::TaggedSend.number().into(),
            id.0.into(),
            algorithm.number().into(),
            continued.into(),
            unawaited.into(),
            tag.0.into(),
            length.into(),
        ])
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_tagged_send() -> impl Strategy<Value = TaggedSend> {
        let algorithm = proptest::sample::select(&Algorithm::ALL[..]);
        let numbers = (any::<u16>(), any::<u64>(), any::<u32>());
        (numbers, algorithm, any::<(bool, bool)>()).prop_map(
            |((id, tag, length), algorithm, (continued, unawaited))| TaggedSend {
                id: MessageId(id),
                algorithm,
                continued,
                unawaited,
                tag: Tag(tag),
                length,
            },
        )
    }

    /// 6 | 0abe | 0 | 00 | 0123 4567 89ab cdef | 0000 0003, then the payload.
    const BYTES: [u8; 19] = [
        0x60, 0xab, 0xe0, 0x00, 0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0x00, 0x00, 0x00, 0x03, 0x61,
        0x62, 0x63,
    ];
    const MESSAGE: TaggedSend = TaggedSend {
        id: MessageId(0x0abe),
        algorithm: Algorithm::None,
        continued: false,
        unawaited: false,
        tag: Tag(0x0123_4567_89ab_cdef),
        length: 3,
    };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES[..16]);
        assert_eq!(Header::parse(&BYTES), Ok((Header::TaggedSend(MESSAGE), 16)));
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for bit_offset in [24, 25, 26, 28, 29, 30] {
            let mut bytes = BYTES;
            bytes[3] = 0x80 >> (bit_offset % 8);
            // Of the four bits that it is among.
            let got = u128::from(if bit_offset < 28 { bytes[3] >> 4 } else { bytes[3] });
            let error = Invalid::Reserved { kind: Kind::TaggedSend, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn two_bits_before_the_tag_say_that_more_follows_and_that_nobody_waits() {
        for (bits, continued, unawaited) in [(0x10, true, false), (0x01, false, true), (0x11, true, true)] {
            let mut bytes = BYTES;
            bytes[3] = bits;
            let message = TaggedSend { continued, unawaited, ..MESSAGE };
            assert_eq!(*message.encode(), bytes[..16]);
            assert_eq!(Header::parse(&bytes), Ok((Header::TaggedSend(message), 16)));
        }
    }

    #[test]
    fn unknown_algorithms_are_invalid() {
        for got in 11..16 {
            let mut bytes = BYTES;
            bytes[2] |= got;
            let error = Invalid::Algorithm { kind: Kind::TaggedSend, bit_offset: 20, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_tagged_send()) {
            let header = Header::TaggedSend(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 16)));
        }
    }
}

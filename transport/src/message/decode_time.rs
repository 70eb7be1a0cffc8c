//! Type 10, decode time: says how long a payload took to decode.
//!
//! ```text
//! bit 0     4             20         24              32             64
//!     type  message id    answer     reserved        nanoseconds
//!     10    16 bits       4 bits     8 bits, zero    32 bits
//! ```

use std::time::Duration;

use super::layout::Layout;
use super::{HeaderBytes, Kind, MessageError, MessageId};

pub(super) const LAYOUT: Layout<5> = Layout::new(
    Kind::DecodeTime,
    [("type", 4), ("message id", 16), ("answer", 4), ("reserved", 8), ("nanoseconds", 32)],
);

/// Says how long the receiver's payload took to decode, so that it knows what codecs take at the other side. Nobody answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecodeTime {
    /// The id of the message that brought the payload.
    pub id: MessageId,
    /// Whether that was a [`DataReady`](super::DataReady). Else it was a [`WriteRequest`](super::WriteRequest) or
    /// [`TaggedSend`](super::TaggedSend), which is not answered yet.
    pub answer: bool,
    /// How long; 2³² − 1 = that or longer.
    pub nanoseconds: u32,
}

impl DecodeTime {
    pub(super) fn parse(message: &[u8]) -> Result<Self, MessageError> {
        let [_type, id, answer, reserved, nanoseconds] = LAYOUT.read(message)?;
        LAYOUT.expect_zero(2, answer & !1)?;
        LAYOUT.expect_zero(3, reserved)?;
        Ok(Self { id: MessageId(id as u16), answer: answer == 1, nanoseconds: nanoseconds as u32 })
    }

    pub(super) fn encode(&self) -> HeaderBytes {
        let Self { id, answer, nanoseconds } = *self;
        LAYOUT.write([Kind::DecodeTime.number().into(), id.0.into(), answer.into(), 0, nanoseconds.into()])
    }

    /// The message that tells this time.
    #[must_use]
    pub fn new(id: MessageId, answer: bool, took: Duration) -> Self {
        Self { id, answer, nanoseconds: took.as_nanos().try_into().unwrap_or(u32::MAX) }
    }

    /// The time that it tells.
    #[must_use]
    pub const fn took(&self) -> Duration {
        Duration::from_nanos(self.nanoseconds as u64)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::message::{Header, Invalid};

    pub(crate) fn any_decode_time() -> impl Strategy<Value = DecodeTime> {
        (any::<u16>(), any::<bool>(), any::<u32>()).prop_map(|(id, answer, nanoseconds)| DecodeTime {
            id: MessageId(id),
            answer,
            nanoseconds,
        })
    }

    /// a | 0abd | 0 | 00 | 0000 09c4.
    const BYTES: [u8; 8] = [0xa0, 0xab, 0xd0, 0, 0, 0, 0x09, 0xc4];
    const MESSAGE: DecodeTime = DecodeTime { id: MessageId(0x0abd), answer: false, nanoseconds: 2500 };

    #[test]
    fn bytes_are_those_of_the_layout() {
        assert_eq!(*MESSAGE.encode(), BYTES);
        assert_eq!(Header::parse(&BYTES), Ok((Header::DecodeTime(MESSAGE), 8)));
        let answer = DecodeTime { answer: true, ..MESSAGE };
        assert_eq!(*answer.encode(), [0xa0, 0xab, 0xd1, 0, 0, 0, 0x09, 0xc4]);
    }

    #[test]
    fn each_reserved_bit_must_be_zero() {
        for bit_offset in (20..23).chain(24..32) {
            let mut bytes = BYTES;
            bytes[bit_offset / 8] |= 0x80 >> (bit_offset % 8);
            // Of the four or eight bits that it is among.
            let got = if bit_offset < 24 { 1 << (23 - bit_offset) } else { 1 << (31 - bit_offset) };
            let error = Invalid::Reserved { kind: Kind::DecodeTime, bit_offset, got };
            assert_eq!(Header::parse(&bytes), Err(error.into()));
        }
    }

    #[test]
    fn it_carries_no_payload() {
        let error = Invalid::Trailing { kind: Kind::DecodeTime, header_len: 8, got: 1 };
        assert_eq!(Header::parse(&[&BYTES[..], &[0]].concat()), Err(error.into()));
    }

    #[test]
    fn what_is_too_long_to_tell_is_the_longest() {
        let told = |took| DecodeTime::new(MessageId(0x0abd), false, took);
        assert_eq!(told(Duration::from_nanos(2500)), MESSAGE);
        assert_eq!(MESSAGE.took(), Duration::from_nanos(2500));
        assert_eq!(told(Duration::from_nanos(0xffff_ffff)).nanoseconds, u32::MAX);
        assert_eq!(told(Duration::from_secs(5)).nanoseconds, u32::MAX);
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(message in any_decode_time()) {
            let header = Header::DecodeTime(message);
            prop_assert_eq!(Header::parse(&header.encode()), Ok((header, 8)));
        }
    }
}

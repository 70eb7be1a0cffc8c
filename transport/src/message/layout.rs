//! A header as a list of fields, most significant bit first.

use std::ops::Range;

use mgcomp_codecs::Algorithm;

use super::header::HeaderBytes;
use super::{Invalid, Kind, MessageError};

/// A field: its name in `WIRE.md`, and its width in bits (1 to 128).
pub(super) type Field = (&'static str, u32);

/// Fields are put together from words of so many bits.
const WORD_BITS: u32 = 64;

/// The fields of one kind of message, in the order in which they are sent.
pub(super) struct Layout<const N: usize> {
    kind: Kind,
    fields: [Field; N],
}

impl<const N: usize> Layout<N> {
    /// The layout of `kind`; its fields must fill whole bytes.
    pub(super) const fn new(kind: Kind, fields: [Field; N]) -> Self {
        let layout = Self { kind, fields };
        assert!(layout.bit_offset(N).is_multiple_of(8));
        let mut i = 0;
        while i < N {
            assert!(1 <= fields[i].1 && fields[i].1 <= 2 * WORD_BITS);
            i += 1;
        }
        layout
    }

    #[cfg(test)]
    pub(super) const fn fields(&self) -> &[Field; N] {
        &self.fields
    }

    /// Length in bytes.
    pub(super) const fn bytes(&self) -> usize {
        self.bit_offset(N) / 8
    }

    /// Where field `index` starts.
    pub(super) const fn bit_offset(&self, index: usize) -> usize {
        let mut bits = 0;
        let mut i = 0;
        while i < index {
            bits += self.fields[i].1 as usize;
            i += 1;
        }
        bits
    }

    /// The header with these values, which must fit their fields.
    pub(super) fn write(&self, values: [u128; N]) -> HeaderBytes {
        let mut header = HeaderBytes::zeroed(self.bytes());
        let mut at = 0;
        for ((name, width), value) in self.fields.into_iter().zip(values) {
            debug_assert!(value.leading_zeros() + width >= 128, "{name} holds {width} bits, not {value:#x}");
            put(header.as_mut_slice(), at, width, value);
            at += width as usize;
        }
        header
    }

    /// The values at the front of `message`.
    pub(super) fn read(&self, message: &[u8]) -> Result<[u128; N], MessageError> {
        if message.len() < self.bytes() {
            return Err(MessageError::Incomplete {
                kind: Some(self.kind),
                needed: self.bytes(),
                got: message.len(),
            });
        }
        let mut at = 0;
        Ok(self.fields.map(|(_, width)| {
            at += width as usize;
            take(message, at - width as usize, width)
        }))
    }

    /// Field `index` of `message`, if the message is long enough to hold it.
    pub(super) fn read_field(&self, message: &[u8], index: usize) -> Option<u128> {
        let (at, width) = (self.bit_offset(index), self.fields[index].1);
        (at + width as usize <= message.len() * 8).then(|| take(message, at, width))
    }

    /// Fails unless `value`, found in field `index`, is zero; names the first bit that is not.
    pub(super) fn expect_zero(&self, index: usize, value: u128) -> Result<(), Invalid> {
        if value == 0 {
            return Ok(());
        }
        let width = self.fields[index].1;
        let bit_offset = self.bit_offset(index) + (width - (128 - value.leading_zeros())) as usize;
        Err(Invalid::Reserved { kind: self.kind, bit_offset, got: value })
    }

    /// The algorithm with number `value`, found in field `index`.
    pub(super) fn algorithm(&self, index: usize, value: u128) -> Result<Algorithm, Invalid> {
        let got = value as u8;
        Algorithm::try_from(got).map_err(|_| Invalid::Algorithm {
            kind: self.kind,
            bit_offset: self.bit_offset(index),
            got,
        })
    }
}

/// Sets the `width` bits from bit `at` on, which are zero, to `value`.
fn put(bytes: &mut [u8], at: usize, width: u32, value: u128) {
    let upper = width.saturating_sub(WORD_BITS);
    if upper > 0 {
        put_word(bytes, at, upper, (value >> WORD_BITS) as u64);
    }
    put_word(bytes, at + upper as usize, width - upper, value as u64);
}

/// The `width` bits from bit `at` on.
fn take(bytes: &[u8], at: usize, width: u32) -> u128 {
    let upper = width.saturating_sub(WORD_BITS);
    let high = if upper > 0 { u128::from(take_word(bytes, at, upper)) << WORD_BITS } else { 0 };
    high | u128::from(take_word(bytes, at + upper as usize, width - upper))
}

/// The same of up to 64 bits: byte by byte, from the last one on.
fn put_word(bytes: &mut [u8], at: usize, width: u32, value: u64) {
    let (touched, behind) = place_of(at, width);
    // Up to 7 bits are another field's.
    let mut left = u128::from(value & mask(width)) << behind;
    for byte in bytes[touched].iter_mut().rev() {
        *byte |= left as u8;
        left >>= 8;
    }
}

fn take_word(bytes: &[u8], at: usize, width: u32) -> u64 {
    let (touched, behind) = place_of(at, width);
    let all = bytes[touched].iter().fold(0u128, |all, &byte| all << 8 | u128::from(byte));
    (all >> behind) as u64 & mask(width)
}

/// The lowest `width` bits, 1 to 64.
const fn mask(width: u32) -> u64 {
    u64::MAX >> (WORD_BITS - width)
}

/// The bytes that the `width` bits from bit `at` on are in, and how many bits of the last one are behind them.
const fn place_of(at: usize, width: u32) -> (Range<usize>, u32) {
    let end = at + width as usize;
    let last = end.div_ceil(8);
    (at / 8..last, (8 * last - end) as u32)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// 2 + 9 + 128 + 5 = 144 bits: fields that straddle bytes, and the widest there may be.
    const ODD: Layout<4> = Layout::new(Kind::ReadRequest, [("a", 2), ("b", 9), ("c", 128), ("d", 5)]);

    #[test]
    fn fields_follow_each_other_most_significant_bit_first() {
        // 10 | 0 0000 0001 | 1 0…0 1 | 10101: 10000000 00110000 then fourteen zero bytes' worth of c,
        // whose last bit ends three bits into byte 17.
        let bytes = ODD.write([0b10, 1, 1 << 127 | 1, 0b10101]);
        let mut expected = [0; 18];
        expected[0] = 0b1000_0000;
        expected[1] = 0b0011_0000;
        expected[17] = 0b0011_0101;
        assert_eq!(*bytes, expected);
    }

    #[test]
    fn short_input_is_incomplete() {
        let error = MessageError::Incomplete { kind: Some(Kind::ReadRequest), needed: 18, got: 17 };
        assert_eq!(ODD.read(&[0; 17]), Err(error));
        assert_eq!(ODD.read_field(&[0xff; 1], 0), Some(3));
        assert_eq!(ODD.read_field(&[0xff; 1], 1), None);
        assert_eq!(ODD.read_field(&[0xff; 2], 1), Some(0x1ff));
    }

    #[test]
    fn the_first_bit_that_should_be_zero_is_named() {
        // Field b holds the bits 2 to 10.
        for (value, bit_offset) in [(0x100, 2), (0x1ff, 2), (0x0c0, 3), (0x001, 10)] {
            let error = Invalid::Reserved { kind: Kind::ReadRequest, bit_offset, got: value };
            assert_eq!(ODD.expect_zero(1, value), Err(error));
        }
        assert_eq!(ODD.expect_zero(1, 0), Ok(()));
    }

    proptest! {
        #[test]
        fn what_was_written_is_read(a in 0..4u128, b in 0..512u128, c: u128, d in 0..32u128) {
            let bytes = ODD.write([a, b, c, d]);
            prop_assert_eq!(ODD.read(&bytes), Ok([a, b, c, d]));
            prop_assert_eq!(ODD.read_field(&bytes, 2), Some(c));
        }
    }
}

//! How the bits of a value fall into a symbol and a rest.

use crate::Element;

/// The fields of a float, from the top: a sign bit, the exponent, the fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Float {
    /// Bits of a value.
    pub(super) bits: u32,
    /// Bits of the exponent.
    pub(super) exponent_bits: u32,
}

impl Float {
    /// The float of `element`; for integers one of their width.
    pub(super) const fn of(element: Element) -> Self {
        let (bits, exponent_bits) = match element {
            Element::U8 | Element::F8E4M3 => (8, 4),
            Element::F8E5M2 => (8, 5),
            Element::F16 => (16, 5),
            Element::U16 | Element::Bf16 => (16, 8),
            Element::U32 | Element::F32 => (32, 8),
            Element::U64 | Element::F64 => (64, 11),
        };
        Self { bits, exponent_bits }
    }

    pub(super) const fn split(self, signed: bool) -> Split {
        Split { bits: self.bits, symbol_bits: self.exponent_bits + signed as u32, signed }
    }
}

/// One of the two ways to cut a value in two: the sign goes with the rest, or with the symbol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Split {
    bits: u32,
    pub(super) symbol_bits: u32,
    signed: bool,
}

impl Split {
    pub(super) const fn rest_bits(self) -> u32 {
        self.bits - self.symbol_bits
    }

    /// The symbol and the rest of `value`.
    pub(super) const fn apart(self, value: u64) -> (u64, u64) {
        let value = if self.signed { value } else { self.rotated(value, 1) };
        (value >> self.rest_bits(), value & !(u64::MAX << self.rest_bits()))
    }

    /// The value of a symbol and a rest.
    pub(super) const fn together(self, symbol: u64, rest: u64) -> u64 {
        let value = symbol << self.rest_bits() | rest;
        if self.signed { value } else { self.rotated(value, self.bits - 1) }
    }

    /// `value` rotated left within its own bits: by one, the sign comes to the bottom.
    const fn rotated(self, value: u64, by: u32) -> u64 {
        let all = u64::MAX >> (64 - self.bits);
        (value << by | value >> (self.bits - by)) & all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_float_falls_into_its_fields() {
        // -1.5 as f32: sign 1, exponent 127, fraction 100...
        let float = Float::of(Element::F32);
        assert_eq!(float.split(false).apart(0xbfc0_0000), (0x7f, 0x80_0001));
        assert_eq!(float.split(true).apart(0xbfc0_0000), (0x17f, 0x40_0000));
        assert_eq!(Float::of(Element::F64).split(false).rest_bits(), 53);
        assert_eq!(Float::of(Element::F8E4M3).split(true).rest_bits(), 3);
    }

    #[test]
    fn every_value_comes_together_again() {
        for element in Element::ALL {
            for split in [false, true].map(|signed| Float::of(element).split(signed)) {
                for shift in 0..64 {
                    let value = (0x8001_0200_4080_2011_u64.rotate_left(shift)) >> (64 - split.bits);
                    let (symbol, rest) = split.apart(value);
                    assert!(symbol < 1 << split.symbol_bits && rest < 1 << split.rest_bits());
                    assert_eq!(split.together(symbol, rest), value, "{element} {split:?}");
                }
            }
        }
    }
}

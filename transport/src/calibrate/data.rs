//! Data to time codecs on, generated and always the same.

use mgcomp_codecs::Element;

/// How data compresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Like activations after ReLU: 70 % zeros, in clusters.
    Sparse,
    /// Like weights, or like indices: values near zero, or ones that rise slowly. No two indices in a row are the same, as in most
    /// lists of them: XP takes twice as long where many are, and would not be tried where none is.
    Dense,
    /// Nothing compresses it.
    Noise,
}

impl Kind {
    /// By number.
    pub(super) const ALL: [Self; 3] = [Self::Sparse, Self::Dense, Self::Noise];

    /// `len` bytes of values of `element`.
    pub(super) fn fill(self, element: Element, len: usize) -> Vec<u8> {
        let mut random = Random(0x6d67_636f_6d70 + self as u64);
        let mut bytes = Vec::with_capacity(len + 8);
        let (mut rising, mut zeros) = (1000, false);
        while bytes.len() < len {
            if random.next().is_multiple_of(8) {
                zeros = random.next() % 10 < 7;
            }
            rising += 1 + random.next() % 16;
            let word = match self {
                Self::Noise => random.next(),
                Self::Sparse if zeros => 0,
                _ => value(element, rising, &mut random),
            };
            bytes.extend_from_slice(&word.to_le_bytes()[..element.width_bytes()]);
        }
        bytes.truncate(len);
        bytes
    }
}

/// The bits of a value as they are found in dense data.
fn value(element: Element, rising: u64, random: &mut Random) -> u64 {
    let normal = random.normal();
    match element {
        Element::U8 => (16.0 + 4.0 * normal).clamp(0.0, 255.0) as u64,
        Element::U16 | Element::U32 | Element::U64 => rising,
        Element::F64 => normal.to_bits(),
        Element::F32 => (normal as f32).to_bits().into(),
        Element::Bf16 => ((normal as f32).to_bits() >> 16).into(),
        // Sign, exponent and the first bits of the fraction; values outside of the narrow range do not come up.
        Element::F16 => narrow(normal, 5, 10),
        Element::F8E4M3 => narrow(normal, 4, 3),
        Element::F8E5M2 => narrow(normal, 5, 2),
    }
}

/// `value` as a float of few bits, its fraction cut off; zero where it is too small.
fn narrow(value: f64, exponent_bits: u32, fraction_bits: u32) -> u64 {
    let bits = value.to_bits();
    let exponent = (bits >> 52 & 0x7ff) as i64 - 1023 + (1 << (exponent_bits - 1)) - 1;
    let sign = bits >> 63 << (exponent_bits + fraction_bits);
    if exponent <= 0 {
        return sign;
    }
    let exponent = (exponent as u64).min((1 << exponent_bits) - 2);
    let fraction = bits << 12 >> (64 - fraction_bits);
    sign | exponent << fraction_bits | fraction
}

/// Xorshift*: good enough to look like noise to a codec.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// About N(0, 1): the sum of four numbers of 16 bits each.
    fn normal(&mut self) -> f64 {
        let bits = self.next();
        let sum: u64 = (0..4).map(|part| bits >> (16 * part) & 0xffff).sum();
        // Mean 2 and variance 4/12 in units of 65,536.
        (sum as f64 / 65_536.0 - 2.0) * 1.732
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_floats_are_those_of_their_format() {
        // 1.5 is sign 0, exponent 0, fraction one half.
        assert_eq!(narrow(1.5, 5, 10), 0x3e00);
        assert_eq!(narrow(-2.0, 4, 3), 0xc0);
        assert_eq!(narrow(0.25, 5, 2), 0x34);
        assert_eq!(narrow(1e-9, 4, 3), 0);
    }

    #[test]
    fn no_two_indices_in_a_row_are_the_same() {
        let bytes = Kind::Dense.fill(Element::U32, 80_000);
        let indices: Vec<u32> = bytes.as_chunks().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        assert!(indices.windows(2).all(|pair| (1..=16).contains(&(pair[1] - pair[0]))));
    }

    #[test]
    fn kinds_differ_as_they_should() {
        for element in Element::ALL {
            let zeros = |kind: Kind| {
                let bytes = kind.fill(element, 80_000);
                assert_eq!(bytes.len(), 80_000);
                let values = bytes.chunks_exact(element.width_bytes());
                values.clone().filter(|value| value.iter().all(|&byte| byte == 0)).count() as f64
                    / values.len() as f64
            };
            assert!((0.6..0.85).contains(&zeros(Kind::Sparse)), "{element}: {}", zeros(Kind::Sparse));
            assert!(zeros(Kind::Dense) < 0.05, "{element}: {}", zeros(Kind::Dense));
            assert!(zeros(Kind::Noise) < 0.01, "{element}");
            assert_eq!(Kind::Dense.fill(element, 1000), Kind::Dense.fill(element, 1000));
        }
    }
}

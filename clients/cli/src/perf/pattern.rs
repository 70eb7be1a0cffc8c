//! Data that is made up.

use half::{bf16, f16};
use mgcomp_codecs::Element;
use mgcomp_transport::communicator::Datatype;

use super::values::Values;

/// How values are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pattern {
    /// Around zero, most of them small, as weights and gradients are.
    Normal,
    /// As those, with zero in place of what is below it.
    Relu,
    /// 0, 1, 2, …, from 0 again where the type ends or would round.
    Sequence,
    /// Random bits, which nothing compresses. Some floats are infinite or not a number.
    Random,
    Zeros,
}

impl Pattern {
    pub(super) const ALL: [Self; 5] = [Self::Normal, Self::Relu, Self::Sequence, Self::Random, Self::Zeros];

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Normal => "normal",
            Self::Relu => "relu",
            Self::Sequence => "sequence",
            Self::Random => "random",
            Self::Zeros => "zeros",
        }
    }
}

/// Spread of floats, and of integers.
const FLOAT_SPREAD: f64 = 0.02;
const INTEGER_SPREAD: f64 = 100.0;

/// `len` bytes of whole values, rounded up to one more.
pub(super) fn bytes(pattern: Pattern, values: Values, len: usize) -> Vec<u8> {
    let width = values.width_bytes();
    let count = len.div_ceil(width).max(1);
    let mut random = Random(1);
    let mut bytes = Vec::with_capacity(count * width);
    for index in 0..count as u64 {
        match pattern {
            Pattern::Zeros => bytes.resize(bytes.len() + width, 0),
            Pattern::Random => bytes.extend(&random.bits().to_le_bytes()[..width]),
            Pattern::Sequence => push(values, (index % countable(values)) as f64, &mut bytes),
            Pattern::Normal => push(values, spread(values) * random.normal(), &mut bytes),
            Pattern::Relu => push(values, spread(values) * random.normal().max(0.0), &mut bytes),
        }
    }
    bytes
}

fn spread(values: Values) -> f64 {
    let element = values.element();
    let is_integer = matches!(element, Element::U8 | Element::U16 | Element::U32 | Element::U64);
    // Small integers have no room for more.
    match (is_integer, values.width_bytes()) {
        (false, _) => FLOAT_SPREAD,
        (true, 1) => INTEGER_SPREAD / 10.0,
        (true, _) => INTEGER_SPREAD,
    }
}

/// How far values can count without rounding.
fn countable(values: Values) -> u64 {
    match values {
        Values::Numbers(Datatype::I8) => 1 << 7,
        Values::Numbers(Datatype::U8) => 1 << 8,
        Values::Numbers(Datatype::I16) => 1 << 15,
        Values::Numbers(Datatype::U16) => 1 << 16,
        Values::Numbers(Datatype::F16) => 1 << 11,
        Values::Numbers(Datatype::Bf16) => 1 << 8,
        Values::Numbers(Datatype::F32) => 1 << 24,
        Values::Opaque(_) => 8,
        Values::Numbers(_) => 1 << 31,
    }
}

/// Appends `value` as one of `values`; what does not fit becomes the nearest that does.
fn push(values: Values, value: f64, bytes: &mut Vec<u8>) {
    // Unsigned integers have no numbers below zero.
    let size = value.abs();
    match values {
        Values::Numbers(Datatype::I8) => bytes.extend((value as i8).to_le_bytes()),
        Values::Numbers(Datatype::I16) => bytes.extend((value as i16).to_le_bytes()),
        Values::Numbers(Datatype::I32) => bytes.extend((value as i32).to_le_bytes()),
        Values::Numbers(Datatype::I64) => bytes.extend((value as i64).to_le_bytes()),
        Values::Numbers(Datatype::U8) => bytes.extend((size as u8).to_le_bytes()),
        Values::Numbers(Datatype::U16) => bytes.extend((size as u16).to_le_bytes()),
        Values::Numbers(Datatype::U32) => bytes.extend((size as u32).to_le_bytes()),
        Values::Numbers(Datatype::U64) => bytes.extend((size as u64).to_le_bytes()),
        Values::Numbers(Datatype::F16) => bytes.extend(f16::from_f64(value).to_le_bytes()),
        Values::Numbers(Datatype::Bf16) => bytes.extend(bf16::from_f64(value).to_le_bytes()),
        Values::Numbers(Datatype::F32) => bytes.extend((value as f32).to_le_bytes()),
        Values::Numbers(Datatype::F64) => bytes.extend(value.to_le_bytes()),
        Values::Opaque(Element::F8E4M3) => bytes.push(small_float(value, 4)),
        Values::Opaque(_) => bytes.push(small_float(value, 5)),
    }
}

/// `value` as a float of eight bits with so many bits of exponent, cut off. Values outside of its range become zero or
/// the largest.
fn small_float(value: f64, exponent_bits: u32) -> u8 {
    let fraction_bits = 7 - exponent_bits;
    let sign = u8::from(value.is_sign_negative()) << 7;
    let bits = value.abs().to_bits();
    // The bias of f64 and that of the small float.
    let exponent = (bits >> 52) as i64 - 1023 + ((1 << (exponent_bits - 1)) - 1);
    let largest = (1 << exponent_bits) - 2;
    let magnitude = if exponent < 1 {
        0
    } else {
        let fraction = bits << 12 >> (64 - fraction_bits);
        (exponent.min(largest) as u64) << fraction_bits | fraction
    };
    sign | magnitude as u8
}

/// A small generator (SplitMix64): the same numbers on every machine.
struct Random(u64);

impl Random {
    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ x >> 31
    }

    /// About normally distributed around 0 with spread 1: the sum of twelve even numbers from −½ to ½.
    fn normal(&mut self) -> f64 {
        let even = |bits: u64| (bits >> 11) as f64 / (1u64 << 53) as f64 - 0.5;
        (0..12).map(|_| even(self.bits())).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pattern: Pattern, datatype: Datatype, count: usize) -> Vec<u32> {
        let bytes = bytes(pattern, Values::Numbers(datatype), 4 * count);
        bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
    }

    #[test]
    fn sequences_count() {
        assert_eq!(words(Pattern::Sequence, Datatype::U32, 4), [0, 1, 2, 3]);
        let floats: Vec<f32> =
            words(Pattern::Sequence, Datatype::F32, 3).into_iter().map(f32::from_bits).collect();
        assert_eq!(floats, [0.0, 1.0, 2.0]);
        let halves = bytes(Pattern::Sequence, Values::Numbers(Datatype::Bf16), 2 * 257);
        assert_eq!(halves[2 * 256..], [0, 0], "257 has no bf16, so it starts again");
    }

    #[test]
    fn normal_numbers_lie_around_zero() {
        let floats = |pattern| -> Vec<f64> {
            words(pattern, Datatype::F32, 10_000)
                .into_iter()
                .map(|bits| f32::from_bits(bits).into())
                .collect()
        };
        let normal = floats(Pattern::Normal);
        let mean = normal.iter().sum::<f64>() / 1e4;
        let spread = (normal.iter().map(|x| x * x).sum::<f64>() / 1e4).sqrt();
        assert!(mean.abs() < 0.001 && (0.019..0.021).contains(&spread), "{mean} {spread}");
        let relu = floats(Pattern::Relu);
        let zeros = relu.iter().filter(|&&x| x == 0.0).count();
        assert!((4800..5200).contains(&zeros) && relu.iter().all(|&x| x >= 0.0), "{zeros}");
    }

    #[test]
    fn small_floats_are_cut_off() {
        // e4m3: bias 7, so 1.5 is exponent 7, fraction 100; 1.99 is cut to 1.875.
        assert_eq!(small_float(1.5, 4), 0b0011_1100);
        assert_eq!(small_float(-1.99, 4), 0b1011_1111);
        // e5m2: bias 15.
        assert_eq!(small_float(1.5, 5), 0b0011_1110);
        assert_eq!(small_float(1e-9, 5), 0);
        assert_eq!(small_float(1e9, 5) >> 2, 0b11110);
    }
}

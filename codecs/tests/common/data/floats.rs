//! Floating-point values of every element, made without its arithmetic.

use super::super::Random;
use mgcomp_codecs::Element;

/// Bits of exponent and of fraction; those of the float of the same width for an integer.
fn shape(element: Element) -> (u32, u32) {
    match element {
        Element::U8 | Element::F8E4M3 => (4, 3),
        Element::F8E5M2 => (5, 2),
        Element::F16 => (5, 10),
        Element::U16 | Element::Bf16 => (8, 7),
        Element::U32 | Element::F32 => (8, 23),
        Element::U64 | Element::F64 => (11, 52),
    }
}

/// The value next to `x` on the side of zero; the largest one where `x` is out of range.
pub(crate) fn bits(element: Element, x: f64) -> u64 {
    let (exponent_bits, fraction_bits) = shape(element);
    if fraction_bits == 52 {
        return x.to_bits();
    }
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = (x.to_bits() >> 52 & 0x7ff) as i64 - 1023 + bias;
    // The fraction with its leading one, of 53 bits.
    let fraction = (x.to_bits() & ((1 << 52) - 1) | 1 << 52) >> (52 - fraction_bits);
    let magnitude = if x == 0.0 {
        0
    } else if exponent <= 0 {
        fraction.checked_shr((1 - exponent) as u32).unwrap_or(0)
    } else if exponent >= (1 << exponent_bits) - 1 {
        (((1 << exponent_bits) - 1) << fraction_bits) - 1
    } else {
        ((exponent as u64) << fraction_bits) + (fraction & ((1 << fraction_bits) - 1))
    };
    u64::from(x.is_sign_negative()) << (exponent_bits + fraction_bits) | magnitude
}

/// Any sign and fraction under any of 1 to all exponents, fewer more often.
pub(crate) fn any_exponent(random: &mut Random, element: Element) -> u64 {
    let (exponent_bits, fraction_bits) = shape(element);
    let exponents = 1usize << random.below(exponent_bits as usize + 1);
    let exponent = random.below(exponents) as u64;
    let sign_and_fraction = random.next() & !(((1 << exponent_bits) - 1) << fraction_bits);
    sign_and_fraction | exponent << fraction_bits
}

/// Infinities, NaNs with and without payload, denormals, zeros, the largest and the smallest, of both signs.
pub(crate) fn special(random: &mut Random, element: Element) -> u64 {
    let (exponent_bits, fraction_bits) = shape(element);
    let (fractions, infinity) = (1u64 << fraction_bits, ((1 << exponent_bits) - 1) << fraction_bits);
    let magnitude = match random.below(9) {
        0 => 0,
        1 => infinity,
        2 => infinity + fractions / 2,
        3 => infinity + random.next() % fractions,
        4 => infinity - 1,
        5 => random.next() % fractions,
        6 => 1,
        7 => fractions,
        _ => fractions - 1,
    };
    magnitude | (random.next() & 1) << (exponent_bits + fraction_bits)
}

/// Roughly x·Φ(x), what a transformer's hidden layer puts out.
pub(crate) fn gelu(x: f64) -> f64 {
    x / (1.0 + (-1.702 * x).exp())
}

impl Random {
    /// A number from 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// A number with mean 0 and variance 1, close to normal.
    pub(crate) fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.unit()).sum::<f64>() - 6.0
    }
}

//! Seeded words that follow from words before them, up to noise and a few that stand out.

use crate::data::Random;

/// What a word is near to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Near {
    /// One word for all.
    Base,
    /// One word for all, and the noise is at the top, its bits reversed.
    BaseFromTop,
    /// The word so many places before.
    Before(usize),
    /// The sum of the words at both distances before, less the one at the sum of them: a plane through a field.
    Plane(usize, usize),
}

/// A kind of series.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// What words are near to.
    pub near: Near,
    /// Bits of the noise; noise has both signs where words are near to others.
    pub noise_bits: u32,
    /// How many in a hundred words stand out.
    pub outlier_percent: usize,
    /// Bits by which those differ.
    pub outlier_bits: u32,
    /// Low bits in which words do not differ.
    pub shift: u32,
}

impl Shape {
    /// Any shape of words of `bits` bits.
    pub fn random(random: &mut Random, bits: u32) -> Self {
        let rows = [64, 128, 256, 512, 1024];
        let short = 1 + random.below(32);
        let near = match random.below(9) {
            0 | 1 => Near::Base,
            2 => Near::BaseFromTop,
            3 => Near::Before(1),
            4 => Near::Before(short),
            5 => Near::Before(rows[random.below(5)]),
            6 => Near::Plane([1, short][random.below(2)], [1, short][random.below(2)]),
            7 => Near::Plane(short, 1 + random.below(32)),
            _ => Near::Plane(short, rows[random.below(5)]),
        };
        let up_to = |most: u32, random: &mut Random| random.below(most as usize + 1) as u32;
        let noise_bits = up_to(if random.percent(50) { 3 } else { bits }, random);
        let outlier_percent = [0, 3, 10, 30, 75][random.below(5)];
        let outlier_bits = up_to(bits, random);
        let shift = if random.percent(25) { up_to(bits - 1, random) } else { 0 };
        Self { near, noise_bits, outlier_percent, outlier_bits, shift }
    }
}

/// `count` words of `width_bytes` bytes.
#[must_use]
pub fn words(shape: Shape, width_bytes: usize, count: usize, random: &mut Random) -> Vec<u8> {
    let bits = 8 * width_bytes as u32;
    let base = random.bits() >> random.below(bits as usize);
    let mut words: Vec<u64> = Vec::with_capacity(count);
    for index in 0..count {
        let before = |lag: usize| index.checked_sub(lag).map_or(base, |index| words[index]);
        let bits_off =
            if random.percent(shape.outlier_percent) { shape.outlier_bits } else { shape.noise_bits };
        let off = random.bits().checked_shr(64 - bits_off).unwrap_or(0);
        let signed = |off: u64| if off & 1 == 1 { (off >> 1) ^ u64::MAX } else { off >> 1 };
        words.push(match shape.near {
            Near::Base => base.wrapping_add(off << shape.shift),
            Near::BaseFromTop => off.reverse_bits() >> (64 - bits),
            Near::Before(lag) => before(lag).wrapping_add(signed(off) << shape.shift),
            Near::Plane(a, b) => {
                let plane = before(a).wrapping_add(before(b)).wrapping_sub(before(a + b));
                plane.wrapping_add(signed(off) << shape.shift)
            }
        });
    }
    words.iter().flat_map(|word| word.to_le_bytes().into_iter().take(width_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const STEPS: Shape =
        Shape { near: Near::Before(1), noise_bits: 0, outlier_percent: 0, outlier_bits: 0, shift: 0 };

    #[test]
    fn words_are_as_near_as_the_shape_says() {
        let mut random = Random::new(1);
        let bytes = words(STEPS, 2, 50, &mut random);
        assert!(bytes.len() == 100 && bytes.chunks(2).all(|word| *word == bytes[..2]));
        let noisy = Shape { near: Near::Base, noise_bits: 2, shift: 4, ..STEPS };
        let bytes = words(noisy, 8, 64, &mut random);
        let words: Vec<u64> = bytes.as_chunks().0.iter().map(|&word| u64::from_le_bytes(word)).collect();
        let least = *words.iter().min().unwrap();
        assert!(words.iter().all(|word| [0, 16, 32, 48].contains(&word.wrapping_sub(least))));
    }
}

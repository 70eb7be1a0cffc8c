//! Buffers by chance, of all kinds that take a codec's different ways.

use std::fmt;

use mgcomp_codecs::Element;
use mgcomp_codecs::frame::ChunkSize;

use crate::data::Random;

/// Raw bytes, what they are, and where they lie.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) number: usize,
    pub(super) element: Element,
    pub(super) raw: Vec<u8>,
    /// Of the raw bytes in device memory, modulo 16.
    pub(super) offset: u64,
    /// Of the place to decompress to.
    pub(super) back_offset: u64,
}

/// No case has more bytes.
const MAX_LEN: usize = 300_000;

impl Case {
    /// Case `number`, for chunks of `chunk_size`.
    pub(super) fn random(number: usize, chunk_size: ChunkSize, random: &mut Random) -> Self {
        let element = random.pick(&Element::ALL);
        let len = length(chunk_size, random);
        let offset = if random.percent(50) { 0 } else { random.below(16) as u64 };
        let back_offset = if random.percent(50) { 0 } else { random.below(16) as u64 };
        Self { number, element, raw: bytes(len, element, random), offset, back_offset }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, element, raw, offset, back_offset } = self;
        write!(f, "case {number} ({element}, {} bytes at +{offset}, back at +{back_offset})", raw.len())
    }
}

/// Any length, those around borders of chunks, lines and words more often.
fn length(chunk_size: ChunkSize, random: &mut Random) -> usize {
    let len = match random.below(4) {
        0 => random.below(200),
        1 => chunk_size.bytes() * random.below(4),
        2 => random.below(40) * 64,
        _ => 1 << random.below(19),
    };
    let near = match random.below(3) {
        0 => len,
        1 => len + random.below(17),
        _ => len.saturating_sub(random.below(17)),
    };
    near.min(MAX_LEN)
}

/// Stretches of different kinds, so that a chunk may hold several.
pub(super) fn bytes(len: usize, element: Element, random: &mut Random) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + 8);
    let kinds: &[u32] = if random.percent(50) { &[0, 1, 2, 3, 4, 5, 6] } else { &[random.below(7) as u32] };
    while bytes.len() < len {
        let kind = random.pick(kinds);
        let count = 1 + random.below(2000);
        push_stretch(kind, count.min(len), element.width_bytes(), random, &mut bytes);
    }
    bytes.truncate(len);
    bytes
}

/// About `count` elements of `width` bytes.
fn push_stretch(kind: u32, count: usize, width: usize, random: &mut Random, bytes: &mut Vec<u8>) {
    let (base, spread, zeros) = (random.bits(), random.below(40), random.below(101));
    let mut element = |i: usize| match kind {
        0 => 0,
        1 => random.bits(),
        // Small differences, and steps of one size.
        2 => base.wrapping_add(random.bits() & ((1 << spread) - 1)),
        3 => base.wrapping_add(i as u64 * spread as u64),
        // Zeros in between.
        4 => random.bits() * u64::from(!random.percent(zeros)),
        // Runs of equal ones.
        5 => base >> (i / (spread + 1) % 16),
        // Floats: exponents of few values over random mantissas.
        _ => {
            let bits = (random.normal() as f32).to_bits();
            u64::from(bits) << 32 | u64::from(bits)
        }
    };
    for i in 0..count {
        let value = element(i).to_le_bytes();
        bytes.extend_from_slice(if kind == 6 { &value[8 - width..] } else { &value[..width] });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_of_all_sorts() {
        let mut random = Random::new(3);
        let cases: Vec<Case> =
            (0..300).map(|number| Case::random(number, ChunkSize::SMALL, &mut random)).collect();
        assert!(cases.iter().all(|case| case.raw.len() <= MAX_LEN && case.offset < 16));
        assert!(cases.iter().any(|case| case.raw.is_empty()));
        assert!(cases.iter().any(|case| case.raw.len() > 65_536));
        assert!(cases.iter().any(|case| case.raw.len() % 4096 == 4095));
        assert!(Element::ALL.iter().all(|element| cases.iter().any(|case| case.element == *element)));
    }
}

//! Kinds of buffers: each takes some codec through another of its cases.

pub(crate) mod floats;
mod values;

use super::Random;
use mgcomp_codecs::Element;
use mgcomp_codecs::line::LINE_LEN;
use values::{VALUE_KINDS, ValueFill};

/// A kind of buffer.
#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    make: Make,
}

#[derive(Clone, Copy)]
enum Make {
    Bytes(Fill),
    Values(ValueFill),
}

impl Kind {
    /// `len` bytes of this kind, as a buffer of `element`.
    pub(crate) fn fill(&self, random: &mut Random, element: Element, len: usize) -> Vec<u8> {
        match self.make {
            Make::Bytes(fill) => fill(random, len),
            Make::Values(fill) => {
                let width = element.width_bytes();
                let values = fill(random, element, len.div_ceil(width));
                let mut raw: Vec<u8> =
                    values.iter().flat_map(|value| value.to_le_bytes().into_iter().take(width)).collect();
                raw.truncate(len);
                raw
            }
        }
    }
}

/// Every kind: of bytes whatever the element, and of values of an element.
pub(crate) fn kinds() -> impl Iterator<Item = Kind> + Clone {
    let bytes = KINDS.into_iter().map(|(name, fill)| Kind { name, make: Make::Bytes(fill) });
    bytes.chain(VALUE_KINDS.into_iter().map(|(name, fill)| Kind { name, make: Make::Values(fill) }))
}

/// Makes a buffer of a length.
pub(crate) type Fill = fn(&mut Random, usize) -> Vec<u8>;

/// Kinds of bytes.
pub(crate) const KINDS: [(&str, Fill); 14] = [
    ("all zero", |_, len| vec![0; len]),
    ("all ones", |_, len| vec![0xff; len]),
    ("random", |random, len| random.bytes(len)),
    ("sparse bytes", |random, len| {
        (0..len).map(|_| if random.below(24) == 0 { random.next() as u8 } else { 0 }).collect()
    }),
    ("sparse words", |random, len| {
        words(len, |_| if random.below(6) == 0 { random.next() as u32 } else { 0 })
    }),
    ("small numbers", |random, len| words(len, |_| random.below(48) as u32)),
    ("small numbers of both signs", |random, len| {
        words(len, |_| (random.below(512) as u32).wrapping_sub(256))
    }),
    ("repeated word", |random, len| {
        let word = random.next().to_le_bytes();
        (0..len).map(|i| word[i % 8]).collect()
    }),
    ("few words", |random, len| {
        let some: [u32; 5] = std::array::from_fn(|_| random.next() as u32);
        words(len, |_| some[random.below(5)] ^ random.below(4) as u32)
    }),
    ("ramp of words", |_, len| words(len, |i| 0x0012_ff00 + i as u32)),
    ("ramp of halfwords", |_, len| {
        (0..len).map(|i| (0x4000 + 3 * (i as u32 / 2)).to_le_bytes()[i % 2]).collect()
    }),
    ("ramp of floats", |_, len| words(len, |i| (i as f32).to_bits())),
    ("close to one 64-bit base", |random, len| {
        let base = random.next();
        let longs = (0..len.div_ceil(8)).flat_map(|_| (base ^ random.next() & 0xff_ffff).to_le_bytes());
        longs.take(len).collect()
    }),
    ("every line another kind", mixed_lines),
];

/// Each line zero, small, repetitive or random, so that neighbours differ in form and size.
fn mixed_lines(random: &mut Random, len: usize) -> Vec<u8> {
    let mut raw = Vec::with_capacity(len + LINE_LEN);
    while raw.len() < len {
        let kind = KINDS[random.below(KINDS.len() - 1)].1;
        raw.extend_from_slice(&kind(random, LINE_LEN));
    }
    raw.truncate(len);
    raw
}

/// `len` bytes of the words that `word` makes.
pub(crate) fn words(len: usize, word: impl FnMut(usize) -> u32) -> Vec<u8> {
    let mut raw: Vec<u8> = (0..len.div_ceil(4)).map(word).flat_map(u32::to_le_bytes).collect();
    raw.truncate(len);
    raw
}

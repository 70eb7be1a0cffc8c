//! What the kernels are given: data that is made up, one kind or two for each algorithm that suit it.

use mgcomp_codecs::{Algorithm, Element};

use crate::data::{self, Kind, Random};

/// Data for one algorithm.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// Whose data it is.
    pub algorithm: Algorithm,
    /// What it holds.
    pub element: Element,
    /// In words.
    pub what: &'static str,
    make: fn(&mut Random, &mut Vec<u8>),
}

impl Subject {
    /// `len` bytes of it, always the same.
    #[must_use]
    pub fn bytes(&self, len: usize) -> Vec<u8> {
        let mut random = Random::new(7);
        let mut bytes = Vec::with_capacity(len + 64);
        while bytes.len() < len {
            (self.make)(&mut random, &mut bytes);
        }
        bytes.truncate(len);
        bytes
    }
}

/// All of them, in the order of the table.
pub const SUBJECTS: [Subject; 11] = [
    subject(Algorithm::Zvc, Element::F32, "N(0, 1), negative ones set to zero", |random, to| {
        put(to, (normal(random).max(0.0) as f32).to_le_bytes());
    }),
    subject(Algorithm::Bdi, Element::U32, "rising by 0 to 7", rising),
    subject(Algorithm::Ibp, Element::F32, "uniform in [1, 2), 12 bits of fraction", |random, to| {
        put(to, (0x3f80_0000 | (random.below(1 << 12) as u32) << 11).to_le_bytes());
    }),
    subject(Algorithm::Xp, Element::Bf16, "N(0, 1)", |random, to| {
        put(to, ((normal(random) as f32).to_bits().to_le_bytes()[2..]).try_into().unwrap_or([0; 2]));
    }),
    subject(Algorithm::Xp, Element::F32, "N(0, 1)", |random, to| {
        put(to, (normal(random) as f32).to_le_bytes());
    }),
    subject(Algorithm::Xp, Element::F64, "N(0, 1)", |random, to| put(to, normal(random).to_le_bytes())),
    subject(Algorithm::Fpc, Element::U32, "N(0, 20²), rounded", small),
    subject(
        Algorithm::CpackZ,
        Element::U32,
        "words that repeat others of their line, whole or in part",
        |random, to| {
            to.extend(data::bytes(Kind::Dictionary, 64, random.bits()));
        },
    ),
    subject(Algorithm::Bpc, Element::U32, "rising by 0 to 7", rising),
    subject(Algorithm::Int, Element::U32, "N(0, 20²), rounded", small),
    subject(Algorithm::Rle, Element::U16, "nine of ten zero", |random, to| {
        let word = if random.percent(90) { 0 } else { random.bits() as u16 };
        put(to, word.to_le_bytes());
    }),
];

const fn subject(
    algorithm: Algorithm,
    element: Element,
    what: &'static str,
    make: fn(&mut Random, &mut Vec<u8>),
) -> Subject {
    Subject { algorithm, element, what, make }
}

fn put<const N: usize>(to: &mut Vec<u8>, bytes: [u8; N]) {
    to.extend(bytes);
}

/// Normally distributed, nearly: the sum of twelve uniform numbers, which is the same on every machine.
fn normal(random: &mut Random) -> f64 {
    let uniform = |random: &mut Random| (random.bits() >> 11) as f64 / (1u64 << 53) as f64;
    (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
}

fn rising(random: &mut Random, to: &mut Vec<u8>) {
    let before = to.last_chunk::<4>().map_or(0, |word| u32::from_le_bytes(*word));
    put(to, before.wrapping_add(random.below(8) as u32).to_le_bytes());
}

fn small(random: &mut Random, to: &mut Vec<u8>) {
    put(to, ((20.0 * normal(random)).round() as i32).to_le_bytes());
}

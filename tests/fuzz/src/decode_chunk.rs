//! Any bytes as a code of any algorithm, on every instruction set.

use crate::common::encode_chunk;
use crate::input::{Input, Sample, samples, with_back_ends};

/// Algorithm, element, raw length (two bytes), two places; then the code.
///
/// # Panics
/// If an instruction set differs from portable code in its verdict or its bytes, or writes elsewhere.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(algorithm) = input.algorithm() else { return };
    let (element, raw_len, places) = (input.element(), usize::from(input.u16()), input.places());
    with_back_ends(|back_ends| {
        let decoded = back_ends.decode(algorithm, element, input.rest(), raw_len, places, "any code");
        // What decodes is what some chunk might have been: it has to survive its own round trip.
        if let Ok(raw) = decoded {
            back_ends.round_trip(algorithm, element, &raw, places, "what a code decodes to");
        }
    });
}

/// A code of every algorithm for every kind of data.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |sample: Sample| {
        let raw_len = (sample.raw.len() as u16).to_le_bytes();
        let coded = encode_chunk(sample.codec, sample.element, &sample.raw);
        [&sample.choices()[..], &raw_len, &[0xff, 0xff], &coded].concat()
    };
    samples(700).map(seed).collect()
}

//! Any bytes as the raw bytes of a chunk, on every instruction set.

use crate::input::{AS_IT_IS, Input, Sample, samples, with_back_ends};

/// A default chunk and a bit: larger ones cost more than they show.
const MAX_RAW_LEN: usize = 20_000;

/// Algorithm, element, two places; repetitions (two bytes) and their step; then the raw bytes.
///
/// # Panics
/// If an instruction set writes another code than portable code, or elsewhere, or a code does not come back.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(algorithm) = input.algorithm() else { return };
    let (element, places) = (input.element(), input.places());
    let raw = input.raw(MAX_RAW_LEN);
    with_back_ends(|back_ends| back_ends.round_trip(algorithm, element, &raw, places, "any chunk"));
}

/// Every kind of data for every algorithm, some of it repeated.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |sample: Sample| {
        let repeated = if sample.raw.len().is_multiple_of(3) { [12, 0, 1] } else { AS_IT_IS };
        [&sample.choices()[..], &[0xff, 0xff], &repeated, &sample.raw].concat()
    };
    samples(500).map(seed).collect()
}

//! How long a frame would be, against how long it is.

use crate::common::codecs_of;
use crate::input::{AS_IT_IS, Input, Sample, samples};
use crate::round_trip::any_options;
use mgcomp_codecs::frame;

/// Twice what a sample needs at least.
const MAX_RAW_LEN: usize = 70_000;

/// Algorithm, element, options; repetitions (two bytes) and their step; then the raw bytes.
///
/// # Panics
/// If the exact estimate is wrong, or an estimate from a sample is none that a frame can have.
pub fn run(input: &[u8]) {
    let mut input = Input(input);
    let Some(algorithm) = input.algorithm() else { return };
    let (element, options) = (input.element(), any_options(input.byte()));
    let raw = input.raw(MAX_RAW_LEN);
    let mut sampled = None;
    for codec in codecs_of(algorithm) {
        let exact = frame::frame_len(codec, element, &raw, options);
        let len = frame::encode(codec, element, &raw, options).expect("short enough").len();
        assert_eq!(exact, len as u64, "{algorithm}: exact length");
        let worst = frame::max_frame_len(raw.len(), options) as u64;
        let estimate = frame::estimated_frame_len(codec, element, &raw, options);
        assert!(estimate <= worst, "{algorithm}: {estimate} of at most {worst}");
        assert_eq!(*sampled.get_or_insert(estimate), estimate, "{algorithm}: instruction sets differ");
    }
}

/// Every kind of data for every algorithm, most of it long enough for a sample.
#[must_use]
pub fn seeds() -> Vec<Vec<u8>> {
    let seed = |sample: Sample| {
        let options = sample.raw.len() as u8;
        let repeated = if sample.raw.len().is_multiple_of(4) { AS_IT_IS } else { [80, 0, 5] };
        [&sample.choices()[..], &[options], &repeated, &sample.raw].concat()
    };
    samples(600).map(seed).collect()
}

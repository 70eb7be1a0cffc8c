//! The samples that policies ask for: really taken, and timed.

use std::collections::HashMap;
use std::hint::black_box;
use std::time::{Duration, Instant};

use mgcomp_codecs::frame::{Options, sampled_frame_len};
use mgcomp_codecs::{Algorithm, Element, codec, paper_bits};
use mgcomp_selector::SampleSize;

use crate::timing::bring_back;

/// A first look that takes more than so many times the second was interrupted, and counts as that much: data that no cache
/// has takes longer, too.
const MOST_LONGER: u32 = 3;

/// What was sampled before, so that every policy pays the same for the same sample.
#[derive(Default)]
pub(super) struct Sampler {
    taken: HashMap<(usize, u8, Option<u64>), (u64, Duration)>,
}

impl Sampler {
    /// Bits of a transfer under an algorithm, and the time that it took to find out; none for a codec that cannot tell.
    pub(super) fn take(
        &mut self,
        (cut, raw, element): (usize, &[u8], Element),
        algorithm: Algorithm,
        size: SampleSize,
    ) -> Option<(u64, Duration)> {
        let bytes = match size {
            SampleSize::Whole => None,
            SampleSize::Bytes(bytes) => Some(bytes),
        };
        let key = (cut, algorithm.number(), bytes);
        if let Some(taken) = self.taken.get(&key) {
            return Some(*taken);
        }
        let look = || {
            let started = Instant::now();
            let bits = black_box(bits(black_box(raw), element, algorithm, bytes));
            (bits, started.elapsed())
        };
        // What the system has taken of it meanwhile, the transfer would have to bring back anyway.
        bring_back(raw);
        // The first look finds the data where a policy would: in no cache, if it is long, but for a line of each page.
        let (bits, first) = look();
        let (_, second) = look();
        let taken = (bits?, first.min(MOST_LONGER * second));
        self.taken.insert(key, taken);
        Some(taken)
    }
}

fn bits(raw: &[u8], element: Element, algorithm: Algorithm, bytes: Option<u64>) -> Option<u64> {
    let Some(bytes) = bytes else { return paper_bits(algorithm, raw) };
    let sample_len = usize::try_from(bytes).unwrap_or(usize::MAX);
    Some(8 * sampled_frame_len(codec(algorithm)?, element, raw, Options::for_len(raw.len()), sample_len))
}

//! Bands of lengths, in which codecs are timed apart.

use std::ops::Range;

/// Where bands of lengths end: codecs that are slower than measured in one of them need not be so in the next.
const BANDS_BYTES: [u64; 4] = [64 << 10, 1 << 20, 4 << 20, 16 << 20];
/// How many there are.
pub(super) const BANDS: usize = BANDS_BYTES.len() + 1;
/// How much of what codecs are off in one band they are off in the next: so many times as much for each band further on.
const NEXT_BAND: f64 = 0.85;
/// The same of bands so many further on.
const PARTS: [f64; BANDS] = {
    let mut parts = [1.0; BANDS];
    let mut bands = 1;
    while bands < BANDS {
        parts[bands] = parts[bands - 1] * NEXT_BAND;
        bands += 1;
    }
    parts
};

/// What to expect of a band of which nothing is known, so many further on than one where it is this pace.
pub(super) fn of_another_band(pace: f64, bands: usize) -> f64 {
    1.0 + (pace - 1.0) * PARTS[bands]
}

/// The bands to which `from` is the nearest that something is known of, itself among them; of two that are as near, the shorter counts.
pub(super) fn nearest_to(from: usize, is_known: impl Fn(usize) -> bool) -> Range<usize> {
    let above = (from + 1..BANDS).find(|&at| is_known(at));
    let below = (0..from).rev().find(|&at| is_known(at));
    // Half of the way to the next one that is known, or all of it where there is none.
    let first = below.map_or(0, |below| from - (from - below - 1) / 2);
    let end = above.map_or(BANDS, |above| from + 1 + (above - from) / 2);
    first..end
}

/// Which band of lengths a transfer is of.
pub(super) fn band(raw_bytes: u64) -> usize {
    BANDS_BYTES.iter().filter(|&&bytes| raw_bytes > bytes).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bands_go_by_the_nearest_that_is_known_or_the_shorter_of_two() {
        for from in 0..BANDS {
            for known in 0..1usize << BANDS {
                let is_known = |at: usize| at == from || known >> at & 1 == 1;
                let nearest = |at: usize| {
                    (0..BANDS).filter(|&band| is_known(band)).min_by_key(|&band| at.abs_diff(band))
                };
                let expected: Vec<usize> = (0..BANDS).filter(|&at| nearest(at) == Some(from)).collect();
                let found: Vec<usize> = nearest_to(from, is_known).collect();
                assert_eq!(found, expected, "around {from} where {known:05b} are known");
            }
        }
    }
}

//! Fixed log-linear histograms: eight buckets for each power of two.
//!
//! Values below 8 have a bucket each; above, a bucket is an eighth of a power of two wide, so its middle is at most
//! 6.25 % away from what was counted. Values from 2⁴⁰ on share the last bucket.

use std::sync::atomic::AtomicU64;

use super::layout::HISTOGRAM_WORDS;

/// Buckets of a histogram.
pub const BUCKETS: usize = 304;
/// Buckets of a power of two, and their logarithm.
const PARTS: usize = 8;
const PARTS_LOG2: u32 = 3;

/// What is counted by value in each slot. What is received beyond the last slot is counted, but not by value: the slot of all
/// other streams has room for what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Measure {
    /// Raw bytes of transfers.
    RawBytes,
    /// Nanoseconds that codecs took: of encoders in slots of what is sent, of decoders in those of what is received.
    CodecNs,
    /// Nanoseconds from the plan of a transfer until the peer acknowledged it.
    AcknowledgedNs,
    /// The achieved size in thousandths of the predicted one.
    SizePermille,
    /// The time until acknowledgement in thousandths of the predicted one.
    TimePermille,
}

impl Measure {
    /// Every measure, as they lie in a slot.
    pub const ALL: [Self; 5] =
        [Self::RawBytes, Self::CodecNs, Self::AcknowledgedNs, Self::SizePermille, Self::TimePermille];

    /// Where its buckets start in a slot's histograms.
    pub(super) const fn first(self) -> usize {
        self as usize * BUCKETS
    }
}

const _: () = assert!(Measure::ALL.len() * BUCKETS <= HISTOGRAM_WORDS);

/// The bucket that counts `value`.
#[must_use]
pub const fn bucket(value: u64) -> usize {
    if value < PARTS as u64 {
        return value as usize;
    }
    let exponent = value.ilog2();
    let part = (value >> (exponent - PARTS_LOG2)) as usize & (PARTS - 1);
    let bucket = PARTS + (exponent - PARTS_LOG2) as usize * PARTS + part;
    if bucket < BUCKETS { bucket } else { BUCKETS - 1 }
}

/// The lowest value that `bucket` counts; that of the last one for all that are none.
#[must_use]
pub const fn lowest(bucket: usize) -> u64 {
    let bucket = if bucket < BUCKETS { bucket } else { BUCKETS - 1 };
    if bucket < PARTS {
        return bucket as u64;
    }
    let (octave, part) = ((bucket - PARTS) / PARTS, (bucket - PARTS) % PARTS);
    ((PARTS + part) as u64) << octave
}

/// The value that stands for all of `bucket`.
#[must_use]
pub const fn middle(bucket: usize) -> u64 {
    let low = lowest(bucket);
    if bucket + 1 >= BUCKETS { low } else { low + (lowest(bucket + 1) - low) / 2 }
}

/// Counts of one measure, as they were read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { counts: Box::new([0; BUCKETS]) }
    }
}

impl Histogram {
    /// Adds what `words` count.
    pub(super) fn add(&mut self, words: &[AtomicU64]) {
        for (count, word) in self.counts.iter_mut().zip(words) {
            *count = count.saturating_add(word.load(std::sync::atomic::Ordering::Relaxed));
        }
    }

    /// Buckets that count anything: the value that stands for each, and its count; lowest first.
    pub fn counted(&self) -> impl Iterator<Item = (u64, u64)> {
        let counts = self.counts.iter().enumerate().filter(|(_, count)| **count > 0);
        counts.map(|(bucket, &count)| (middle(bucket), count))
    }

    /// How many values were counted.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.counts.iter().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_meet_without_gap_or_overlap() {
        for index in 0..BUCKETS - 1 {
            let (low, next) = (lowest(index), lowest(index + 1));
            assert!(low < next, "{index}");
            assert_eq!((bucket(low), bucket(next - 1), bucket(next)), (index, index, index + 1));
            assert_eq!(bucket(middle(index)), index);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
        assert_eq!(lowest(usize::MAX), lowest(BUCKETS - 1));
    }

    #[test]
    fn known_values_fall_where_they_must() {
        // 1000 is 0b11_1110_1000: octave 9, and its next three bits are 111.
        assert_eq!(bucket(1000), 8 + 6 * 8 + 7);
        assert_eq!(lowest(bucket(1000)), 960);
        assert_eq!(bucket(1 << 40), BUCKETS - 1);
        assert_eq!(lowest(BUCKETS - 1), (1 << 39) + 7 * (1 << 36));
    }

    #[test]
    fn the_middle_is_near() {
        for value in (0..50_000u64).chain((16..39).map(|log2| (1 << log2) - 1)) {
            let error = middle(bucket(value)).abs_diff(value) as f64 / value.max(1) as f64;
            assert!(error <= 0.0625, "{value}: {error}");
        }
    }
}

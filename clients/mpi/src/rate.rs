//! How fast a communicator's blocks travel, as receivers see it. What goes as it is says how fast; messages only where that is far too slow,
//! since codecs have a part in what they take.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use mgcomp_selector::{LinkFacts, Overlap};

/// Less than this says more of latency than of rate.
const LEAST_BYTES: usize = 32 << 10;
/// So does what is less than this part of the longest that was measured: links send what is short from room that they have saved up. But
/// what takes this many times as long as it should says enough.
const LEAST_PART: u64 = 4;
const FAR: f64 = 2.0;
/// What is longer is none the better.
const LONG_BYTES: u64 = 1 << 20;
/// What the first bit takes; it hardly matters for messages that are long enough to be compressed.
const LATENCY_NS: u64 = 20_000;
/// Weight of what was seen against what is known, where it is faster.
const WEIGHT: f64 = 0.25;
/// Where it is slower: that may be a rank which was late.
const WEIGHT_OF_SLOW: f64 = 1.0 / 16.0;
/// So many transfers at first are measured, then every so-many-th, where measuring takes a message.
const FIRST: u64 = 2;
const EVERY: u64 = 32;

/// What is known of it.
#[derive(Debug, Default)]
pub(crate) struct Rate {
    /// Bits of the `f64` in Gb/s; 0 while nothing is known.
    gbps: AtomicU64,
    /// Transfers that were asked about, and those that were measured.
    transfers: AtomicU64,
    measured: AtomicU64,
    /// Bytes of the longest one that was measured, up to [`LONG_BYTES`].
    longest: AtomicU64,
}

impl Rate {
    /// Whether the transfer that begins now is to be measured.
    pub(crate) fn is_wanted(&self) -> bool {
        let before = self.transfers.fetch_add(1, Ordering::Relaxed);
        before < FIRST || before.is_multiple_of(EVERY)
    }

    /// That many bytes have come in that time.
    pub(crate) fn learn(&self, bytes: usize, took: Duration) {
        if bytes < LEAST_BYTES || took.is_zero() {
            return;
        }
        let counts = LONG_BYTES.min(bytes as u64);
        let longest = self.longest.fetch_max(counts, Ordering::Relaxed);
        let is_short = counts < longest / LEAST_PART;
        let seen = bytes as f64 * 8.0 / took.as_nanos() as f64;
        let known = f64::from_bits(self.gbps.load(Ordering::Relaxed));
        // The first ones may have had to open connections.
        let is_first = self.measured.fetch_add(1, Ordering::Relaxed) < FIRST;
        let learned = match seen < known {
            true if is_first || is_short && seen * FAR > known => known,
            true => known + (seen - known) * WEIGHT_OF_SLOW,
            false if is_short => known,
            false if is_first => seen,
            false => known + (seen - known) * WEIGHT,
        };
        self.gbps.store(learned.to_bits(), Ordering::Relaxed);
    }

    /// So many bytes have come in that time, by messages. That counts where it is far more than what is known, which was seen when something
    /// else was slow then: messages may go another way than what goes as it is.
    pub(crate) fn learn_at_least(&self, bytes: usize, took: Duration) {
        let known = f64::from_bits(self.gbps.load(Ordering::Relaxed));
        let is_short = LONG_BYTES.min(bytes as u64) < self.longest.load(Ordering::Relaxed) / LEAST_PART;
        if bytes < LEAST_BYTES || is_short || took.is_zero() || known == 0.0 {
            return;
        }
        let seen = bytes as f64 * 8.0 / took.as_nanos() as f64;
        if seen > known * FAR {
            self.gbps.store((known + (seen - known) * WEIGHT).to_bits(), Ordering::Relaxed);
        }
    }

    /// The same for the policy; `None` while too little is known.
    pub(crate) fn facts(&self) -> Option<LinkFacts> {
        if self.measured.load(Ordering::Relaxed) < FIRST {
            return None;
        }
        let gbps = f64::from_bits(self.gbps.load(Ordering::Relaxed));
        LinkFacts::try_new(gbps, LATENCY_NS, Overlap::None).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_known_once_it_was_seen() {
        let rate = Rate::default();
        assert_eq!(rate.facts(), None);
        rate.learn(100, Duration::from_nanos(1));
        assert_eq!(rate.facts(), None, "too short");
        rate.learn(125_000, Duration::from_millis(20));
        assert_eq!(rate.facts(), None, "the first one");
        rate.learn(125_000, Duration::from_millis(1));
        let gbps = || rate.facts().unwrap().rate_gbps();
        assert!((gbps() - 1.0).abs() < 1e-9);
        rate.learn(125_000, Duration::from_millis(100));
        assert!(gbps() > 0.9, "one that was late");
        rate.learn(1_250_000, Duration::from_millis(1));
        assert!(gbps() > 3.0, "one that was fast");
    }

    #[test]
    fn messages_say_that_it_is_far_faster() {
        let rate = Rate::default();
        let gbps = || f64::from_bits(rate.gbps.load(Ordering::Relaxed));
        rate.learn_at_least(1_000_000, Duration::from_micros(1));
        assert_eq!(gbps(), 0.0, "nothing is known yet");
        // 1 Gb/s.
        (0..2).for_each(|_| rate.learn(125_000, Duration::from_millis(1)));
        rate.learn_at_least(125_000, Duration::from_millis(5));
        rate.learn_at_least(1000, Duration::from_nanos(1));
        rate.learn_at_least(1_250_000, Duration::from_millis(5));
        assert_eq!(gbps(), 1.0, "slower, short, and twice as fast");
        rate.learn(1 << 20, Duration::from_secs(1));
        rate.learn_at_least(250_000, Duration::from_nanos(1));
        assert!(gbps() < 1.0, "short beside others");
        let rate = Rate::default();
        let gbps = || f64::from_bits(rate.gbps.load(Ordering::Relaxed));
        (0..2).for_each(|_| rate.learn(125_000, Duration::from_millis(1)));
        rate.learn_at_least(1_250_000, Duration::from_millis(2));
        assert!((gbps() - 2.0).abs() < 1e-9, "a quarter of the way to 5");
    }

    #[test]
    fn what_is_short_beside_others_says_nothing() {
        let rate = Rate::default();
        let gbps = || rate.facts().unwrap().rate_gbps();
        // 1 Gb/s.
        (0..2).for_each(|_| rate.learn(40_000, Duration::from_micros(320)));
        rate.learn(40_000, Duration::from_micros(80));
        assert!((gbps() - 1.75).abs() < 1e-9, "a quarter of the way to 4");
        rate.learn(400_000, Duration::from_micros(1600));
        let known = gbps();
        (0..100).for_each(|_| rate.learn(99_999, Duration::from_micros(1)));
        assert_eq!(gbps(), known);
        rate.learn(8_000_000, Duration::from_micros(32_000));
        let known = gbps();
        rate.learn(262_143, Duration::from_micros(1));
        assert_eq!(gbps(), known);
        rate.learn(262_143, Duration::from_micros(1600));
        assert!((gbps() - known).abs() < 1e-9, "latency");
        rate.learn(262_144, Duration::from_micros(400));
        assert!(gbps() > known, "however much longer others are");
        (0..100).for_each(|_| rate.learn(100_000, Duration::from_micros(1600)));
        assert!(gbps() < 1.01, "far slower: {}", gbps());
        // One that is long, and then short ones alone.
        let rate = Rate::default();
        rate.learn(2_000_000, Duration::from_micros(16_000));
        rate.learn(100_000, Duration::from_micros(1));
        assert!((rate.facts().unwrap().rate_gbps() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn it_is_measured_at_first_and_then_now_and_then() {
        let rate = Rate::default();
        let wanted: Vec<usize> = (0..70).filter(|_| rate.is_wanted()).collect();
        assert_eq!(wanted, [0, 1, 32, 64]);
    }
}

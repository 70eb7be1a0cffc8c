//! Makes a link slower than it is: rate and latency, by a token bucket.

use std::time::{Duration, Instant};

use mgcomp_selector::{LinkFacts, Overlap};

/// How fast a link is made to look.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shaping {
    rate_gbps: f64,
    latency: Duration,
}

/// Why a rate cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[error("link rate {0} Gb/s is not a positive number")]
pub struct ShapingError(pub f64);

impl Shaping {
    /// A link of `rate_gbps` Gb/s on which every message takes `latency` longer than its bytes do.
    ///
    /// # Errors
    /// [`ShapingError`] if the rate is not a positive number.
    pub fn try_new(rate_gbps: f64, latency: Duration) -> Result<Self, ShapingError> {
        let usable = rate_gbps.is_finite() && rate_gbps > 0.0;
        if usable { Ok(Self { rate_gbps, latency }) } else { Err(ShapingError(rate_gbps)) }
    }

    /// Rate in Gb/s.
    #[must_use]
    pub fn rate_gbps(self) -> f64 {
        self.rate_gbps
    }

    /// Added to every message.
    #[must_use]
    pub fn latency(self) -> Duration {
        self.latency
    }

    /// The same as policies see it. Codec work on one message does not overlap with sending it.
    pub(super) fn facts(self) -> Option<LinkFacts> {
        let latency_ns = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        LinkFacts::try_new(self.rate_gbps, latency_ns, Overlap::None).ok()
    }

    /// How long `bytes` bytes take at this rate.
    #[must_use]
    pub fn duration(self, bytes: u64) -> Duration {
        // 1 Gb/s is 1 bit per ns. Saturates for rates next to zero.
        Duration::try_from_secs_f64(bytes as f64 * 8.0 / self.rate_gbps / 1e9).unwrap_or(Duration::MAX)
    }
}

/// A token bucket of depth zero, kept as the time at which the link is free again.
///
/// It only computes: whoever sleeps until the times that it gives may wake late without losing rate, since the
/// next time does not depend on the waking.
#[derive(Debug)]
pub(super) struct TokenBucket {
    shaping: Shaping,
    free_at: Option<Instant>,
}

impl TokenBucket {
    pub(super) fn new(shaping: Shaping) -> Self {
        Self { shaping, free_at: None }
    }

    /// When a message of `bytes` bytes arrives that is handed over at `now`: the link sends one message after
    /// the other, and each takes the latency on top.
    pub(super) fn arrival(&mut self, bytes: u64, now: Instant) -> Instant {
        let start = self.free_at.map_or(now, |free_at| free_at.max(now));
        let end = later(start, self.shaping.duration(bytes));
        self.free_at = Some(end);
        later(end, self.shaping.latency)
    }
}

/// `start` plus `duration`, at most some thirty years on: a rate next to zero must not overflow the clock.
fn later(start: Instant, duration: Duration) -> Instant {
    start.checked_add(duration).unwrap_or_else(|| start + Duration::from_secs(1 << 30))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_bits_per_nanosecond() {
        let shaping = Shaping::try_new(8.0, Duration::ZERO).unwrap();
        assert_eq!(shaping.duration(1000), Duration::from_micros(1));
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Shaping::try_new(bad, Duration::ZERO).is_err());
        }
        assert_eq!(
            Shaping::try_new(f64::MIN_POSITIVE, Duration::ZERO).unwrap().duration(u64::MAX),
            Duration::MAX
        );
    }

    #[test]
    fn messages_follow_each_other() {
        let now = Instant::now();
        let ms = Duration::from_millis;
        let mut bucket = TokenBucket::new(Shaping::try_new(0.008, ms(5)).unwrap()); // 1000 bytes per ms
        assert_eq!(bucket.arrival(1000, now), now + ms(1 + 5));
        assert_eq!(bucket.arrival(2000, now), now + ms(3 + 5));
        assert_eq!(bucket.arrival(1000, now + ms(10)), now + ms(11 + 5)); // idle time is lost
    }
}

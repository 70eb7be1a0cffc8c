//! Makes things slower than they are: rate and latency, by a token bucket.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
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
    pub(crate) fn facts(self) -> Option<LinkFacts> {
        let latency_ns = u64::try_from(self.latency.as_nanos()).unwrap_or(u64::MAX);
        LinkFacts::try_new(self.rate_gbps, latency_ns, Overlap::None).ok()
    }

    /// How long `bytes` bytes take at this rate.
    #[must_use]
    pub fn duration(self, bytes: u64) -> Duration {
        to_duration(self.exact_ns(bytes))
    }

    /// The same with fractions of a nanosecond.
    fn exact_ns(self, bytes: u64) -> f64 {
        bytes as f64 * 8.0 / self.rate_gbps // 1 Gb/s is 1 bit per ns
    }
}

/// Saturates, for rates next to zero.
fn to_duration(ns: f64) -> Duration {
    Duration::try_from_secs_f64(ns / 1e9).unwrap_or(Duration::MAX)
}

/// A token bucket of depth zero, kept as the time at which the link is free again.
///
/// It only computes: whoever sleeps until the times that it gives may wake late without losing rate, since the
/// next time does not depend on the waking.
#[derive(Debug)]
pub(crate) struct TokenBucket {
    shaping: Shaping,
    free_at: Option<Instant>,
    /// What the clock has no room for, in ns: many short messages would gain or lose rate by it.
    rest_ns: f64,
}

impl TokenBucket {
    pub(crate) fn new(shaping: Shaping) -> Self {
        Self { shaping, free_at: None, rest_ns: 0.0 }
    }

    /// When a message of `bytes` bytes arrives that is handed over at `now`: the link sends one message after
    /// the other, and each takes the latency on top.
    pub(crate) fn arrival(&mut self, bytes: u64, now: Instant) -> Instant {
        later(self.turn(bytes, now), self.shaping.latency)
    }

    /// Until when the link is busy with that message.
    fn turn(&mut self, bytes: u64, now: Instant) -> Instant {
        let start = match self.free_at {
            Some(free_at) if free_at >= now => free_at,
            _ => {
                self.rest_ns = 0.0;
                now
            }
        };
        let exact_ns = self.shaping.exact_ns(bytes) + self.rest_ns;
        let whole_ns = exact_ns.round().max(0.0);
        // The rest of what no clock can hold would be no number, and so would every time after it.
        self.rest_ns = if exact_ns.is_finite() { exact_ns - whole_ns } else { 0.0 };
        let end = later(start, to_duration(whole_ns));
        self.free_at = Some(end);
        end
    }
}

/// A token bucket that several threads use, each in its turn.
#[derive(Debug)]
pub(crate) struct Pacer(Mutex<TokenBucket>);

impl Pacer {
    pub(crate) fn new(shaping: Shaping) -> Self {
        Self(Mutex::new(TokenBucket::new(shaping)))
    }

    pub(crate) fn shaping(&self) -> Shaping {
        self.lock().shaping
    }

    /// As [`TokenBucket::arrival`], from now.
    pub(crate) fn arrival(&self, bytes: u64) -> Instant {
        let mut bucket = self.lock();
        bucket.arrival(bytes, Instant::now()) // the time is taken under the lock: turns are in its order
    }

    fn lock(&self) -> MutexGuard<'_, TokenBucket> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The system wakes a thread so much late, or somewhat more.
const LATE_WAKING: Duration = Duration::from_micros(100);

/// Returns at `time`, to the microsecond where the machine has a processor to spare: sleeps for the most part, and
/// looks at the clock for the rest.
pub(crate) fn wait_until(time: Instant) {
    loop {
        let left = time.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return;
        }
        match left.checked_sub(LATE_WAKING) {
            Some(asleep) if !asleep.is_zero() => thread::sleep(asleep),
            _ => std::hint::spin_loop(),
        }
    }
}

/// `start` plus `duration`, or some thirty years on where the clock has no room for that, or `start` at its very end: a rate
/// next to zero must not overflow it.
fn later(start: Instant, duration: Duration) -> Instant {
    let years = || start.checked_add(Duration::from_secs(1 << 30));
    start.checked_add(duration).or_else(years).unwrap_or(start)
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

    #[test]
    fn short_messages_keep_the_rate() {
        let now = Instant::now();
        // 0.0625 ns a byte: alone, each of these would take 6 ns instead of 6.25.
        let mut bucket = TokenBucket::new(Shaping::try_new(128.0, Duration::ZERO).unwrap());
        let last = (0..1000).map(|_| bucket.arrival(100, now)).last().unwrap();
        assert_eq!(last, now + Duration::from_nanos(6250));
        let mut bytes = TokenBucket::new(Shaping::try_new(128.0, Duration::ZERO).unwrap());
        let last = (0..1600).map(|_| bytes.arrival(1, now)).last().unwrap();
        assert_eq!(last, now + Duration::from_nanos(100));
    }

    #[test]
    fn a_rate_next_to_zero_does_not_overflow_the_clock() {
        let now = Instant::now();
        let mut bucket = TokenBucket::new(Shaping::try_new(f64::MIN_POSITIVE, Duration::ZERO).unwrap());
        let end = bucket.turn(u64::MAX, now);
        assert!(end > now && bucket.turn(3000, now) >= end);
        // Up to where the clock ends, and on.
        let (mut time, mut step) = (now, Duration::from_secs(1 << 62));
        while !step.is_zero() {
            time = time.checked_add(step).unwrap_or(time);
            step /= 2;
        }
        assert_eq!(later(time, Duration::MAX), time);
    }

    #[test]
    fn waiting_ends_when_the_time_has_come() {
        for wait in [Duration::ZERO, Duration::from_micros(30), Duration::from_millis(2)] {
            let time = Instant::now() + wait;
            wait_until(time);
            assert!(Instant::now() >= time);
        }
    }
}

//! How fast a link turned out to be, as its writer sees it.
//!
//! Only time counts during which the link had something to do: what passes between two messages is the program's, or the
//! encoder's. And buffers on the way take the first bytes after a pause as fast as memory does, so a link that was idle
//! tells nothing until it has been busy for a while. A peer that is slow to take bytes looks like a slow link; so what is
//! faster than expected counts more than what is slower.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// How long after a pause buffers may still be filling.
const FILLING: Duration = Duration::from_millis(2);
/// So much busy time tells the rate.
const WINDOW: Duration = Duration::from_millis(2);
/// Weight of a new window against what is known, where it is faster.
const WEIGHT: f64 = 0.25;
/// Where it is slower: that may be a peer which has other things to do than to take bytes. A link that has become slow
/// stays so.
const WEIGHT_OF_SLOW: f64 = 1.0 / 16.0;

/// The rate that a peer takes bytes at, seen while there are more to write.
#[derive(Debug, Default)]
pub struct Rate {
    /// Bits of the `f64` in Gb/s; 0 while nothing is known.
    gbps: AtomicU64,
}

impl Rate {
    /// In Gb/s, once known.
    #[must_use]
    pub fn gbps(&self) -> Option<f64> {
        let gbps = f64::from_bits(self.gbps.load(Ordering::Relaxed));
        (gbps > 0.0).then_some(gbps)
    }

    fn learn(&self, seen_gbps: f64) {
        let weight = |known| if seen_gbps < known { WEIGHT_OF_SLOW } else { WEIGHT };
        let gbps = self.gbps().map_or(seen_gbps, |known| known + (seen_gbps - known) * weight(known));
        self.gbps.store(gbps.to_bits(), Ordering::Relaxed);
    }
}

/// What a link has to do after a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backlog {
    /// Nothing: until the next write it is nobody's fault that nothing moves.
    None,
    /// There is more to write, or something under way.
    Some,
}

/// The writer's side of a [`Rate`]: adds up the time in which the link was busy, and what it took then.
#[derive(Debug)]
pub struct RateMeter<R> {
    rate: R,
    /// When the link was last seen at work with more to do.
    busy_at: Option<Instant>,
    /// How long it has been busy without a pause.
    busy_for: Duration,
    /// What counts, of this busy time and earlier ones.
    counted: Duration,
    bytes: u64,
}

impl<R: Deref<Target = Rate>> RateMeter<R> {
    /// A meter of a link of which nothing was seen yet.
    #[must_use]
    pub fn new(rate: R) -> Self {
        Self { rate, busy_at: None, busy_for: Duration::ZERO, counted: Duration::ZERO, bytes: 0 }
    }

    /// `bytes` were taken from `started` to `ended`, and `backlog` is left.
    pub fn wrote(&mut self, bytes: u64, started: Instant, ended: Instant, backlog: Backlog) {
        let since = self.busy_at.unwrap_or(started);
        if self.busy_at.is_none() {
            self.busy_for = Duration::ZERO;
        }
        let took = ended.saturating_duration_since(since);
        let filling = FILLING.saturating_sub(self.busy_for).min(took);
        self.busy_for += took;
        self.busy_at = (backlog == Backlog::Some).then_some(ended);
        if filling == took {
            return;
        }
        // Of a write that began while buffers were filling, the rest counts in proportion.
        let counts = took - filling;
        self.bytes += (bytes as f64 * (counts.as_secs_f64() / took.as_secs_f64())) as u64;
        self.counted += counts;
        if self.counted >= WINDOW {
            self.rate.learn(self.bytes as f64 * 8.0 / self.counted.as_nanos() as f64);
            (self.bytes, self.counted) = (0, Duration::ZERO);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// A link of 8 Gb/s behind a buffer of `room` bytes, which fills as fast as memory: 80 Gb/s.
    struct Link {
        now: Instant,
        room: f64,
        buffered: f64,
    }

    impl Link {
        fn new(room: f64) -> Self {
            Self { now: Instant::now(), room, buffered: 0.0 }
        }

        /// Lets `ns` pass.
        fn pause(&mut self, ns: f64) {
            self.buffered = (self.buffered - ns).max(0.0);
            self.now += Duration::from_nanos(ns as u64);
        }

        /// Writes `bytes` in pieces, as the link takes them.
        fn write(&mut self, meter: &mut RateMeter<&Rate>, bytes: f64) {
            let mut left = bytes;
            while left > 0.0 {
                let piece = left.min(65_536.0);
                let started = self.now;
                self.buffered += piece;
                let full_ns = (self.buffered - self.room).max(0.0);
                self.pause(full_ns.max(piece / 10.0));
                left -= piece;
                let backlog = if left > 0.0 { Backlog::Some } else { Backlog::None };
                meter.wrote(piece as u64, started, self.now, backlog);
            }
        }
    }

    fn near(rate: &Rate) -> f64 {
        rate.gbps().unwrap() / 8.0
    }

    #[test]
    fn a_link_that_is_kept_busy_tells_its_rate() {
        let (rate, mut link) = (Rate::default(), Link::new(0.0));
        let mut meter = RateMeter::new(&rate);
        link.write(&mut meter, 1e6);
        assert_eq!(rate.gbps(), None, "a millisecond could be the filling of a buffer");
        link.write(&mut meter, 10e6);
        assert!((0.99..1.01).contains(&near(&rate)), "{:?}", rate.gbps());
    }

    #[test]
    fn buffers_that_take_all_at_once_are_not_the_link() {
        let (rate, mut link) = (Rate::default(), Link::new(4e6));
        let mut meter = RateMeter::new(&rate);
        for _ in 0..100 {
            link.write(&mut meter, 3e6);
            link.pause(5e6);
        }
        assert_eq!(rate.gbps(), None, "the link was never waited for");
        for _ in 0..10 {
            link.write(&mut meter, 30e6);
            link.pause(5e6);
        }
        assert!((0.95..1.05).contains(&near(&rate)), "{:?}", rate.gbps());
    }

    #[test]
    fn what_the_encoder_takes_between_two_messages_is_not_the_link_s() {
        let (rate, mut link) = (Rate::default(), Link::new(0.0));
        let mut meter = RateMeter::new(&rate);
        // Messages of 4 ms, and as long in between.
        for _ in 0..50 {
            link.write(&mut meter, 4e6);
            link.pause(4e6);
        }
        assert!((0.95..1.05).contains(&near(&rate)), "{:?}", rate.gbps());
    }

    #[test]
    fn short_messages_with_pauses_tell_nothing() {
        let (rate, mut link) = (Rate::default(), Link::new(0.0));
        let mut meter = RateMeter::new(&rate);
        for _ in 0..10_000 {
            link.write(&mut meter, 4096.0);
            link.pause(20e3);
        }
        assert_eq!(rate.gbps(), None);
    }

    #[test]
    fn what_is_faster_weighs_more_than_what_is_slower() {
        let rate = Rate::default();
        let mut meter = RateMeter::new(&rate);
        let now = Instant::now();
        meter.wrote(4_000_000, now, now + 4 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(8.0));
        meter.wrote(4_000_000, now + 4 * MS, now + 6 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(10.0));
        meter.wrote(500_000, now + 6 * MS, now + 8 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(9.5));
    }

    #[test]
    fn a_peer_that_is_busy_now_and_then_is_not_a_slow_link() {
        let (rate, mut link) = (Rate::default(), Link::new(0.0));
        let mut meter = RateMeter::new(&rate);
        for _ in 0..20 {
            link.write(&mut meter, 8e6);
            link.pause(1e6);
            // It computes for as long as eight megabytes take, while a message waits for it.
            meter.wrote(65_536, link.now, link.now + 8 * MS, Backlog::None);
            link.pause(9e6);
        }
        assert!((0.8..1.05).contains(&near(&rate)), "{:?}", rate.gbps());
    }
}

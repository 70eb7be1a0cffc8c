//! How fast a link turned out to be, as its writer sees it.
//!
//! Only time counts during which the link had something to do: what passes between two messages is the program's, or the
//! encoder's. Buffers on the way ([`Buffers`]) may take the first bytes after a pause as fast as memory does, so a link that was
//! idle tells nothing until it has been busy for a while. Where there are none, all time counts: else of a link which is faster
//! than that, only those messages would tell something that a busy peer has held up. A peer that is slow to take bytes looks
//! like a slow link; so what is faster than expected counts more than what is slower.
//!
//! Where a device tells how long each transfer was on its way, there is nothing to add up ([`TimedRate`]).

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use mgcomp_selector::{LinkFacts, Overlap};

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
        self.set(self.gbps().map_or(seen_gbps, |known| known + (seen_gbps - known) * weight(known)));
    }

    fn set(&self, gbps: f64) {
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

/// What is between a write and the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Buffers {
    /// Nothing: what was taken is there, or as good as there.
    None,
    /// Buffers of unknown size, which are empty after a pause.
    Some,
}

/// The writer's side of a [`Rate`]: adds up the time in which the link was busy, and what it took then.
#[derive(Debug)]
pub struct RateMeter<R> {
    rate: R,
    /// How long after a pause nothing counts.
    filling: Duration,
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
    pub fn new(rate: R, buffers: Buffers) -> Self {
        let filling = if buffers == Buffers::None { Duration::ZERO } else { FILLING };
        let (busy_for, counted) = (Duration::ZERO, Duration::ZERO);
        Self { rate, filling, busy_at: None, busy_for, counted, bytes: 0 }
    }

    /// Whether the link has had more to do since what was written last, so that what is written now has to be told, be it short.
    #[must_use]
    pub fn is_busy(&self) -> bool {
        self.busy_at.is_some()
    }

    /// `bytes` were taken from `started` to `ended`, and `backlog` is left.
    pub fn wrote(&mut self, bytes: u64, started: Instant, ended: Instant, backlog: Backlog) {
        let since = self.busy_at.unwrap_or(started);
        if self.busy_at.is_none() {
            self.busy_for = Duration::ZERO;
        }
        let took = ended.saturating_duration_since(since);
        let filling = self.filling.saturating_sub(self.busy_for).min(took);
        self.busy_for += took;
        self.busy_at = (backlog == Backlog::Some).then_some(ended);
        if took.is_zero() || filling == took {
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

/// So many transfers are timed before anything is known: the first may have waited for what is set up only once.
const FIRST_TIMED: u32 = 2;

/// The rate of a link whose transfers are timed one by one, from the beginning to the end of each.
#[derive(Debug)]
pub struct TimedRate {
    rate: Rate,
    /// What a transfer takes whatever its length.
    start: Duration,
    timed: u32,
}

impl TimedRate {
    /// That of a link of which nothing was seen yet, on which transfers take about `start` to begin: to be launched, say, or
    /// until all who take part are there. What takes less than twice as long tells nothing but that the link is no slower.
    #[must_use]
    pub const fn new(start: Duration) -> Self {
        Self { rate: Rate { gbps: AtomicU64::new(0) }, start, timed: 0 }
    }

    /// The link as policies see it, once known.
    #[must_use]
    pub fn facts(&self, overlap: Overlap) -> Option<LinkFacts> {
        let gbps = self.rate.gbps().filter(|_| self.timed >= FIRST_TIMED)?;
        LinkFacts::try_new(gbps, self.start.as_nanos() as u64, overlap).ok()
    }

    /// Learns that `bytes` took so long.
    pub fn learn(&mut self, bytes: u64, took: Duration) {
        let on_link = took.saturating_sub(self.start);
        let is_told = on_link >= self.start && !on_link.is_zero();
        let seen_gbps = bytes as f64 * 8.0 / on_link.max(self.start).as_nanos() as f64;
        match self.rate.gbps() {
            _ if bytes == 0 || took.is_zero() && self.start.is_zero() => {}
            None if is_told => self.first(seen_gbps),
            Some(known) if is_told && self.timed < FIRST_TIMED => self.first(seen_gbps.max(known)),
            Some(known) if is_told || seen_gbps > known => self.rate.learn(seen_gbps),
            _ => {}
        }
    }

    fn first(&mut self, gbps: f64) {
        self.rate.set(gbps);
        self.timed += 1;
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
        let mut meter = RateMeter::new(&rate, Buffers::Some);
        link.write(&mut meter, 1e6);
        assert_eq!(rate.gbps(), None, "a millisecond could be the filling of a buffer");
        link.write(&mut meter, 10e6);
        assert!((0.99..1.01).contains(&near(&rate)), "{:?}", rate.gbps());
    }

    #[test]
    fn buffers_that_take_all_at_once_are_not_the_link() {
        let (rate, mut link) = (Rate::default(), Link::new(4e6));
        let mut meter = RateMeter::new(&rate, Buffers::Some);
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
        let mut meter = RateMeter::new(&rate, Buffers::Some);
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
        let mut meter = RateMeter::new(&rate, Buffers::Some);
        for _ in 0..10_000 {
            link.write(&mut meter, 4096.0);
            link.pause(20e3);
        }
        assert_eq!(rate.gbps(), None);
    }

    #[test]
    fn without_buffers_short_messages_tell_as_much_as_those_that_are_held_up() {
        let (with, without) = (Rate::default(), Rate::default());
        let mut meters = [RateMeter::new(&with, Buffers::Some), RateMeter::new(&without, Buffers::None)];
        let mut now = Instant::now();
        let mut write = |took| {
            meters.iter_mut().for_each(|meter| meter.wrote(1_000_000, now, now + took, Backlog::None));
            now += took + MS;
        };
        // A megabyte in a millisecond is 8 Gb/s.
        (0..10).for_each(|_| write(MS));
        assert_eq!((with.gbps(), without.gbps()), (None, Some(8.0)));
        // One that waits for 39 ms: 0.2 Gb/s. What buffers would have taken at once does not count.
        write(40 * MS);
        assert!((without.gbps().unwrap() - (8.0 - 7.8 / 16.0)).abs() < 1e-9, "{:?}", without.gbps());
        assert!((with.gbps().unwrap() - 0.2).abs() < 1e-9, "{:?}", with.gbps());
        // From then on, it would have been taken for a slow one.
        (0..100).for_each(|_| write(MS));
        assert!((with.gbps().unwrap() - 0.2).abs() < 1e-9, "{:?}", with.gbps());
        assert!(without.gbps().unwrap() > 7.99, "{:?}", without.gbps());
    }

    #[test]
    fn a_link_is_busy_until_nothing_is_left() {
        let rate = Rate::default();
        let mut meter = RateMeter::new(&rate, Buffers::None);
        let now = Instant::now();
        assert!(!meter.is_busy());
        meter.wrote(1_000_000, now, now + MS, Backlog::Some);
        assert!(meter.is_busy());
        meter.wrote(1_000_000, now + 2 * MS, now + 2 * MS, Backlog::None);
        assert!(!meter.is_busy());
        assert_eq!(rate.gbps(), Some(8.0), "what passes between the two is the link's");
    }

    #[test]
    fn what_is_faster_weighs_more_than_what_is_slower() {
        let rate = Rate::default();
        let mut meter = RateMeter::new(&rate, Buffers::Some);
        let now = Instant::now();
        meter.wrote(4_000_000, now, now + 4 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(8.0));
        meter.wrote(4_000_000, now + 4 * MS, now + 6 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(10.0));
        meter.wrote(500_000, now + 6 * MS, now + 8 * MS, Backlog::Some);
        assert_eq!(rate.gbps(), Some(9.5));
    }

    fn timed_gbps(rate: &TimedRate) -> Option<f64> {
        rate.facts(Overlap::None).map(|facts| facts.rate_gbps())
    }

    #[test]
    fn the_better_of_two_timed_transfers_is_the_first_that_is_known() {
        let us = Duration::from_micros;
        let mut rate = TimedRate::new(us(10));
        // The first one sets something up: 100,000 bytes in 990 us.
        rate.learn(100_000, us(1000));
        assert_eq!(rate.facts(Overlap::None), None);
        // 8 bits a byte in 100 us of 110.
        rate.learn(100_000, us(110));
        let facts = rate.facts(Overlap::Segments(5)).unwrap();
        assert_eq!((facts.rate_gbps(), facts.latency_ns()), (8.0, 10_000));
        assert_eq!(facts.overlap(), Overlap::Segments(5));
        // From then on, a quarter of what is faster and a sixteenth of what is slower.
        rate.learn(200_000, us(110));
        assert_eq!(timed_gbps(&rate), Some(10.0));
        rate.learn(25_000, us(110));
        assert_eq!(timed_gbps(&rate), Some(9.5));
    }

    #[test]
    fn transfers_that_hardly_take_longer_than_to_begin_tell_little() {
        let us = Duration::from_micros;
        let mut rate = TimedRate::new(us(10));
        for took in [us(0), us(10), us(19)] {
            rate.learn(100_000, took);
        }
        rate.learn(0, us(1000));
        assert_eq!(timed_gbps(&rate), None);
        (0..2).for_each(|_| rate.learn(20_000, us(20)));
        assert_eq!(timed_gbps(&rate), Some(16.0));
        // No slower than 80 Gb/s; and no slower than 8, which says nothing new.
        rate.learn(100_000, us(5));
        assert_eq!(timed_gbps(&rate), Some(32.0));
        rate.learn(10_000, us(5));
        assert_eq!(timed_gbps(&rate), Some(32.0));
        // Where nothing is taken off, no time at all is no rate.
        let mut rate = TimedRate::new(Duration::ZERO);
        (0..3).for_each(|_| rate.learn(1000, Duration::ZERO));
        assert_eq!(timed_gbps(&rate), None);
        (0..2).for_each(|_| rate.learn(1000, us(1)));
        assert_eq!(timed_gbps(&rate), Some(8.0));
        rate.learn(1000, Duration::ZERO);
        assert_eq!(timed_gbps(&rate), Some(8.0));
    }

    #[test]
    fn a_peer_that_is_busy_now_and_then_is_not_a_slow_link() {
        let (rate, mut link) = (Rate::default(), Link::new(0.0));
        let mut meter = RateMeter::new(&rate, Buffers::Some);
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

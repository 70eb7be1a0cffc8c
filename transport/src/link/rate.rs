//! How fast a link turned out to be.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Writing must have gone on for so long without a break before it says anything: until the buffers of this machine
/// are full, they take bytes as fast as memory does.
const SHORTEST_WINDOW: Duration = Duration::from_millis(5);
/// A longer pause between two writes means that there was nothing to write.
const LONGEST_PAUSE: Duration = Duration::from_micros(100);
/// Weight of a new window against what is known.
const WEIGHT: f64 = 0.25;

/// The rate that a peer takes bytes at, seen while there are always more to write.
#[derive(Debug, Default)]
pub(super) struct Rate {
    /// Bits of the `f64` in Gb/s; 0 while nothing is known.
    gbps: AtomicU64,
}

impl Rate {
    /// In Gb/s, once known.
    pub(super) fn gbps(&self) -> Option<f64> {
        let gbps = f64::from_bits(self.gbps.load(Ordering::Relaxed));
        (gbps > 0.0).then_some(gbps)
    }

    fn learn(&self, seen_gbps: f64) {
        let gbps = self.gbps().map_or(seen_gbps, |known| known + (seen_gbps - known) * WEIGHT);
        self.gbps.store(gbps.to_bits(), Ordering::Relaxed);
    }
}

/// The writer's side of a [`Rate`]: adds up writes that follow each other closely.
#[derive(Debug)]
pub(super) struct RateMeter<R> {
    rate: R,
    window: Option<Window>,
}

#[derive(Clone, Copy, Debug)]
struct Window {
    since: Instant,
    until: Instant,
    bytes: u64,
}

impl<R: Deref<Target = Rate>> RateMeter<R> {
    pub(super) fn new(rate: R) -> Self {
        Self { rate, window: None }
    }

    /// `bytes` were written from `started` to `ended`.
    pub(super) fn wrote(&mut self, bytes: u64, started: Instant, ended: Instant) {
        let fresh = Window { since: started, until: started, bytes: 0 };
        let mut window = self
            .window
            .filter(|window| started.saturating_duration_since(window.until) <= LONGEST_PAUSE)
            .unwrap_or(fresh);
        (window.until, window.bytes) = (ended, window.bytes + bytes);
        let lasted = window.until.saturating_duration_since(window.since);
        self.window = if lasted >= SHORTEST_WINDOW {
            self.rate.learn(window.bytes as f64 * 8.0 / lasted.as_nanos() as f64);
            Some(Window { since: ended, until: ended, bytes: 0 })
        } else {
            Some(window)
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn writes_without_a_break_tell_the_rate() {
        let rate = Rate::default();
        let mut meter = RateMeter::new(&rate);
        let mut now = Instant::now();
        for _ in 0..4 {
            meter.wrote(1_000_000, now, now + MS);
            now += MS;
        }
        assert_eq!(rate.gbps(), None, "four milliseconds could be the filling of a buffer");
        meter.wrote(1_000_000, now, now + MS);
        assert_eq!(rate.gbps(), Some(8.0));
        // The next window is twice as fast: a quarter of the way there.
        for _ in 0..5 {
            now += MS;
            meter.wrote(2_000_000, now, now + MS);
        }
        assert_eq!(rate.gbps(), Some(10.0));
    }

    #[test]
    fn a_writer_that_waits_for_work_tells_nothing() {
        let rate = Rate::default();
        let mut meter = RateMeter::new(&rate);
        let mut now = Instant::now();
        for _ in 0..100 {
            meter.wrote(1_000_000, now, now + MS);
            now += MS + 2 * LONGEST_PAUSE;
        }
        assert_eq!(rate.gbps(), None);
    }

    #[test]
    fn one_long_write_is_enough() {
        let rate = Rate::default();
        let now = Instant::now();
        RateMeter::new(&rate).wrote(1_000_000, now, now + 8 * MS);
        assert_eq!(rate.gbps(), Some(1.0));
    }
}

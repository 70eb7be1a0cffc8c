//! When bytes last moved.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The latest time at which bytes moved in one direction between two ranks.
#[derive(Debug)]
pub(super) struct Movement {
    base: Instant,
    /// Since `base`; 0 if bytes never moved.
    latest_ns: AtomicU64,
}

impl Movement {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), latest_ns: AtomicU64::new(0) }
    }

    /// Bytes move at `at`, which may be yet to come: then they are on the way until then.
    pub(super) fn note(&self, at: Instant) {
        let since_base = at.saturating_duration_since(self.base).as_nanos();
        let latest_ns = u64::try_from(since_base).unwrap_or(u64::MAX).max(1);
        self.latest_ns.fetch_max(latest_ns, Ordering::Relaxed);
    }

    /// The latest time; that of the start if bytes never moved.
    pub(super) fn latest(&self) -> Instant {
        self.base + Duration::from_nanos(self.latest_ns.load(Ordering::Relaxed))
    }

    /// Whether bytes moved after `since`.
    pub(super) fn since(&self, since: Instant) -> bool {
        let latest_ns = self.latest_ns.load(Ordering::Relaxed);
        latest_ns > 0 && Duration::from_nanos(latest_ns) > since.saturating_duration_since(self.base)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_time_counts() {
        let movement = Movement::new();
        let at = |ms| movement.base + Duration::from_millis(ms);
        let long_before = movement.base.checked_sub(Duration::from_millis(1)).unwrap_or(movement.base);
        assert!(!movement.since(long_before), "nothing ever moved");
        movement.note(at(20));
        movement.note(at(10));
        assert!(movement.since(long_before) && movement.since(at(19)));
        assert!(!movement.since(at(20)));
    }
}

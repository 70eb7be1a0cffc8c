//! When bytes last moved.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The latest time at which bytes moved in one direction between two ranks.
#[derive(Debug)]
pub(super) struct Movement {
    base: Instant,
    /// Since `base`; 0 if bytes never moved.
    latest_ns: AtomicU64,
    /// Messages of which a part has moved.
    halfway: AtomicU32,
}

/// A part of a message has moved, and the rest is to follow, for as long as this lives.
#[derive(Debug)]
pub(super) struct Halfway(Arc<Movement>);

impl Movement {
    pub(super) fn new() -> Self {
        Self { base: Instant::now(), latest_ns: AtomicU64::new(0), halfway: AtomicU32::new(0) }
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

    /// A message has begun to move.
    pub(super) fn begin(self: &Arc<Self>) -> Halfway {
        self.halfway.fetch_add(1, Ordering::Relaxed);
        Halfway(self.clone())
    }

    /// Whether the rest of a message is to follow.
    pub(super) fn is_halfway(&self) -> bool {
        self.halfway.load(Ordering::Relaxed) > 0
    }

    /// Whether bytes moved after `since`.
    pub(super) fn since(&self, since: Instant) -> bool {
        let latest_ns = self.latest_ns.load(Ordering::Relaxed);
        latest_ns > 0 && Duration::from_nanos(latest_ns) > since.saturating_duration_since(self.base)
    }
}

impl Drop for Halfway {
    fn drop(&mut self) {
        self.0.halfway.fetch_sub(1, Ordering::Relaxed);
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

    #[test]
    fn messages_are_halfway_until_the_last_has_ended() {
        let movement = Arc::new(Movement::new());
        assert!(!movement.is_halfway());
        let (first, second) = (movement.begin(), movement.begin());
        drop(first);
        assert!(movement.is_halfway());
        drop(second);
        assert!(!movement.is_halfway());
    }
}

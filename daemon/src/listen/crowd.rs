//! Word of connections that were closed because there were too many.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often that is said at most: whoever comes again and again is not to fill the log.
const AGAIN: Duration = Duration::from_secs(60);

/// Those that were closed since it was last said.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<(Option<Instant>, u64)>);

impl Crowd {
    /// One more was closed, for this reason.
    pub(super) fn closed(&self, why: impl fmt::Display) {
        if let Some(closed) = self.count(Instant::now()) {
            tracing::warn!(closed, "connections are closed: {why}");
        }
    }

    /// One more; how many since that was said, if it is to be said again.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, closed) = &mut *known;
        *closed += 1;
        if said.is_some_and(|said| now - said < AGAIN) {
            return None;
        }
        *said = Some(now);
        Some(std::mem::take(closed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_is_said_and_others_are_added_up() {
        let (crowd, first) = (Crowd::default(), Instant::now());
        let at = |seconds| crowd.count(first + Duration::from_secs(seconds));
        assert_eq!([0, 1, 59, 60, 61].map(at), [Some(1), None, None, Some(3), None]);
        assert_eq!(at(3600), Some(2));
    }
}

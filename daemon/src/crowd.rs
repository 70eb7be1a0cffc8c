//! Word of what anybody can make happen as often as they like, such as connections that are closed because there are too many.

use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often that is said at most: whoever comes again and again is not to fill the log.
const AGAIN: Duration = Duration::from_secs(60);

/// How often it has happened since it was last said.
#[derive(Debug, Default)]
pub(crate) struct Crowd(Mutex<(Option<Instant>, u64)>);

impl Crowd {
    /// One more was closed, for this reason.
    pub(crate) fn closed(&self, why: impl fmt::Display) {
        self.said(|closed| tracing::warn!(closed, "connections are closed: {why}"));
    }

    /// It has happened once more; `say` is told how often since that was said, if it is to be said again.
    pub(crate) fn said(&self, say: impl FnOnce(u64)) {
        if let Some(times) = self.count(Instant::now()) {
            say(times);
        }
    }

    /// One more; how many since that was said, if it is to be said again.
    fn count(&self, now: Instant) -> Option<u64> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (said, times) = &mut *known;
        *times += 1;
        if said.is_some_and(|said| now - said < AGAIN) {
            return None;
        }
        *said = Some(now);
        Some(std::mem::take(times))
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

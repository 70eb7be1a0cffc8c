//! When whoever does the link's work looks at the clock, lets others have the processor, and sleeps.

use std::time::{Duration, Instant};

/// Rounds between two looks at the clock.
const ROUNDS_BY_CLOCK: u32 = 16;
/// Of the time that an idle thread stays awake, the part in which it lets nobody else have the processor.
const GREEDY: Duration = Duration::from_micros(5);

/// When something was done last, and what is due.
pub(super) struct Pace {
    pub(super) quiet_since: Instant,
    pub(super) sockets_at: Instant,
    rounds: u32,
    /// Whether anything was done since the clock was last looked at.
    was_busy: bool,
}

/// What comes after a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Round,
    Sleep,
    Sockets,
    /// Others may have the processor.
    Yield,
}

impl Pace {
    pub(super) fn new() -> Self {
        let now = Instant::now();
        Self { quiet_since: now, sockets_at: now, rounds: 0, was_busy: false }
    }

    /// Counts a round. Whether the clock is to be looked at.
    pub(super) fn count(&mut self, busy: bool, awake: Duration) -> bool {
        self.was_busy |= busy;
        self.rounds = self.rounds.wrapping_add(1);
        // Looking at the clock takes as long as looking into several rings.
        self.rounds.is_multiple_of(ROUNDS_BY_CLOCK) || awake.is_zero()
    }

    /// What is to be done at this time, with the rounds since the last one in mind.
    pub(super) fn next(&mut self, now: Instant, awake: Duration) -> Next {
        let busy = std::mem::take(&mut self.was_busy);
        if busy {
            self.quiet_since = now;
        }
        let quiet = now - self.quiet_since;
        if !busy && quiet >= awake {
            Next::Sleep
        } else if now >= self.sockets_at {
            Next::Sockets
        } else if !busy && quiet >= GREEDY {
            Next::Yield
        } else {
            Next::Round
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_between_two_looks_at_the_clock_keeps_it_awake() {
        let awake = Duration::from_micros(50);
        let mut pace = Pace::new();
        let start = pace.quiet_since;
        pace.sockets_at = start + Duration::from_secs(1000);
        // A round takes a microsecond. One of sixteen is busy, and never that with the clock; then none is.
        let mut slept = None;
        for round in 1..=1600u32 {
            let now = start + Duration::from_micros(round.into());
            let busy = round <= 800
                && round.is_multiple_of(ROUNDS_BY_CLOCK - 1)
                && !round.is_multiple_of(ROUNDS_BY_CLOCK);
            if pace.count(busy, awake) && pace.next(now, awake) == Next::Sleep {
                slept.get_or_insert(round);
            }
        }
        // The last busy one, or rather the clock behind it, and what it stays awake, up to the clock again.
        assert_eq!(slept, Some(800 + 64));
    }
}

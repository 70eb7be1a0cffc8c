//! How much of long messages is under way at once.
//!
//! What is sent sooner than the link takes it lies in buffers of the system, on both sides, and has left the caches when its turn comes. So the
//! parts of a message may have a [`Window`]: the next one begins when earlier ones were received. Whether they are is the program's
//! affair at the other end, and a receive may come late: where nothing is received for a while, all goes that waits.

use std::time::{Duration, Instant};

/// How much of messages is to be under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Raw bytes of parts that have begun and were not received. One part may begin whatever its length.
    pub bytes: u64,
    /// For how long a part waits while none is received.
    pub patience: Duration,
}

/// Keeps parts of messages within their windows.
#[derive(Debug, Default)]
pub(super) struct Pace {
    turn: Turn,
    /// Of the parts of this turn.
    in_flight_bytes: u64,
    /// Until when the next part waits.
    waits_until: Option<Instant>,
    /// Nothing was received for too long: parts begin as they come, until one is.
    is_out_of_patience: bool,
}

/// Counts how often patience has ended. What began before waits for a receive that may be long in coming, and is not reckoned with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Turn(u64);

impl Pace {
    /// Whether a part of so many bytes may begin. If not, it is asked again once one has ended, or it is [time](Self::deadline).
    pub(super) fn may_begin(&mut self, window: Window, length: u64, now: Instant) -> bool {
        let fits = self.in_flight_bytes == 0 || self.in_flight_bytes.saturating_add(length) <= window.bytes;
        if fits || self.is_out_of_patience {
            return true;
        }
        if self.waits_until.is_none() {
            self.waits_until = now.checked_add(window.patience);
        }
        self.waits_until.is_none()
    }

    /// A part begins. Returns what to [end](Self::end) it with.
    pub(super) fn begin(&mut self, length: u64) -> Turn {
        self.waits_until = None;
        if self.is_out_of_patience {
            return Turn(self.turn.0.wrapping_sub(1));
        }
        self.in_flight_bytes += length;
        self.turn
    }

    /// One was received, or never will be.
    pub(super) fn end(&mut self, turn: Turn, length: u64) {
        (self.waits_until, self.is_out_of_patience) = (None, false);
        if turn == self.turn {
            self.in_flight_bytes -= length;
        }
    }

    /// When to look whether a part has waited long enough.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.waits_until
    }

    /// Returns whether parts may begin now because they have waited long enough.
    pub(super) fn on_time(&mut self, now: Instant) -> bool {
        let is_due = self.waits_until.is_some_and(|until| until <= now);
        if is_due {
            let turn = Turn(self.turn.0.wrapping_add(1));
            *self = Self { turn, in_flight_bytes: 0, waits_until: None, is_out_of_patience: true };
        }
        is_due
    }

    #[cfg(test)]
    pub(super) fn is_idle(&self) -> bool {
        self.in_flight_bytes == 0 && self.waits_until.is_none()
    }
}

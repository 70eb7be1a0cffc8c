//! When the link's own thread comes back to the sockets that threads of the program have served.

use std::time::{Duration, Instant};

/// How long the link's thread stays away after the last wait: the next one is likely to follow soon.
const AWAY: Duration = Duration::from_micros(250);
/// After so long it looks whether there is anything to do, where the program is likely to come back soon.
const LOOK: Duration = Duration::from_millis(1);
/// It stays away no longer than this. Rests that are shorter are soon over.
const LONGEST_AWAY: Duration = Duration::from_millis(4);
/// Where a second thread has wanted to wait within this time, it may still sleep: the link's thread comes back early.
const CROWDED: Duration = Duration::from_millis(100);

/// Who serves the sockets, and since when.
pub(super) struct State {
    pub(super) server: Server,
    /// Whether the link's thread is needed as soon as the sockets are free.
    pub(super) needed: bool,
    /// When a waiting thread last took the sockets, or let go of them.
    pub(super) since: Instant,
    /// When the link's thread is to look next whether it has something to do.
    pub(super) next_look: Instant,
    /// Whether the link's thread sleeps until a waiting thread has left.
    pub(super) waits_to_be_told: bool,
    /// Whether the program's last rest was shorter than [`LONGEST_AWAY`].
    pub(super) returns_soon: bool,
    /// When a second thread last wanted to wait, which sleeps instead.
    pub(super) refused: Option<Instant>,
    /// When a waiting thread last let all tasks have their turns.
    pub(super) turns_taken: Instant,
}

/// Who serves the sockets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Server {
    Nobody,
    Link,
    Waiter,
}

/// What the link's thread is to do.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// To take the sockets.
    Now,
    /// To take them if it is needed.
    IfNeeded,
    /// To ask again then, or when something has changed.
    NotBefore(Instant),
    /// To ask again when something has changed.
    WhenTold,
}

impl State {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            server: Server::Nobody,
            needed: true,
            since: now,
            next_look: now,
            waits_to_be_told: false,
            returns_soon: false,
            refused: None,
            turns_taken: now,
        }
    }

    /// A waiting thread takes the sockets.
    pub(super) fn take(&mut self, now: Instant) {
        let rested = now.saturating_duration_since(self.since);
        // Shorter ones say nothing of the next longer one.
        if rested >= AWAY {
            let is_alone = self.refused.is_none_or(|at| now.saturating_duration_since(at) > CROWDED);
            self.returns_soon = rested < LONGEST_AWAY && is_alone;
        }
        self.serve(Server::Waiter, now);
    }

    /// It lets go of them, in the middle of a message or not; returns whether the link's thread is to be told.
    pub(super) fn leave(&mut self, now: Instant, is_halfway: bool) -> bool {
        self.serve(Server::Nobody, now);
        if is_halfway {
            self.next_look = now + AWAY; // the link must not rest
        }
        std::mem::take(&mut self.waits_to_be_told) || self.needed
    }

    fn serve(&mut self, server: Server, now: Instant) {
        (self.server, self.since, self.next_look) = (server, now, now + self.absence());
    }

    /// The link's thread is needed; returns whether it is to be told.
    pub(super) fn call(&mut self) -> bool {
        self.needed |= self.server != Server::Link;
        self.server == Server::Nobody
    }

    /// How long the link's thread stays away at a time.
    fn absence(&self) -> Duration {
        if self.returns_soon { LOOK } else { AWAY }
    }

    /// What the link's thread is to do, which has no sockets.
    pub(super) fn turn(&self, now: Instant) -> Turn {
        let waiting = self.server == Server::Waiter;
        if !waiting && self.needed {
            Turn::Now
        } else if now < self.next_look {
            Turn::NotBefore(self.next_look)
        } else if waiting {
            Turn::WhenTold // whoever waits for so long says when it leaves
        } else if self.returns_soon && now.saturating_duration_since(self.since) < LONGEST_AWAY {
            Turn::IfNeeded
        } else {
            Turn::Now
        }
    }

    /// The link's thread has looked whether it is needed.
    pub(super) fn looked(&mut self, now: Instant, needed: bool) {
        self.needed |= needed && self.server == Server::Nobody; // else somebody has come
        self.next_look = self.next_look.max(now + self.absence());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Microseconds after the start of a test.
    fn at(start: Instant, micros: u64) -> Instant {
        start + Duration::from_micros(micros)
    }

    /// The state in which the link's thread has let go, and a thread has waited up to `start` after a rest of that many
    /// microseconds.
    fn left_after(rest: u64, start: Instant) -> State {
        let mut state = State::new(start.checked_sub(Duration::from_micros(rest + 10)).unwrap());
        state.needed = false;
        state.take(start.checked_sub(Duration::from_micros(10)).unwrap());
        assert!(!state.leave(start, false));
        state
    }

    #[test]
    fn the_links_thread_begins_and_comes_back_after_a_while() {
        let start = Instant::now();
        assert_eq!(State::new(start).turn(start), Turn::Now);
        // Rests that are over at once say nothing, and after a long one the program may stay away as long again.
        for rest in [0, 249, 4000, 100_000] {
            let state = left_after(rest, start);
            assert_eq!(state.turn(at(start, 249)), Turn::NotBefore(at(start, 250)), "{rest}");
            assert_eq!(state.turn(at(start, 250)), Turn::Now, "{rest}");
        }
    }

    #[test]
    fn where_rests_are_short_it_looks_before_it_comes_back() {
        let start = Instant::now();
        for rest in [250, 3999] {
            let mut state = left_after(rest, start);
            assert_eq!(state.turn(at(start, 999)), Turn::NotBefore(at(start, 1000)), "{rest}");
            assert_eq!(state.turn(at(start, 1000)), Turn::IfNeeded, "{rest}");
            state.looked(at(start, 1000), false);
            assert_eq!(state.turn(at(start, 1001)), Turn::NotBefore(at(start, 2000)), "{rest}");
            state.looked(at(start, 2000), true);
            assert_eq!(state.turn(at(start, 2000)), Turn::Now, "{rest}");
            // A rest that goes on for long is none that is soon over.
            assert_eq!(left_after(rest, start).turn(at(start, 4000)), Turn::Now, "{rest}");
        }
        // One that was over at once in between changes nothing.
        let mut state = left_after(250, start);
        state.take(at(start, 5));
        assert!(!state.leave(at(start, 10), false));
        assert_eq!(state.turn(at(start, 1010)), Turn::IfNeeded);
    }

    #[test]
    fn who_waits_has_the_sockets_and_tells_when_it_leaves() {
        let start = Instant::now();
        let mut state = left_after(250, start);
        state.take(at(start, 300));
        assert_eq!(state.turn(at(start, 400)), Turn::NotBefore(at(start, 1300)));
        state.looked(at(start, 400), true); // a look that began before it came
        assert_eq!(state.turn(at(start, 1300)), Turn::NotBefore(at(start, 1400)));
        assert_eq!(state.turn(at(start, 1400)), Turn::WhenTold);
        state.waits_to_be_told = true;
        assert!(state.leave(at(start, 2000), false));
        assert_eq!(state.turn(at(start, 2000)), Turn::NotBefore(at(start, 3000)));
        state.take(at(start, 2100));
        assert!(!state.leave(at(start, 2200), false), "it was told");
        state.take(at(start, 2300));
        state.needed = true; // another thread waits as well
        assert_eq!(state.turn(at(start, 2300)), Turn::NotBefore(at(start, 3300)));
        assert!(state.leave(at(start, 2400), false));
        assert_eq!(state.turn(at(start, 2400)), Turn::Now);
    }

    #[test]
    fn whoever_sleeps_or_asks_again_and_again_has_it_come_back_at_once() {
        let start = Instant::now();
        let mut state = left_after(300, start);
        assert_eq!(state.turn(at(start, 1)), Turn::NotBefore(at(start, 1000)));
        assert!(state.call());
        assert_eq!(state.turn(at(start, 1)), Turn::Now);
        // Where another thread waits, when that leaves.
        let mut state = left_after(300, start);
        state.take(at(start, 10));
        assert!(!state.call());
        assert!(state.leave(at(start, 20), false));
        assert_eq!(state.turn(at(start, 20)), Turn::Now);
        // It is there.
        state.serve(Server::Link, at(start, 30));
        state.needed = false;
        assert!(!state.call() && !state.needed);
    }

    #[test]
    fn it_looks_early_at_a_message_that_was_left_halfway() {
        let start = Instant::now();
        let mut state = left_after(250, start);
        state.take(at(start, 10));
        assert!(!state.leave(at(start, 20), true));
        assert_eq!(state.turn(at(start, 269)), Turn::NotBefore(at(start, 270)));
        assert_eq!(state.turn(at(start, 270)), Turn::IfNeeded);
        state.looked(at(start, 270), true);
        assert_eq!(state.turn(at(start, 270)), Turn::Now);
    }

    #[test]
    fn it_comes_back_early_where_a_second_thread_wanted_to_wait() {
        let start = Instant::now();
        let mut state = left_after(250, start);
        state.refused = Some(at(start, 0));
        state.take(at(start, 300));
        assert!(!state.leave(at(start, 310), false));
        assert_eq!(state.turn(at(start, 560)), Turn::Now);
        // That was long ago.
        state.take(at(start, 100_001));
        assert!(!state.leave(at(start, 100_010), false));
        state.take(at(start, 100_300));
        assert!(!state.leave(at(start, 100_310), false));
        assert_eq!(state.turn(at(start, 101_310)), Turn::IfNeeded);
    }
}

//! How fast a connection is, from what the kernel counts of it.
//!
//! The kernel knows for how long anything was unacknowledged, and how much was acknowledged meanwhile. So neither the
//! pauses between messages nor the buffers of this machine, which take megabytes at once, have a part in it. What the
//! first byte of a message takes to get there and its acknowledgement to come back is latency, and is taken off; short
//! messages are hardly anything else and say nothing of the rate.

use std::time::Duration;

use mgcomp_selector::{LinkFacts, Overlap};

use super::counters::Counters;

/// Shorter messages say nothing of the rate.
pub(super) const LONG_BYTES: u64 = 32 << 10;
/// So many acknowledged bytes are worth a look.
const LEAST_BYTES: u64 = 128 << 10;
/// A look says nothing if more than one in so many of the bytes that were sent belong to short messages.
const FEW: u64 = 8;
/// At most this part of the busy time is taken for latency: messages that follow each other wait for nothing.
const MOST_WAITING: f64 = 4.0;
/// The kernel counts in ticks of 1 to 10 ms, so less busy time than this says nothing.
const LEAST_BUSY_NS: f64 = 16e6;
/// What is known weighs as much as so much busy time at most: a link may change.
const MOST_BUSY_NS: f64 = 100e6;

/// What this side has handed to a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sent {
    pub(super) bytes: u64,
    /// In messages of [`LONG_BYTES`] and more.
    pub(super) long_bytes: u64,
    /// Such messages before which nothing was queued.
    pub(super) bursts: u32,
}

/// The rate and the latency of a connection.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// What was acknowledged, in which busy time, and how much of that was waiting for first bytes. Sums, since a tick of
    /// the kernel's clock may fall into the time of any bytes.
    bytes: f64,
    busy_ns: f64,
    waiting_ns: f64,
    round_trip: Duration,
    seen: Counters,
    sent: Sent,
}

impl Pace {
    /// What is known of the way there.
    pub(super) fn facts(&self) -> Option<LinkFacts> {
        if self.busy_ns < LEAST_BUSY_NS {
            return None;
        }
        let latency_ns = u64::try_from(self.round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        let moving_ns = self.busy_ns - self.waiting_ns.min(self.busy_ns / MOST_WAITING);
        LinkFacts::try_new(self.bytes * 8.0 / moving_ns, latency_ns, Overlap::None).ok()
    }

    /// What had been handed over at the last look.
    pub(super) fn looked_at(&self) -> Sent {
        self.sent
    }

    /// Learns from what the kernel says now, when so much was handed over.
    pub(super) fn look(&mut self, counters: Counters, sent: Sent) {
        let acknowledged = counters.acknowledged_bytes.saturating_sub(self.seen.acknowledged_bytes);
        if acknowledged < LEAST_BYTES {
            return;
        }
        let busy = counters.busy.saturating_sub(self.seen.busy);
        let (all, long) = (sent.bytes - self.sent.bytes, sent.long_bytes - self.sent.long_bytes);
        let bursts = sent.bursts.wrapping_sub(self.sent.bursts);
        (self.seen, self.sent, self.round_trip) = (counters, sent, counters.round_trip);
        if all.saturating_sub(long) > all / FEW {
            return;
        }
        self.bytes += acknowledged as f64;
        self.busy_ns += busy.as_nanos() as f64;
        self.waiting_ns += counters.round_trip.saturating_mul(bursts).as_nanos() as f64;
        if self.busy_ns > MOST_BUSY_NS {
            let kept = MOST_BUSY_NS / self.busy_ns;
            self.bytes *= kept;
            self.busy_ns *= kept;
            self.waiting_ns *= kept;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How often the kernel's clock ticks on most systems, in nanoseconds.
    const TICK: f64 = 4e6;

    /// A link in virtual time, in nanoseconds: each byte leaves as soon as the ones before are gone, and is acknowledged a
    /// round trip later.
    struct Link {
        gbps: f64,
        round_trip: f64,
        now: f64,
        free_at: f64,
        /// When all that was sent is acknowledged, and how long anything was not.
        silent_at: f64,
        busy: f64,
        sent: Sent,
        pace: Pace,
    }

    impl Link {
        fn new(gbps: f64, round_trip_us: f64) -> Self {
            let (now, free_at, silent_at, busy) = (0.0, 0.0, 0.0, 0.0);
            let (sent, pace) = (Sent::default(), Pace::default());
            Self { gbps, round_trip: round_trip_us * 1e3, now, free_at, silent_at, busy, sent, pace }
        }

        /// Hands a message over, which buffers take at once, and goes on after `pause_us`.
        fn send(&mut self, bytes: u64, pause_us: f64) {
            let long = bytes >= LONG_BYTES;
            self.sent.bytes += bytes;
            self.sent.long_bytes += if long { bytes } else { 0 };
            self.sent.bursts += u32::from(long && self.free_at <= self.now);
            self.free_at = self.free_at.max(self.now) + bytes as f64 * 8.0 / self.gbps;
            let silent_at = self.free_at + self.round_trip;
            self.busy += silent_at - self.silent_at.max(self.now);
            self.silent_at = silent_at;
            self.now += pause_us * 1e3;
        }

        /// Looks as the kernel would let one: what is not acknowledged yet does not count.
        fn look(&mut self) {
            let unacknowledged_ns = (self.silent_at - self.now).max(0.0);
            let left = (unacknowledged_ns * self.gbps / 8.0) as u64;
            let counters = Counters {
                acknowledged_bytes: self.sent.bytes.saturating_sub(left),
                busy: Duration::from_nanos((((self.busy - unacknowledged_ns) / TICK).floor() * TICK) as u64),
                round_trip: Duration::from_nanos(self.round_trip as u64),
            };
            self.pace.look(counters, self.sent);
        }

        fn gbps(&self) -> f64 {
            self.pace.facts().unwrap().rate_gbps()
        }
    }

    #[test]
    fn messages_tell_the_rate_though_buffers_took_them_at_once() {
        for gbps in [1.0, 5.0, 10.0, 25.0, 100.0] {
            for round_trip_us in [10.0, 50.0, 1000.0] {
                let mut link = Link::new(gbps, round_trip_us);
                while link.busy < 200e6 {
                    link.send(16 << 20, 1e6);
                    link.look();
                }
                let seen = link.gbps();
                // Of a fast link far away single messages show hardly more than the latency.
                let least = if round_trip_us < 100.0 { 0.93 } else { 0.66 };
                assert!((least * gbps..1.07 * gbps).contains(&seen), "{seen} of {gbps}, {round_trip_us} us");
            }
        }
    }

    #[test]
    fn messages_shorter_than_a_tick_tell_it_too() {
        for gbps in [10.0, 100.0] {
            let mut link = Link::new(gbps, 10.0);
            while link.busy < 200e6 {
                link.send(256 << 10, 1000.0);
                link.look();
            }
            let seen = link.gbps();
            assert!((0.9 * gbps..1.15 * gbps).contains(&seen), "{seen} of {gbps}");
        }
        let mut link = Link::new(10.0, 10.0);
        link.send(4 << 20, 1e6);
        link.look();
        assert_eq!(link.pace.facts(), None, "a tick or none is no time");
    }

    #[test]
    fn pauses_of_the_program_and_of_encoders_do_not_count() {
        for pause_us in [0.0, 100.0, 1000.0, 10_000.0] {
            let mut link = Link::new(5.0, 40.0);
            for _ in 0..100 {
                link.send(700 << 10, pause_us);
                link.look();
            }
            link.now += 1e9;
            link.look();
            let seen = link.gbps();
            assert!((4.6..5.4).contains(&seen), "{seen} with {pause_us} us");
        }
    }

    #[test]
    fn short_messages_are_not_taken_for_a_slow_link() {
        let mut link = Link::new(10.0, 30.0);
        for _ in 0..1000 {
            link.send(4096, 50.0);
            link.look();
        }
        assert_eq!(link.pace.facts(), None);
        for _ in 0..40 {
            link.send(4 << 20, 10_000.0);
            link.look();
            for _ in 0..100 {
                link.send(4096, 50.0);
                link.look();
            }
        }
        let seen = link.gbps();
        assert!((8.5..11.5).contains(&seen), "{seen}");
        assert_eq!(link.pace.facts().unwrap().latency_ns(), 15_000);
    }

    #[test]
    fn a_link_that_changes_is_followed() {
        let mut link = Link::new(10.0, 30.0);
        for _ in 0..100 {
            link.send(4 << 20, 10_000.0);
            link.look();
        }
        link.gbps = 1.0;
        for _ in 0..20 {
            link.send(4 << 20, 50_000.0);
            link.look();
        }
        let seen = link.gbps();
        assert!((0.9..1.3).contains(&seen), "{seen}");
    }

    #[test]
    fn counters_that_stand_still_or_fall_teach_nothing() {
        let mut pace = Pace::default();
        let sent = Sent { bytes: 1 << 20, long_bytes: 1 << 20, bursts: 1 };
        let counters = Counters { acknowledged_bytes: 1 << 20, ..Counters::default() };
        pace.look(counters, sent);
        pace.look(Counters::default(), sent);
        pace.look(counters, sent);
        assert_eq!(pace.facts(), None, "no time has passed");
    }
}

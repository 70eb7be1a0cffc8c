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
pub(super) const LONG_BYTES: u64 = 64 << 10;
/// So many acknowledged bytes are worth a look.
const LEAST_BYTES: u64 = 128 << 10;
/// A look says nothing if more than one in so many of the bytes that were sent belong to short messages.
const FEW: u64 = 8;
/// At most this part of the busy time is taken for latency: messages that follow each other wait for nothing.
const MOST_WAITING: u32 = 4;
/// What is known weighs as much as so many bytes at most: a link may change.
const MOST_EVIDENCE_BYTES: u64 = 8 << 20;

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
    rate_gbps: Option<f64>,
    evidence_bytes: u64,
    round_trip: Duration,
    seen: Counters,
    sent: Sent,
}

impl Pace {
    /// What is known of the way there.
    pub(super) fn facts(&self) -> Option<LinkFacts> {
        let latency_ns = u64::try_from(self.round_trip.as_nanos() / 2).unwrap_or(u64::MAX);
        LinkFacts::try_new(self.rate_gbps?, latency_ns, Overlap::None).ok()
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
        let waiting = counters.round_trip.saturating_mul(bursts).min(busy / MOST_WAITING);
        self.learn(acknowledged, busy - waiting);
    }

    fn learn(&mut self, bytes: u64, took: Duration) {
        if took.is_zero() {
            return;
        }
        let seen_gbps = bytes as f64 * 8.0 / took.as_nanos() as f64;
        self.evidence_bytes += bytes;
        let weight = bytes as f64 / self.evidence_bytes as f64;
        self.rate_gbps = Some(self.rate_gbps.map_or(seen_gbps, |known| known + (seen_gbps - known) * weight));
        self.evidence_bytes = self.evidence_bytes.min(MOST_EVIDENCE_BYTES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
                busy: Duration::from_nanos((self.busy - unacknowledged_ns) as u64),
                round_trip: Duration::from_nanos(self.round_trip as u64),
            };
            self.pace.look(counters, self.sent);
        }

        fn gbps(&self) -> f64 {
            self.pace.facts().unwrap().rate_gbps()
        }
    }

    #[test]
    fn one_message_tells_the_rate_though_buffers_took_it_at_once() {
        for gbps in [1.0, 5.0, 10.0, 25.0, 100.0] {
            for round_trip_us in [10.0, 50.0, 1000.0] {
                let mut link = Link::new(gbps, round_trip_us);
                link.send(16 << 20, 1e6);
                link.look();
                let seen = link.gbps();
                // Of a fast link far away one message shows hardly more than the latency.
                let least = if round_trip_us < 100.0 { 0.97 } else { 0.7 };
                assert!((least * gbps..1.01 * gbps).contains(&seen), "{seen} of {gbps}, {round_trip_us} us");
            }
        }
    }

    #[test]
    fn pauses_of_the_program_and_of_encoders_do_not_count() {
        for pause_us in [0.0, 100.0, 1000.0, 10_000.0] {
            let mut link = Link::new(5.0, 40.0);
            for _ in 0..50 {
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
        for _ in 0..10 {
            link.send(4 << 20, 10_000.0);
            link.look();
            for _ in 0..100 {
                link.send(4096, 50.0);
                link.look();
            }
        }
        let seen = link.gbps();
        assert!((9.0..10.5).contains(&seen), "{seen}");
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

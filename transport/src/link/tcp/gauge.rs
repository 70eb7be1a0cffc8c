//! How fast a connection is, for whoever sends over one.

use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};

use mgcomp_selector::{LinkFacts, Overlap};

use super::counters::Counters;
use super::pace::{LONG_BYTES, Pace, Sent};

/// Bytes that are sent between two looks at how fast the connection is.
const LOOK_BYTES: u64 = 128 << 10;

/// Learns the rate and the latency of a TCP connection from what is sent over it and from what the kernel counts.
#[derive(Debug, Default)]
pub struct Gauge {
    sent: Mutex<Sent>,
    pace: Mutex<Pace>,
}

impl Gauge {
    /// A message of `bytes` bytes is handed over, before which so much waits to be sent.
    pub fn sending(&self, bytes: u64, queued_bytes: u64) {
        let mut sent = self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        sent.bytes += bytes;
        if bytes >= LONG_BYTES {
            sent.long_bytes += bytes;
            sent.bursts = sent.bursts.wrapping_add(u32::from(queued_bytes == 0));
        }
    }

    /// What is known of the way out of `socket`; `None` until enough was sent, and where the system does not count.
    pub fn facts(&self, socket: impl AsFd) -> Option<LinkFacts> {
        self.facts_by(|| Counters::of(socket))
    }

    /// The same, with counters from wherever they are.
    pub(super) fn facts_by(&self, counters: impl FnOnce() -> Option<Counters>) -> Option<LinkFacts> {
        let mut pace = self.pace.lock().unwrap_or_else(PoisonError::into_inner);
        // After `pace`, so that it is no older than what that has looked at.
        let sent = *self.sent.lock().unwrap_or_else(PoisonError::into_inner);
        if sent.bytes - pace.looked_at().bytes >= LOOK_BYTES
            && let Some(counters) = counters()
        {
            pace.look(counters, sent);
        }
        pace.facts()
    }

    /// What is known of several connections that share a way: they have its rate together.
    pub fn together(connections: impl Iterator<Item = LinkFacts>) -> Option<LinkFacts> {
        connections.reduce(|all, one| {
            let latency_ns = all.latency_ns().min(one.latency_ns());
            LinkFacts::try_new(all.rate_gbps() + one.rate_gbps(), latency_ns, Overlap::None).unwrap_or(all)
        })
    }
}

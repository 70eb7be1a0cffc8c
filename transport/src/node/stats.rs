//! What a node has sent, by algorithm.

use std::collections::BTreeMap;
use std::time::Duration;

use mgcomp_codecs::Algorithm;

/// Payloads sent under one algorithm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// How many.
    pub transfers: u64,
    /// Their raw bytes.
    pub raw_bytes: u64,
    /// Their bytes on the link, frames included, message headers not.
    pub coded_bytes: u64,
}

/// Counters of a node since its start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Payloads sent: answers to reads, writes and sends. Those of no bytes are not counted, nor what ranks tell each other of
    /// collectives.
    pub sent: BTreeMap<Algorithm, Tally>,
    /// Payloads that were sampled, before they were encoded or beside it.
    pub sampled: u64,
    /// Time spent on sampling and encoding.
    pub encode: Duration,
    /// Time spent on decoding.
    pub decode: Duration,
}

impl Stats {
    /// The sum over all algorithms.
    #[must_use]
    pub fn total(&self) -> Tally {
        self.sent.values().fold(Tally::default(), |sum, tally| Tally {
            transfers: sum.transfers + tally.transfers,
            raw_bytes: sum.raw_bytes + tally.raw_bytes,
            coded_bytes: sum.coded_bytes + tally.coded_bytes,
        })
    }

    pub(crate) fn count_sent(&mut self, algorithm: Algorithm, raw_bytes: u64, coded_bytes: u64) {
        if raw_bytes == 0 {
            return;
        }
        let tally = self.sent.entry(algorithm).or_default();
        tally.transfers += 1;
        tally.raw_bytes += raw_bytes;
        tally.coded_bytes += coded_bytes;
    }
}

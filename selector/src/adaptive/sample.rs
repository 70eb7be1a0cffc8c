//! Which sample a stream can afford.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::stream::Common;
use crate::CheapFacts;

/// The fewest bytes that say anything.
const LEAST_SAMPLE_BYTES: u64 = 4 << 10;
/// More bytes say little more.
const MOST_SAMPLE_BYTES: u64 = 128 << 10;
/// What an estimate costs whatever its length, in nanoseconds.
const ESTIMATE_CALL_NS: f64 = 200.0;

/// What is to be tried.
pub(super) struct Sample {
    /// Those of the wanted that can be afforded, the quickest first.
    pub(super) algorithms: AlgorithmSet,
    /// What a byte takes with all of them.
    ns_per_byte: f64,
    /// What they take whatever the length.
    calls_ns: f64,
    /// What the smallest sample with all of the wanted takes.
    pub(super) whole_ns: f64,
}

impl Sample {
    pub(super) fn of(
        common: &Common<'_>,
        facts: &CheapFacts,
        wanted: AlgorithmSet,
        affordable_ns: f64,
    ) -> Self {
        let rate = |algorithm| {
            let ns = common.speeds.estimate_ns_per_byte(algorithm, facts.element)?;
            Some((ns * common.estimate_factor, algorithm))
        };
        let mut by_rate: Vec<(f64, Algorithm)> = wanted.iter().filter_map(rate).collect();
        by_rate.sort_by(|a, b| a.0.total_cmp(&b.0));
        let least_bytes = LEAST_SAMPLE_BYTES.min(facts.raw_bytes) as f64;
        let (mut set, mut whole_ns) = (0, 0.0);
        let mut sample =
            Self { algorithms: AlgorithmSet::from_bits(0), ns_per_byte: 0.0, calls_ns: 0.0, whole_ns };
        for (ns, algorithm) in by_rate {
            whole_ns += ns * least_bytes + ESTIMATE_CALL_NS;
            if whole_ns <= affordable_ns {
                set |= 1 << algorithm.number();
                sample.ns_per_byte += ns;
                sample.calls_ns += ESTIMATE_CALL_NS;
            }
        }
        Self { algorithms: AlgorithmSet::from_bits(set), whole_ns, ..sample }
    }

    /// How many bytes can be looked at.
    pub(super) fn affordable_bytes(&self, raw_bytes: u64, affordable_ns: f64) -> u64 {
        let bytes = ((affordable_ns - self.calls_ns) / self.ns_per_byte) as u64;
        bytes.clamp(LEAST_SAMPLE_BYTES, MOST_SAMPLE_BYTES).min(raw_bytes)
    }

    /// What looking at so many bytes takes.
    pub(super) fn ns(&self, bytes: u64) -> f64 {
        self.ns_per_byte * bytes as f64 + self.calls_ns
    }
}

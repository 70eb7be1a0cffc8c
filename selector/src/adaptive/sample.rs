//! Which sample a stream can afford.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use super::stream::Common;
use crate::CheapFacts;
use crate::speeds::EstimateTimes;

/// The fewest bytes that say anything.
const LEAST_SAMPLE_BYTES: u64 = 4 << 10;
/// More bytes say little more.
const MOST_SAMPLE_BYTES: u64 = 128 << 10;
/// What takes so many times as long as all quicker ones together is not waited for, and may take half of what was saved, but
/// nothing on credit.
const DEAR: f64 = 4.0;

/// What is to be tried.
pub(super) struct Sample {
    /// Those of the wanted that can be afforded, the quickest first.
    pub(super) algorithms: AlgorithmSet,
    /// What they take, all together.
    times: EstimateTimes,
    /// What the smallest sample with all of the wanted takes that are worth waiting for.
    pub(super) whole_ns: f64,
}

impl Sample {
    pub(super) fn of(
        common: &Common<'_>,
        facts: &CheapFacts,
        wanted: AlgorithmSet,
        affordable_ns: f64,
        saved_ns: f64,
    ) -> Self {
        let least_bytes = LEAST_SAMPLE_BYTES.min(facts.raw_bytes);
        let factor = common.estimate_factor;
        let timed = |algorithm| {
            let EstimateTimes { call_ns, ns_per_byte } = common.speeds.estimate(algorithm, facts.element)?;
            let times = EstimateTimes { call_ns: call_ns * factor, ns_per_byte: ns_per_byte * factor };
            Some((times.ns(least_bytes), times, algorithm))
        };
        let mut by_time: Vec<(f64, EstimateTimes, Algorithm)> = wanted.iter().filter_map(timed).collect();
        by_time.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (mut set, mut quicker_ns, mut whole_ns) = (0, 0.0, 0.0);
        let mut times = EstimateTimes::default();
        for (ns, more, algorithm) in by_time {
            let is_dear = quicker_ns > 0.0 && ns > DEAR * quicker_ns;
            quicker_ns += ns;
            if !is_dear {
                whole_ns = quicker_ns;
            }
            if quicker_ns <= if is_dear { saved_ns / 2.0 } else { affordable_ns } {
                set |= 1 << algorithm.number();
                times.call_ns += more.call_ns;
                times.ns_per_byte += more.ns_per_byte;
            }
        }
        Self { algorithms: AlgorithmSet::from_bits(set), times, whole_ns }
    }

    /// How many bytes can be looked at.
    pub(super) fn affordable_bytes(&self, raw_bytes: u64, affordable_ns: f64) -> u64 {
        let bytes = ((affordable_ns - self.times.call_ns) / self.times.ns_per_byte) as u64;
        bytes.clamp(LEAST_SAMPLE_BYTES, MOST_SAMPLE_BYTES).min(raw_bytes)
    }

    /// What looking at so many bytes takes.
    pub(super) fn ns(&self, bytes: u64) -> f64 {
        self.times.ns(bytes)
    }
}

//! The contract of a policy.

use std::fmt;
use std::time::Duration;

use mgcomp_codecs::AlgorithmSet;

use crate::{CheapFacts, Decision, Estimate, Outcome};

/// Decides how each transfer is coded.
///
/// One object serves one sender, over all its peers and streams, reads and writes together. A policy is
/// pure arithmetic: no clock, no I/O, no randomness. The same calls in the same order give the same
/// decisions on every machine.
///
/// For each transfer the sender calls [`plan`](Policy::plan), then [`choose`](Policy::choose) if the plan
/// asks for a sample, then [`observe`](Policy::observe) once the outcome is known, and perhaps [`decoded`](Policy::decoded). Calls for different
/// transfers may interleave, and a transfer that is given up may leave its later calls out.
pub trait Policy: Send + fmt::Debug {
    /// The policy's name as logs show it; for policies that [`PolicySpec`](crate::PolicySpec) knows, its spelling.
    fn name(&self) -> String;

    /// Decides at once, or says what to estimate first. The sender does no other work before it.
    fn plan(&mut self, facts: &CheapFacts) -> Plan;

    /// Decides after a sample. `facts` are those of the plan; `estimates` hold one entry for each
    /// algorithm that the plan asked for. One that is missing is not considered.
    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision;

    /// Hears what came of a decision, in whatever order transfers finish. It may be another than the policy's own: raw, where
    /// something else spoke against an algorithm.
    ///
    /// A policy that predicts learns here how far off it was. One that does not may ignore it.
    fn observe(&mut self, facts: &CheapFacts, decision: &Decision, outcome: &Outcome);

    /// Hears, later and of some transfers only, how long the peer has taken to decode one. `coded_bytes` are what it has become, by
    /// the algorithm that was decided on.
    ///
    /// A policy that predicts learns here what codecs take at the other side. One that does not may ignore it.
    fn decoded(&mut self, facts: &CheapFacts, decision: &Decision, coded_bytes: u64, took: Duration) {
        let _ = (facts, decision, coded_bytes, took);
    }

    /// Whether it goes by how long transfers and codecs take, now. Where to find that out costs something, nobody does for one that
    /// does not.
    fn goes_by_time(&self) -> bool {
        false
    }
}

/// What to do with a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plan {
    /// Send it this way. A decision for [`Algorithm::None`](mgcomp_codecs::Algorithm::None) is a bypass: no
    /// codec touches the bytes.
    Use(Decision),
    /// Estimate its size first, then [`choose`](Policy::choose).
    Sample {
        /// What to try; never holds `none`, whose size is known, nor anything the peer cannot decode.
        algorithms: AlgorithmSet,
        /// How much of the transfer to look at.
        size: SampleSize,
    },
}

/// How much of a transfer a sample looks at, and how its bits are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SampleSize {
    /// All of it; bits as the paper counts them, [`paper_bits`](mgcomp_codecs::paper_bits).
    Whole,
    /// About this many bytes, in pieces spread over the transfer; bits of the stored form, scaled up to all of it.
    Bytes(u64),
}

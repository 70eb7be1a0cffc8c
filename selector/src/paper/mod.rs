//! The policy `paper`: the adaptive scheme of the paper, by its rules and its numbers.
//!
//! * **Sampling phase**: each of 7 transfers is tried with every candidate and goes out in its own cheapest
//!   form: the one with the lowest penalty `P = N + λ (L_C + L_D)`. It is charged the latency of the slowest
//!   codec tried. N counts all lines of the transfer in bits, L is Table III times the number of lines.
//! * **Vote**: the candidate that was cheapest in the most samples wins if those are at least 3.
//! * **Running phase**: 300 transfers with the winner; without one they bypass the codecs. Then it samples again.
//! * **Candidates**: none, bdi, fpc and cpackz, less what the peer cannot decode. "Not compressed" has N = the
//!   bits before compression, 512 for a whole line, and L = 0.
//! * **Ties**, of penalties and of votes, go to the lower latency.
//! * **State**: one per sender, over all peers and streams, reads and writes together.
//!
//! Where the paper is silent: transfers that leave nothing to choose, because they hold no bytes or because the
//! peer can decode no candidate, bypass and count in neither phase. If the winner is unknown to a peer, the
//! transfer bypasses and counts. Where transfers overlap, no more than 7 are sampled: what is sent while their
//! estimates are still being made goes like the running phase before, and counts in neither phase. A sample that
//! never comes back, because its session ended, is made up for when as many transfers as a running phase has
//! went by meanwhile. A λ that an operator sets while the program runs begins a scheme of its own with that λ, for the streams
//! that it is set for, since votes under another λ say nothing of it. A transfer in the memory of a device does not wait for its sample: it
//! goes as the last sample of its stream was found to be best ([`Behind`](crate::Behind)), and N are the bits of the whole frame that it
//! would be there, whose header and padding weigh against the codecs in short transfers.
//!
//! # Source
//! IPDPS 2019, section V and Table III.

mod candidate;
mod config;
mod vote;

use mgcomp_codecs::AlgorithmSet;

use crate::{CheapFacts, Decision, Estimate, Lambda, Outcome, Plan, Policy, Reason, SampleSize};
use candidate::Candidate;
pub use config::{PaperConfig, PaperConfigError};
use vote::{Tally, Winner};

/// The adaptive scheme of the paper.
#[derive(Clone, Debug)]
pub struct Paper {
    config: PaperConfig,
    phase: Phase,
}

#[derive(Clone, Debug)]
enum Phase {
    Sampling(Sampling),
    Running { winner: Option<Winner>, transfers_left: u32 },
}

/// A sampling phase under way.
#[derive(Clone, Debug, Default)]
struct Sampling {
    tally: Tally,
    /// Samples asked for.
    asked: u32,
    /// What won the running phase before.
    previous: Option<Winner>,
    /// Transfers that went like that phase while samples were awaited.
    meanwhile: u32,
}

impl Paper {
    /// The scheme with the paper's lengths.
    #[must_use]
    pub fn new(lambda: Lambda) -> Self {
        Self::from_checked(PaperConfig { lambda, ..PaperConfig::default() })
    }

    /// The scheme with lengths of one's own.
    ///
    /// # Errors
    /// As [`PaperConfig::check`].
    pub fn try_new(config: PaperConfig) -> Result<Self, PaperConfigError> {
        config.check()?;
        Ok(Self::from_checked(config))
    }

    /// The settings.
    #[must_use]
    pub const fn config(&self) -> &PaperConfig {
        &self.config
    }

    /// The codecs of the paper.
    #[must_use]
    pub fn algorithms() -> AlgorithmSet {
        candidate::codecs()
    }

    pub(crate) fn from_checked(config: PaperConfig) -> Self {
        Self { config, phase: Phase::Sampling(Sampling::default()) }
    }

    /// One transfer of a running phase. The last one starts the next sampling phase.
    fn run(&mut self, facts: &CheapFacts, winner: Option<Winner>, transfers_left: u32) -> Decision {
        self.phase = match transfers_left {
            0 | 1 => Phase::Sampling(Sampling { previous: winner, ..Sampling::default() }),
            _ => Phase::Running { winner, transfers_left: transfers_left - 1 },
        };
        self.follow(facts, winner)
    }

    /// The decision for a transfer that goes as a vote has said.
    fn follow(&self, facts: &CheapFacts, winner: Option<Winner>) -> Decision {
        let PaperConfig { sampling, votes: needed, .. } = self.config;
        let Some(Winner { candidate, votes, seen }) = winner else {
            return Decision::bypass(facts, Reason::NoWinner { needed, of: sampling });
        };
        let algorithm = candidate.algorithm();
        let reason = Reason::Won { votes, of: sampling };
        if !facts.allows(algorithm) {
            return Decision::bypass(facts, Reason::NotDecodable(algorithm));
        }
        if candidate == Candidate::None {
            return Decision::bypass(facts, reason);
        }
        let charged = Some(candidate.cycles(facts.lines()));
        let predicted_bits = seen.predict_bits(facts.lines());
        Decision { algorithm, reason, predicted_bits, predicted_ns: None, charged }
    }

    /// Counts a sample in the vote, if that is still open, and says how it is to be explained.
    fn vote(&mut self, winner: Candidate, tried: &[candidate::Tried], lines: u64) -> Reason {
        let PaperConfig { sampling, running, votes, .. } = self.config;
        let Phase::Sampling(phase) = &mut self.phase else {
            return Reason::SampledLate;
        };
        let sample = phase.tally.add(winner, tried, lines);
        if sample == sampling {
            self.phase = Phase::Running { winner: phase.tally.winner(votes), transfers_left: running };
        }
        Reason::Sampled { sample, of: sampling }
    }
}

impl Policy for Paper {
    fn name(&self) -> String {
        self.config.name()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        if facts.raw_bytes == 0 {
            return Plan::Use(Decision::bypass(facts, Reason::Empty));
        }
        let algorithms = candidate::codecs_to_try(facts);
        if algorithms.bits() == 0 {
            return Plan::Use(Decision::bypass(facts, Reason::NoCandidate));
        }
        let PaperConfig { sampling, running, .. } = self.config;
        match &mut self.phase {
            Phase::Running { winner, transfers_left } => {
                let (winner, transfers_left) = (*winner, *transfers_left);
                Plan::Use(self.run(facts, winner, transfers_left))
            }
            Phase::Sampling(phase) => {
                if phase.asked == sampling && phase.meanwhile == running {
                    (phase.asked, phase.meanwhile) = (phase.tally.samples(), 0); // the others are lost
                }
                if phase.asked < sampling {
                    phase.asked += 1;
                    return Plan::Sample { algorithms, size: SampleSize::Whole };
                }
                phase.meanwhile += 1;
                let previous = phase.previous;
                Plan::Use(Decision { reason: Reason::VotePending, ..self.follow(facts, previous) })
            }
        }
    }

    fn choose(&mut self, facts: &CheapFacts, estimates: &[Estimate]) -> Decision {
        // Who could not look has found nothing out: the sample is one that never came back.
        if estimates.is_empty() {
            return Decision::bypass(facts, Reason::NotSampled);
        }
        let tried = candidate::tried(facts, estimates);
        let cheapest = candidate::cheapest(&tried, self.config.lambda);
        let reason = self.vote(cheapest.candidate, &tried, facts.lines());
        let charged = Some(candidate::slowest(&tried));
        Decision {
            algorithm: cheapest.candidate.algorithm(),
            reason,
            predicted_bits: Some(cheapest.bits),
            predicted_ns: None,
            charged,
        }
    }

    /// Learns nothing: the scheme looks at its samples alone.
    fn observe(&mut self, _facts: &CheapFacts, _decision: &Decision, _outcome: &Outcome) {}
}

//! What a policy decides, and why.

use std::fmt;

use mgcomp_codecs::Algorithm;

use crate::{CheapFacts, Cycles, Lambda};

/// How a transfer goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What codes the payload; [`Algorithm::None`] bypasses every codec.
    pub algorithm: Algorithm,
    /// Why.
    pub reason: Reason,
    /// The size that the policy expects of the whole transfer, counted as its samples are; exactly the raw bits
    /// for [`Algorithm::None`]; `None` where it has no expectation.
    pub predicted_bits: Option<u64>,
    /// The time until the receiver has the raw bytes, as the policy expects it, in nanoseconds; `None` where it has no
    /// expectation.
    pub predicted_ns: Option<u64>,
    /// What the transfer costs in the paper's hardware; `None` for algorithms that are not in its Table III.
    pub charged: Option<Cycles>,
}

impl Decision {
    /// Sends the raw bytes, without a codec and its latency.
    #[must_use]
    pub const fn bypass(facts: &CheapFacts, reason: Reason) -> Self {
        Self {
            algorithm: Algorithm::None,
            reason,
            predicted_bits: Some(facts.raw_bits()),
            predicted_ns: None,
            charged: Some(Cycles::ZERO),
        }
    }

    /// Sends the raw bytes in place of what was decided on, for a reason that has nothing to do with that: what they were predicted to take
    /// is known from it, if a policy goes by time.
    #[must_use]
    pub const fn raw_instead(&self, facts: &CheapFacts, reason: Reason) -> Self {
        Self { predicted_ns: self.reason.raw_ns(), ..Self::bypass(facts, reason) }
    }
}

/// Why a policy decided as it did. Displays as one short sentence for an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// There is nothing to code.
    Empty,
    /// The operator named the algorithm.
    Fixed,
    /// The policy wanted this algorithm, which the peer does not have.
    NotDecodable(Algorithm),
    /// The peer has none of the policy's candidates.
    NoCandidate,
    /// The transfer is shorter than codecs are started for.
    TooShort {
        /// The shortest that is worth a look.
        least_bytes: u64,
    },
    /// Nothing is known of the link, so nothing can be said of times.
    LinkUnknown,
    /// Codecs take longer than the link, whatever the data is.
    LinkTooFast {
        /// What the raw form is predicted to take.
        raw_ns: u64,
    },
    /// Nothing is known of the stream's data yet, and this transfer cannot afford a sample.
    NotSampled,
    /// As before, but this transfer is looked at on its way, for those after it.
    FirstLook,
    /// An algorithm would be there sooner, but raw bytes are to show how fast the link is now.
    LinkTimed,
    /// An algorithm is predicted to be there sooner, but this collective goes raw, to compare how long the whole of it takes.
    CollectiveTimed,
    /// An algorithm is predicted to be there sooner, but collectives like this one took longer as a whole with compression.
    CollectiveSlower {
        /// What they took as the policy would have it.
        coded_ns: u64,
        /// What they took raw.
        raw_ns: u64,
    },
    /// An algorithm is predicted to be there sooner, but this transfer goes raw, to compare how long the whole of it takes.
    TransferTimed,
    /// An algorithm is predicted to be there sooner, but transfers like this one took longer as a whole with compression.
    TransferSlower {
        /// What they took as the policy would have it.
        coded_ns: u64,
        /// What they took raw.
        raw_ns: u64,
    },
    /// An algorithm is predicted to be there sooner, but who reads this wants it raw, for one of the two reasons before.
    RawWanted,
    /// Ranks tell each other what collectives took, which no policy is asked about.
    BetweenRanks,
    /// No algorithm is predicted to save enough.
    NoGain {
        /// What the raw form is predicted to take.
        raw_ns: u64,
    },
    /// Predicted to be there first.
    Fastest {
        /// What it is predicted to take.
        predicted_ns: u64,
        /// What the raw form is predicted to take.
        raw_ns: u64,
    },
    /// Not predicted to be there first, but it was never timed on data like this, and might be.
    Trial {
        /// What it is predicted to take.
        predicted_ns: u64,
        /// What the raw form is predicted to take.
        raw_ns: u64,
    },
    /// Nothing is known of the stream's data yet; if it is like most of its element, this is there first.
    Guessed {
        /// What it is predicted to take then.
        predicted_ns: u64,
        /// What the raw form is predicted to take.
        raw_ns: u64,
    },
    /// Has the lowest penalty under the operator's λ, as far as is known.
    LowestPenalty {
        /// That λ.
        lambda: Lambda,
    },
    /// The transfer was a sample and goes out in its own cheapest form.
    Sampled {
        /// Which sample of the phase, from 1.
        sample: u32,
        /// Samples in a phase.
        of: u32,
    },
    /// As [`Sampled`](Self::Sampled), but the vote was over when the estimates came.
    SampledLate,
    /// The next vote is under way; until it is over, transfers go as after the last one.
    VotePending,
    /// The algorithm won the last vote.
    Won {
        /// Samples that it won.
        votes: u32,
        /// Samples that voted.
        of: u32,
    },
    /// No algorithm won enough samples of the last vote.
    NoWinner {
        /// Votes that would have won.
        needed: u32,
        /// Samples that voted.
        of: u32,
    },
    /// The operator has switched compression off.
    SwitchedOff,
}

impl Reason {
    /// What the raw form was predicted to take, in nanoseconds, where that was compared.
    const fn raw_ns(&self) -> Option<u64> {
        match *self {
            Self::NoGain { raw_ns }
            | Self::LinkTooFast { raw_ns }
            | Self::Fastest { raw_ns, .. }
            | Self::Trial { raw_ns, .. }
            | Self::Guessed { raw_ns, .. } => Some(raw_ns),
            _ => None,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => write!(f, "the transfer holds no bytes"),
            Self::Fixed => write!(f, "the policy names this algorithm for every transfer"),
            Self::NotDecodable(algorithm) => write!(f, "the peer cannot decode {algorithm}"),
            Self::NoCandidate => write!(f, "the peer can decode none of the policy's candidates"),
            Self::TooShort { least_bytes } => write!(f, "shorter than {least_bytes} bytes"),
            Self::LinkUnknown => write!(f, "nothing is known of the link yet"),
            Self::LinkTooFast { raw_ns } => {
                write!(f, "no codec can keep up with the link: raw takes {}", Micros(*raw_ns))
            }
            Self::NotSampled => write!(f, "the stream is not known, and too short for a sample"),
            Self::LinkTimed => write!(f, "raw for once, to see how fast the link is"),
            Self::BetweenRanks => {
                write!(f, "no data of the program: ranks tell each other what collectives took")
            }
            Self::CollectiveTimed => write!(f, "raw for once, to see how long the whole collective takes"),
            Self::CollectiveSlower { coded_ns, raw_ns } => write!(
                f,
                "the whole collective took {} compressed and {} raw",
                Micros(*coded_ns),
                Micros(*raw_ns)
            ),
            Self::TransferTimed => write!(f, "raw for once, to see how long the whole transfer takes"),
            Self::TransferSlower { coded_ns, raw_ns } => write!(
                f,
                "the whole transfer took {} compressed and {} raw",
                Micros(*coded_ns),
                Micros(*raw_ns)
            ),
            Self::RawWanted => {
                write!(f, "the reader wants it raw, having compared how long whole transfers take")
            }
            Self::FirstLook => write!(f, "the stream is not known, and looked at for later transfers"),
            Self::NoGain { raw_ns } => {
                write!(f, "no algorithm would be there sooner: raw takes {}", Micros(*raw_ns))
            }
            Self::Fastest { predicted_ns, raw_ns } => {
                write!(f, "there first: {} instead of {} raw", Micros(*predicted_ns), Micros(*raw_ns))
            }
            Self::Trial { predicted_ns, raw_ns } => write!(
                f,
                "tried to see what it takes: predicted {}, raw {}",
                Micros(*predicted_ns),
                Micros(*raw_ns)
            ),
            Self::Guessed { predicted_ns, raw_ns } => write!(
                f,
                "the stream is not known: guessed from other data of its kind: {} instead of {} raw",
                Micros(*predicted_ns),
                Micros(*raw_ns)
            ),
            Self::LowestPenalty { lambda } => write!(f, "lowest penalty with lambda {lambda}"),
            Self::Sampled { sample, of } => {
                write!(f, "sample {sample} of {of}: lowest penalty of those tried")
            }
            Self::SampledLate => {
                write!(f, "sampled, but after the vote was over: lowest penalty of those tried")
            }
            Self::VotePending => write!(f, "as after the last vote, while the next one is under way"),
            Self::Won { votes, of } => write!(f, "had the lowest penalty in {votes} of {of} samples"),
            Self::NoWinner { needed, of } => {
                write!(f, "no algorithm had the lowest penalty in {needed} of {of} samples")
            }
            Self::SwitchedOff => write!(f, "compression is switched off"),
        }
    }
}

/// Nanoseconds, shown as microseconds.
pub(crate) struct Micros(pub(crate) u64);

impl fmt::Display for Micros {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{} us", self.0 / 1000, self.0 % 1000 / 100)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_read_as_sentences() {
        let fastest = Reason::Fastest { predicted_ns: 312_400, raw_ns: 839_060 };
        assert_eq!(fastest.to_string(), "there first: 312.4 us instead of 839.0 us raw");
        assert_eq!(Reason::TooShort { least_bytes: 512 }.to_string(), "shorter than 512 bytes");
    }
}

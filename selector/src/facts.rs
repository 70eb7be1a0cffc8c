//! The numbers that a policy is fed.

use std::time::Duration;

use mgcomp_codecs::line::LINE_LEN;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};

use crate::{Lambda, LinkFacts};

/// A stream of traffic: a registered region, a communicator and operation, or a caller's tag.
///
/// Transfers of one stream to one peer tend to look alike. Who numbers the streams is the sender's affair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StreamId(pub u32);

/// What is known of a transfer without looking at its bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CheapFacts {
    /// Rank of the receiver.
    pub peer: u32,
    /// The stream of traffic that the transfer belongs to.
    pub stream: StreamId,
    /// Length before compression.
    pub raw_bytes: u64,
    /// What the bytes are values of.
    pub element: Element,
    /// What the peer can decode. [`Algorithm::None`] needs no decoder and counts as a member always.
    pub allowed: AlgorithmSet,
    /// What is known of the link to the peer, if anything.
    pub link: Option<LinkFacts>,
    /// The λ that the operator has set for this transfer while the program runs. It takes the place of the one that
    /// [`Adaptive`](crate::Adaptive) was built with; other policies have no use for it.
    pub lambda: Option<Lambda>,
    /// Whether the policy will hear what came of the transfer. On others nothing is tried, which would be in vain; and what is chosen
    /// after a look at one may be for the link as it was found since.
    pub is_observed: bool,
}

impl CheapFacts {
    /// Whether the peer can take a payload coded by `algorithm`.
    #[must_use]
    pub fn allows(&self, algorithm: Algorithm) -> bool {
        matches!(algorithm, Algorithm::None) || self.allowed.contains(algorithm)
    }

    /// How many 64-byte lines the transfer has, a partial one counted.
    #[must_use]
    pub const fn lines(&self) -> u64 {
        self.raw_bytes.div_ceil(LINE_LEN as u64)
    }

    /// The length before compression in bits, at most `u64::MAX`.
    #[must_use]
    pub const fn raw_bits(&self) -> u64 {
        self.raw_bytes.saturating_mul(8)
    }
}

/// What one algorithm would make of a transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Estimate {
    /// The algorithm that was tried.
    pub algorithm: Algorithm,
    /// Size of the whole transfer, scaled up if only a part was looked at.
    /// [`SampleSize`](crate::SampleSize) says how it is counted.
    pub bits: u64,
}

/// What came of a decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// How the payload went out. Differs from the decision where the code turned out no smaller than the
    /// raw bytes: then it is [`Algorithm::None`].
    pub sent: Algorithm,
    /// Length of the payload on the wire, frame included.
    pub coded_bytes: u64,
    /// Time that the sample took; `None` if none was taken.
    pub sampling: Option<Duration>,
    /// Time that the codec took; `None` if none ran.
    pub encode: Option<Duration>,
    /// Time that the receiver's codec took, where that is known so soon; else [`Policy::decoded`](crate::Policy::decoded) says so.
    pub decode: Option<Duration>,
    /// From the plan until the peer acknowledged; `None` where the sender does not know: answers to reads
    /// are never acknowledged.
    pub acknowledged: Option<Duration>,
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Of values of 32 bits, on a link of which nothing is known.
    pub(crate) fn facts(raw_bytes: u64, allowed: AlgorithmSet) -> CheapFacts {
        let (stream, element) = (StreamId(0), Element::U32);
        CheapFacts {
            peer: 0,
            stream,
            raw_bytes,
            element,
            allowed,
            link: None,
            lambda: None,
            is_observed: true,
        }
    }

    #[test]
    fn lines_round_up_and_bits_do_not_wrap() {
        for (raw_bytes, lines) in [(0, 0), (1, 1), (64, 1), (65, 2), (u64::MAX, 1 << 58)] {
            assert_eq!(facts(raw_bytes, AlgorithmSet::default()).lines(), lines, "{raw_bytes} bytes");
        }
        assert_eq!(facts(3, AlgorithmSet::default()).raw_bits(), 24);
        assert_eq!(facts(u64::MAX, AlgorithmSet::default()).raw_bits(), u64::MAX);
    }

    #[test]
    fn none_needs_no_permission() {
        let nothing = facts(64, AlgorithmSet::from_bits(0));
        assert!(nothing.allows(Algorithm::None));
        assert!(!nothing.allows(Algorithm::Bdi));
        assert!(facts(64, AlgorithmSet::from_bits(0b10)).allows(Algorithm::Bdi));
    }
}

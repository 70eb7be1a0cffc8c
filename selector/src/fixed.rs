//! The policy `fixed:<algorithm>`.

use mgcomp_codecs::{Algorithm, codec};

use crate::{CheapFacts, Decision, Estimate, Outcome, Plan, Policy, Reason, table3};

/// Codes every transfer with the algorithm that it was made with.
///
/// A transfer to a peer that cannot decode it, and one of no bytes, bypasses the codec. With
/// [`Algorithm::None`] this is the baseline: no compression at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    algorithm: Algorithm,
}

impl Fixed {
    /// The policy that compresses nothing: what everything else is measured against.
    pub const BYPASS: Self = Self { algorithm: Algorithm::None };

    /// The policy that always takes `algorithm`.
    ///
    /// # Errors
    /// [`NoCodec`] if this version cannot encode with it.
    pub fn try_new(algorithm: Algorithm) -> Result<Self, NoCodec> {
        if algorithm != Algorithm::None && codec(algorithm).is_none() {
            return Err(NoCodec { algorithm });
        }
        Ok(Self { algorithm })
    }

    /// The algorithm that it takes.
    #[must_use]
    pub const fn algorithm(self) -> Algorithm {
        self.algorithm
    }

    fn decide(self, facts: &CheapFacts) -> Decision {
        let algorithm = self.algorithm;
        if facts.raw_bytes == 0 {
            return Decision::bypass(facts, Reason::Empty);
        }
        if !facts.allows(algorithm) {
            return Decision::bypass(facts, Reason::NotDecodable(algorithm));
        }
        if algorithm == Algorithm::None {
            return Decision::bypass(facts, Reason::Fixed);
        }
        let charged = table3(algorithm).map(|line| line.times(facts.lines()));
        Decision { algorithm, reason: Reason::Fixed, predicted_bits: None, predicted_ns: None, charged }
    }
}

impl Policy for Fixed {
    fn name(&self) -> String {
        format!("fixed:{}", self.algorithm)
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        Plan::Use(self.decide(facts))
    }

    /// Estimates change nothing: the decision is that of the plan.
    fn choose(&mut self, facts: &CheapFacts, _estimates: &[Estimate]) -> Decision {
        self.decide(facts)
    }

    /// Learns nothing.
    fn observe(&mut self, _facts: &CheapFacts, _decision: &Decision, _outcome: &Outcome) {}
}

/// An algorithm that has a number but no codec in this version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("this version has no codec for {algorithm}")]
pub struct NoCodec {
    /// The algorithm.
    pub algorithm: Algorithm,
}

#[cfg(test)]
mod tests {
    use mgcomp_codecs::{AlgorithmSet, Element};

    use super::*;
    use crate::{Cycles, StreamId};

    fn plan(algorithm: Algorithm, raw_bytes: u64, allowed: &[Algorithm]) -> Decision {
        let facts = CheapFacts {
            peer: 3,
            stream: StreamId(9),
            raw_bytes,
            element: Element::F32,
            allowed: allowed.iter().copied().collect::<AlgorithmSet>(),
            link: None,
            lambda: None,
            is_observed: true,
        };
        match Fixed::try_new(algorithm).unwrap().plan(&facts) {
            Plan::Use(decision) => decision,
            sample @ Plan::Sample { .. } => panic!("fixed never samples, but planned {sample:?}"),
        }
    }

    #[test]
    fn takes_its_algorithm_whatever_the_size() {
        for raw_bytes in [1, 64, 1 << 40] {
            let decision = plan(Algorithm::Zvc, raw_bytes, &[Algorithm::Zvc]);
            let expected = Decision {
                algorithm: Algorithm::Zvc,
                reason: Reason::Fixed,
                predicted_bits: None,
                predicted_ns: None,
                charged: None,
            };
            assert_eq!(decision, expected, "{raw_bytes} bytes");
        }
    }

    #[test]
    fn charges_line_codecs_by_the_line() {
        // 100 bytes are two lines; C-Pack+Z takes 16 and 9 cycles for each.
        let decision = plan(Algorithm::CpackZ, 100, &[Algorithm::CpackZ]);
        assert_eq!(decision.charged, Some(Cycles { compress: 32, decompress: 18 }));
    }

    #[test]
    fn bypasses_what_the_peer_cannot_decode() {
        let decision = plan(Algorithm::Zvc, 640, &[Algorithm::Bdi]);
        assert_eq!(decision.algorithm, Algorithm::None);
        assert_eq!(decision.reason.to_string(), "the peer cannot decode zvc");
        assert_eq!((decision.predicted_bits, decision.charged), (Some(5120), Some(Cycles::ZERO)));
    }

    #[test]
    fn none_needs_no_permission_and_nothing_needs_no_codec() {
        assert_eq!(plan(Algorithm::None, 10, &[]).reason, Reason::Fixed);
        let empty = plan(Algorithm::Bdi, 0, &[Algorithm::Bdi]);
        assert_eq!((empty.algorithm, empty.reason), (Algorithm::None, Reason::Empty));
    }

    #[test]
    fn an_algorithm_without_codec_is_refused() {
        for algorithm in Algorithm::ALL {
            let expected = algorithm == Algorithm::None || codec(algorithm).is_some();
            assert_eq!(Fixed::try_new(algorithm).is_ok(), expected, "{algorithm}");
        }
    }
}

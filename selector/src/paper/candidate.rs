//! The candidates, and which of them is cheapest for one sample.

use mgcomp_codecs::{Algorithm, AlgorithmSet};

use crate::{CheapFacts, Cycles, Estimate, Lambda, table3};

/// One of the four algorithms of the paper.
///
/// The order of the variants breaks every tie: lower latency first, by Table III, and no two are equal.
/// (Were they, the lower algorithm number would go first.)
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Candidate {
    None,
    Bdi,
    Fpc,
    CpackZ,
}

impl Candidate {
    pub(super) const ALL: [Self; 4] = [Self::None, Self::Bdi, Self::Fpc, Self::CpackZ];

    pub(super) const fn algorithm(self) -> Algorithm {
        match self {
            Self::None => Algorithm::None,
            Self::Bdi => Algorithm::Bdi,
            Self::Fpc => Algorithm::Fpc,
            Self::CpackZ => Algorithm::CpackZ,
        }
    }

    /// Table III, for a whole transfer.
    pub(super) fn cycles(self, lines: u64) -> Cycles {
        let line = table3(self.algorithm()).expect("Table III has all four candidates");
        line.times(lines)
    }
}

/// The candidates that have a codec.
pub(super) fn codecs() -> AlgorithmSet {
    Candidate::ALL.into_iter().skip(1).map(Candidate::algorithm).collect()
}

/// Those of them that the peer can decode.
pub(super) fn codecs_to_try(facts: &CheapFacts) -> AlgorithmSet {
    codecs().intersection(facts.allowed)
}

/// What a sample says of one candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Tried {
    pub(super) candidate: Candidate,
    /// N of the penalty.
    pub(super) bits: u64,
    /// L_C and L_D of the penalty.
    pub(super) cycles: Cycles,
}

/// All candidates that were tried, in the order that breaks ties. "Not compressed" is always among them.
///
/// Estimates of other algorithms, and of such as the peer cannot decode, are left out.
pub(super) fn tried(facts: &CheapFacts, estimates: &[Estimate]) -> Vec<Tried> {
    let size_bits = |candidate| match candidate {
        // A last line that is not whole goes as it is, without the zeros that codecs fill it up with.
        Candidate::None => Some(facts.raw_bits()),
        _ => estimates.iter().find(|e| e.algorithm == candidate.algorithm()).map(|e| e.bits),
    };
    Candidate::ALL
        .into_iter()
        .filter(|candidate| facts.allows(candidate.algorithm()))
        .filter_map(|candidate| {
            let cycles = candidate.cycles(facts.lines());
            size_bits(candidate).map(|bits| Tried { candidate, bits, cycles })
        })
        .collect()
}

/// The one with the lowest penalty; of equals the one with the lower latency.
pub(super) fn cheapest(tried: &[Tried], lambda: Lambda) -> Tried {
    let penalty = |t: &Tried| (lambda.penalty(t.bits, t.cycles.total()), t.candidate);
    *tried.iter().min_by_key(|t| penalty(t)).expect("\"not compressed\" is always tried")
}

/// The latency that a sampled transfer is charged: that of the slowest codec tried.
pub(super) fn slowest(tried: &[Tried]) -> Cycles {
    tried.iter().map(|t| t.cycles).max_by_key(|cycles| cycles.total()).unwrap_or(Cycles::ZERO)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::tests::facts;

    fn estimates(bits: [u64; 3]) -> [Estimate; 3] {
        let algorithms = [Algorithm::Bdi, Algorithm::Fpc, Algorithm::CpackZ];
        std::array::from_fn(|i| Estimate { algorithm: algorithms[i], bits: bits[i] })
    }

    /// Which algorithm is cheapest for one line of these sizes (BDI, FPC, C-Pack+Z).
    fn cheapest_of_line(bits: [u64; 3], lambda_gbps: f64) -> Algorithm {
        let tried = tried(&facts(64, AlgorithmSet::supported()), &estimates(bits));
        cheapest(&tried, Lambda::try_new(lambda_gbps).unwrap()).candidate.algorithm()
    }

    #[test]
    fn order_of_candidates_is_that_of_their_latency() {
        assert!(Candidate::ALL.is_sorted());
        assert!(Candidate::ALL.is_sorted_by_key(|c| c.cycles(1).total()));
    }

    #[test]
    fn size_and_latency_trade_by_lambda() {
        // Zero line: BDI 4 bits, FPC 3, C-Pack+Z 2; penalties at 6: 22, 51, 152.
        assert_eq!(cheapest_of_line([4, 3, 2], 0.0), Algorithm::CpackZ);
        assert_eq!(cheapest_of_line([4, 3, 2], 6.0), Algorithm::Bdi);
        // Penalties at 6: none 512, BDI 530, FPC 348, C-Pack+Z 350. At 5.9: 512, 529.7, 347.2, 347.5.
        // At 5.8: FPC 346.4, C-Pack+Z 345.
        assert_eq!(cheapest_of_line([512, 300, 200], 6.0), Algorithm::Fpc);
        assert_eq!(cheapest_of_line([512, 300, 200], 5.9), Algorithm::Fpc);
        assert_eq!(cheapest_of_line([512, 300, 200], 5.8), Algorithm::CpackZ);
    }

    #[test]
    fn at_32_a_codec_must_save_96_256_or_800_bits() {
        // BDI saves 97 bits, and the others, at their smallest, cannot make up for 256 and 800.
        assert_eq!(cheapest_of_line([415, 256, 2], 32.0), Algorithm::Bdi);
        assert_eq!(cheapest_of_line([512, 256, 2], 32.0), Algorithm::None);
        assert_eq!(cheapest_of_line([512, 255, 2], 32.0), Algorithm::Fpc);
    }

    #[test]
    fn ties_go_to_the_lower_latency() {
        // Incompressible at 0: a tie of four.
        assert_eq!(cheapest_of_line([512; 3], 0.0), Algorithm::None);
        // All compressed alike at 0: a tie of three.
        assert_eq!(cheapest_of_line([100; 3], 0.0), Algorithm::Bdi);
        assert_eq!(cheapest_of_line([101, 100, 100], 0.0), Algorithm::Fpc);
        // At 6, BDI 494 + 18 = 512 ties with none; FPC 270 + 48 and C-Pack+Z 168 + 150 tie at 318.
        assert_eq!(cheapest_of_line([494, 512, 512], 6.0), Algorithm::None);
        assert_eq!(cheapest_of_line([493, 512, 512], 6.0), Algorithm::Bdi);
        assert_eq!(cheapest_of_line([512, 270, 168], 6.0), Algorithm::Fpc);
        assert_eq!(cheapest_of_line([512, 270, 167], 6.0), Algorithm::CpackZ);
    }

    #[test]
    fn latency_counts_for_every_line() {
        // Ten lines, the last of one byte: none 577 * 8 = 4616; BDI 4450 + 6 * 30 = 4630 loses, 4430 + 180 wins.
        let facts = facts(9 * 64 + 1, AlgorithmSet::supported());
        let cheapest = |bdi| {
            let tried = tried(&facts, &estimates([bdi, 5120, 5120]));
            cheapest(&tried, Lambda::PAPER)
        };
        assert_eq!(cheapest(4450).candidate, Candidate::None);
        assert_eq!(cheapest(4430).candidate, Candidate::Bdi);
        assert_eq!(cheapest(4430).cycles, Cycles { compress: 20, decompress: 10 });
        assert_eq!(cheapest(4450).bits, 4616);
    }

    #[test]
    fn what_is_missing_of_a_last_line_is_not_compressed_away() {
        // 64 bytes and one: ten bits of BDI for the second line are more than the eight that it has.
        let facts = facts(64 + 1, AlgorithmSet::supported());
        let cheapest = |bdi| {
            let tried = tried(&facts, &estimates([bdi, 1024, 1024]));
            cheapest(&tried, Lambda::try_new(0.0).unwrap())
        };
        assert_eq!((cheapest(522).candidate, cheapest(522).bits), (Candidate::None, 520));
        assert_eq!((cheapest(520).candidate, cheapest(519).candidate), (Candidate::None, Candidate::Bdi));
    }

    #[test]
    fn only_what_the_peer_decodes_is_tried() {
        let allowed: AlgorithmSet = [Algorithm::Fpc, Algorithm::Zvc].into_iter().collect();
        let facts = facts(64, allowed);
        assert_eq!(codecs_to_try(&facts), [Algorithm::Fpc].into_iter().collect());

        let foreign = Estimate { algorithm: Algorithm::Zvc, bits: 0 };
        let all: Vec<Estimate> = estimates([4, 3, 2]).into_iter().chain([foreign]).collect();
        let tried = tried(&facts, &all);
        assert_eq!(tried.iter().map(|t| t.candidate).collect::<Vec<_>>(), [Candidate::None, Candidate::Fpc]);
        assert_eq!(slowest(&tried), Cycles { compress: 3, decompress: 5 });
    }
}

//! What a GPU's selector and codecs make of a payload.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::{CheapFacts, Cycles, Estimate, Plan, Policy, StreamId};

use super::super::workload::Sized;

/// The codecs of the paper, in the order of [`Sized::bits`].
pub(in crate::paper) const CODECS: [Algorithm; 3] = [Algorithm::Bdi, Algorithm::Fpc, Algorithm::CpackZ];

/// All of [`CODECS`], by their numbers.
const ALLOWED: AlgorithmSet = AlgorithmSet::from_bits(
    1 << Algorithm::Bdi.number() | 1 << Algorithm::Fpc.number() | 1 << Algorithm::CpackZ.number(),
);

/// How a payload goes out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Coded {
    /// What the header says: `None` if the code is no smaller than the raw bytes.
    pub(super) algorithm: Algorithm,
    pub(super) bytes: u16,
    /// Which codecs ran, in the order of [`CODECS`].
    pub(super) tried: [bool; 3],
    /// How long they keep the sender's compressor and the receiver's decompressor busy.
    pub(super) cycles: Cycles,
}

/// Asks `policy` and codes `transfer` as it says.
///
/// A transfer that is sampled runs all codecs side by side and is charged the slowest of them; one that stays
/// raw, sampled or not, skips the decompressor.
pub(super) fn code(policy: &mut dyn Policy, transfer: &Sized) -> Coded {
    let facts = CheapFacts {
        peer: u32::from(transfer.to),
        stream: StreamId(0),
        raw_bytes: u64::from(transfer.raw_bytes),
        element: Element::U8,
        allowed: ALLOWED,
        link: None, // the scheme does not ask
        lambda: None,
        is_observed: true,
    };
    let (decision, tried) = match policy.plan(&facts) {
        Plan::Use(decision) => (decision, CODECS.map(|codec| codec == decision.algorithm)),
        Plan::Sample { .. } => {
            let estimates: [Estimate; 3] =
                std::array::from_fn(|i| Estimate { algorithm: CODECS[i], bits: u64::from(transfer.bits[i]) });
            (policy.choose(&facts, &estimates), [true; 3])
        }
    };
    let cycles = decision.charged.expect("Table III has all codecs of the paper");
    let coded = Coded { tried, cycles, ..sized(transfer, decision.algorithm) };
    match coded.algorithm {
        Algorithm::None => Coded { cycles: Cycles { decompress: 0, ..cycles }, ..coded },
        _ => coded,
    }
}

/// The payload by `algorithm` in whole bytes, or raw if that is no larger.
fn sized(transfer: &Sized, algorithm: Algorithm) -> Coded {
    let codec = CODECS.iter().position(|&codec| codec == algorithm);
    let coded_bytes = codec.map(|codec| transfer.bits[codec].div_ceil(8));
    let (algorithm, bytes) = match coded_bytes {
        Some(bytes) if bytes < transfer.raw_bytes => (algorithm, bytes),
        _ => (Algorithm::None, transfer.raw_bytes),
    };
    Coded { algorithm, bytes, tried: [false; 3], cycles: Cycles::ZERO }
}

#[cfg(test)]
mod tests {
    use mgcomp_selector::{Fixed, Lambda, Paper};

    use super::super::super::transfer::Kind;
    use super::*;

    fn line(bits: [u16; 3]) -> Sized {
        Sized { kind: Kind::Read, from: 0, to: 1, raw_bytes: 64, bits }
    }

    #[test]
    fn a_fixed_codec_is_charged_as_table_iii_says() {
        let expected =
            [(Algorithm::Bdi, 2, 1, 23), (Algorithm::Fpc, 3, 5, 13), (Algorithm::CpackZ, 16, 9, 10)];
        for (algorithm, compress, decompress, bytes) in expected {
            let mut policy = Fixed::try_new(algorithm).unwrap();
            let coded = code(&mut policy, &line([180, 100, 79]));
            assert_eq!((coded.algorithm, coded.bytes), (algorithm, bytes));
            assert_eq!(coded.cycles, Cycles { compress, decompress });
            assert_eq!(coded.tried, CODECS.map(|codec| codec == algorithm));
            // What does not shrink goes raw: compressed in vain, not decompressed.
            let raw = code(&mut policy, &line([512; 3]));
            assert_eq!((raw.algorithm, raw.bytes), (Algorithm::None, 64));
            assert_eq!(raw.cycles, Cycles { compress, decompress: 0 });
        }
        let mut none = Fixed::BYPASS;
        assert_eq!(code(&mut none, &line([4, 3, 2])).cycles, Cycles::ZERO);
    }

    #[test]
    fn samples_are_charged_the_slowest_codec_and_go_out_cheapest() {
        let mut policy = Paper::new(Lambda::PAPER);
        // At λ = 6: BDI 4 + 18, FPC 3 + 48, C-Pack+Z 2 + 150.
        for _ in 0..7 {
            let coded = code(&mut policy, &line([4, 3, 2]));
            assert_eq!((coded.algorithm, coded.bytes, coded.tried), (Algorithm::Bdi, 1, [true; 3]));
            assert_eq!(coded.cycles, Cycles { compress: 16, decompress: 9 });
        }
        let coded = code(&mut policy, &line([4, 3, 2]));
        assert_eq!((coded.algorithm, coded.tried), (Algorithm::Bdi, [true, false, false]));
        assert_eq!(coded.cycles, Cycles { compress: 2, decompress: 1 });
    }

    #[test]
    fn samples_that_go_raw_skip_the_decompressor() {
        // At λ = 6 nothing beats 512 bits and no cycles. At λ = 0 BDI's 510 bits do, but are 64 bytes like the raw line.
        for (lambda, bits) in [(Lambda::PAPER, [512; 3]), (Lambda::try_new(0.0).unwrap(), [510, 511, 512])] {
            let coded = code(&mut Paper::new(lambda), &line(bits));
            assert_eq!((coded.algorithm, coded.bytes, coded.tried), (Algorithm::None, 64, [true; 3]));
            assert_eq!(coded.cycles, Cycles { compress: 16, decompress: 0 });
        }
    }
}

//! The last decision of a slot as words, so that another process can read why.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{CheapFacts, Decision, Lambda, Outcome, Reason};

use super::layout::counter::DECISION_WORDS;

/// Stands for a number that there is not.
const NONE: u64 = u64::MAX;
/// How often a reader tries again while the decision is being replaced.
const TRIES: usize = 64;

/// What was last decided for a stream, and what came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LastDecision {
    /// What was to code the payload.
    pub decided: Algorithm,
    /// How it went out.
    pub sent: Algorithm,
    /// Why; `None` for a reason that this version does not know.
    pub reason: Option<Reason>,
    /// Its length.
    pub raw_bytes: u64,
    /// Its length on the link.
    pub coded_bytes: u64,
    /// The size that was expected.
    pub predicted_bits: Option<u64>,
    /// The time that was expected.
    pub predicted_ns: Option<u64>,
    /// What the encoder took.
    pub encode_ns: Option<u64>,
}

/// Writes a decision; `words` are its sequence number and its words. Only one thread may write a slot's.
pub(super) fn write(words: &[AtomicU64], facts: &CheapFacts, decision: &Decision, outcome: &Outcome) {
    let Some((sequence, words)) = words.split_first() else { return };
    let (code, algorithm, a, b) = code(&decision.reason);
    let kind = u64::from(code)
        | u64::from(algorithm) << 8
        | u64::from(decision.algorithm.number()) << 16
        | u64::from(outcome.sent.number()) << 24;
    let encode_ns = outcome.encode.map_or(NONE, |took| took.as_nanos() as u64);
    let (bits, ns) = (decision.predicted_bits.unwrap_or(NONE), decision.predicted_ns.unwrap_or(NONE));
    let values: [u64; DECISION_WORDS] =
        [kind, a, b, facts.raw_bytes, outcome.coded_bytes, bits, ns, encode_ns];
    let number = sequence.load(Ordering::Relaxed);
    sequence.store(number | 1, Ordering::Relaxed);
    fence(Ordering::Release);
    for (word, value) in words.iter().zip(values) {
        word.store(value, Ordering::Relaxed);
    }
    sequence.store((number | 1).wrapping_add(1), Ordering::Release);
}

/// Reads a decision; `None` if there was none yet, it makes no sense, or it is replaced faster than it can be read.
pub(super) fn read(words: &[AtomicU64]) -> Option<LastDecision> {
    let (sequence, words) = words.split_first()?;
    for _ in 0..TRIES {
        let before = sequence.load(Ordering::Acquire);
        let mut values = [0; DECISION_WORDS];
        for (value, word) in values.iter_mut().zip(words) {
            *value = word.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        if before & 1 == 0 && sequence.load(Ordering::Relaxed) == before {
            return if before == 0 { None } else { decision(values) };
        }
        std::hint::spin_loop();
    }
    None
}

fn decision(values: [u64; DECISION_WORDS]) -> Option<LastDecision> {
    let [kind, a, b, raw_bytes, coded_bytes, bits, ns, encode_ns] = values;
    let algorithm = |shift: u32| Algorithm::try_from((kind >> shift) as u8).ok();
    let known = |value| (value != NONE).then_some(value);
    Some(LastDecision {
        decided: algorithm(16)?,
        sent: algorithm(24)?,
        reason: reason(kind as u8, algorithm(8), a, b),
        raw_bytes,
        coded_bytes,
        predicted_bits: known(bits),
        predicted_ns: known(ns),
        encode_ns: known(encode_ns),
    })
}

/// The number of a reason, an algorithm and two numbers that go with it. Numbers are never reused.
fn code(reason: &Reason) -> (u8, u8, u64, u64) {
    match *reason {
        Reason::Empty => (1, 0, 0, 0),
        Reason::Fixed => (2, 0, 0, 0),
        Reason::NotDecodable(algorithm) => (3, algorithm.number(), 0, 0),
        Reason::NoCandidate => (4, 0, 0, 0),
        Reason::TooShort { least_bytes } => (5, 0, least_bytes, 0),
        Reason::LinkUnknown => (6, 0, 0, 0),
        Reason::LinkTooFast { raw_ns } => (7, 0, raw_ns, 0),
        Reason::NotSampled => (8, 0, 0, 0),
        Reason::NoGain { raw_ns } => (9, 0, raw_ns, 0),
        Reason::Fastest { predicted_ns, raw_ns } => (10, 0, predicted_ns, raw_ns),
        Reason::Trial { predicted_ns, raw_ns } => (11, 0, predicted_ns, raw_ns),
        Reason::LowestPenalty { lambda } => (12, 0, lambda.gbps().to_bits(), 0),
        Reason::Sampled { sample, of } => (13, 0, sample.into(), of.into()),
        Reason::SampledLate => (14, 0, 0, 0),
        Reason::VotePending => (15, 0, 0, 0),
        Reason::Won { votes, of } => (16, 0, votes.into(), of.into()),
        Reason::NoWinner { needed, of } => (17, 0, needed.into(), of.into()),
        Reason::SwitchedOff => (18, 0, 0, 0),
        Reason::Guessed { predicted_ns, raw_ns } => (19, 0, predicted_ns, raw_ns),
        Reason::FirstLook => (20, 0, 0, 0),
        Reason::LinkTimed => (21, 0, 0, 0),
        Reason::CollectiveTimed => (22, 0, 0, 0),
        Reason::CollectiveSlower { coded_ns, raw_ns } => (23, 0, coded_ns, raw_ns),
        Reason::BetweenRanks => (24, 0, 0, 0),
        Reason::TransferTimed => (25, 0, 0, 0),
        Reason::TransferSlower { coded_ns, raw_ns } => (26, 0, coded_ns, raw_ns),
        Reason::RawWanted => (27, 0, 0, 0),
        _ => (0, 0, 0, 0),
    }
}

fn reason(code: u8, algorithm: Option<Algorithm>, a: u64, b: u64) -> Option<Reason> {
    let small = |number: u64| u32::try_from(number).ok();
    Some(match code {
        1 => Reason::Empty,
        2 => Reason::Fixed,
        3 => Reason::NotDecodable(algorithm?),
        4 => Reason::NoCandidate,
        5 => Reason::TooShort { least_bytes: a },
        6 => Reason::LinkUnknown,
        7 => Reason::LinkTooFast { raw_ns: a },
        8 => Reason::NotSampled,
        9 => Reason::NoGain { raw_ns: a },
        10 => Reason::Fastest { predicted_ns: a, raw_ns: b },
        11 => Reason::Trial { predicted_ns: a, raw_ns: b },
        12 => Reason::LowestPenalty { lambda: Lambda::try_new(f64::from_bits(a)).ok()? },
        13 => Reason::Sampled { sample: small(a)?, of: small(b)? },
        14 => Reason::SampledLate,
        15 => Reason::VotePending,
        16 => Reason::Won { votes: small(a)?, of: small(b)? },
        17 => Reason::NoWinner { needed: small(a)?, of: small(b)? },
        18 => Reason::SwitchedOff,
        19 => Reason::Guessed { predicted_ns: a, raw_ns: b },
        20 => Reason::FirstLook,
        21 => Reason::LinkTimed,
        22 => Reason::CollectiveTimed,
        23 => Reason::CollectiveSlower { coded_ns: a, raw_ns: b },
        24 => Reason::BetweenRanks,
        25 => Reason::TransferTimed,
        26 => Reason::TransferSlower { coded_ns: a, raw_ns: b },
        27 => Reason::RawWanted,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use std::array;
    use std::time::Duration;

    use mgcomp_codecs::{AlgorithmSet, Element};
    use mgcomp_selector::StreamId;

    use super::*;

    const FACTS: CheapFacts = CheapFacts {
        peer: 1,
        stream: StreamId(2),
        raw_bytes: 4096,
        element: Element::F32,
        allowed: AlgorithmSet::from_bits(0),
        link: None,
        lambda: None,
        is_observed: true,
    };

    fn words() -> [AtomicU64; DECISION_WORDS + 1] {
        array::from_fn(|_| AtomicU64::new(0))
    }

    fn written(reason: Reason) -> Option<LastDecision> {
        let words = words();
        let decision = Decision {
            algorithm: Algorithm::Xp,
            reason,
            predicted_bits: Some(16_000),
            predicted_ns: None,
            charged: None,
        };
        let outcome = Outcome {
            sent: Algorithm::None,
            coded_bytes: 4000,
            sampling: None,
            encode: Some(Duration::from_nanos(77)),
            decode: None,
            acknowledged: None,
        };
        write(&words, &FACTS, &decision, &outcome);
        read(&words)
    }

    #[test]
    fn every_reason_comes_back() {
        let lambda = Lambda::try_new(2.5).unwrap();
        let reasons = [
            Reason::Empty,
            Reason::Fixed,
            Reason::NotDecodable(Algorithm::Zvc),
            Reason::NoCandidate,
            Reason::TooShort { least_bytes: 512 },
            Reason::LinkUnknown,
            Reason::LinkTooFast { raw_ns: 1 },
            Reason::NotSampled,
            Reason::NoGain { raw_ns: 2 },
            Reason::Fastest { predicted_ns: 3, raw_ns: 4 },
            Reason::Trial { predicted_ns: 5, raw_ns: 6 },
            Reason::LowestPenalty { lambda },
            Reason::Sampled { sample: 1, of: 7 },
            Reason::SampledLate,
            Reason::VotePending,
            Reason::Won { votes: 3, of: 7 },
            Reason::NoWinner { needed: 3, of: 7 },
            Reason::SwitchedOff,
            Reason::Guessed { predicted_ns: 7, raw_ns: 8 },
            Reason::FirstLook,
            Reason::LinkTimed,
            Reason::CollectiveTimed,
            Reason::CollectiveSlower { coded_ns: 9, raw_ns: 10 },
            Reason::BetweenRanks,
            Reason::TransferTimed,
            Reason::TransferSlower { coded_ns: 11, raw_ns: 12 },
            Reason::RawWanted,
        ];
        for reason in reasons {
            let expected = LastDecision {
                decided: Algorithm::Xp,
                sent: Algorithm::None,
                reason: Some(reason),
                raw_bytes: 4096,
                coded_bytes: 4000,
                predicted_bits: Some(16_000),
                predicted_ns: None,
                encode_ns: Some(77),
            };
            assert_eq!(written(reason), Some(expected));
        }
    }

    #[test]
    fn nothing_half_written_and_no_nonsense_is_told() {
        let words = words();
        assert_eq!(read(&words), None);
        words[0].store(3, Ordering::Relaxed);
        assert_eq!(read(&words), None, "being written");
        words[0].store(4, Ordering::Relaxed);
        words[1].store(99 << 16, Ordering::Relaxed);
        assert_eq!(read(&words), None, "no such algorithm");
        words[1].store(200, Ordering::Relaxed);
        assert_eq!(read(&words).unwrap().reason, None, "a reason of a later version");
    }
}

//! The policy `paper` against the rules of the paper, seen from outside.

use mgcomp_codecs::{Algorithm, AlgorithmSet, Element, paper_bits};
use mgcomp_selector::{
    CheapFacts, Cycles, Decision, Estimate, Lambda, Paper, PaperConfig, PaperConfigError, Plan, Policy,
    Reason, SampleSize, StreamId,
};
use proptest::prelude::*;

const CODECS: [Algorithm; 3] = [Algorithm::Bdi, Algorithm::Fpc, Algorithm::CpackZ];
/// Sizes of one line in which BDI, FPC, C-Pack+Z and none are cheapest at λ = 6.
const FOR_BDI: [u64; 3] = [4, 3, 2];
const FOR_FPC: [u64; 3] = [512, 300, 512];
const FOR_CPACKZ: [u64; 3] = [512, 512, 100];
const FOR_NONE: [u64; 3] = [512, 512, 512];

fn line() -> CheapFacts {
    facts(64, AlgorithmSet::supported())
}

fn facts(raw_bytes: u64, allowed: AlgorithmSet) -> CheapFacts {
    let (stream, element) = (StreamId(7), Element::U32);
    CheapFacts { peer: 1, stream, raw_bytes, element, allowed, link: None, lambda: None, is_observed: true }
}

fn paper(lambda_gbps: f64) -> Paper {
    Paper::new(Lambda::try_new(lambda_gbps).unwrap())
}

fn estimates(bits: [u64; 3]) -> [Estimate; 3] {
    std::array::from_fn(|i| Estimate { algorithm: CODECS[i], bits: bits[i] })
}

/// Sends one transfer whose sizes under BDI, FPC and C-Pack+Z are `bits`; tells whether it was sampled.
fn send(policy: &mut dyn Policy, facts: &CheapFacts, bits: [u64; 3]) -> (bool, Decision) {
    match policy.plan(facts) {
        Plan::Use(decision) => (false, decision),
        Plan::Sample { .. } => (true, policy.choose(facts, &estimates(bits))),
    }
}

/// Runs a sampling phase and returns the decision for the first transfer after it.
fn after_samples(samples: &[[u64; 3]]) -> Decision {
    let mut policy = paper(6.0);
    for &bits in samples {
        assert!(send(&mut policy, &line(), bits).0);
    }
    let (sampled, decision) = send(&mut policy, &line(), FOR_NONE);
    assert!(!sampled);
    decision
}

#[test]
fn seven_are_sampled_then_three_hundred_run_then_seven_are_sampled() {
    let mut policy = paper(6.0);
    for transfer in 0..3 * 307 {
        let (sampled, decision) = send(&mut policy, &line(), FOR_FPC);
        assert_eq!(sampled, transfer % 307 < 7, "transfer {transfer}");
        assert_eq!(decision.algorithm, Algorithm::Fpc, "transfer {transfer}");
        assert_eq!(decision.predicted_bits, Some(300), "transfer {transfer}");
    }
}

#[test]
fn a_sample_asks_for_all_candidates_over_the_whole_transfer() {
    let wanted = Plan::Sample { algorithms: CODECS.into_iter().collect(), size: SampleSize::Whole };
    assert_eq!(paper(6.0).plan(&line()), wanted);
}

#[test]
fn a_sample_goes_out_in_its_own_cheapest_form_charged_the_slowest() {
    let mut policy = paper(6.0);
    // Two lines: C-Pack+Z takes 32 and 18 cycles, and it is tried even where another wins.
    let two_lines = facts(128, AlgorithmSet::supported());
    let sizes = [FOR_BDI, FOR_FPC, FOR_NONE, FOR_CPACKZ].map(|bits| bits.map(|b| 2 * b));
    let wins =
        [(Algorithm::Bdi, 8), (Algorithm::Fpc, 600), (Algorithm::None, 1024), (Algorithm::CpackZ, 200)];
    for ((sample, bits), (algorithm, predicted_bits)) in (1..).zip(sizes).zip(wins) {
        let expected = Decision {
            algorithm,
            reason: Reason::Sampled { sample, of: 7 },
            predicted_ns: None,
            predicted_bits: Some(predicted_bits),
            charged: Some(Cycles { compress: 32, decompress: 18 }),
        };
        assert_eq!(send(&mut policy, &two_lines, bits), (true, expected));
    }
}

#[test]
fn the_vote_decides_the_running_phase() {
    use {FOR_BDI as B, FOR_CPACKZ as C, FOR_FPC as F, FOR_NONE as N};
    let taken = |samples: [[u64; 3]; 7]| {
        let decision = after_samples(&samples);
        (decision.algorithm, decision.reason)
    };
    assert_eq!(taken([B, F, C, B, F, C, C]), (Algorithm::CpackZ, Reason::Won { votes: 3, of: 7 }));
    assert_eq!(taken([C, C, C, F, F, F, N]), (Algorithm::Fpc, Reason::Won { votes: 3, of: 7 }));
    assert_eq!(taken([B, N, N, B, B, N, F]), (Algorithm::None, Reason::Won { votes: 3, of: 7 }));
    assert_eq!(taken([B, B, F, F, C, C, N]), (Algorithm::None, Reason::NoWinner { needed: 3, of: 7 }));
    assert_eq!(taken([B; 7]), (Algorithm::Bdi, Reason::Won { votes: 7, of: 7 }));
}

#[test]
fn a_running_transfer_is_charged_its_own_codec() {
    let bdi = after_samples(&[FOR_BDI; 7]);
    assert_eq!((bdi.predicted_bits, bdi.charged), (Some(4), Some(Cycles { compress: 2, decompress: 1 })));
    let none = after_samples(&[FOR_NONE; 7]);
    assert_eq!((none.predicted_bits, none.charged), (Some(512), Some(Cycles::ZERO)));
}

#[test]
fn without_a_winner_all_bypass_until_the_next_samples() {
    let mut policy = paper(6.0);
    for bits in [FOR_BDI, FOR_BDI, FOR_FPC, FOR_FPC, FOR_CPACKZ, FOR_CPACKZ, FOR_NONE] {
        send(&mut policy, &line(), bits);
    }
    for transfer in 0..300 {
        // They would compress well now, but nobody looks.
        let (sampled, decision) = send(&mut policy, &line(), FOR_BDI);
        assert_eq!((sampled, decision.algorithm), (false, Algorithm::None), "transfer {transfer}");
    }
    let (sampled, decision) = send(&mut policy, &line(), FOR_BDI);
    assert_eq!((sampled, decision.reason), (true, Reason::Sampled { sample: 1, of: 7 }));
}

#[test]
fn one_state_serves_all_peers_and_streams() {
    let mut policy = paper(6.0);
    for peer in 0..7 {
        let facts = CheapFacts { peer, stream: StreamId(100 + peer), ..line() };
        assert!(send(&mut policy, &facts, FOR_BDI).0, "peer {peer}");
    }
    assert!(!send(&mut policy, &CheapFacts { peer: 99, ..line() }, FOR_BDI).0);
}

#[test]
fn real_lines_are_won_as_lambda_says() {
    let zero = [0; 64];
    // 16 words without a pattern and without a common halfword: 512 bits for every codec.
    let noise: Vec<u8> = (1..=16u32).flat_map(|i| i.wrapping_mul(0x9e37_79b9).to_le_bytes()).collect();
    // 0 1 2 3 repeated: BDI 160 + 20 bits; FPC 4 words of 3 and 12 of 3 + 4, in all 96; C-Pack+Z 152.
    let small: Vec<u8> = (0..16u32).flat_map(|i| (i % 4).to_le_bytes()).collect();

    let winner = |payload: &[u8], lambda_gbps| {
        let bits = CODECS.map(|algorithm| paper_bits(algorithm, payload).unwrap());
        let (_, decision) = send(&mut paper(lambda_gbps), &line(), bits);
        decision.algorithm
    };
    for lambda_gbps in [0.0, 6.0, 32.0] {
        assert_eq!(winner(&noise, lambda_gbps), Algorithm::None, "noise at {lambda_gbps}");
    }
    // Zero line: 4, 3 and 2 bits.
    assert_eq!(winner(&zero, 0.0), Algorithm::CpackZ);
    assert_eq!(winner(&zero, 6.0), Algorithm::Bdi);
    assert_eq!(winner(&zero, 32.0), Algorithm::Bdi);
    // At 32: BDI 180 + 96 = 276, FPC 96 + 256 = 352.
    assert_eq!(winner(&small, 0.0), Algorithm::Fpc);
    assert_eq!(winner(&small, 32.0), Algorithm::Bdi);
}

#[test]
fn transfers_without_a_choice_count_in_no_phase() {
    let mut policy = paper(6.0);
    let empty = facts(0, AlgorithmSet::supported());
    let zvc_only = facts(64, [Algorithm::Zvc].into_iter().collect());
    for transfer in 0..307 {
        for (facts, reason) in [(&empty, Reason::Empty), (&zvc_only, Reason::NoCandidate)] {
            let expected = Decision::bypass(facts, reason);
            assert_eq!(send(&mut policy, facts, FOR_BDI), (false, expected));
        }
        assert_eq!(send(&mut policy, &line(), FOR_BDI).0, transfer < 7, "transfer {transfer}");
    }
    assert!(send(&mut policy, &line(), FOR_BDI).0);
}

#[test]
fn only_what_the_peer_decodes_is_tried_and_sent() {
    let without_bdi = facts(64, [Algorithm::Fpc, Algorithm::CpackZ].into_iter().collect());
    let mut policy = paper(6.0);
    let wanted = [Algorithm::Fpc, Algorithm::CpackZ].into_iter().collect();
    assert_eq!(policy.plan(&without_bdi), Plan::Sample { algorithms: wanted, size: SampleSize::Whole });
    // A zero line: without BDI (22), FPC has 51 and C-Pack+Z 152.
    assert_eq!(policy.choose(&without_bdi, &estimates(FOR_BDI)).algorithm, Algorithm::Fpc);

    for _ in 1..7 {
        send(&mut policy, &line(), FOR_BDI);
    }
    let (_, decision) = send(&mut policy, &without_bdi, FOR_BDI);
    assert_eq!(decision, Decision::bypass(&without_bdi, Reason::NotDecodable(Algorithm::Bdi)));
    assert_eq!(send(&mut policy, &line(), FOR_BDI).1.algorithm, Algorithm::Bdi);
}

/// The reason of a plan that asks for no sample.
fn planned(policy: &mut Paper) -> Option<(Algorithm, Reason)> {
    match policy.plan(&line()) {
        Plan::Use(decision) => Some((decision.algorithm, decision.reason)),
        Plan::Sample { .. } => None,
    }
}

#[test]
fn samples_that_nobody_took_are_no_votes_and_are_made_up_for() {
    let mut policy = paper(6.0);
    for _ in 0..7 {
        assert!(matches!(policy.plan(&line()), Plan::Sample { .. }));
    }
    for _ in 0..3 {
        let decision = policy.choose(&line(), &[]);
        assert_eq!((decision.algorithm, decision.reason), (Algorithm::None, Reason::NotSampled));
    }
    for _ in 0..4 {
        policy.choose(&line(), &estimates(FOR_BDI));
    }
    let mut made_up = 0;
    for _ in 0..303 {
        if matches!(policy.plan(&line()), Plan::Sample { .. }) {
            made_up += 1;
            policy.choose(&line(), &estimates(FOR_BDI));
        }
    }
    assert_eq!(made_up, 3);
    let Plan::Use(decision) = policy.plan(&line()) else { panic!("the vote is open") };
    assert_eq!(decision.reason, Reason::Won { votes: 7, of: 7 });
}

#[test]
fn no_more_than_seven_transfers_are_sampled_at_once() {
    let mut policy = paper(6.0);
    for transfer in 0..7 {
        assert_eq!(planned(&mut policy), None, "transfer {transfer}");
    }
    // Nothing has won yet, so what overlaps with the samples goes as it is.
    for _ in 0..20 {
        assert_eq!(planned(&mut policy), Some((Algorithm::None, Reason::VotePending)));
    }
    for _ in 0..7 {
        policy.choose(&line(), &estimates(FOR_BDI));
    }
    for transfer in 0..300 {
        let won = Reason::Won { votes: 7, of: 7 };
        assert_eq!(planned(&mut policy), Some((Algorithm::Bdi, won)), "transfer {transfer}");
    }
    for transfer in 0..7 {
        assert_eq!(planned(&mut policy), None, "transfer {transfer}");
    }
    assert_eq!(planned(&mut policy), Some((Algorithm::Bdi, Reason::VotePending)));
}

#[test]
fn lost_samples_are_asked_for_again() {
    let mut policy = paper(6.0);
    for _ in 0..7 {
        assert_eq!(planned(&mut policy), None);
    }
    for _ in 0..5 {
        policy.choose(&line(), &estimates(FOR_BDI));
    }
    for transfer in 0..300 {
        let pending = Some((Algorithm::None, Reason::VotePending));
        assert_eq!(planned(&mut policy), pending, "transfer {transfer}");
    }
    for _ in 0..2 {
        assert_eq!(planned(&mut policy), None);
        policy.choose(&line(), &estimates(FOR_BDI));
    }
    assert_eq!(planned(&mut policy), Some((Algorithm::Bdi, Reason::Won { votes: 7, of: 7 })));
    // The lost ones come back after all: too late to count.
    let late = policy.choose(&line(), &estimates(FOR_FPC));
    assert_eq!((late.algorithm, late.reason), (Algorithm::Fpc, Reason::SampledLate));
    assert_eq!(planned(&mut policy), Some((Algorithm::Bdi, Reason::Won { votes: 7, of: 7 })));
}

#[test]
fn lengths_can_be_set() {
    let config = PaperConfig { sampling: 2, running: 1, votes: 2, ..PaperConfig::default() };
    let mut policy = Paper::try_new(config).unwrap();
    let sampled: Vec<bool> = (0..7).map(|_| send(&mut policy, &line(), FOR_BDI).0).collect();
    assert_eq!(sampled, [true, true, false, true, true, false, true]);
    let config = PaperConfig { votes: 3, ..config };
    let error = Paper::try_new(config).unwrap_err();
    assert_eq!(error, PaperConfigError::TooManyVotes { votes: 3, sampling: 2 });
}

/// The scheme once more, straight from its rules and slowly: the decision for the last transfer of
/// `history` (number of lines; bits under BDI, FPC, C-Pack+Z), at an integer λ.
fn model(history: &[(u64, [u64; 3])], lambda: u64) -> Algorithm {
    const ORDER: [(Algorithm, u64); 4] =
        [(Algorithm::None, 0), (Algorithm::Bdi, 3), (Algorithm::Fpc, 8), (Algorithm::CpackZ, 25)];
    let cheapest = |&(lines, bits): &(u64, [u64; 3])| {
        let sizes = [512 * lines, bits[0], bits[1], bits[2]];
        let penalties: Vec<u64> = (0..4).map(|i| sizes[i] + lambda * lines * ORDER[i].1).collect();
        let lowest = *penalties.iter().min().unwrap();
        ORDER[penalties.iter().position(|&p| p == lowest).unwrap()].0
    };
    let last = history.len() - 1;
    let phase_start = last / 307 * 307;
    if last - phase_start < 7 {
        return cheapest(&history[last]);
    }
    let wins: Vec<Algorithm> = history[phase_start..phase_start + 7].iter().map(cheapest).collect();
    let votes = ORDER.map(|(algorithm, _)| wins.iter().filter(|&&w| w == algorithm).count());
    let most = *votes.iter().max().unwrap();
    let first_with_most = votes.iter().position(|&v| v == most).unwrap();
    if most >= 3 { ORDER[first_with_most].0 } else { Algorithm::None }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn decides_as_the_model_does(
        lambda in prop::sample::select(vec![0u32, 1, 2, 4, 6, 8, 16, 32, 64]),
        // Few different sizes, so that ties are frequent.
        sizes in prop::collection::vec((1u64..4, [0u64..6, 0u64..6, 0u64..6]), 640),
    ) {
        let history: Vec<_> =
            sizes.into_iter().map(|(lines, bits)| (lines, bits.map(|b| lines * (512 - 96 * b)))).collect();
        let mut policy = paper(f64::from(lambda));
        for (i, (lines, bits)) in history.iter().enumerate() {
            let facts = facts(lines * 64, AlgorithmSet::supported());
            let (_, decision) = send(&mut policy, &facts, *bits);
            prop_assert_eq!(decision.algorithm, model(&history[..=i], u64::from(lambda)), "transfer {}", i);
        }
    }
}

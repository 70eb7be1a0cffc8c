//! What peers say of their decoders.

use std::time::Duration;

use mgcomp_codecs::Algorithm;
use mgcomp_selector::{Adaptive, CheapFacts, Outcome, Policy, StreamId};

use crate::rig::{MIB, Sent, WEIGHTS, decide, speeds, transfer};

/// XP takes its 0.1 ns a byte here, and so many times its 0.05 at the peer, which says so. Returns what was sent.
fn send(policy: &mut Adaptive, facts: &CheapFacts, decode_pace: f64) -> Algorithm {
    let Sent { decision, sampled_bytes } = decide(policy, facts, WEIGHTS);
    let ns = |per_byte: f64| Duration::from_nanos((per_byte * facts.raw_bytes as f64) as u64);
    let is_coded = decision.algorithm == Algorithm::Xp;
    let fraction = WEIGHTS.fraction(decision.algorithm);
    let coded_bytes = (fraction * facts.raw_bytes as f64) as u64;
    let outcome = Outcome {
        sent: decision.algorithm,
        coded_bytes,
        sampling: (sampled_bytes > 0).then(|| Duration::from_nanos((0.02 * sampled_bytes as f64) as u64)),
        encode: is_coded.then(|| ns(0.1)),
        decode: None,
        acknowledged: None,
    };
    policy.observe(facts, &decision, &outcome);
    if is_coded {
        policy.decoded(facts, &decision, coded_bytes, ns(0.05 * decode_pace));
    }
    decision.algorithm
}

fn share_of_xp(sent: &[Algorithm]) -> f64 {
    sent.iter().filter(|&&algorithm| algorithm == Algorithm::Xp).count() as f64 / sent.len() as f64
}

#[test]
fn a_peer_whose_decoder_is_slow_gets_raw_bytes() {
    // XP is there after 0.6 + 0.1 + 0.05 of a raw transfer's time by what was measured, and after 1.1 at this peer.
    let mut policy = Adaptive::new(speeds());
    let sent: Vec<_> = (0..500).map(|_| send(&mut policy, &transfer(MIB), 8.0)).collect();
    assert!(sent[..10].contains(&Algorithm::Xp), "never tried");
    assert!(share_of_xp(&sent[20..]) < 0.02, "{sent:?}");
    // Where the decoder takes what was measured, hearing so changes nothing.
    let mut policy = Adaptive::new(speeds());
    let sent: Vec<_> = (0..500).map(|_| send(&mut policy, &transfer(MIB), 1.0)).collect();
    assert!(share_of_xp(&sent[10..]) > 0.98, "{sent:?}");
}

#[test]
fn a_peer_s_decoder_says_nothing_of_those_of_others() {
    let mut policy = Adaptive::new(speeds());
    for _ in 0..100 {
        send(&mut policy, &transfer(MIB), 8.0);
    }
    assert_eq!(send(&mut policy, &transfer(MIB), 8.0), Algorithm::None);
    // The same stream to another one, and another stream to that.
    for stream in [7, 8] {
        let other = CheapFacts { peer: 2, stream: StreamId(stream), ..transfer(MIB) };
        let sent: Vec<_> = (0..20).map(|_| send(&mut policy, &other, 1.0)).collect();
        assert!(share_of_xp(&sent[5..]) > 0.9, "{sent:?}");
    }
}

#[test]
fn a_peer_whose_decoder_was_slow_for_a_while_gets_frames_again() {
    let mut policy = Adaptive::new(speeds());
    let slow: Vec<_> = (0..500).map(|_| send(&mut policy, &transfer(MIB), 8.0)).collect();
    assert_eq!(slow.last(), Some(&Algorithm::None));
    // What is not timed for 1,024 transfers is taken to recover by an eighth: 8 falls below what is worth a trial in a few times as many.
    let sent: Vec<_> = (0..20_000).map(|_| send(&mut policy, &transfer(MIB), 1.0)).collect();
    assert!(share_of_xp(&sent[15_000..]) > 0.98, "{}", share_of_xp(&sent[15_000..]));
}

#[test]
fn streams_that_share_a_state_learn_nothing_of_one_peer_s_decoder() {
    let mut policy = Adaptive::new(speeds());
    // So many have states of their own; later ones share one, whatever their peers.
    for stream in 0..1024 {
        policy.plan(&CheapFacts { stream: StreamId(stream), ..transfer(MIB) });
    }
    let late = |peer, stream| CheapFacts { peer, stream: StreamId(stream), ..transfer(MIB) };
    for _ in 0..100 {
        send(&mut policy, &late(1, 2000), 8.0);
    }
    let other: Vec<_> = (0..20).map(|_| send(&mut policy, &late(2, 2001), 1.0)).collect();
    assert!(share_of_xp(&other) > 0.9, "{other:?}");
}

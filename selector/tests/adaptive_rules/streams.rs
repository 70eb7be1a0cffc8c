//! What streams know of each other.

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{Adaptive, CheapFacts, Outcome, Plan, Policy, Reason, StreamId};

use crate::rig::{ACTIVATIONS, MIB, NOISE, WEIGHTS, link, send, speeds, transfer};

#[test]
fn a_stream_to_a_new_peer_starts_from_what_it_became_for_others() {
    let mut policy = Adaptive::new(speeds());
    for _ in 0..10 {
        send(&mut policy, &transfer(MIB), ACTIVATIONS);
    }
    // Too short for a sample, and still the best algorithm at once.
    let short = CheapFacts { peer: 2, ..transfer(1024) };
    let Plan::Use(decision) = policy.plan(&short) else { panic!("a sample of 1 KiB") };
    assert_eq!(decision.algorithm, Algorithm::Zvc);
    assert!(matches!(decision.reason, Reason::Fastest { .. }), "{decision:?}");
    // Another stream of the same element is other data: that is no more than a guess.
    let other = CheapFacts { stream: StreamId(8), ..short };
    let Plan::Use(decision) = policy.plan(&other) else { panic!("a sample of 1 KiB") };
    assert_eq!(decision.algorithm, Algorithm::Zvc);
    assert!(matches!(decision.reason, Reason::Guessed { .. }), "{decision:?}");
}

#[test]
fn what_another_peer_s_data_was_is_soon_forgotten_where_it_is_wrong() {
    let mut policy = Adaptive::new(speeds());
    for _ in 0..100 {
        send(&mut policy, &transfer(16 << 10), ACTIVATIONS);
    }
    // Noise goes raw after one transfer in vain.
    let noisy = CheapFacts { peer: 2, ..transfer(16 << 10) };
    let sent: Vec<Algorithm> = (0..10).map(|_| send(&mut policy, &noisy, NOISE).decision.algorithm).collect();
    assert!(sent[2..].iter().all(|&algorithm| algorithm == Algorithm::None), "{sent:?}");
    // And what began as noise is sampled as soon as if nothing were known.
    let other = CheapFacts { peer: 3, ..transfer(16 << 10) };
    let found =
        (0..10).position(|_| send(&mut policy, &other, ACTIVATIONS).decision.algorithm == Algorithm::Zvc);
    assert!(found.is_some_and(|transfers| transfers < 5), "{found:?}");
}

#[test]
fn a_stream_beside_others_hears_that_its_link_has_become_slow() {
    let mut policy = Adaptive::new(speeds());
    let busy = transfer(MIB);
    let mut rate_gbps = 2000.0;
    let mut reasons = Vec::new();
    for _ in 0..400 {
        let facts = CheapFacts { peer: 2, stream: StreamId(8), link: link(rate_gbps), ..transfer(MIB) };
        // The other stream's transfer begins and ends while this one's is under way.
        let Plan::Use(decision) = policy.plan(&facts) else { break };
        send(&mut policy, &busy, ACTIVATIONS);
        let outcome = Outcome {
            sent: decision.algorithm,
            coded_bytes: MIB,
            sampling: None,
            encode: None,
            decode: None,
            acknowledged: None,
        };
        policy.observe(&facts, &decision, &outcome);
        reasons.push(decision.reason);
        rate_gbps = (rate_gbps / 1.2).max(8.0);
    }
    assert!(matches!(reasons[0], Reason::LinkTooFast { .. }), "{:?}", reasons[0]);
    // Of 2,000 Gb/s 8 are left after 31 transfers. Then it is to be looked at.
    assert!(reasons.len() < 60, "{}", reasons.len());
}

#[test]
fn a_guess_is_made_once_and_only_where_it_is_cheap() {
    let mut policy = Adaptive::new(speeds());
    let short = CheapFacts { link: link(1.0), ..transfer(1024) };
    // Floats tend to shrink under XP: at 8 ns a byte for the link, trying costs 0.1 at worst.
    let first = send(&mut policy, &short, NOISE).decision;
    assert_eq!(first.algorithm, Algorithm::Xp);
    assert!(matches!(first.reason, Reason::Guessed { .. }), "{first:?}");
    for _ in 0..20 {
        let next = send(&mut policy, &short, NOISE).decision;
        assert!(
            !matches!(next.reason, Reason::Guessed { .. }) && next.algorithm == Algorithm::None,
            "{next:?}"
        );
    }
    // Where the codec takes as long as it could save, nothing is guessed.
    let fast = CheapFacts { stream: StreamId(8), link: link(60.0), ..short };
    assert_eq!(send(&mut policy, &fast, WEIGHTS).decision.reason, Reason::NotSampled);
    // Bytes can be anything.
    let bytes = CheapFacts { stream: StreamId(9), element: Element::U8, ..short };
    let mut policy = Adaptive::new(Speeds::typical());
    let Plan::Use(decision) = policy.plan(&bytes) else { panic!("a sample of 1 KiB") };
    assert_eq!(decision.algorithm, Algorithm::None);
}

#[test]
fn streams_beyond_the_thousandth_share_what_they_know() {
    let mut policy = Adaptive::new(speeds());
    let stream = |id| CheapFacts { stream: StreamId(id), ..transfer(MIB) };
    for id in 0..1024 {
        assert!(send(&mut policy, &stream(id), WEIGHTS).sampled_bytes > 0);
    }
    assert!(send(&mut policy, &stream(1024), WEIGHTS).sampled_bytes > 0);
    // The next ones know at once, and so do those that were there in time: what follows is too short for a sample.
    for id in [5000, 3] {
        let Plan::Use(decision) = policy.plan(&CheapFacts { raw_bytes: 600, ..stream(id) }) else {
            panic!("sampled again")
        };
        assert_eq!(decision.algorithm, Algorithm::Xp);
    }
}

#[test]
fn streams_that_come_when_others_have_gone_know_what_they_are() {
    let mut policy = Adaptive::new(speeds());
    let stream = |id| CheapFacts { stream: StreamId(id), ..transfer(MIB) };
    for id in 0..1024 {
        send(&mut policy, &stream(id), WEIGHTS);
    }
    // One goes on, and the others do not.
    for _ in 0..20_000 {
        send(&mut policy, &stream(1023), WEIGHTS);
    }
    // If the new ones shared a state, both would be either.
    for _ in 0..20 {
        send(&mut policy, &stream(5000), ACTIVATIONS);
        send(&mut policy, &stream(5001), WEIGHTS);
    }
    for (id, expected) in [(5000, Algorithm::Zvc), (5001, Algorithm::Xp), (1023, Algorithm::Xp)] {
        let short = CheapFacts { raw_bytes: 600, ..stream(id) };
        let decision = match policy.plan(&short) {
            Plan::Use(decision) => decision,
            Plan::Sample { .. } => policy.choose(&short, &[]), // by what is known
        };
        assert_eq!(decision.algorithm, expected, "{id}");
    }
}

//! What comes of transfers that were decided on before something changed.

use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet};
use mgcomp_selector::{Adaptive, Behind, CheapFacts, Decision, Estimate, Outcome, Plan, Policy, Reason};

use crate::rig::{Data, MIB, WEIGHTS, link, send, speeds, transfer};

/// So short that not all are looked at.
const LEN: u64 = 16 << 10;

/// A policy that knows the stream well, and wants to look at none of the next transfers.
fn warm() -> Adaptive {
    let mut policy = Adaptive::new(speeds());
    (0..100).for_each(|_| {
        send(&mut policy, &transfer(LEN), WEIGHTS);
    });
    let looks = |mut policy: Adaptive| {
        let mut plans = (0..6).map(|_| policy.plan(&transfer(LEN)));
        plans.any(|plan| matches!(plan, Plan::Sample { .. }))
    };
    while looks(policy.clone()) {
        send(&mut policy, &transfer(LEN), WEIGHTS);
    }
    policy
}

fn decide(policy: &mut Adaptive, facts: &CheapFacts) -> Decision {
    match policy.plan(facts) {
        Plan::Use(decision) => decision,
        Plan::Sample { .. } => policy.choose(facts, &[]),
    }
}

/// A transfer of XP that has become so much of what it was, in the time that was measured.
fn outcome(fraction: f64) -> Outcome {
    let ns = |per_byte: f64| Some(Duration::from_nanos((per_byte * LEN as f64) as u64));
    Outcome {
        sent: Algorithm::Xp,
        coded_bytes: (fraction * LEN as f64) as u64,
        sampling: None,
        encode: ns(0.1),
        decode: ns(0.05),
        acknowledged: None,
    }
}

#[test]
fn what_left_before_the_link_changed_decides_nothing_for_what_comes_after() {
    for (fraction, is_surprise) in [(0.6, false), (0.45, true)] {
        let mut policy = warm();
        let (before, after) = (transfer(LEN), CheapFacts { link: link(6.5), ..transfer(LEN) });
        let left = decide(&mut policy, &before);
        assert_eq!(left.algorithm, Algorithm::Xp);
        decide(&mut policy, &after);
        policy.observe(&before, &left, &outcome(fraction));
        // One that was sent over the link as it is now has what was found out worked out.
        let next = decide(&mut policy, &after);
        policy.observe(&after, &next, &outcome(fraction));
        let predicted_ns = decide(&mut policy, &after).predicted_ns.unwrap() as f64 / LEN as f64;
        // 0.6 · 8 / 6.5 and 0.15 ns a byte; over the link as it was 0.75. Less where there turned out to be less to send.
        let expected = if is_surprise { 0.70..0.8 } else { 0.88..0.90 };
        assert!(expected.contains(&predicted_ns), "{predicted_ns} of {fraction}");
    }
}

#[test]
fn what_left_before_the_peer_changed_decides_nothing_for_what_comes_after() {
    for fraction in [0.6, 0.55, 0.5, 0.3] {
        let mut policy = warm();
        let before = transfer(LEN);
        let allowed = AlgorithmSet::from_iter([Algorithm::None, Algorithm::Zvc]);
        let after = CheapFacts { allowed, ..before };
        let left = decide(&mut policy, &before);
        assert_eq!(left.algorithm, Algorithm::Xp);
        decide(&mut policy, &after);
        policy.observe(&before, &left, &outcome(fraction));
        for _ in 0..10 {
            let decision = decide(&mut policy, &after);
            assert!(after.allows(decision.algorithm), "{decision:?} after {fraction}");
        }
    }
}

#[test]
fn what_is_found_in_a_transfer_that_has_left_is_no_trial_and_for_the_link_as_it_is() {
    let is_trial =
        |decision: &Decision| matches!(decision.reason, Reason::Trial { .. } | Reason::Guessed { .. });
    // XP is predicted after 0.86 + 0.15: it is tried now and then.
    let data = Data { xp: 0.86, zvc: 1.0, ibp: 1.0 };
    let estimates = [Algorithm::Xp, Algorithm::Zvc, Algorithm::Ibp]
        .map(|algorithm| Estimate { algorithm, bits: (data.fraction(algorithm) * 2.0 * MIB as f64) as u64 });
    // Shorter ones are tried first.
    let short = transfer(MIB / 4);
    let mut policy = Adaptive::new(speeds());
    let mut tried = 0;
    for _ in 0..200 {
        // A trial would be found by whoever chooses at once.
        tried += usize::from(is_trial(&policy.clone().choose(&short, &estimates)));
        let mut behind = Behind::default();
        behind.hear(&mut policy, &short, &estimates);
        // It goes as was found once the policy wants to look at something again.
        let (decision, _) = behind.plan(&mut Curious, &short);
        assert!(!is_trial(&decision), "{decision:?}");
        send(&mut policy, &transfer(MIB), data);
    }
    assert!(tried > 0, "there was nothing to be tried");

    let mut policy = Adaptive::new(speeds());
    (0..10).for_each(|_| {
        send(&mut policy, &transfer(MIB), WEIGHTS);
    });
    let after = CheapFacts { link: link(400.0), ..transfer(MIB) };
    assert_eq!(decide(&mut policy, &after).algorithm, Algorithm::None);
    let estimates = [Estimate { algorithm: Algorithm::Xp, bits: (0.6 * 8.0 * MIB as f64) as u64 }];
    let mut behind = Behind::default();
    behind.hear(&mut policy, &transfer(MIB), &estimates);
    let (decision, _) = behind.plan(&mut Curious, &after);
    assert_eq!(decision.algorithm, Algorithm::None, "{decision:?}");
}

/// Wants to look at everything.
#[derive(Debug)]
struct Curious;

impl Policy for Curious {
    fn name(&self) -> String {
        "curious".into()
    }

    fn plan(&mut self, facts: &CheapFacts) -> Plan {
        Plan::Sample { algorithms: facts.allowed, size: mgcomp_selector::SampleSize::Whole }
    }

    fn choose(&mut self, facts: &CheapFacts, _: &[Estimate]) -> Decision {
        Decision::bypass(facts, Reason::NotSampled)
    }

    fn observe(&mut self, _: &CheapFacts, _: &Decision, _: &Outcome) {}
}

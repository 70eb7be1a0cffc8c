//! When data is looked at, and what that may take.

use std::sync::Arc;
use std::time::Duration;

use mgcomp_codecs::{Algorithm, AlgorithmSet};
use mgcomp_selector::speeds::Speeds;
use mgcomp_selector::{Adaptive, CheapFacts, Estimate, Outcome, Plan, Policy, SampleSize, StreamId};

use crate::rig::{
    ACTIVATIONS, Data, MIB, NOISE, WEIGHTS, codec, decide, link, send, send_at, send_seen_as, speeds,
    transfer,
};

#[test]
fn sampling_keeps_to_its_share() {
    for (raw_bytes, data) in [(16 << 10, WEIGHTS), (MIB, NOISE), (64 * MIB, ACTIVATIONS)] {
        let mut policy = Adaptive::new(speeds());
        let (mut sampled_ns, mut raw_ns, mut samples) = (0.0, 0.0, 0);
        for _ in 0..2000 {
            let sent = send(&mut policy, &transfer(raw_bytes), data);
            sampled_ns += 0.02 * sent.sampled_bytes as f64;
            samples += u32::from(sent.sampled_bytes > 0);
            raw_ns += raw_bytes as f64;
        }
        assert!(samples > 2, "{raw_bytes} bytes: {samples} samples");
        assert!(sampled_ns < 0.005 * raw_ns, "{raw_bytes} bytes: {sampled_ns} of {raw_ns} ns");
    }
}

#[test]
fn many_streams_of_one_transfer_each_share_what_samples_may_take() {
    let codecs = vec![codec(Algorithm::Xp, 0.1, 0.0), codec(Algorithm::Zvc, 0.05, 0.0)];
    let mut policy = Adaptive::new(Arc::new(Speeds::try_new(codecs).unwrap()));
    // 5,461 ns raw, of which a new stream may spend 4 %; both codecs on 4,096 bytes take 164, which is 3 %.
    let transfer = |stream| CheapFacts { stream: StreamId(stream), link: link(24.0), ..transfer(16 << 10) };
    let mut ns = |stream| 0.02 * send(&mut policy, &transfer(stream), NOISE).sampled_bytes as f64;
    let first: f64 = (0..16).map(&mut ns).sum();
    assert!((first - 16.0 * 163.84).abs() < 1.0, "{first}");
    // 1 % of 1,000 transfers are 54,613 ns, and of 163.84 the policy hears 163.
    let rest: f64 = (16..1000).map(&mut ns).sum();
    assert!((30_000.0..54_895.0).contains(&rest), "{rest}");
}

#[test]
fn a_look_that_fails_confirms_nothing() {
    let (facts, data) = (transfer(MIB), WEIGHTS);
    let mut policy = Adaptive::new(speeds());
    // Known, and other data at last, so that it is to be looked at more often for a while.
    for _ in 0..100 {
        send(&mut policy, &facts, ACTIVATIONS);
    }
    for _ in 0..2 {
        send(&mut policy, &facts, data);
    }
    let mut failing = policy.clone();
    let looked: u64 = (0..200).map(|_| send(&mut policy, &facts, data).sampled_bytes).sum();
    let failed = (0..200).map(|_| match failing.plan(&facts) {
        Plan::Sample { algorithms, size: SampleSize::Bytes(bytes) } => {
            failing.choose(&facts, &[]);
            bytes * algorithms.iter().count() as u64
        }
        _ => 0,
    });
    let failed: u64 = failed.sum();
    assert!(failed > 2 * looked, "{failed} bytes in vain, {looked} else");
}

#[test]
fn a_surprise_brings_a_sample_at_once() {
    let mut policy = Adaptive::new(speeds());
    let facts = transfer(16 << 10);
    for _ in 0..100 {
        send(&mut policy, &facts, WEIGHTS);
    }
    // The data changes; nobody can know until it was encoded.
    let sent = send(&mut policy, &facts, ACTIVATIONS);
    if sent.sampled_bytes == 0 {
        assert_eq!(sent.decision.algorithm, Algorithm::Xp);
        let next = send(&mut policy, &facts, ACTIVATIONS);
        assert!(next.sampled_bytes > 0);
        assert_eq!(next.decision.algorithm, Algorithm::Zvc);
    }
    assert_eq!(send(&mut policy, &facts, ACTIVATIONS).decision.algorithm, Algorithm::Zvc);
}

#[test]
fn times_that_stay_off_bring_a_sample() {
    // Samples that take 25 us each are more than transfers of 98 us save up, but not more than may be borrowed. How many are
    // sampled where codecs take so many times as long as before, one transfer after the other?
    let sampled = |paces: &[f64], data: Data| {
        let slow = [codec(Algorithm::Xp, 0.1, 25e3), codec(Algorithm::Zvc, 0.05, 25e3)];
        let mut policy = Adaptive::new(Arc::new(Speeds::try_new(slow.into()).unwrap()));
        let mut sampled = |pace| send_at(&mut policy, &transfer(128 << 10), data, pace).sampled_bytes > 0;
        assert!((0..1000).filter(|_| sampled(1.0)).count() > 0);
        paces.iter().filter(|&&pace| sampled(pace)).count()
    };
    // XP: 0.6 + 0.15, or 0.6 + 0.45, or 0.6 + 0.03.
    assert_eq!([1.0, 1.3].map(|pace| sampled(&[pace; 60], WEIGHTS)), [0, 0]);
    assert!([3.0, 0.2].iter().all(|&pace| sampled(&[pace; 60], WEIGHTS) > 0));
    // ZVC: 0.02 + 0.075. Times that were disturbed now and then are followed, and left again.
    let sparse = Data { xp: 0.5, zvc: 0.02, ibp: 1.0 };
    let spikes: Vec<f64> = (0..60).map(|i| if i % 20 < 4 { 10.0 } else { 1.0 }).collect();
    assert_eq!(sampled(&spikes, sparse), 0);
}

#[test]
fn places_that_say_too_little_of_the_whole_mislead_nobody() {
    let codecs = || speeds().codecs().iter().cloned().chain([codec(Algorithm::Ibp, 0.1, 1e5)]).collect();
    // At 1 Gb/s, 8 ns a byte: XP 1.76 + 0.15, ZVC 2.32 + 0.075. Zeros are dense here and rare there.
    let quick = Data { xp: 0.22, zvc: 0.29, ibp: 1.0 };
    // IBP 1.2 + 0.15: nothing is better, but samples do not look at it while it is in use.
    let dear = Data { ibp: 0.15, ..quick };
    // IBP 2 + 0.15: nearly as good as XP, and hardly ever looked at.
    let near = Data { ibp: 0.25, ..quick };
    for (data, best, most_others) in
        [(quick, Algorithm::Xp, 0), (dear, Algorithm::Ibp, 300), (near, Algorithm::Xp, 100)]
    {
        for parts in [&[1.0, 0.3, 1.3, 0.1, 1.8][..], &[0.3, 1.8], &[0.8], &[1.8]] {
            let mut policy = Adaptive::new(Arc::new(Speeds::try_new(codecs()).unwrap()));
            let facts = CheapFacts { link: link(1.0), ..transfer(MIB / 2) };
            let (mut looked_at, mut sent) = (0, Vec::new());
            for part in parts.iter().cycle().take(3000) {
                let part_of = |fraction: f64| (fraction * part).min(1.0);
                let seen = Data { xp: part_of(data.xp), zvc: part_of(data.zvc), ibp: part_of(data.ibp) };
                let one = send_seen_as(&mut policy, &facts, data, seen, |_| 1.0);
                looked_at += u32::from(one.sampled_bytes > 0);
                sent.push(one.decision.algorithm);
            }
            assert!(looked_at > 20, "{looked_at}");
            let others = |sent: &[Algorithm]| sent.iter().filter(|&&sent| sent != best).count();
            let (all, late) = (others(&sent), others(&sent[2500..]));
            assert!(all <= most_others && late <= most_others / 10, "{best}, {parts:?}: {all}, {late} late");
        }
    }
}

#[test]
fn raw_streams_find_out_that_their_data_changed() {
    let mut policy = Adaptive::new(speeds());
    let facts = transfer(64 << 10);
    for _ in 0..1000 {
        send(&mut policy, &facts, NOISE);
    }
    let until_found =
        (0..100).find(|_| send(&mut policy, &facts, ACTIVATIONS).decision.algorithm == Algorithm::Zvc);
    assert!(until_found.is_some());
}

#[test]
fn short_raw_transfers_are_looked_at_again_as_well() {
    // Both samples together take 5 us and 164 ns, more than 64 transfers of 66 us save at the quiet share; one of them does not.
    let slow = [codec(Algorithm::Xp, 0.1, 2500.0), codec(Algorithm::Zvc, 0.05, 2500.0)];
    let mut policy = Adaptive::new(Arc::new(Speeds::try_new(slow.into()).unwrap()));
    let facts = transfer(64 << 10);
    let looked_at = (0..20_000).filter(|_| send(&mut policy, &facts, NOISE).sampled_bytes > 0).count();
    assert!(looked_at > 20, "{looked_at}");
    let until_found = (0..)
        .take(5000)
        .find(|_| send(&mut policy, &facts, ACTIVATIONS).decision.algorithm == Algorithm::Zvc);
    assert!(until_found.is_some());
}

#[test]
fn an_estimate_that_takes_long_is_not_waited_for() {
    let codecs = speeds().codecs().iter().cloned().chain([codec(Algorithm::Ibp, 0.1, 1e5)]).collect();
    let mut policy = Adaptive::new(Arc::new(Speeds::try_new(codecs).unwrap()));
    let asked = |policy: &mut Adaptive| match policy.plan(&transfer(MIB)) {
        Plan::Sample { algorithms, .. } => {
            let estimates: Vec<_> =
                algorithms.iter().map(|algorithm| Estimate { algorithm, bits: 8 * MIB }).collect();
            policy.choose(&transfer(MIB), &estimates);
            algorithms
        }
        Plan::Use(_) => AlgorithmSet::from_bits(0),
    };
    // A transfer of 1 ms may borrow 42 us, which is enough for the other two.
    let two = [Algorithm::Xp, Algorithm::Zvc].into_iter().collect();
    assert_eq!(asked(&mut policy), two);
    assert!((0..200).any(|_| asked(&mut policy).contains(Algorithm::Ibp)), "never");
}

#[test]
fn samples_that_are_often_far_off_do_not_replace_what_is_known() {
    let mut policy = Adaptive::new(speeds());
    let same = |part: f64| Data { xp: 0.6 * part, zvc: 1.5 * part, ibp: 1.0 };
    let facts = transfer(MIB);
    let mut predicted = Vec::new();
    for number in 0..200 {
        // A third or three halves of what the whole becomes.
        let seen = same(if number % 2 == 0 { 0.33 } else { 1.5 });
        let sent = send_seen_as(&mut policy, &facts, same(1.0), seen, |_| 1.0);
        if sent.sampled_bytes > 0 && sent.decision.algorithm == Algorithm::Xp {
            predicted.push(sent.decision.predicted_bits.unwrap() as f64 / facts.raw_bits() as f64);
        }
    }
    let (early, late) = predicted.split_at(predicted.len() / 2);
    assert!(late.len() > 3 && early.iter().any(|fraction| !(0.5..0.7).contains(fraction)), "{predicted:?}");
    assert!(late.iter().all(|fraction| (0.55..0.65).contains(fraction)), "{predicted:?}");
}

#[test]
fn a_sample_that_never_comes_back_is_asked_for_again() {
    let mut policy = Adaptive::new(speeds());
    let facts = transfer(MIB);
    let sampled = |policy: &mut Adaptive| matches!(policy.plan(&facts), Plan::Sample { .. });
    assert!(sampled(&mut policy));
    // While nothing is known, each transfer is sampled that can afford it.
    assert!(sampled(&mut policy));
    send(&mut policy, &facts, WEIGHTS);
    assert!((0..100).any(|_| sampled(&mut policy)));
    let again = (0..).find(|_| sampled(&mut policy));
    assert!((10..100).contains(&again.unwrap()), "{again:?}");
}

#[test]
fn estimators_that_were_slow_for_a_while_are_asked_again() {
    let mut policy = Adaptive::new(speeds());
    let facts = transfer(64 << 10);
    // Both take 563 ns, and 9 us where everything takes sixteen times as long: more than 64 transfers of 66 us save at the quiet share.
    let mut sampled = |pace: f64| {
        let sent = decide(&mut policy, &facts, NOISE);
        let sampling = (sent.sampled_bytes > 0)
            .then(|| Duration::from_nanos((pace * (400.0 + 0.02 * sent.sampled_bytes as f64)) as u64));
        let (decision, is_sampled) = (sent.decision, sampling.is_some());
        assert_eq!(decision.algorithm, Algorithm::None);
        let outcome = Outcome {
            sent: Algorithm::None,
            coded_bytes: facts.raw_bytes,
            sampling,
            encode: None,
            decode: None,
            acknowledged: None,
        };
        policy.observe(&facts, &decision, &outcome);
        is_sampled
    };
    let slow = (0..10_000).filter(|_| sampled(64.0)).count();
    assert!(slow < 100, "{slow}: they are known to be slow");
    let again = (0..20_000).filter(|_| sampled(1.0)).count();
    assert!(again > 1000, "{again}: they are as quick as they were");
}

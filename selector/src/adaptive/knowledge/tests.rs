//! What is learned, by numbers worked out by hand.

use super::*;

const KIB: u64 = 1 << 10;

#[test]
fn what_is_no_number_says_nothing_of_a_decoder() {
    let mut knowledge = Knowledge::default();
    for pace in [f64::NAN, f64::INFINITY, f64::NAN] {
        knowledge.learn_decoding(Algorithm::Xp, KIB, pace);
    }
    knowledge.settle(Algorithm::Xp);
    let times = CodecTimes { encode_ns: 1.0, decode_ns: 2.0 };
    assert_eq!(knowledge.corrected(Algorithm::Xp, KIB, times), times);
}

#[test]
fn near_fractions_move_the_known_and_far_ones_replace_it() {
    let mut knowledge = Knowledge::default();
    assert_eq!(knowledge.fraction(Algorithm::Xp), None);
    let mut learn = |fraction, raw_bytes| {
        knowledge.learn_fraction(Algorithm::Xp, fraction, raw_bytes, 0.1);
        knowledge.settle(Algorithm::Xp);
        knowledge.fraction(Algorithm::Xp).unwrap()
    };
    assert_eq!(learn(0.5, 1000.0), 0.5);
    // 0.75 of what was there before, and as much as that was: 4/7 of the way.
    assert!((learn(0.535, 1000.0) - 0.52).abs() < 1e-9);
    assert!(learn(0.9, 1000.0) > 0.82);
    // What is short says little of what is long.
    assert!(learn(0.1, 1.0) > 0.8);
    assert!(learn(0.1, 1e6) < 0.11);
    assert_eq!(knowledge.fraction(Algorithm::Zvc), None);
}

#[test]
fn what_is_short_beside_what_is_known_does_not_make_it_doubtful() {
    let mut knowledge = Knowledge::default();
    let mut learn = |fraction, raw_bytes| {
        knowledge.learn_fraction(Algorithm::Xp, fraction, raw_bytes, 0.1);
        knowledge.latest_fraction(Algorithm::Xp).unwrap()
    };
    learn(0.5, 64e6);
    (0..3).for_each(|_| assert!(learn(0.9, 600.0) < 0.5001));
    // 27 MB of evidence are left, of which the next one leaves three quarters. A tenth each time would be 64 KB.
    assert!(learn(0.54, 64e3) < 0.5003);
    // What is a 64th of that or more does: 20.3 MB, of which a tenth is left.
    assert!(learn(0.9, 64e4) > 0.59);
}

#[test]
fn what_is_known_of_other_data_weighs_little() {
    let mut knowledge = Knowledge::default();
    for _ in 0..100 {
        knowledge.learn_fraction(Algorithm::Ibp, 1.0, 1000.0, 0.3);
    }
    let learn = |knowledge: &mut Knowledge| {
        knowledge.learn_fraction(Algorithm::Ibp, 0.8, 1000.0, 0.3);
        knowledge.latest_fraction(Algorithm::Ibp).unwrap()
    };
    // Near enough to what is known, it is one of four.
    assert!((learn(&mut knowledge.clone()) - 0.95).abs() < 1e-6);
    knowledge.doubt_fractions();
    // 4,000 bytes of evidence, a tenth of them left, and three quarters of these.
    assert!((learn(&mut knowledge) - (1.0 - 0.2 * 1000.0 / 1300.0)).abs() < 1e-6);
}

#[test]
fn small_moves_do_not_count_until_they_add_up() {
    let mut knowledge = Knowledge::default();
    let mut learn = |fraction| {
        knowledge.learn_fraction(Algorithm::Xp, fraction, 1000.0, 0.1);
        knowledge.settle(Algorithm::Xp)
    };
    assert_eq!(learn(0.5), Moved::Far);
    assert_eq!(learn(0.5), Moved::No);
    assert_eq!(learn(0.51), Moved::No);
    assert_eq!(learn(0.53), Moved::Little);
    assert_eq!(learn(0.8), Moved::Far);
}

#[test]
fn one_slow_call_does_not_condemn_a_codec() {
    let mut knowledge = Knowledge::default();
    knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1000.0), decode: None }, false);
    assert_eq!(knowledge.settle(Algorithm::Zvc), Moved::Far);
    let measured = CodecTimes { encode_ns: 90.0, decode_ns: 90.0 };
    // Taken for twice as slow, and two thirds of the way there.
    let corrected = knowledge.corrected(Algorithm::Zvc, KIB, measured);
    assert!((corrected.encode_ns - 150.0).abs() < 1e-9 && corrected.decode_ns == 90.0, "{corrected:?}");
    for _ in 0..100 {
        knowledge.learn_times(
            Algorithm::Zvc,
            KIB,
            Paces { encode: Some(1000.0), decode: Some(f64::NAN) },
            false,
        );
    }
    knowledge.settle(Algorithm::Zvc);
    assert_eq!(knowledge.corrected(Algorithm::Zvc, KIB, measured).encode_ns, 1440.0);
}

#[test]
fn what_was_slow_and_is_not_timed_recovers() {
    let mut knowledge = Knowledge::default();
    // Two thirds of the way.
    knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1.6), decode: Some(0.7) }, false);
    let near = |times: CodecTimes, encode_ns: f64| {
        assert!((times.encode_ns - encode_ns).abs() < 1e-9, "{times:?}");
        assert!((times.decode_ns - 0.8).abs() < 1e-9, "what is quicker stays so: {times:?}");
    };
    let mut recovered = || {
        knowledge.recover();
        knowledge.settle(Algorithm::Zvc);
        knowledge.corrected(Algorithm::Zvc, KIB, CodecTimes { encode_ns: 1.0, decode_ns: 1.0 })
    };
    near(recovered(), 1.4); // it was timed since the last time
    near(recovered(), 1.35);
    near(recovered(), 1.30625);
}

#[test]
fn outcomes_without_times_teach_none() {
    let mut knowledge = Knowledge::default();
    let nothing = Paces { encode: None, decode: None };
    // Two thirds of the way to twice as slow, and 40 % of the rest of it.
    let slow = Paces { encode: Some(4.0), decode: None };
    (0..2).for_each(|_| knowledge.learn_times(Algorithm::Zvc, KIB, slow, false));
    let encode = |knowledge: &Knowledge| knowledge.live[usize::from(Algorithm::Zvc.number())].paces;
    let learned = encode(&knowledge)[band(KIB)].encode;
    assert!((learned - (5.0 / 3.0 + 0.4 * 5.0 / 3.0)).abs() < 1e-9, "{learned}");
    knowledge.recover();
    for _ in 0..3 {
        (0..100).for_each(|_| knowledge.learn_times(Algorithm::Zvc, KIB, nothing, false));
        knowledge.recover();
    }
    let left = encode(&knowledge)[band(KIB)];
    assert!((left.encode - 1.0 - (learned - 1.0) * 0.875f64.powi(3)).abs() < 1e-9, "{left:?}");
    assert_eq!((left.timed, knowledge.timed(Algorithm::Zvc, 64 << 20)), (2, 0));
    // Other lengths are known from elsewhere by then.
    knowledge.learn_times(Algorithm::Zvc, 64 << 20, Paces { encode: Some(0.9), decode: None }, false);
    knowledge.doubt_times();
    let before = encode(&knowledge).map(|pace| pace.encode);
    knowledge.learn_times(Algorithm::Zvc, KIB, nothing, true);
    assert_eq!(encode(&knowledge).map(|pace| pace.encode), before);
    assert_eq!(knowledge.timed(Algorithm::Zvc, KIB), 1, "that it was tried counts");
}

#[test]
fn other_lengths_go_by_the_nearest_that_was_timed_until_they_are() {
    let mut knowledge = Knowledge::default();
    let encode_ns = |knowledge: &mut Knowledge, raw_bytes| {
        knowledge.settle(Algorithm::Zvc);
        let measured = CodecTimes { encode_ns: 1.0, decode_ns: 1.0 };
        knowledge.corrected(Algorithm::Zvc, raw_bytes, measured).encode_ns
    };
    knowledge.learn_times(Algorithm::Zvc, KIB, Paces { encode: Some(1.6), decode: None }, false);
    let near = |a: f64, b: f64| assert!((a - b).abs() < 1e-9, "{a}, not {b}");
    near(encode_ns(&mut knowledge, KIB), 1.4);
    // 85 % of the 0.4 in the next band, 85 % of that in the one behind; four bands on 52.200625 %.
    near(encode_ns(&mut knowledge, 512 * KIB), 1.34);
    near(encode_ns(&mut knowledge, 2 << 20), 1.289);
    near(encode_ns(&mut knowledge, 64 << 20), 1.2088025);
    assert_eq!((knowledge.timed(Algorithm::Zvc, KIB), knowledge.timed(Algorithm::Zvc, 64 << 20)), (1, 0));
    // Two thirds of the way there.
    knowledge.learn_times(Algorithm::Zvc, 64 << 20, Paces { encode: Some(0.9), decode: None }, false);
    let long = 1.2088025 - 2.0 / 3.0 * 0.3088025;
    near(encode_ns(&mut knowledge, 64 << 20), long);
    near(encode_ns(&mut knowledge, 8 << 20), 1.0 + 0.85 * (long - 1.0));
    // As near to both: the shorter.
    near(encode_ns(&mut knowledge, 2 << 20), 1.289);
    near(encode_ns(&mut knowledge, KIB), 1.4);
}

#[test]
fn new_streams_inherit_speeds_but_no_sizes() {
    let mut others = Knowledge::default();
    others.learn_fraction(Algorithm::Xp, 0.5, 1000.0, 0.1);
    others.learn_times(Algorithm::Xp, KIB, Paces { encode: Some(1.6), decode: None }, false);
    let new = Knowledge::starting_from(&others);
    assert_eq!(new.fraction(Algorithm::Xp), None);
    assert_eq!(new.timed(Algorithm::Xp, KIB), 0);
    let measured = CodecTimes { encode_ns: 100.0, decode_ns: 100.0 };
    assert!((new.corrected(Algorithm::Xp, KIB, measured).encode_ns - 140.0).abs() < 1e-9);
}

#[test]
fn a_kind_is_recalled_by_what_is_not_short_beside_all_that_is_known() {
    use Algorithm::{Xp, Zvc};
    let mut knowledge = Knowledge::default();
    for (xp, zvc) in [(0.06, 0.05), (0.68, 1.0)] {
        for (algorithm, fraction) in [(Xp, xp), (Zvc, zvc)] {
            knowledge.learn_fraction(algorithm, fraction, 64e6, 0.1);
        }
        assert_eq!(knowledge.learn_kind(&[(Xp, xp), (Zvc, zvc)], 64e6, 0.25), Turn::New);
    }
    // A tenth of the 64 MB of before, and 64 more; a 64th of that is 1.1 MB.
    let zvc = |bytes| {
        let mut knowledge = knowledge.clone();
        assert_eq!(knowledge.learn_kind(&[(Xp, 0.06)], bytes, 0.25), Turn::Back);
        knowledge.latest_fraction(Zvc).unwrap()
    };
    assert!(zvc(1.0e6) > 0.9);
    assert_eq!(zvc(1.2e6), 0.05);
}

#[test]
fn of_a_transfer_that_was_looked_at_what_was_seen_counts() {
    use Algorithm::{Ibp, Xp, Zvc};
    let mut knowledge = Knowledge::default();
    for algorithm in [Xp, Zvc, Ibp] {
        knowledge.learn_fraction(algorithm, 0.5, 1000.0, 0.1);
        knowledge.learn_fraction(algorithm, 0.9, 1000.0, 0.1);
    }
    let of_this_one = |is_raw| {
        let seen = |algorithm| (algorithm == Xp).then_some(0.2);
        let this = knowledge.of_this_one(seen, is_raw);
        [Xp, Zvc].map(|algorithm| this.fraction(algorithm).unwrap())
    };
    let latest = knowledge.latest_fraction(Zvc).unwrap();
    assert_eq!(of_this_one(false), [0.2, latest]);
    assert_eq!(of_this_one(true), [0.2, knowledge.expected_fraction(Zvc).unwrap()]);
}

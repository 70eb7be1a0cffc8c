use super::*;

fn point(raw_bytes: u64, encode_ns: f64, decode_ns: f64) -> Point {
    Point { raw_bytes, encode_ns, decode_ns }
}

fn entry(series: Vec<Series>) -> CodecSpeed {
    let (algorithm, element) = ("xp".into(), "bf16".into());
    CodecSpeed { algorithm, element, estimate_call_ns: 200.0, estimate_ns_per_byte: 0.1, series }
}

/// At a quarter of the bytes: 1,000 bytes in 200 ns, 3,000 in 400 ns; at three quarters twice that, and what is stored a
/// tenth. Decoding takes half.
fn table() -> Speeds {
    let series = |fraction, by: f64| Series {
        fraction,
        points: vec![point(1000, 200.0 * by, 100.0 * by), point(3000, 400.0 * by, 200.0 * by)],
    };
    Speeds::try_new(vec![entry(vec![series(0.25, 1.0), series(0.75, 2.0), series(1.0, 0.1)])]).unwrap()
}

#[test]
fn between_lengths_and_fractions_times_are_interpolated() {
    let table = table();
    let cases = [
        (1000, 0.25, 200.0),
        (2000, 0.25, 300.0),
        (2000, 0.5, 450.0),
        (2000, 0.75, 600.0),
        // Nothing lies between what is coded and what is stored.
        (2000, 0.98, 600.0),
        (2000, 1.0, 30.0),
        // Outside: the time of a call for less, in proportion for more, and the nearest fraction.
        (10, 0.25, 200.0),
        (6000, 0.25, 800.0),
        (2000, 0.01, 300.0),
        (2000, 1.5, 30.0),
    ];
    for (raw_bytes, fraction, encode_ns) in cases {
        let times = table.times(Algorithm::Xp, Element::Bf16, raw_bytes, fraction).unwrap();
        let expected = CodecTimes { encode_ns, decode_ns: encode_ns / 2.0 };
        assert_eq!(times, expected, "{raw_bytes} bytes at {fraction}");
    }
}

#[test]
fn least_times_are_below_all_others_and_reach_them() {
    // The first takes longer for much, the second for little, and the third was timed at one length only.
    let series = |fraction, points| Series { fraction, points };
    let all = vec![
        series(0.2, vec![point(1000, 100.0, 50.0), point(9000, 1700.0, 90.0)]),
        series(0.6, vec![point(2000, 400.0, 10.0), point(5000, 600.0, 300.0)]),
        series(1.0, vec![point(4000, 500.0, 100.0)]),
    ];
    let table = Speeds::try_new(vec![entry(all)]).unwrap();
    for raw_bytes in (1..200).map(|step| step * 100) {
        let least = table.least_times(Algorithm::Xp, Element::Bf16, raw_bytes).unwrap();
        for fraction in [0.0, 0.2, 0.4, 0.6, 0.9, 1.0] {
            let times = table.times(Algorithm::Xp, Element::Bf16, raw_bytes, fraction).unwrap();
            let near = 1.0 + 1e-9;
            assert!(least.encode_ns <= times.encode_ns * near, "{raw_bytes} bytes at {fraction}");
            assert!(least.decode_ns <= times.decode_ns * near, "{raw_bytes} bytes at {fraction}");
        }
    }
    let least = |raw_bytes| table.least_times(Algorithm::Xp, Element::Bf16, raw_bytes).unwrap().encode_ns;
    assert_eq!([1000, 4000, 9000].map(least), [100.0, 500.0, 1080.0]);
    assert_eq!(table.least_times(Algorithm::Zvc, Element::Bf16, 1000), None);
}

#[test]
fn what_was_not_measured_has_no_times() {
    let table = table();
    assert_eq!(table.times(Algorithm::Xp, Element::F16, 1000, 0.5), None);
    assert_eq!(table.times(Algorithm::Zvc, Element::Bf16, 1000, 0.5), None);
    assert_eq!(table.times(Algorithm::None, Element::Bf16, 1000, 0.5), None);
    assert_eq!(table.estimate(Algorithm::Zvc, Element::Bf16), None);
    assert_eq!(table.estimate(Algorithm::Xp, Element::Bf16).map(|estimate| estimate.ns(1000)), Some(300.0));
}

#[test]
fn tables_that_make_no_sense_are_refused() {
    let good = || entry(vec![Series { fraction: 0.5, points: vec![point(1000, 1.0, 1.0)] }]);
    let broken = |change: fn(&mut CodecSpeed)| {
        let mut codec = good();
        change(&mut codec);
        Speeds::try_new(vec![codec]).unwrap_err().what
    };
    assert_eq!(broken(|c| c.algorithm = "lz4".into()), Wrong::Algorithm);
    assert_eq!(broken(|c| c.algorithm = "none".into()), Wrong::Raw);
    assert_eq!(broken(|c| c.element = "f128".into()), Wrong::Element);
    assert_eq!(broken(|c| c.series.clear()), Wrong::Empty);
    let too_many = |what| Wrong::TooMany { what, count: 65, limit: 64 };
    assert_eq!(broken(|c| c.series = vec![c.series[0].clone(); 65]), too_many("series"));
    assert_eq!(broken(|c| c.series[0].points = vec![c.series[0].points[0]; 65]), too_many("lengths"));
    assert_eq!(broken(|c| c.series[0].points.clear()), Wrong::Empty);
    assert_eq!(broken(|c| c.series[0].fraction = 0.0), Wrong::Fraction { fraction: 0.0 });
    assert!(matches!(broken(|c| c.series[0].fraction = f64::NAN), Wrong::Fraction { .. }));
    assert_eq!(broken(|c| c.series[0].fraction = 2.5), Wrong::Fraction { fraction: 2.5 });
    assert_eq!(broken(|c| c.series.push(c.series[0].clone())), Wrong::Fraction { fraction: 0.5 });
    assert_eq!(broken(|c| c.series[0].points[0].raw_bytes = 0), Wrong::Length { raw_bytes: 0 });
    assert_eq!(broken(|c| c.series[0].points.push(point(1000, 1.0, 1.0))), Wrong::Length { raw_bytes: 1000 });
    assert_eq!(broken(|c| c.series[0].points[0].encode_ns = -1.0), Wrong::Time { ns: -1.0 });
    assert!(matches!(broken(|c| c.series[0].points[0].decode_ns = f64::INFINITY), Wrong::Time { .. }));
    assert_eq!(broken(|c| c.series[0].points[0].encode_ns = 2e15), Wrong::Time { ns: 2e15 });
    assert_eq!(broken(|c| c.series[0].points[0].encode_ns = 0.0), Wrong::Free { ns: 0.0 });
    assert_eq!(broken(|c| c.series[0].points[0].decode_ns = 1e-300), Wrong::Free { ns: 1e-300 });
    assert!(matches!(broken(|c| c.estimate_ns_per_byte = f64::NAN), Wrong::Time { .. }));
    assert_eq!(broken(|c| c.estimate_call_ns = -1.0), Wrong::Time { ns: -1.0 });

    let mut unseen = good();
    (unseen.estimate_call_ns, unseen.estimate_ns_per_byte) = (0.0, 0.0);
    assert!(Speeds::try_new(vec![unseen]).is_ok(), "looks may cost nothing");

    let error = Speeds::try_new(vec![good(), good()]).unwrap_err();
    assert_eq!(error, SpeedsError { entry: 1, what: Wrong::Twice });
    assert_eq!(error.to_string(), "codec speeds, entry 1: algorithm and element are there twice");
}

#[test]
fn typical_speeds_cover_every_codec_and_element() {
    let typical = Speeds::typical();
    for codec in mgcomp_codecs::codecs() {
        for element in Element::ALL {
            let times = typical.times(codec.algorithm(), element, 1 << 20, 0.5);
            assert!(times.is_some_and(|t| t.encode_ns > 0.0 && t.decode_ns > 0.0), "{}", codec.algorithm());
        }
    }
}

#[test]
fn devices_are_expected_to_be_as_fast_as_they_have_multiprocessors() {
    let ns = |multiprocessors, raw_bytes| {
        let speeds = Speeds::expected_of_device(multiprocessors);
        speeds.times(Algorithm::Xp, Element::Bf16, raw_bytes, 0.7).unwrap().encode_ns
    };
    // A call takes 10 us, and 740 GB/s are 100 us for 74 MB.
    assert!((ns(132, 74_000_000) - 110_000.0).abs() < 1.0, "{}", ns(132, 74_000_000));
    assert!((ns(66, 74_000_000) - 210_000.0).abs() < 1.0);
    assert!((ns(132, 0) - 10_001.4).abs() < 0.1, "as the shortest that is known");
    assert!(ns(0, 1 << 20) > ns(1, 1 << 10));
    // No kernels.
    let speeds = Speeds::expected_of_device(132);
    assert_eq!(speeds.times(Algorithm::Deflate, Element::U8, 1 << 20, 0.5), None);
}

#[test]
fn encoders_of_one_machine_meet_decoders_of_another() {
    let codec = |algorithm: &str, estimate_call_ns: f64, points: Vec<Point>| CodecSpeed {
        algorithm: algorithm.to_owned(),
        estimate_call_ns,
        ..entry(vec![Series { fraction: 0.5, points }])
    };
    let here = [
        codec("xp", 7.0, vec![point(1000, 10.0, 20.0), point(3000, 30.0, 60.0)]),
        codec("zvc", 7.0, vec![point(1000, 1.0, 2.0)]),
    ];
    let there = [codec("xp", 9.0, vec![point(1000, 500.0, 100.0), point(5000, 900.0, 300.0)])];
    let here = Speeds::try_new(here.to_vec()).unwrap();
    let both = here.decoded_by(&Speeds::try_new(there.to_vec()).unwrap());
    // At 3000 bytes the decoder is half-way from 100 to 300 ns.
    let expected = codec("xp", 7.0, vec![point(1000, 10.0, 100.0), point(3000, 30.0, 200.0)]);
    assert_eq!(both.codecs(), [expected]);
}

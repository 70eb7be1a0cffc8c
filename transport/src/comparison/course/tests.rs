use super::*;

mod patterns;

const NOTHING_SENT: Expected = Expected {
    sent_bytes: 0,
    raw_bytes: 0,
    known_bytes: 0,
    coded_bytes: 0,
    link_ns: 0,
    peers: 0,
    learning_bytes: 0,
};
const NOTHING_WANTED: Expected = Expected { sent_bytes: 1000, ..NOTHING_SENT };
const HALF: Expected = Expected { raw_bytes: 1000, known_bytes: 1000, coded_bytes: 500, ..NOTHING_WANTED };

/// Carries out one collective of one rank that takes so many microseconds raw, and otherwise.
fn one(course: &mut Course, (raw, coded): (u64, u64), expected: Expected) -> Way {
    let way = course.begin();
    let is_raw = way.raw().is_some() || expected == NOTHING_WANTED;
    course.end(way, Duration::from_micros(if is_raw { raw } else { coded }), expected);
    if let Some(report) = course.report() {
        course.hear(&[report]);
    }
    way
}

/// Carries out collectives up to number `until`; returns where comparisons have started, and with how many raw ones.
fn comparisons(course: &mut Course, until: u64, times: (u64, u64)) -> Vec<(u64, u64)> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for number in course.count..until {
        let start = course.start;
        let way = one(course, times, HALF);
        if !matches!(way, Way::Raw(Raw::Timed) | Way::TimedFree) {
            continue;
        }
        if found.last().is_none_or(|(known, _)| *known != start) {
            assert_eq!(start, number);
            found.push((number, 0));
        }
        found.last_mut().unwrap().1 += u64::from(way == Way::Raw(Raw::Timed));
    }
    found
}

/// Asserts that comparisons have started behind these round numbers: those behind 512 and more up to 192 later, by eights.
fn assert_starts(starts: impl Iterator<Item = u64>, rounds: &[u64]) {
    let starts: Vec<_> = starts.collect();
    assert_eq!(starts.len(), rounds.len(), "{starts:?}");
    for (start, round) in starts.iter().zip(rounds) {
        let later = start - 1 - round;
        assert!(later % 8 == 0 && later < if *round < 512 { 1 } else { 192 }, "{starts:?}");
    }
    let far: Vec<_> = starts.iter().zip(rounds).filter(|(_, round)| **round >= 512).collect();
    assert!(
        far.len() < 3 || far.iter().any(|(start, round)| *start - *round != far[0].0 - far[0].1),
        "{starts:?}"
    );
}

#[test]
fn where_compression_pays_few_are_compared_and_ever_fewer() {
    let mut course = Course::default();
    // Four collectives each; then about seven times as many more as there were, 4096 at most: behind the power of two or the multiple of 4096
    // that is next to 5 × 8, 37 × 8 = 296, 261 × 8 = 2088, 2053 + 4096 and so on.
    let found = comparisons(&mut course, 20_000, (100, 60));
    assert!(found.iter().all(|&(_, raw)| raw == 2), "{found:?}");
    assert_starts(found.iter().map(|&(start, _)| start), &[0, 32, 256, 2048, 8192, 12_288, 16_384]);
    assert_eq!(course.begin(), Way::Free);
}

#[test]
fn where_compression_is_slower_all_go_raw_until_the_next_comparison() {
    let mut course = Course::default();
    // Four of each are enough, and then about as many more as there were, 512 at most: 9 × 2, 25 × 2, 73 × 2.
    let found = comparisons(&mut course, 2000, (100, 120));
    assert!(found.iter().all(|&(_, raw)| raw == 4), "{found:?}");
    assert_starts(found.iter().map(|&(start, _)| start), &[0, 16, 64, 128, 256, 512, 1024, 1536]);
    let slower = Way::Raw(Raw::Slower { coded_ns: 120_000, raw_ns: 100_000 });
    assert_eq!(one(&mut course, (100, 120), HALF), slower);
    // It takes eight of each to see less. (As long as it is not 5 %.)
    assert_eq!(comparisons(&mut Course::default(), 60, (100, 106)), [(1, 8), (33, 8)]);
    // It pays again.
    let found = comparisons(&mut course, 2400, (100, 60));
    assert_starts(found.iter().map(|&(start, _)| start), &[2048]);
    assert_eq!(found[0].1, 2);
    assert_eq!(one(&mut course, (100, 60), HALF), Way::Free);
}

#[test]
fn what_makes_no_difference_stays_as_it_is() {
    let mut course = Course::default();
    assert_eq!(comparisons(&mut course, 50, (100, 104)), [(1, 8), (33, 8)]);
    assert_eq!(one(&mut course, (100, 104), HALF), Way::Free);
    let mut course = Course::default();
    comparisons(&mut course, 9, (100, 120));
    assert_eq!(comparisons(&mut course, 33, (100, 97)), [(17, 8)]);
    assert!(matches!(one(&mut course, (100, 97), HALF), Way::Raw(Raw::Slower { .. })));
}

#[test]
fn one_that_is_disturbed_changes_nothing() {
    let mut course = Course::default();
    let mut raw = 0;
    while course.count < 9 {
        // The second raw one takes long.
        raw += u64::from(course.begin().raw().is_some());
        one(&mut course, (if raw == 2 { 900 } else { 100 }, 150), HALF);
    }
    let slower = Way::Raw(Raw::Slower { coded_ns: 150_000, raw_ns: 100_000 });
    assert_eq!(one(&mut course, (100, 150), HALF), slower);
}

#[test]
fn all_ranks_go_the_same_way_whatever_each_has_seen() {
    let mut ranks = [Course::default(), Course::default(), Course::default()];
    let (mut random, mut raw) = (1u64, 0);
    for number in 0..20_000u64 {
        let reports = ranks.each_ref().map(Course::report);
        let told: Vec<Report> = reports.into_iter().flatten().collect();
        assert!(told.is_empty() || told.len() == ranks.len(), "{number}");
        let phase_pays = number / 5000 % 2 == 1;
        for course in &mut ranks {
            if !told.is_empty() {
                course.hear(&told);
            }
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = random >> 58;
            let way = course.begin();
            let took = match way.raw() {
                Some(_) => 100 + noise,
                None => {
                    if phase_pays {
                        50 + noise
                    } else {
                        130 + noise
                    }
                }
            };
            let expected = [HALF, NOTHING_WANTED, Expected { learning_bytes: 100, ..HALF }];
            // One in sixteen is of no use to this rank.
            let kind = if noise % 16 == 0 { 1 + noise as usize / 16 % 2 } else { 0 };
            course.end(way, Duration::from_micros(took), expected[kind]);
        }
        let ways = ranks.each_ref().map(Course::begin);
        assert!(ways.iter().all(|way| way.raw().is_some() == ways[0].raw().is_some()), "{number} {ranks:?}");
        raw += u64::from(ways[0].raw().is_some());
    }
    // The first 5000, and then from the first comparison on in which compression does not pay any more.
    assert!((5500..8500).contains(&raw), "{raw}");
}

#[test]
fn a_rank_that_would_compress_nothing_goes_along() {
    let mut ranks = [Course::default(), Course::default()];
    for number in 0..10 {
        let told: Vec<Report> = ranks.each_ref().map(Course::report).into_iter().flatten().collect();
        for (course, expected) in ranks.iter_mut().zip([HALF, NOTHING_WANTED]) {
            if !told.is_empty() {
                course.hear(&told);
            }
            let way = course.begin();
            course.end(way, Duration::from_micros(if way.raw().is_some() { 100 } else { 120 }), expected);
        }
        assert_eq!(ranks[0].begin(), ranks[1].begin(), "{number} {ranks:?}");
    }
    assert!(matches!(ranks[1].begin(), Way::Raw(Raw::Slower { .. })));
}

#[test]
fn the_slowest_rank_decides_and_one_that_sends_nothing_is_heard() {
    // What each of a broadcast's ranks takes in microseconds raw, and otherwise. The first sends.
    for (times, is_slower) in
        [([(100, 60), (105, 120)], true), ([(100, 120), (150, 149)], false), ([(100, 60), (150, 100)], false)]
    {
        let mut ranks = [Course::default(), Course::default()];
        for _ in 0..40 {
            let told: Vec<Report> = ranks.each_ref().map(Course::report).into_iter().flatten().collect();
            for ((course, expected), (raw, coded)) in ranks.iter_mut().zip([HALF, NOTHING_SENT]).zip(times) {
                if !told.is_empty() {
                    course.hear(&told);
                }
                let way = course.begin();
                let took = if way.raw().is_some() { raw } else { coded };
                course.end(way, Duration::from_micros(took), expected);
            }
        }
        assert_eq!(ranks.each_ref().map(|course| course.slower.is_some()), [is_slower; 2], "{times:?}");
        assert!(ranks.iter().all(|course| course.start > 1), "{times:?}: none was compared");
    }
}

#[test]
fn what_was_wanted_once_is_compared() {
    // Every fourth one, and not the last before the ranks ask each other.
    let (mut course, mut timed) = (Course::default(), 0);
    for number in 0..200 {
        let expected = if number % 4 == 2 { HALF } else { NOTHING_WANTED };
        timed += u64::from(matches!(one(&mut course, (100, 120), expected), Way::Raw(Raw::Timed)));
    }
    assert!(timed >= 8, "{timed}");
}

#[test]
fn one_that_judges_by_itself_compares_as_soon_as_there_is_something() {
    let one = |course: &mut Course, (raw, coded), expected| {
        let way = course.begin();
        course.end(way, Duration::from_micros(if way.raw().is_some() { raw } else { coded }), expected);
        course.hear_own();
        way
    };
    let mut course = Course::default();
    (0..1000).for_each(|_| assert_eq!(one(&mut course, (100, 120), NOTHING_WANTED), Way::Free));
    assert_eq!(one(&mut course, (100, 120), HALF), Way::Free);
    let compared = (0..8).filter(|_| one(&mut course, (100, 120), HALF) == Way::Raw(Raw::Timed)).count();
    assert_eq!(compared, 4);
    assert!(matches!(one(&mut course, (100, 120), HALF), Way::Raw(Raw::Slower { .. })));
    // What is only tried is nothing, and says nothing.
    let mut course = Course::default();
    (0..1000).for_each(|_| _ = one(&mut course, (100, 120), NOTHING_WANTED));
    let tried = Expected { learning_bytes: HALF.raw_bytes, ..HALF };
    (0..40).for_each(|_| assert_eq!(one(&mut course, (100, 120), tried), Way::Free));
    // Nor does it take long where none was to be compressed once that began.
    let mut course = Course::default();
    (0..1000).for_each(|_| _ = one(&mut course, (100, 120), NOTHING_WANTED));
    assert_eq!(one(&mut course, (100, 120), HALF), Way::Free);
    (0..32).for_each(|_| _ = one(&mut course, (100, 120), NOTHING_WANTED));
    // Up to 1056.
    assert!((0..24).all(|_| one(&mut course, (100, 120), HALF) == Way::Free));
    assert_ne!(course.begin(), Way::Free);
    // Not where there was something: where compression pays, a second look is taken after 512, and the next is as late as ever.
    let mut course = Course::default();
    (0..1000).for_each(|_| _ = one(&mut course, (100, 120), NOTHING_WANTED));
    let timed = (0..3000).filter(|_| one(&mut course, (100, 60), HALF) == Way::Raw(Raw::Timed)).count();
    assert_eq!((timed, course.count), (4, 4000));
    assert_starts(std::iter::once(course.start), &[4096]);
}

#[test]
fn one_that_judges_by_itself_finds_what_noise_hides() {
    // What takes 60 to 160 raw takes a sixth more or less otherwise. How many of 20,000 are raw?
    let raw_of = |coded: f64, seed: u64| {
        let (mut course, mut random, mut raw) = (Course::default(), seed, 0);
        for _ in 0..20_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let way = course.begin();
            let noise = Duration::from_micros(60 + (random >> 33) % 100);
            course.end(way, if way.raw().is_some() { noise } else { noise.mul_f64(coded) }, HALF);
            course.hear_own();
            raw += u64::from(way.raw().is_some());
        }
        raw
    };
    let of_ten = |coded| (1..=10).map(|seed| raw_of(coded, seed)).sum::<u64>();
    let (slower, faster) = (of_ten(7.0 / 6.0), of_ten(5.0 / 6.0));
    assert!(slower > 150_000 && faster < 5000, "{slower} and {faster} of 200,000");
}

#[test]
fn where_nothing_is_compressed_ranks_ask_ever_more_seldom() {
    let (mut course, mut asked) = (Course::default(), Vec::new());
    while course.count < 7000 {
        let start = course.start;
        assert_eq!(one(&mut course, (100, 120), NOTHING_WANTED), Way::Free);
        if course.start != start {
            asked.push(course.count);
        }
    }
    assert_starts(asked.into_iter(), &[0, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 6144]);
}

/// Whether one is compared that takes so many microseconds.
fn is_compared(took: u64, expected: Expected) -> bool {
    let mut course = Course::default();
    (0..3).for_each(|_| _ = one(&mut course, (took - 10_000, took), expected));
    course.contest.is_some()
}

#[test]
fn what_would_take_long_raw_is_not_compared() {
    // 26 ms, and half of the bytes: 52 ms.
    assert_eq!(comparisons(&mut Course::default(), 1000, (52_000, 26_000)), []);
    assert_eq!(comparisons(&mut Course::default(), 30, (48_000, 24_000)), [(1, 2)]);
    // 80 % of the bytes: 75 ms of 60, and 212 of 170. 60 %: 75 of 45.
    let compared = |took: u64, coded_bytes| is_compared(took, Expected { coded_bytes, ..HALF });
    assert_eq!([compared(60_000, 800), compared(170_000, 800), compared(45_000, 600)], [true, false, false]);
    // Nor where the links alone would take 1.15 times 60 ms and more.
    let of_link = |link_ns| is_compared(60_000, Expected { coded_bytes: 800, link_ns, ..HALF });
    assert_eq!([of_link(68_999_000), of_link(69_001_000)], [true, false]);
}

#[test]
fn a_link_that_is_faster_than_was_thought_makes_nothing_clear() {
    // 60 ms raw, where 100 were thought, and 90 otherwise: that may be what is clear to one who has seen no raw one.
    let (expected, mut raw) = (Expected { coded_bytes: 700, link_ns: 95_000_000, ..HALF }, 0);
    let mut course = Course::default();
    for _ in 0..2000 {
        raw += u64::from(one(&mut course, (60_000, 90_000), expected).raw().is_some());
    }
    assert!(raw > 1900, "{raw}");
}

#[test]
fn what_learns_something_does_not_count() {
    let (mut course, mut counted) = (Course::default(), 0);
    for number in 0..17 {
        let learns = number % 3 == 0;
        let expected = Expected { learning_bytes: if learns { 63 } else { 62 }, ..HALF };
        one(&mut course, (100, if learns { 300 } else { 60 }), expected);
        let coded = course.contest.iter().flat_map(|contest| &contest.coded);
        counted += coded.inspect(|took| assert_eq!(**took, Duration::from_micros(60))).count();
    }
    assert!(counted > 0);
    assert_eq!(course.slower, None);
}

#[test]
fn what_was_found_of_other_data_or_shorter_times_no_longer_counts() {
    let slower = || {
        let mut course = Course::default();
        comparisons(&mut course, 12, (100, 120));
        (course.start, course.contest) = (1000, None);
        course
    };
    let expecting = |coded_bytes| Expected { coded_bytes, ..HALF };
    // 500 were expected when it was found; three quarters are 375.
    for (coded_bytes, ends) in [(376, false), (374, true)] {
        let mut course = slower();
        for _ in 0..4 {
            assert!(matches!(
                one(&mut course, (100, 120), expecting(coded_bytes)),
                Way::Raw(Raw::Slower { .. })
            ));
        }
        assert_eq!(one(&mut course, (100, 120), HALF) == Way::Free, ends);
    }
    // What is little anyway is no other data for being half of that: 60 instead of 105 are less than 50 less.
    for (coded_bytes, ends) in [(60, false), (50, true)] {
        let mut course = slower();
        course.slower.as_mut().unwrap().fraction = 0.105;
        (0..4).for_each(|_| _ = one(&mut course, (100, 120), expecting(coded_bytes)));
        assert_eq!(course.slower.is_none(), ends, "{coded_bytes}");
    }
    let mut course = slower();
    for _ in 0..3 {
        one(&mut course, (100, 120), expecting(100));
    }
    one(&mut course, (100, 120), HALF);
    assert!(
        matches!(one(&mut course, (100, 120), expecting(100)), Way::Raw(Raw::Slower { .. })),
        "not in a row"
    );
    let mut course = slower();
    for _ in 0..4 {
        one(&mut course, (51_000, 120), HALF);
    }
    assert_eq!(course.begin(), Way::Free);
}

#[test]
fn what_was_found_no_longer_counts_where_they_have_become_long_for_some() {
    let mut course = Course::default();
    comparisons(&mut course, 12, (100, 120));
    assert!(matches!(course.begin(), Way::Raw(Raw::Slower { .. })));
    let mut told = 0;
    while course.count < 30 {
        let way = course.begin();
        course.end(way, Duration::from_micros(100), HALF);
        if let Some(report) = course.report() {
            told += 1;
            // The other one waits for this one, and takes 51 ms.
            course.hear(&[report, Report { raw_ns: 51_000_000, ..report }]);
        }
    }
    assert_eq!((told, course.begin()), (1, Way::Free));
}

#[test]
fn reports_that_make_no_sense_do_no_harm() {
    let wild = Report { raw_ns: u64::MAX, coded_ns: u64::MAX, of_each: u64::MAX };
    let mut course = Course::default();
    for number in 0..10_000 {
        if course.report().is_some() {
            let told = [wild, wild, Report::default()];
            course.hear(if number % 2 == 0 { &told[..2] } else { &[] });
        }
        let way = course.begin();
        course.end(way, Duration::from_secs(1), Expected { coded_bytes: u64::MAX, ..HALF });
    }
    assert_eq!(course.count, 10_000);
}

//! Which ones are raw, and when they are compared, beside what comes again.

use super::*;

#[test]
fn what_changes_in_turn_is_no_difference() {
    for period in 2..9 {
        // One of several takes longer, and compression always saves 30 %.
        let mut course = Course::default();
        for number in 0..5000 {
            let times = if number % period == 0 { (100, 70) } else { (60, 42) };
            let way = one(&mut course, times, HALF);
            assert!(!matches!(way, Way::Raw(Raw::Slower { .. })), "{period}: {number}");
        }
    }
    // Nor is what takes longer at some places of four, and as long either way.
    for places in 1..15u32 {
        let (mut course, mut alone) = (Course::default(), Course::default());
        for number in 0..5000 {
            let took = if places >> (number % 4) & 1 == 1 { 100 } else { 60 };
            let way = one(&mut course, (took, took), HALF);
            assert!(!matches!(way, Way::Raw(Raw::Slower { .. })), "{places:04b}: {number}");
            let took = Duration::from_micros(took);
            let way = alone.begin();
            alone.end(way, took, if number < 3 { NOTHING_WANTED } else { HALF });
            alone.hear_own();
            assert!(!matches!(way, Way::Raw(Raw::Slower { .. })), "alone, {places:04b}: {number}");
        }
    }
    // Every second one is none that the policy would compress.
    for (times, is_slower) in [((100, 120), true), ((100, 80), false)] {
        let mut course = Course::default();
        let wanted = |number: u64| if number.is_multiple_of(2) { HALF } else { NOTHING_WANTED };
        (0..64).for_each(|number| {
            one(&mut course, times, wanted(number));
        });
        assert_eq!(course.slower.is_some(), is_slower);
    }
}

#[test]
fn of_four_two_are_raw_and_of_every_second_one_too() {
    for start in [1, 33, 257, 4097] {
        for eight in 0..8 {
            let raw = [0, 1, 2, 3, 4, 5, 6, 7].map(|place| is_raw(start + 8 * eight + place));
            assert!(raw[0] != raw[2] && raw[1] != raw[3], "{start} {eight}");
            assert!((0..4).all(|place| raw[place] != raw[place + 4]), "{start} {eight}");
        }
        // Not always in the same order.
        let firsts: Vec<bool> = (0..8).map(|eight| is_raw(start + 8 * eight)).collect();
        assert!(firsts.contains(&true) && firsts.contains(&false), "{start}");
    }
}

#[test]
fn what_becomes_warm_is_no_difference() {
    // Whatever way, three times as long at first.
    for settles in [2.0, 4.0, 8.0] {
        let mut course = Course::default();
        for number in 0..200 {
            let took = (1000.0 * (1.0 + 2.0 * f64::exp(-f64::from(number) / settles))) as u64;
            let way = one(&mut course, (took, took), HALF);
            assert!(!matches!(way, Way::Raw(Raw::Slower { .. })), "{settles}: {number}");
        }
    }
}

#[test]
fn comparisons_of_any_length_are_followed_by_the_same_one() {
    for rest in [PAYS, NOTHING, OPEN] {
        let (mut starts, mut start) = (Vec::new(), 1 + 4096);
        for _ in 0..500 {
            let next = [0, 2, 4, 8, 16, 32, 64].map(|more| {
                let mut course = Course { count: start + more, ..Course::default() };
                course.rest(rest);
                course.start
            });
            assert_eq!(next, [next[0]; 7], "{rest:?} {start}");
            assert!(next[0] > start + 64);
            start = next[0];
            starts.push(start);
        }
        assert_eq!(starts.last().unwrap() / rest.1, 4096 / rest.1 + 500, "{rest:?}: none is left out");
    }
}

#[test]
fn what_comes_again_at_round_numbers_is_not_taken_for_all() {
    // Of so many 16 take longer with compression, and all others less time.
    for (period, most) in [(128, 0.3), (512, 0.1)] {
        for phase in (0..period).step_by(16) {
            let (mut course, mut wrong) = (Course::default(), 0);
            for number in 0..40_000u64 {
                let is_slow = (number + phase) % period < 16;
                let way = one(&mut course, (100, if is_slow { 125 } else { 70 }), HALF);
                wrong += u32::from(matches!(way, Way::Raw(Raw::Slower { .. })) != is_slow);
            }
            assert!(f64::from(wrong) < most * 40_000.0, "{period} {phase}: {wrong}");
        }
    }
}

#[test]
fn two_that_judge_by_themselves_compare_at_the_same_time() {
    // As messages both ways do: both take 100 where one of them goes raw, and 70 otherwise. One begins to compress later.
    for late in [0, 3, 6, 9] {
        let mut ranks = [Course::default(), Course::default()];
        let (mut raw, mut apart) = (0, 0);
        for number in 0..2000 {
            let expected = [HALF, if number < late { NOTHING_WANTED } else { HALF }];
            let ways = ranks.each_ref().map(Course::begin);
            let is_raw = [0, 1].map(|rank| ways[rank].raw().is_some() || expected[rank] == NOTHING_WANTED);
            let took = Duration::from_micros(if is_raw[0] || is_raw[1] { 100 } else { 70 });
            for ((course, way), expected) in ranks.iter_mut().zip(ways).zip(expected) {
                course.end(way, took, expected);
                course.hear_own();
            }
            raw += u32::from(is_raw[0] || is_raw[1]);
            let is_timed = |way: &Way| matches!(way, Way::Raw(Raw::Timed) | Way::TimedFree);
            apart += u32::from(ways.iter().all(is_timed) && is_raw[0] != is_raw[1]);
        }
        assert_eq!(apart, 0, "{late}");
        assert!(ranks.iter().all(|course| course.slower.is_none()) && raw < 40, "{late}: {raw} raw");
    }
}

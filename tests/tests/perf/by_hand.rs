//! Ranks that are started by hand, and have to be told alike what to measure.

use std::process::{Output, Stdio};

use mgcomp_tests::rank_file;

use super::workbench::{Workbench, stderr, stdout};
use super::{QUICK, rows_of};

/// Starts both ranks of a job by hand, with flags of their own, and returns what became of them.
fn by_hand(flags: [&[&str]; 2]) -> [Output; 2] {
    let bench = Workbench::new();
    bench.write("job.json", rank_file::for_two().unwrap().as_bytes());
    let start = |rank: &str, flags: &[&str]| {
        let args = ["perf", "--rank-file", "job.json", "--rank", rank, "--max", "1K", "--op", "all_gather"];
        let mut command = bench.command(&[&args[..], &QUICK, flags].concat());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks = [start("1", flags[1]), start("0", flags[0])];
    let [one, zero] = ranks.map(|rank| rank.wait_with_output().unwrap());
    [zero, one]
}

#[test]
fn ranks_can_be_started_by_hand() {
    let [zero, one] = by_hand([&[], &[]]);
    assert!(zero.status.success() && one.status.success(), "{}{}", stderr(&zero), stderr(&one));
    assert_eq!((rows_of(&zero).len(), stdout(&one)), (8, String::new()));
    assert!(rows_of(&zero).iter().all(|row| row["link"] == "tcp" && row["wrong"] == 0));
}

#[test]
fn ranks_that_measure_something_else_are_found() {
    for [zero, one] in [by_hand([&[], &["--element", "i16"]]), by_hand([&["--pattern", "zeros"], &[]])] {
        for (output, words) in
            [(zero, "rank 1 was started with other"), (one, "rank 0 was started with other")]
        {
            assert_eq!(output.status.code(), Some(1));
            assert!(stderr(&output).contains(words), "{}", stderr(&output));
        }
    }
}

#[test]
fn what_one_rank_was_told_otherwise_is_named() {
    type Flags = &'static [&'static str];
    let slow: Flags = &["--link-gbps", "8"];
    let told: [(Flags, Flags, &str, [&str; 2]); 5] = [
        (&[], &["--lambda", "5"], "--lambda", ["not given", "5"]),
        (slow, &["--link-gbps", "4"], "--link-gbps", ["8", "4"]),
        (slow, &["--link-gbps", "8", "--latency-us", "20"], "--latency-us", ["0", "20"]),
        (&["--pause-us", "7"], &[], "--pause-us", ["7", "0"]),
        (&["--codec-threads", "1"], &["--codec-threads", "2"], "--codec-threads", ["1", "2"]),
    ];
    for (of_zero, of_one, flag, [zero, one]) in told {
        let outputs = by_hand([of_zero, of_one]);
        let words = [
            format!("than rank 0: {flag}: {one} on rank 1, {zero} on rank 0\n"),
            format!("than rank 1: {flag}: {zero} on rank 0, {one} on rank 1\n"),
        ];
        for (output, words) in outputs.iter().zip(words) {
            assert_eq!((output.status.code(), stdout(output)), (Some(1), String::new()), "{flag}");
            assert!(stderr(output).ends_with(&words), "{words}: {}", stderr(output));
        }
    }
}

#[test]
fn how_a_rank_takes_part_is_its_own() {
    let own = ["--timeout", "100", "--seconds", "3", "--connections", "2"];
    let [zero, one] = by_hand([&[], &own]);
    assert!(zero.status.success() && one.status.success(), "{}{}", stderr(&zero), stderr(&one));
}

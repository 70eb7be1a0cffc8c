//! Flags that are refused, and the switch that the environment has.

use mgcomp_tests::rank_file;

use super::workbench::{Workbench, stderr};
use super::{QUICK, rows_of};

#[test]
fn nonsense_switches_off_and_is_told_once() {
    let bench = Workbench::new();
    let args = ["perf", "--op", "all_gather", "--min", "64K", "--max", "64K", "--pattern", "zeros"];
    let args = [&args[..], &["--policy", "fixed:zvc"], &QUICK].concat();
    let run = |value: &str| {
        let output = bench.command(&args).env("MGCOMP", value).output().unwrap();
        assert!(output.status.success(), "{value:?}: {}", stderr(&output));
        let names =
            rows_of(&output)[0]["algorithms"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        (names, stderr(&output))
    };
    for on in ["", "on", "ON", "1", " yes"] {
        assert_eq!(run(on), (vec!["zvc".to_owned()], String::new()), "{on:?}");
    }
    for off in ["off", "OFF", "Off", "0", "false", "no "] {
        assert_eq!(run(off), (vec!["none".to_owned()], String::new()), "{off:?}");
    }
    let (names, told) = run("offf");
    assert_eq!(names, ["none"]);
    assert!(told.contains("ERROR") && told.contains("\"offf\" is neither on nor off"), "{told}");
    assert_eq!(told.lines().count(), 1, "{told}");
}

#[test]
fn bad_flags_are_refused() {
    let bench = Workbench::with("one.bin", &[1]);
    bench.write("empty.bin", &[]);
    bench.write("ranks.json", b"{ \"ranks\": [] }");
    let strangers =
        r#"{ "secret": "000102030405060708090a0b0c0d0e0f", "ranks": ["no-such-host.invalid:7400"] }"#;
    bench.write("strangers.json", strangers.as_bytes());
    let refused: [(&[&str], &[&str]); 9] = [
        (&["--data", "missing.bin"], &["cannot read missing.bin"]),
        (&["--data", "empty.bin"], &["empty.bin", "empty"]),
        (&["--data", "one.bin", "--element", "f32"], &["1 bytes are not one f32"]),
        (&["--data", "."], &["no regular file"]),
        (&["--data", "-"], &["no regular file"]),
        (&["--rank-file", "ranks.json", "--rank", "0"], &["ranks.json: rank file: missing field `secret`"]),
        (&["--rank-file", "strangers.json", "--rank", "0"], &["cannot resolve no-such-host.invalid: "]),
        (
            &["--min", "16G", "--max", "16G", "--ranks", "64", "--op", "all_to_all"],
            &["need 2199023255552 bytes"],
        ),
        (&["--plot", "no/where.svg"], &["cannot write no/where.svg"]),
    ];
    for (args, words) in refused {
        bench.fail(&[&["perf"], args].concat(), words);
    }
    bench.write("job.json", rank_file::for_two().unwrap().as_bytes());
    let together: [(&[&str], &[&str]); 5] = [
        (&["--min", "2K", "--max", "1K"], &["--min 2048 is more than --max 1024"]),
        (&["--element", "f8e4m3"], &["all_reduce computes", "f8e4m3"]),
        (&["--connections", "2"], &["several connections are for --link tcp, not for loopback"]),
        (&["--rank-file", "job.json", "--rank", "7"], &["--rank 7: the rank file names 2 ranks"]),
        (
            &["--rank-file", "job.json", "--rank", "0", "--link", "loopback"],
            &["a rank file is for --link tcp"],
        ),
    ];
    for (args, words) in together {
        bench.fail_with(&[&["perf"], args].concat(), 2, words);
    }
    bench.fail(&["perf-rank"], &["run by `mgcomp perf` alone"]);
    let usage: [&[&str]; 27] = [
        &["--op", "all"],
        &["--link", "tcp", "--connections", "17"],
        &["--op", ""],
        &["--ranks", "1"],
        &["--ranks", "65"],
        &["--min", "0"],
        &["--max", "1T"],
        &["--max", "-1"],
        &["--factor", "1"],
        &["--iters", "0"],
        &["--seconds", "0"],
        &["--seconds", "nan"],
        &["--timeout", "1e9"],
        &["--element", "float"],
        &["--reduction", "prod"],
        &["--raw", "--interleave"],
        &["--latency-us", "1"],
        &["--link-gbps", "0"],
        &["--link-gbps", "1e-300"],
        &["--link-gbps", "0.0009"],
        &["--link-gbps", "100001"],
        &["--link-gbps", "nan"],
        &["--link-gbps", "1", "--latency-us", "10000001"],
        &["--rank", "0"],
        &["--rank-file", "job.json"],
        &["--codec-threads", "0"],
        &["--link-gbps", "-3"],
    ];
    for args in usage {
        let output = bench.run(&[&["perf"], args].concat());
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", stderr(&output));
    }
}

//! `mgcomp-bench scale`: the model, by hand.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

use crate::{command, folder, run, stderr};

/// Two GPUs with 20 MB, 10 of which each sends; links of 8 Gb/s are 1 GB/s.
const PAIR: [&str; 14] = [
    "--gpus",
    "2",
    "--bytes",
    "20000000",
    "--link-gbps",
    "8",
    "--ratio",
    "2",
    "--encode",
    "10",
    "--decode",
    "20",
    "--segment",
    "1000000",
];

fn scale(folder: &Path, args: &[&str]) -> Output {
    run(folder, &[&["scale"], args].concat())
}

fn good_rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    crate::good_rows(folder, &[&["scale"], args].concat())
}

fn find<'a>(rows: &'a [Value], row: &str, collective: &str, fabric: &str) -> &'a Value {
    let same = |found: &&Value| {
        found["row"] == row && found["collective"] == collective && found["fabric"] == fabric
    };
    rows.iter().find(same).unwrap()
}

#[test]
fn times_are_those_worked_out_by_hand() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &PAIR);
    let near = |value: &Value, ms: f64| {
        assert!((value.as_f64().unwrap() - ms).abs() < 2e-4, "{value} for {ms}");
    };
    // Latency 2 µs; encode 1 ms, wire 5 ms, decode 0.5 ms, half a µs for either codec, 32 bytes of frame.
    let time = find(&rows, "time", "all-gather", "ring");
    near(&time["raw_ms"], 10.002);
    near(&time["in_turn_ms"], 6.503);
    near(&time["overlapped_ms"], 0.002 + 0.65 + 4.5);
    // All-reduce is the same twice; a switch has two links on the way.
    near(&find(&rows, "time", "all-reduce", "ring")["raw_ms"], 20.004);
    near(&find(&rows, "time", "all-gather", "switch")["raw_ms"], 10.004);
    // In turn, 1/B = 1.01 (1/(2 B) + 1/10 + 1/20) ns per byte: 26.1 Gb/s.
    let limit = find(&rows, "break-even", "all-gather", "ring")["in_turn_gbps"].as_f64().unwrap();
    assert!((limit - 26.14).abs() < 0.1, "{limit}");
    // The other way round, links of 1 GB/s with ratio 2 need codecs of 2 · 2 GB/s in turn, and 1 GB/s overlapped.
    let needed = find(&rows, "break-even", "all-gather", "ring")["needed_gbytes"].as_f64().unwrap();
    assert!((1.0..1.2).contains(&needed), "{needed}");
    assert_eq!((&rows[0]["leaf_gpus"], &rows[0]["taper"]), (&64.into(), &2.0.into()));
    // Three collectives on three fabrics, each with a time and a limit, after the model.
    assert_eq!(rows.len(), 1 + 3 * 3 * 2);
}

#[test]
fn blocks_that_frames_would_lengthen_gain_and_lose_nothing() {
    let folder = folder(&[]);
    let args = ["--gpus", "65536", "--bytes", "1M", "--link-gbps", "10"];
    let rows = good_rows(folder.path(), &args);
    for fabric in ["ring", "switch", "fat-tree"] {
        // 16 bytes for each GPU, and 43 in a frame.
        let time = find(&rows, "time", "all-to-all", fabric);
        assert!(time["raw_ms"] == time["in_turn_ms"] && time["raw_ms"] == time["overlapped_ms"], "{time}");
        let limit = find(&rows, "break-even", "all-to-all", fabric);
        assert_eq!((&limit["overlapped_gbps"], &limit["needed_gbytes"]), (&Value::Null, &Value::Null));
    }
}

#[test]
fn what_pays_on_slow_links_breaks_even() {
    let folder = folder(&[]);
    // As for the pair above, with all rates a hundred thousandth: 26.1 kb/s.
    let flags = ["--gpus", "2", "--bytes", "20000000", "--link-gbps", "0.0001", "--ratio", "2"];
    let args = [&flags[..], &["--encode", "0.0001", "--decode", "0.0002"]].concat();
    let rows = good_rows(folder.path(), &args);
    let time = find(&rows, "time", "all-gather", "ring");
    assert!(time["in_turn_ms"].as_f64() < time["raw_ms"].as_f64(), "{time}");
    let limit = find(&rows, "break-even", "all-gather", "ring")["in_turn_gbps"].as_f64().unwrap();
    assert!((limit - 26.14e-5).abs() < 0.01e-5, "{limit}");
    let text =
        String::from_utf8(scale(folder.path(), &[&args[..], &["--csv", "out"]].concat()).stdout).unwrap();
    assert!(text.contains(" 2.61e-4/"), "{text}");
    let limits = fs::read_to_string(folder.path().join("out/break_even.csv")).unwrap();
    assert!(limits.contains(",2.614e-4,"), "{limits}");
}

#[test]
fn only_a_gain_of_one_percent_pays() {
    let folder = folder(&[]);
    // The links' latency is nearly all of the time: any gain is there, but not on links of 3.6 Tb/s and not by any codec.
    let rows = good_rows(folder.path(), &["--gpus", "65536", "--bytes", "1G", "--link-gbps", "3600"]);
    assert_eq!(rows[0]["pays_from_speed_up"], 1.01);
    let time = find(&rows, "time", "all-gather", "ring");
    assert!(time["overlapped_ms"].as_f64() < time["raw_ms"].as_f64(), "{time}");
    let limit = find(&rows, "break-even", "all-gather", "ring");
    assert!((2000.0..2100.0).contains(&limit["overlapped_gbps"].as_f64().unwrap()), "{limit}");
    assert_eq!(limit["needed_gbytes"], Value::Null);
    for args in [&["--help"][..], &PAIR] {
        let text = String::from_utf8(scale(folder.path(), args).stdout).unwrap();
        assert!(text.contains("1.01"), "{text}");
    }
}

#[test]
fn text_says_that_it_is_a_model_and_files_hold_it() {
    let folder = folder(&[]);
    let output = scale(folder.path(), &[&PAIR[..], &["--csv", "out", "--plot", "out"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("a MODEL") && text.contains("break-even"), "{text}");
    let read = |name: &str| fs::read(folder.path().join("out").join(name)).expect(name);
    assert_eq!(String::from_utf8(read("scale.csv")).unwrap().lines().count(), 1 + 9);
    assert_eq!(String::from_utf8(read("break_even.csv")).unwrap().lines().count(), 1 + 9);
    let svg = String::from_utf8(read("scale-all-to-all-20000000.svg")).unwrap();
    assert!(svg.contains("MODEL") && read("scale-all-to-all-20000000.png").starts_with(b"\x89PNG"));
}

#[test]
fn rates_come_from_the_output_of_the_codec_bench() {
    let row = "{\"algorithm\":\"xp\",\"element\":\"bf16\",\"dataset\":\"w\",\"isa\":\"avx2\",\"threads\":2,\"bytes\":64,\
               \"encode_gbps\":3.5,\"decode_gbps\":4.5,\"estimate_gbps\":null,\"memcpy_gbps\":9.0,\"ratio\":1.25}\n";
    let folder = folder(&[("codec.json", row.as_bytes()), ("bad.json", b"{}"), ("empty.json", b"")]);
    let args = ["--codec", "codec.json", "--gpus", "8", "--bytes", "1M", "--link-gbps", "10"];
    let rows = good_rows(folder.path(), &args);
    let rates = ["ratio", "encode_gbytes", "decode_gbytes"].map(|key| rows[0][key].as_f64().unwrap());
    assert_eq!(rates, [1.25, 3.5, 4.5]);
    let cases = [
        (["--codec", "bad.json", "--algorithm", "xp"], "bad.json: line 1 is no row of a codec"),
        (["--codec", "codec.json", "--algorithm", "zvc"], "codec.json: none of its 1 rows is of \"zvc\""),
        (["--codec", "empty.json", "--algorithm", "xp"], "cannot measure empty.json: it is empty"),
    ];
    for (args, message) in cases {
        let output = scale(folder.path(), &args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn wrong_flags_are_refused() {
    let folder = folder(&[]);
    let cases: [(&[&str], &str); 9] = [
        (&["--gpus", "1"], "1 is not in 2..=1048576"),
        (&["--link-gbps", "0"], "\"0\" is no number from 0.000001"),
        (&["--link-gbps", "nan"], "\"nan\" is no number from 0.000001"),
        (&["--ratio", "-2"], "\"-2\" is no number from 0.000001"),
        (&["--encode", "inf"], "\"inf\" is no number from 0.000001"),
        (&["--bytes", "0"], "a buffer has 1 to"),
        (&["--link-gbps", "1e-310"], "\"1e-310\" is no number from 0.000001 to 1000000"),
        (
            &["--taper", "0.1"],
            "\"0.1\" is no taper: links above the leaves are from 1 to 1000000 times slower",
        ),
        (&["--codec", "x", "--ratio", "2"], "cannot be used with"),
    ];
    for (args, message) in cases {
        let output = scale(folder.path(), args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

#[test]
fn where_there_is_no_room_old_files_stay() {
    let folder = folder(&[("scale.csv", b"old"), ("p.svg", b"old")]);
    for (flag, place, old) in [("--csv", ".", "scale.csv"), ("--plot", "p.svg", "p.svg")] {
        let args: &[&str] = match flag {
            "--csv" => &["scale", "--ratio", "1.5", "--encode", "10", "--decode", "10", "--csv", place],
            _ => &["gather", "--bytes", "64K", "--seconds", "0.001", "--plot", place],
        };
        let program = command(folder.path(), &[]).get_program().to_owned();
        let mut shell = Command::new("bash");
        // Files of one KiB at most, and no signal for what is longer.
        shell.args(["-c", "trap '' XFSZ && ulimit -f 1 && exec \"$0\" \"$@\""]).arg(program).args(args);
        let output = shell.current_dir(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{flag}: {}", stderr(&output));
        assert!(stderr(&output).contains("cannot write"), "{flag}: {}", stderr(&output));
        assert_eq!(fs::read_to_string(folder.path().join(old)).unwrap(), "old", "{flag}");
        let names: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert_eq!(names.len(), 2, "{flag}: {names:?}");
    }
}

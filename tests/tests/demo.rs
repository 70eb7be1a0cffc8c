//! `mgcomp demo` from outside: what it prints, and what it does with bad input.

#[allow(dead_code, reason = "the command line's tests use the rest")]
mod workbench;

mod program;

use serde_json::Value;
use workbench::{Workbench, stderr, stdout};

/// 64 KiB of `u32` that count up: BDI makes them small, the other line codecs less so.
fn ramp() -> Vec<u8> {
    (0..16_384u32).flat_map(u32::to_le_bytes).collect()
}

fn noise() -> Vec<u8> {
    let mut state = 7u32;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..40_001).map(|_| next()).collect()
}

/// Runs the demo on `ramp` and `noise` and returns its rows.
fn rows(args: &[&str]) -> Vec<Value> {
    let bench = Workbench::new();
    bench.write("ramp.i32.bin", &ramp());
    bench.write("noise.bin", &noise());
    let files = ["demo", "--json", "--data", "ramp.i32.bin", "noise.bin"];
    let output = bench.succeed(&[&files, args].concat());
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Transfers by algorithm of a row.
fn transfers(row: &Value) -> Vec<(&str, u64)> {
    let by_name = row["algorithms"].as_object().unwrap();
    let transfers = |carried: &Value| carried["transfers"].as_u64().unwrap();
    by_name.iter().map(|(name, carried)| (name.as_str(), transfers(carried))).collect()
}

fn check_rows(rows: &[Value]) {
    const KEYS: [&str; 8] =
        ["algorithms", "compressed_ms", "dataset", "equal", "mode", "raw_ms", "speedup", "traffic"];
    assert_eq!(rows.iter().map(|row| &row["dataset"]).collect::<Vec<_>>(), ["ramp.i32.bin", "noise.bin"]);
    for row in rows {
        let mut keys: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, KEYS);
        assert_eq!(row["equal"], true, "{row}");
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("raw_ms") > 0.0 && number("compressed_ms") > 0.0, "{row}");
        let ratio = number("raw_ms") / number("compressed_ms");
        assert!((number("speedup") / ratio - 1.0).abs() < 1e-9, "{row}");
        assert!(transfers(row).iter().map(|(_, transfers)| transfers).sum::<u64>() > 0, "{row}");
        let carried = row["algorithms"].as_object().unwrap().values();
        let sum = |key: &str| carried.clone().map(|of| of[key].as_f64().unwrap()).sum::<f64>();
        let traffic = sum("coded_bytes") / sum("raw_bytes");
        assert!((number("traffic") / traffic - 1.0).abs() < 1e-9, "{row}");
    }
    // What does not compress goes as it is, to the byte.
    assert_eq!(rows[1]["traffic"], 1.0);
    assert_eq!(transfers(&rows[1]).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["none"]);
}

#[test]
fn threads_exchange_and_compare() {
    let rows = rows(&["--ranks", "4", "--link-gbps", "2", "--policy", "fixed:bdi"]);
    check_rows(&rows);
    // Counting words: 20 bytes of data, 2 of mask and 4 bits of form for each line of 64 bytes, where the line
    // does not start below 2^15; and the frame around them.
    let traffic = rows[0]["traffic"].as_f64().unwrap();
    assert!((0.35..0.37).contains(&traffic), "{traffic}");
    // 64 KiB are one message: 4 ranks answer one read and write once, 3 times as many rounds as were timed.
    let [("bdi", sent)] = transfers(&rows[0])[..] else { panic!("{}", rows[0]) };
    assert_eq!(sent % (4 * 2 * 3), 0, "{sent}");
}

#[test]
fn processes_exchange_over_tcp_and_compare() {
    let rows = rows(&["--tcp", "--ranks", "3", "--link-gbps", "2", "--latency-us", "0", "--policy", "paper"]);
    check_rows(&rows);
    assert!(rows[0]["traffic"].as_f64().unwrap() < 0.6, "{}", rows[0]);
}

#[test]
fn standard_input_reaches_every_rank() {
    let bench = Workbench::new();
    bench.write("ramp", &ramp());
    for ranks in [&[][..], &["--tcp"]] {
        let args = ["demo", "--json", "--ranks", "3", "--link-gbps", "2", "--policy", "fixed:bdi"];
        let input = ["--data", "-", "--element", "u32"];
        let mut command = bench.command(&[&args[..], &input, ranks].concat());
        let output = command.stdin(std::fs::File::open(bench.path("ramp")).unwrap()).output().unwrap();
        assert!(output.status.success(), "{ranks:?}: {}", stderr(&output));
        let row: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!((&row["dataset"], &row["equal"]), (&"standard input".into(), &true.into()));
        assert_eq!(transfers(&row).iter().map(|(name, _)| *name).collect::<Vec<_>>(), ["bdi"]);
    }
}

#[test]
fn the_samples_are_exchanged_where_no_file_is_named() {
    let bench = Workbench::new();
    let output = bench.succeed(&["demo", "--ranks", "2", "--link-gbps", "20", "--policy", "fixed:zvc"]);
    let text = stdout(&output);
    for name in ["relu.f32", "relu.f16", "weights.bf16", "csr_indices.i32", "edges.i64", "random.u8"] {
        let row =
            text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name}: {text}"));
        assert!(row.contains(" yes "), "{row}");
    }
    assert!(text.contains("every byte arrived equal"), "{text}");
}

#[test]
fn decisions_are_explained_on_demand() {
    for args in [&["--decisions", "3"][..], &["--decisions", "3", "--tcp"]] {
        let rows = rows(args);
        let decisions = rows[0]["decisions"].as_array().unwrap();
        assert_eq!(decisions.len(), 3, "{decisions:?}");
        for decision in decisions {
            assert_eq!((&decision["peer"], &decision["element"]), (&3.into(), &"u32".into()), "{decision}");
            assert!(decision["reason"].as_str().is_some_and(|reason| !reason.is_empty()), "{decision}");
            let number = |key: &str| decision[key].as_u64().unwrap_or_else(|| panic!("{key} of {decision}"));
            assert!(number("coded_bits") <= 8 * number("raw_bytes"));
            assert!(number("predicted_bits") > 0 && number("predicted_ns") > 0);
        }
    }
    let bench = Workbench::with("noise.bin", &noise());
    let text = stdout(&bench.succeed(&["demo", "--decisions", "1", "--data", "noise.bin"]));
    assert!(text.lines().any(|line| line.starts_with("  #") && line.contains("u8 bytes as none")), "{text}");
}

#[test]
fn what_carries_the_bytes_follows_lambda() {
    let bench = Workbench::new();
    bench.write("ramp.i32.bin", &ramp());
    let args = ["demo", "--daemon", "--ranks", "2", "--link-gbps", "1", "--data", "ramp.i32.bin"];
    let rows: Vec<Value> = stdout(&bench.succeed(&[&args[..], &["--json"]].concat()))
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let under = |lambda: Value| -> Vec<&Value> {
        rows.iter().filter(|row| row["lambda_gbps"] == lambda).map(|row| &row["algorithms"]).collect()
    };
    let (none, size, time) = (under(Value::Null), under(0.0.into()), under(1e6.into()));
    assert_eq!([none.len(), size.len(), time.len()], [3; 3], "{rows:#?}");
    let raw = |mix: &Value| mix["none"]["raw_bytes"].as_u64().unwrap_or(0);
    let bytes = |carried: &Value| carried["raw_bytes"].as_u64().unwrap();
    let all = |mix: &Value| mix.as_object().unwrap().values().map(bytes).sum::<u64>();
    assert!(raw(size[2]) * 2 < all(size[2]), "{rows:#?}");
    assert!(raw(time[2]) * 10 >= all(time[2]) * 9, "{rows:#?}");
    // Ranks that are switched off would never be seen.
    let text = stdout(&bench.command(&args).env("MGCOMP", "off").output().unwrap());
    assert!(text.contains("mgcomp lambda set 0: only size counts") && text.contains("none "), "{text}");
}

#[test]
fn a_switch_that_is_off_is_said() {
    let bench = Workbench::with("ramp.i32.bin", &ramp());
    let args = ["demo", "--ranks", "2", "--link-gbps", "20", "--data", "ramp.i32.bin"];
    let run = |more: &[&str]| {
        let output = bench.command(&[&args[..], more].concat()).env("MGCOMP", "off").output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        stdout(&output)
    };
    let text = run(&[]);
    assert!(text.contains("µs latency; compression is switched off") && !text.contains("adaptive"), "{text}");
    let row: Value = serde_json::from_str(&run(&["--json", "--tcp"])).unwrap();
    assert_eq!((&row["mode"], &row["traffic"]), (&"off".into(), &1.0.into()));
    let row: Value =
        serde_json::from_str(&stdout(&bench.succeed(&[&args[..], &["--json"]].concat()))).unwrap();
    assert_eq!(row["mode"], "adaptive");
}

#[test]
fn bad_input_is_named() {
    let bench = Workbench::with("empty.bin", b"");
    bench.fail(&["demo", "--data", "missing.bin"], &["cannot read missing.bin"]);
    bench.fail(&["demo", "--data", "empty.bin"], &["cannot read empty.bin", "empty"]);
    bench.fail(&["demo", "--tcp", "--data", "missing.bin"], &["cannot read missing.bin"]);
    bench.fail(&["demo-rank"], &["run by `mgcomp demo --tcp` alone"]);
    for wrong in ["0", "nan", "1e-300", "0.0009", "100001"] {
        let output = bench.run(&["demo", "--link-gbps", wrong]);
        assert_eq!(output.status.code(), Some(2), "{wrong}");
        let words = format!("{wrong:?} is no link rate from 0.001 to 100000 Gb/s");
        assert!(stderr(&output).contains(&words), "{}", stderr(&output));
    }
    let output = bench.run(&["demo", "--latency-us", "4294967295"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("is no latency from 0 to 10000000 µs"), "{}", stderr(&output));
    for usage in [
        &["demo", "--ranks", "1"][..],
        &["demo", "--policy", "fixed:lzma"],
        &["demo", "--lambda=-1"],
        &["demo", "--lambda", "-1"],
        &["demo", "--element", "f32"],
        &["demo", "--data", "empty.bin", "--element", "float32"],
        &["demo", "--connections", "2"],
        &["demo", "--latency-us", "10000001"],
    ] {
        assert_eq!(bench.run(usage).status.code(), Some(2), "{usage:?}");
    }
}

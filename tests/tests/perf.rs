//! `mgcomp perf` from outside: what it prints, what it finds wrong, and what it does when something goes wrong.

#[allow(dead_code, reason = "the command line's tests use the rest")]
mod workbench;

mod program;

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use mgcomp_tests::rank_file;
use serde_json::Value;
use workbench::{Workbench, stderr, stdout};

/// Nothing here takes this long unless it hangs.
const HANGS: Duration = Duration::from_secs(120);
const ALL: &str = "all_gather,all_reduce,all_to_all,broadcast,gather,scatter,reduce,reduce_scatter,send_recv,read,write,barrier";
/// Quick, and the same number of iterations however fast the machine is.
const QUICK: [&str; 5] = ["--json", "--iters", "3", "--warmup", "1"];

fn rows_of(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[track_caller]
fn rows(args: &[&str]) -> Vec<Value> {
    rows_of(&Workbench::new().succeed(&[&["perf"], &QUICK[..], args].concat()))
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

/// By hand, for three ranks.
fn factor(op: &str) -> f64 {
    match op {
        "all_reduce" => 4.0 / 3.0,
        "all_gather" | "all_to_all" | "gather" | "scatter" | "reduce_scatter" => 2.0 / 3.0,
        _ => 1.0,
    }
}

#[track_caller]
fn check(rows: &[Value], link: &str) {
    const KEYS: [&str; 14] = [
        "algbw_gbps",
        "algorithms",
        "busbw_gbps",
        "bytes",
        "device",
        "element",
        "link",
        "mode",
        "op",
        "ranks",
        "ratio",
        "time_us",
        "ways",
        "wrong",
    ];
    for row in rows {
        let mut keys: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, KEYS);
        assert_eq!(
            (&row["wrong"], &row["link"], &row["ranks"]),
            (&0.into(), &link.into(), &3.into()),
            "{row}"
        );
        let (bytes, time_us) = (number(row, "bytes"), number(row, "time_us"));
        assert!(time_us > 0.0 && number(row, "ratio") > 0.0 && row["device"].is_null(), "{row}");
        assert!(row["ways"].is_null(), "{row}");
        let algorithm_bandwidth = bytes / (1e3 * time_us);
        let close = |a: f64, b: f64| (a - b).abs() <= 1e-9 * b.abs();
        assert!(close(number(row, "algbw_gbps"), algorithm_bandwidth), "{row}");
        let bus_bandwidth = algorithm_bandwidth * factor(row["op"].as_str().unwrap());
        assert!(close(number(row, "busbw_gbps"), bus_bandwidth), "{row}");
    }
}

/// Sizes of an operation, in order.
fn sizes(rows: &[Value], op: &str) -> Vec<u64> {
    rows.iter().filter(|row| row["op"] == op).map(|row| row["bytes"].as_u64().unwrap()).collect()
}

#[test]
fn every_operation_is_right_on_every_link() {
    for link in ["loopback", "tcp", "shm"].into_iter().take(if cfg!(target_os = "linux") { 3 } else { 2 }) {
        let args =
            ["--op", ALL, "--link", link, "--ranks", "3", "--min", "8", "--max", "1M", "--factor", "32"];
        let rows = rows(&args);
        check(&rows, link);
        assert_eq!(rows.len(), 11 * 4 + 1);
        // Whole numbers of four bytes, on each of three ranks where each has a block.
        assert_eq!(sizes(&rows, "all_reduce"), [8, 256, 8192, 262_144]);
        assert_eq!(sizes(&rows, "all_gather"), [12, 252, 8184, 262_140]);
        assert_eq!(sizes(&rows, "barrier"), [0]);
    }
}

#[test]
fn raw_and_compressed_take_turns() {
    let args = ["--op", "all_gather,write", "--link", "tcp", "--ranks", "3", "--min", "96K", "--max", "96K"];
    let more = ["--element", "i32", "--pattern", "sequence", "--policy", "fixed:bdi", "--interleave"];
    let rows = rows(&[&args[..], &more].concat());
    check(&rows, "tcp");
    let modes: Vec<_> = rows.iter().map(|row| row["mode"].as_str().unwrap()).collect();
    assert_eq!(modes, ["raw", "fixed:bdi", "raw", "fixed:bdi"]);
    for pair in rows.chunks(2) {
        let names = |row: &Value| row["algorithms"].as_object().unwrap().keys().cloned().collect::<Vec<_>>();
        assert_eq!((names(&pair[0]), number(&pair[0], "ratio")), (vec!["none".into()], 1.0), "{}", pair[0]);
        // Counting words: 20 bytes of data, 2 of mask and 4 bits of form for each line of 64 bytes.
        assert_eq!(names(&pair[1]), ["bdi"], "{}", pair[1]);
        assert!((2.7..2.85).contains(&number(&pair[1], "ratio")), "{}", pair[1]);
    }
    // Three ranks send a block to two others, or one to one, three times each.
    assert_eq!(rows[1]["algorithms"]["bdi"], 18);
    assert_eq!(rows[3]["algorithms"]["bdi"], 9);
}

#[test]
fn reductions_of_all_numbers_are_right_bit_for_bit() {
    let types = ["i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "f16", "bf16", "f32", "f64"];
    for element in types {
        for reduction in ["sum", "min", "max", "avg"] {
            // Random bits: floats that are not a number, too.
            let args = [
                "--op",
                "all_reduce,reduce,reduce_scatter",
                "--min",
                "1200",
                "--max",
                "40K",
                "--factor",
                "33",
            ];
            let more =
                ["--ranks", "3", "--pattern", "random", "--element", element, "--reduction", reduction];
            let rows = rows(&[&args[..], &more].concat());
            check(&rows, "loopback");
            assert_eq!(rows.len(), 6, "{element} {reduction}");
        }
    }
}

#[test]
fn a_planted_wrong_byte_is_counted() {
    let bench = Workbench::new();
    for (op, size) in [("all_reduce", "64K"), ("all_to_all", "64K"), ("read", "64K"), ("all_gather", "8M")] {
        let args = ["perf", "--json", "--iters", "2", "--spoil", "--op", op, "--min", size, "--max", size];
        let output = bench.run(&args);
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(rows_of(&output)[0]["wrong"], 1, "{op}");
        assert!(stderr(&output).contains("1 values are not what they must be"), "{}", stderr(&output));
    }
}

#[test]
fn a_table_and_a_picture_are_for_people() {
    let bench = Workbench::with("x.bf16.bin", &[0x80, 0x3f].repeat(5000));
    let args = ["perf", "--op", "send_recv,reduce", "--max", "4K", "--iters", "3", "--interleave"];
    let output = bench.succeed(&[&args[..], &["--data", "x.bf16.bin", "--plot", "p.svg"]].concat());
    let text = stdout(&output);
    for words in [
        "send_recv of bf16 (x.bf16.bin), 2 ranks (threads over loopback)",
        "reduce (sum) of bf16",
        " 4 KiB         2048 ",
        "  raw  ",
        "  adaptive  ",
        "none 100 %",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let picture = String::from_utf8(bench.read("p.svg")).unwrap();
    for name in
        ["send_recv raw", "send_recv adaptive", "reduce raw", "reduce adaptive", "bus bandwidth in GB/s"]
    {
        assert!(picture.contains(name), "{name}");
    }
}

#[cfg(unix)]
#[test]
fn a_picture_that_there_is_no_room_for_leaves_the_old_one() {
    let bench = Workbench::with("p.svg", b"old");
    let args = ["perf", "--op", "barrier,send_recv", "--max", "16", "--iters", "2", "--plot", "p.svg"];
    let before = bench.snapshot();
    let mgcomp = bench.command(&[]).get_program().to_owned();
    // One block is less than a picture. What is printed goes into pipes, which have no such limit.
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", "trap '' XFSZ && ulimit -f 1 && exec \"$0\" \"$@\""]).arg(&mgcomp).args(args);
    let output = shell.current_dir(bench.folder.path()).stdin(Stdio::null()).output().unwrap();
    bench.check_exit(&output, &args, 1, &["cannot write p.svg", "File too large"]);
    assert_eq!(bench.snapshot(), before);
    bench.succeed(&args);
    assert!(bench.read("p.svg").starts_with(b"<svg"));
}

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
fn sizes_that_take_too_long_are_left_out() {
    let bench = Workbench::new();
    // At 0.01 Gb/s, 64 MiB would take a minute; a few sizes are done in time on the busiest machine.
    let args = [
        "perf",
        "--json",
        "--op",
        "broadcast",
        "--link-gbps",
        "0.01",
        "--latency-us",
        "10",
        "--seconds",
        "5",
    ];
    let output = bench.succeed(&args);
    let rows = rows_of(&output);
    assert!(rows.len() > 5 && rows.len() < 24, "{}", rows.len());
    assert!(stderr(&output).contains("are left out: no time"), "{}", stderr(&output));
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

/// A run of three processes that have met and go on for long, the ids of ranks 1 and 2, and what it has yet to say.
fn long_run(bench: &Workbench, flags: &[&str]) -> (Child, Vec<u32>, BufReader<ChildStdout>) {
    let args = ["perf", "--ranks", "3", "--op", "all_gather", "--min", "1K", "--max", "64M"];
    let long = ["--iters", "2000", "--warmup", "0", "--json"];
    let mut command = bench.command(&[&args[..], &long, flags].concat());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut rows = BufReader::new(child.stdout.take().unwrap());
    let mut first = String::new();
    rows.read_line(&mut first).unwrap();
    let others = children(child.id());
    // Whole numbers on each of three ranks.
    if others.len() != 2 || !first.contains("\"bytes\":1020") {
        child.kill().unwrap();
        panic!("{first}: {:?}", child.wait_with_output());
    }
    (child, others, rows)
}

/// The processes that `parent` has started and that run.
fn children(parent: u32) -> Vec<u32> {
    let path = format!("/proc/{parent}/task/{parent}/children");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.split_whitespace().map(|id| id.parse().unwrap()).collect()
}

/// Whether the process has gone, or waits for nothing but its parent.
fn is_gone(id: u32) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap_or_default();
    status.is_empty() || status.contains("State:\tZ")
}

fn signal(signal: &str, id: u32) {
    let status = std::process::Command::new("kill").args([signal, &id.to_string()]).status().unwrap();
    assert!(status.success(), "kill {signal}");
}

#[track_caller]
fn all_go(ids: &[u32]) {
    let started = Instant::now();
    while !ids.iter().all(|&id| is_gone(id)) {
        assert!(started.elapsed() < HANGS, "hangs: {ids:?} are still there");
        thread::sleep(Duration::from_millis(5));
    }
}

fn has_children_files() -> bool {
    let known = std::path::Path::new("/proc/self/task").is_dir()
        && std::fs::read_dir("/proc/self/task")
            .unwrap()
            .flatten()
            .all(|task| task.path().join("children").exists());
    if !known {
        println!("SKIPPED: this system does not tell the children of a process");
    }
    known
}

#[test]
fn a_rank_that_is_killed_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    for link in ["tcp", "shm"] {
        let (child, others, _rows) = long_run(&bench, &["--link", link]);
        signal("-KILL", others[1]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let text = stderr(&output);
        assert!(text.contains("rank 2 has ended (signal: 9") && text.lines().count() == 1, "{text}");
        all_go(&others);
    }
}

#[test]
fn a_rank_that_is_killed_before_it_has_met_the_others_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    for link in ["tcp", "shm"] {
        // Without an eye on it, the others would wait for it for an hour.
        let args = ["perf", "--ranks", "3", "--op", "barrier", "--timeout", "3600", "--link", link];
        // Nor would it be over before it is looked at.
        let args = [&args[..], &["--iters", "1000000"]].concat();
        let mut command = bench.command(&args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let started = Instant::now();
        let others = loop {
            let others = children(child.id());
            assert!(started.elapsed() < HANGS, "no ranks are started");
            if others.len() == 2 {
                break others;
            }
        };
        signal("-KILL", others[1]);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        assert!(stderr(&output).contains("rank 2 has ended (signal: 9"), "{}", stderr(&output));
        all_go(&others);
    }
}

#[test]
fn a_rank_that_is_stuck_ends_the_run() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    let (child, others, _rows) = long_run(&bench, &["--link", "tcp", "--timeout", "8"]);
    signal("-STOP", others[0]);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("is not over after 8s"), "{}", stderr(&output));
    all_go(&others);
}

#[test]
fn a_rank_that_has_met_nobody_goes_with_its_parent() {
    let bench = Workbench::new();
    let mut command = bench.command(&["perf-rank", "--link", "tcp", "--timeout", "3600"]);
    let mut rank = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut orders, answers) = (rank.stdin.take().unwrap(), rank.stdout.take().unwrap());
    let secret = "5".repeat(32);
    writeln!(orders, r#"{{"begin":{{"rank":1,"ranks":2,"secret":"{secret}"}}}}"#).unwrap();
    let mut answer = String::new();
    BufReader::new(answers).read_line(&mut answer).unwrap();
    let own = answer.split('"').nth(5).unwrap();
    // Nobody listens where rank 0 is said to.
    writeln!(orders, r#"{{"join":{{"addresses":["127.0.0.1:1","{own}"]}}}}"#).unwrap();
    drop(orders);
    let started = Instant::now();
    let status = loop {
        if let Some(status) = rank.try_wait().unwrap() {
            break status;
        }
        if started.elapsed() > HANGS {
            rank.kill().unwrap();
            panic!("hangs: {:?}", rank.wait());
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(1), "{answer}");
}

#[test]
fn ranks_go_with_the_one_that_started_them() {
    if !has_children_files() {
        return;
    }
    let bench = Workbench::new();
    let (mut child, others, _rows) = long_run(&bench, &["--link", "tcp"]);
    child.kill().unwrap();
    child.wait().unwrap();
    all_go(&others);
}

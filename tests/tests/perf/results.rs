//! What is measured on every link, and that every result is checked.

use serde_json::Value;

use super::workbench::{Workbench, stderr};
use super::{QUICK, rows_of};

const ALL: &str = "all_gather,all_reduce,all_to_all,broadcast,gather,scatter,reduce,reduce_scatter,send_recv,read,write,barrier";

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

//! `mgcomp-bench select`: which rows there are and what they say; times are whatever they are.

use std::collections::BTreeSet;
use std::fs;

use mgcomp_codecs::codecs;
use serde_json::Value;

use crate::{folder, good_rows, run, stderr};

/// As little as will do for a figure.
const QUICK: [&str; 8] = ["select", "--quick", "--transfers", "16", "--longest", "32K", "--shortest", "256"];

fn args<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&QUICK[..], more].concat()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap()
}

#[test]
fn every_policy_has_a_row_for_each_sequence_rate_and_overlap() {
    let elsewhere = folder(&[]);
    let rows = good_rows(elsewhere.path(), &args(&["--link-gbps", "1", "100"]));
    let mut policies: Vec<String> = codecs().map(|codec| format!("fixed:{}", codec.algorithm())).collect();
    policies.extend(["fixed:none", "paper", "adaptive"].map(str::to_owned));
    let sequences = ["dense", "relu", "indices", "random", "phases", "bytes", "mixed"];
    assert_eq!(rows.len(), policies.len() * sequences.len() * 4);
    let found: BTreeSet<_> = rows
        .iter()
        .map(|row| {
            let place =
                (text(row, "sequence"), number(row, "link_gbps") as u64, row["overlap"].as_bool().unwrap());
            (place, text(row, "policy"))
        })
        .collect();
    for sequence in sequences {
        for rate in [1, 100] {
            for overlap in [false, true] {
                for policy in &policies {
                    assert!(
                        found.contains(&((sequence, rate, overlap), policy.as_str())),
                        "{sequence} {policy}"
                    );
                }
            }
        }
    }
}

#[test]
fn rows_have_exactly_these_keys_and_nobody_beats_the_oracle() {
    let elsewhere = folder(&[]);
    let keys = [
        "decision_ns",
        "link_gbps",
        "oracle_ms",
        "overlap",
        "policy",
        "sampling_share",
        "sequence",
        "time_ms",
    ];
    for row in good_rows(elsewhere.path(), &args(&["--sequence", "phases", "--link-gbps", "10"])) {
        let mut found: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
        assert!(number(&row, "time_ms") >= number(&row, "oracle_ms"), "{row}");
        assert!((0.0..1.0).contains(&number(&row, "sampling_share")), "{row}");
        assert!(row["decision_ns"].is_null() || number(&row, "decision_ns") >= 0.0, "{row}");
        if text(&row, "policy").starts_with("fixed:") {
            assert_eq!(number(&row, "sampling_share"), 0.0);
        }
    }
}

#[test]
fn where_every_decision_is_the_first_of_its_length_none_is_told() {
    let elsewhere = folder(&[]);
    // Transfers of 32 KiB: of one there is no second.
    let alike = |transfers, more: &[&'static str]| {
        let flags = ["select", "--quick", "--shortest", "32K", "--longest", "32K", "--transfers", transfers];
        [&flags[..], &["--sequence", "dense", "--link-gbps", "1", "--overlap", "no"], more].concat()
    };
    for row in good_rows(elsewhere.path(), &alike("1", &[])) {
        assert_eq!(row["decision_ns"], Value::Null, "{row}");
    }
    for row in good_rows(elsewhere.path(), &alike("2", &[])) {
        // Other policies may sample the second.
        assert!(row["decision_ns"].is_number() || !text(&row, "policy").starts_with("fixed:"), "{row}");
    }
    let output = run(elsewhere.path(), &alike("1", &[]));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    for goal in ["median", "slowest of a hundred"] {
        let name = format!("decision in the running phase, {goal}");
        let line = table.lines().find(|line| line.contains(&name)).unwrap();
        assert!(line.starts_with("- ") && line.ends_with("no such row"), "{line}");
    }
    let heading = table.lines().find(|line| line.contains("  decide   slow observe  sample")).unwrap();
    let row = table.lines().find(|line| line.starts_with("     1  ")).unwrap();
    let end = |column: &str| heading.find(column).unwrap() + column.len();
    assert_eq!([end("decide"), end("slow")].map(|end| &row[end - 2..end]), [" -"; 2], "{table}");
}

#[test]
fn files_are_sequences_of_their_own_and_phases_together() {
    let zeros = [0; 40_000];
    let noise: Vec<u8> =
        (0..40_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13 ^ i >> 3) as u8).collect();
    let folder = folder(&[("zeros", &zeros), ("noise.bin", &noise)]);
    let more =
        ["--data", "zeros:f32", "noise.bin:u8", "--link-gbps", "0.5", "--overlap", "no", "--latency-us", "0"];
    let rows = good_rows(folder.path(), &args(&more));
    let names: BTreeSet<&str> = rows.iter().map(|row| text(row, "sequence")).collect();
    assert_eq!(names, BTreeSet::from(["zeros", "noise.bin", "phases", "bytes", "mixed"]));
    for row in &rows {
        assert!(number(row, "time_ms") > 0.0 && number(row, "oracle_ms") > 0.0, "{row}");
    }
}

#[test]
fn names_that_are_taken_get_their_element() {
    let folder = folder(&[("f", &[1; 4096]), ("phases", &[2; 4096])]);
    let more = ["--data", "f:bf16", "f:u8", "phases", "--link-gbps", "1", "--overlap", "no"];
    let rows = good_rows(folder.path(), &args(&more));
    let names: BTreeSet<&str> = rows.iter().map(|row| text(row, "sequence")).collect();
    assert_eq!(names, BTreeSet::from(["f:bf16", "f:u8", "phases:u8", "phases", "bytes", "mixed"]));
}

#[test]
fn folders_tell_what_they_leave_out_and_never_a_file_that_is_named() {
    let folder = folder(&[("few.f64.bin", &[1; 4096]), ("named", &[1; 4096])]);
    fs::create_dir(folder.path().join("tensors")).unwrap();
    let indices: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
    fs::write(folder.path().join("tensors/a.u32.bin"), &indices).unwrap();
    fs::write(folder.path().join("tensors/b.f64.bin"), [1; 4096]).unwrap();
    let more = ["--data", "named:f64", "tensors", "--link-gbps", "1", "--overlap", "no", "--json"];
    let output = run(folder.path(), &args(&more));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = crate::rows(&output);
    let names: BTreeSet<&str> = rows.iter().map(|row| text(row, "sequence")).collect();
    assert_eq!(names, BTreeSet::from(["indices", "named", "phases", "bytes", "mixed"]));
    let notes = stderr(&output);
    assert!(notes.contains("indices is cut from tensors/a.u32.bin\n"), "{notes}");
    assert!(notes.contains("left out, for no kind fits: tensors/b.f64.bin (f64)"), "{notes}");
    fs::remove_file(folder.path().join("tensors/a.u32.bin")).unwrap();
    let output = run(folder.path(), &args(&["--data", "tensors"]));
    assert_eq!((output.status.code(), &output.stdout[..]), (Some(1), &b""[..]));
    assert!(stderr(&output).contains("none of the 1 files is of a kind"), "{}", stderr(&output));
}

#[test]
fn the_table_tells_regrets_and_goals_and_the_plot_is_drawn() {
    let folder = folder(&[]);
    let more = ["--sequence", "dense", "--link-gbps", "1", "10", "--plot", "regret.svg"];
    let output = run(folder.path(), &args(&more));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let table = String::from_utf8_lossy(&output.stdout);
    for part in [
        "dense, one phase, overlap: no",
        "dense, one phase, overlap: yes",
        "oracle",
        "goals of adaptive",
        "deflate is timed once, not 3 times, on the first 64 KiB of a transfer",
    ] {
        assert!(table.contains(part), "{part}: {table}");
    }
    let svg = fs::read_to_string(folder.path().join("regret.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.contains(">adaptive<") && svg.contains(">fixed:none<"), "{svg}");
    assert!(svg.contains("mean of 1 sequences, with overlap and without;"), "{svg}");
    // One rate is one point of each curve.
    for (overlap, said) in [("no", "without overlap"), ("yes", "with overlap")] {
        let one = ["--sequence", "dense", "--link-gbps", "1", "--overlap", overlap, "--plot", "regret.svg"];
        good_rows(folder.path(), &args(&one));
        let svg = fs::read_to_string(folder.path().join("regret.svg")).unwrap();
        assert!(svg.contains(&format!("mean of 1 sequences, {said};")) && svg.contains("<circle "), "{svg}");
    }
}

#[test]
fn wrong_usage_is_told_before_any_work() {
    let folder = folder(&[("empty", b""), ("x", &[1; 64])]);
    let cases: [(&[&str], i32, &str); 14] = [
        (&["--link-gbps", "0"], 2, "\"0\" is no link rate"),
        (&["--link-gbps", "10", "-1"], 2, "\"-1\" is no link rate"),
        (&["--link-gbps", "1e-310"], 2, "it must be a number of Gb/s from 0.001 to 1000000"),
        (&["--link-gbps", "NaN"], 2, "\"NaN\" is no link rate"),
        (&["--latency-us", "-1"], 2, "\"-1\" is no latency"),
        (&["--transfers", "0"], 2, "--transfers"),
        (&["--segment", "0"], 2, "--segment"),
        (&["--overlap", "no", "--segment", "64K"], 2, "--segment cannot be used with --overlap no"),
        (&["--threads", "0"], 2, "--threads"),
        (&["--data", "x:f128"], 2, "f128"),
        (&["--data", "empty:u8"], 1, "it is empty"),
        (&["--data", "missing:u8"], 1, "cannot read missing"),
        (&["--sequence", "dance"], 2, "no sequence is called \"dance\"; names are dense"),
        (&["--plot", "missing/regret.svg"], 1, "cannot write"),
    ];
    for (more, code, message) in cases {
        let output = run(folder.path(), &args(more));
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{more:?}");
        assert!(stderr(&output).contains(message), "{more:?}: {}", stderr(&output));
    }
}

#[test]
fn flags_that_do_not_fit_are_told_before_any_file_is_read() {
    let indices: Vec<u8> = (0..4096u32).flat_map(u32::to_le_bytes).collect();
    let folder = folder(&[("empty", b""), ("x", &[1; 64])]);
    for (name, content) in [("hollow", &b""[..]), ("tensors", &indices)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("a.u32.bin"), content).unwrap();
    }
    // Reading a file without content would say so, and end with 1.
    let cases: [(&[&str], &str); 6] = [
        (&["--shortest", "1M", "--longest", "64K"], "--shortest is above --longest"),
        (&["--shortest", "32M", "--longest", "1M", "--data", "empty:u8"], "--shortest is above --longest"),
        (&["--shortest", "32M", "--longest", "1M", "--data", "hollow"], "--shortest is above --longest"),
        (&["--sequence", "dance", "--data", "empty:u8", "x"], "names are empty x phases bytes short mixed\n"),
        (
            &["--sequence", "indices", "dance", "--data", "hollow"],
            "\"dance\"; names are dense relu indices random phases bytes short mixed\n",
        ),
        // What kinds of data there are is known once the folder is looked through; then the named file need not be read.
        (
            &["--sequence", "random", "--data", "tensors", "empty:u8"],
            "\"random\"; names are indices empty phases bytes short mixed\n",
        ),
    ];
    for (more, message) in cases {
        let output = run(folder.path(), &[&["select"], more].concat());
        assert_eq!(output.status.code(), Some(2), "{more:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{more:?}");
        assert!(stderr(&output).contains(message), "{more:?}: {}", stderr(&output));
    }
}

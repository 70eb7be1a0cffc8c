//! `mgcomp-bench breakeven`: the model, by hand.

use std::fs;

use serde_json::Value;

use crate::{folder, good_rows, run, stderr};

/// Halves, takes in 40 GB/s and puts out 80; 3 µs for a launch.
const BY_HAND: [&str; 9] =
    ["breakeven", "--gpu", "GPU:40:80:2", "--launch-us", "3", "--latency-us", "1", "--efficiency", "1"];

fn find<'a>(rows: &'a [Value], row: &str, link: &str) -> &'a Value {
    rows.iter().find(|found| found["row"] == row && found["link"] == link).unwrap()
}

#[test]
fn sizes_are_those_worked_out_by_hand() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &[&BY_HAND[..], &["--bytes", "8M"]].concat());
    // A model, and for each of 9 links a size and a speed-up.
    assert_eq!(rows.len(), 1 + 2 * 9);
    // At 12.5 GB/s a byte saves 0.04 ns and costs 0.0375: 6 µs are won back after 2.4 MB.
    let slow = find(&rows, "break-even", "100 Gb/s");
    assert!((slow["in_turn_bytes"].as_f64().unwrap() - 2.4e6).abs() < 1e3, "{slow}");
    assert!(slow["overlapped_bytes"].as_f64().unwrap() < 1e6, "{slow}");
    // At 25 GB/s only overlapped, and on NVLink never.
    let middle = find(&rows, "break-even", "200 Gb/s");
    assert!(middle["in_turn_bytes"].is_null() && middle["overlapped_bytes"].is_number(), "{middle}");
    assert!(find(&rows, "break-even", "NVLink 3")["overlapped_bytes"].is_null());
    // 8 MiB: 672.09 µs plain, 1 + 3 + 209.72 + 335.54 + 3 + 104.86 in turn.
    let gain = find(&rows, "speed-up", "100 Gb/s")["in_turn"].as_f64().unwrap();
    assert!((gain - 672.09 / 657.12).abs() < 1e-4, "{gain}");
}

#[test]
fn text_and_picture_say_that_it_is_a_model() {
    let folder = folder(&[]);
    let output = run(folder.path(), &[&BY_HAND[..], &["--plot", "out"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("a MODEL") && text.contains("never") && text.contains("MiB"), "{text}");
    let svg = fs::read_to_string(folder.path().join("out/breakeven-0.svg")).unwrap();
    assert!(svg.contains("MODEL") && svg.contains("NVLink 5"));
}

#[test]
fn rates_must_come_from_somewhere() {
    let folder = folder(&[("bad.json", b"{}")]);
    let cases: [(&[&str], i32, &str); 4] = [
        (&["breakeven"], 2, "required"),
        (&["breakeven", "--gpu", "GPU:1:2"], 2, "is not a name, two rates"),
        (&["breakeven", "--gpu", "GPU:1:2:3", "--launch-us", "0"], 2, "is no number above 0"),
        (&["breakeven", "--results", "bad.json"], 1, "bad.json: line 1 is no row"),
    ];
    for (args, code, message) in cases {
        let output = run(folder.path(), args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

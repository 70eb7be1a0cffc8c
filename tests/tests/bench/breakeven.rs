//! `mgcomp-bench breakeven`: the model, by hand.

use std::fs;

use serde_json::Value;

use crate::{folder, good_rows, rows, run, stderr};

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
    // Of each link 18 pieces of a line dashed, and one line at the height of plain messages; no copy was measured.
    assert_eq!((svg.matches("stroke-dasharray").count(), svg.matches("<circle").count()), (9 * 18 + 1, 0));
}

/// Of a GPU that halves. Encoding takes 10 µs for 100 KB and 40 for 400, decoding half as long.
const RESULTS: &str = r#"{"kind":"run","device":"Some GPU, 1"}
{"kind":"time","subject":"xp","dataset":"w","bytes":100000,"ratio":2.0,"encode_gbps":10.0,"decode_gbps":20.0}
{"kind":"time","subject":"zvc","dataset":"w","bytes":100000,"ratio":4.0,"encode_gbps":1.0,"decode_gbps":1.0}
{"kind":"time","subject":"xp","dataset":"w","bytes":400000,"ratio":2.0,"encode_gbps":10.0,"decode_gbps":20.0}
{"kind":"peer","subject":"xp","dataset":"w","bytes":100000,"to":"another device","is_direct":true,"plain_gbps":2.0,"gbps":2.5}
{"kind":"peer","subject":"xp","dataset":"none","bytes":100000,"to":"another device","is_direct":true,"plain_gbps":2.0,"gbps":2.5}
{"kind":"link","subject":"zvc","dataset":"w","bytes":100000,"to_host_plain_gbps":0.5,"to_host_gbps":0.4,"to_device_plain_gbps":0.25,"to_device_gbps":0.5}
"#;

/// Its copies, in turn. XP: 50 µs plain; 10, 25 and 5 compressed. ZVC: 200 µs; 100 and 50, decoded by nobody. And 400; 100
/// and 100, encoded before.
const COPIES: [(&str, f64, f64); 3] = [
    ("to another device", 50.0 / 40.0, 1.25),
    ("to the host", 200.0 / 150.0, 0.8),
    ("to the device", 400.0 / 200.0, 2.0),
];

#[test]
fn measured_copies_are_beside_what_the_model_says() {
    let folder = folder(&[("gpu.json", RESULTS.as_bytes())]);
    let args = ["breakeven", "--results", "gpu.json", "--algorithm", "xp", "zvc", "--bytes", "200K"];
    let args = [&args[..], &["--csv", "out", "--plot", "out", "--json"]].concat();
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    // One copy is of data for which there are no times.
    assert!(stderr(&output).contains("gpu.json: a copy to another device has no prediction"));
    let rows = rows(&output);
    let model = &rows[0];
    assert_eq!((&model["gpu"], &model["launch_us"]), (&"Some GPU, 1, xp on w".into(), &0.0.into()));
    assert_eq!(
        (&model["by_size"][1]["bytes"], model["by_size"].as_array().unwrap().len()),
        (&400_000.into(), 2)
    );
    let copies: Vec<&Value> = rows.iter().filter(|row| row["row"] == "copy").collect();
    assert_eq!(copies.len(), COPIES.len());
    for (copy, (way, in_turn, measured)) in copies.into_iter().zip(COPIES) {
        let near = |key: &str, expected: f64| (copy[key].as_f64().unwrap() - expected).abs() < 1e-9;
        assert!(copy["copy"] == way && near("in_turn", in_turn) && near("measured", measured), "{copy}");
        assert!(near("measured_of_in_turn", measured / in_turn), "{copy}");
        assert!(copy["overlapped"].as_f64().unwrap() >= in_turn, "{copy}");
    }
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).unwrap();
    let csv = read("copies.csv");
    assert_eq!(csv.lines().count(), 1 + COPIES.len());
    let line = csv.lines().nth(2).unwrap();
    assert!(line.starts_with("\"Some GPU, 1, zvc on w\",to the host,w,100000,0.5,1.3333,"), "{line}");
    // Of 2 codecs 9 links, with one size each.
    assert_eq!((read("break_even.csv").lines().count(), read("speed_up.csv").lines().count()), (19, 19));
    // Each copy a dot and a ring; and a dot for each name in the legend.
    let [xp, zvc] = ["breakeven-0.svg", "breakeven-1.svg"].map(|name| read(name).matches("<circle").count());
    assert_eq!((xp, zvc), (3, 6));
}

#[test]
fn measured_times_count_by_size_and_need_no_launch() {
    let results = RESULTS.replace("none", "w");
    let folder = folder(&[("gpu.json", results.as_bytes())]);
    let args = ["breakeven", "--results", "gpu.json", "--efficiency", "0.08", "--latency-us", "1"];
    // At 1 GB/s 10 KB take 11 µs, and as long as 100 KB to encode and decode: 10 and 5, with 5 on the link and 1. With a
    // launch of 2 µs on either side 4 more.
    for (launch, took) in [(&[][..], 21.0), (&["--launch-us", "2"], 25.0)] {
        let rows = good_rows(folder.path(), &[&args[..], &["--bytes", "10000"], launch].concat());
        let gain = find(&rows, "speed-up", "100 Gb/s")["in_turn"].as_f64().unwrap();
        assert!((gain - 11.0 / took).abs() < 1e-9, "{gain}");
        // 15 µs or 19 are won back where half of the message takes as long.
        let pays = find(&rows, "break-even", "100 Gb/s")["in_turn_bytes"].as_f64().unwrap();
        assert!((pays - 2e3 * (took - 6.0)).abs() < 2.0, "{pays}");
    }
    let text = String::from_utf8(run(folder.path(), &args).stdout).unwrap();
    assert!(
        text.contains("measured by size")
            && text.contains("copies MEASURED")
            && text.contains("charged the stages that it has"),
        "{text}"
    );
}

#[test]
fn rates_must_come_from_somewhere() {
    let unordered = RESULTS.replace("400000", "40000");
    let (zero, none) = (RESULTS.replace("plain_gbps\":2.0", "plain_gbps\":0"), &RESULTS.as_bytes()[..38]);
    let files = [("bad.json", &b"{}"[..]), ("unordered.json", unordered.as_bytes())];
    let folder = folder(&[&files[..], &[("zero.json", zero.as_bytes()), ("none.json", none)]].concat());
    let cases: [(&[&str], i32, &str); 9] = [
        (&["breakeven"], 2, "required"),
        (&["breakeven", "--gpu", "GPU:1:2"], 2, "is not a name, two rates"),
        (&["breakeven", "--gpu", "GPU:1:2:3", "--launch-us", "0"], 2, "is no number from 0.000001"),
        (
            &["breakeven", "--gpu", "GPU:1:2:3", "--efficiency", "90"],
            2,
            "\"90\" is no part of a link's rate: it must be a number from 0.000001 to 1",
        ),
        (&["breakeven", "--gpu", "GPU:1:2:3", "--efficiency", "0"], 2, "\"0\" is no part of a link's rate"),
        (&["breakeven", "--results", "bad.json"], 1, "bad.json: line 1 is no row"),
        (
            &["breakeven", "--results", "unordered.json"],
            1,
            "unordered.json: line 4: 40000 bytes of w come after 100000",
        ),
        (&["breakeven", "--results", "zero.json"], 1, "zero.json: line 5: plain_gbps is 0, but must be"),
        (&["breakeven", "--results", "none.json"], 1, "none of its 1 rows has times of \"xp\""),
    ];
    for (args, code, message) in cases {
        let output = run(folder.path(), args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(code), 0), "{args:?}");
        assert!(stderr(&output).contains(message), "{args:?}: {}", stderr(&output));
    }
}

//! Traces, good and bad.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::{SMALL, good_rows, near_words, paper, record};
use crate::{folder, stderr};

#[test]
fn hostile_traces_are_told_by_file_record_offset_and_field() {
    let good = record(0, 1, 2, 7, &[0; 64]);
    let with = |second: Vec<u8>| [good.clone(), second].concat();
    let cut = with(record(1, 3, 4, 8, &[0; 64]))[..120].to_vec();
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("empty", Vec::new(), "the trace is empty"),
        ("cut", cut, "record 1 at byte 88 is cut short: 32 of 88 bytes"),
        (
            "foreign",
            b"\x7fELF and so on, which is long enough".to_vec(),
            "record 0 at byte 0: kind is 127, but must be 0",
        ),
        ("kind", with(record(2, 1, 2, 8, &[0; 64])), "record 1 at byte 88: kind is 2, but must be 0"),
        (
            "gpu",
            with(record(1, 5, 2, 8, &[0; 64])),
            "record 1 at byte 88: sender is GPU 5, but GPUs are 1 to 4",
        ),
        (
            "self",
            with(record(1, 2, 2, 8, &[0; 64])),
            "record 1 at byte 88: sender and receiver are both GPU 2",
        ),
        (
            "length",
            with(record(1, 1, 2, 8, &[0; 5000])),
            "payload length is 5000 bytes, but must be 1 to 4032",
        ),
        (
            "time",
            with(record(1, 1, 2, 6, &[0; 64])),
            "record 1 at byte 88: time is 6 ps, before that of the record before, 7 ps",
        ),
    ];
    for (name, content, message) in cases {
        let folder = folder(&[("good.bin", &good), (name, &content)]);
        let output = paper(folder.path(), &["--trace", "good.bin", name]);
        assert_eq!(output.status.code(), Some(1), "{name}");
        assert_eq!(output.stdout, b"", "{name}: printed before all was checked");
        let error = stderr(&output);
        assert!(error.contains(&format!("{name} is no trace")) && error.contains(message), "{name}: {error}");
    }
    let folder = folder(&[("bad.xz", b"\xfd7zXZ\0not really")]);
    let output = paper(folder.path(), &["--trace", "bad.xz"]);
    assert!(stderr(&output).contains("bad.xz is no trace"), "{}", stderr(&output));
    let output = paper(folder.path(), &["--trace", "missing.bin"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("cannot read missing.bin"), "{}", stderr(&output));
    fs::create_dir(folder.path().join("none")).unwrap();
    let output = paper(folder.path(), &["--trace", "none"]);
    assert!(stderr(&output).contains("none has no files to measure"), "{}", stderr(&output));
}

#[test]
fn payloads_that_are_no_whole_lines_shrink_by_nothing_that_is_not_there() {
    // Noise of 32 bytes each: filled up to lines, FPC and C-Pack+Z would shrink it.
    let mut state = 1u32;
    let mut noise = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    let records = (0..300).flat_map(|_| record(0, 1, 2, 7, &std::array::from_fn::<u8, 32, _>(|_| noise())));
    let folder = folder(&[
        ("noise.bin", &records.collect::<Vec<u8>>()),
        ("whole.bin", &record(0, 1, 2, 7, &near_words())),
    ]);
    let args = ["--trace", "noise.bin", "whole.bin", "--lambda", "0", "--csv", "out"];
    let rows = good_rows(folder.path(), &args);
    let tables: Vec<&Value> = rows.iter().filter(|row| row["row"] == "table5").collect();
    for codec in ["bdi", "fpc", "cpackz"] {
        assert_eq!(tables[0][codec], 1.0, "{}", tables[0]);
    }
    assert_eq!([&tables[0]["partial_payloads"], &tables[1]["partial_payloads"]], [300, 0]);
    let run = |scheme: &str| {
        rows.iter()
            .find(|row| row["row"] == "run" && row["name"] == "noise" && row["scheme"] == scheme)
            .unwrap()
    };
    assert_eq!((&run("paper")["raw_bytes"], &run("paper")["payload_bytes"]), (&9600.into(), &9600.into()));
    // "Not compressed" wins each vote, so all that is lost is 7 samples, 16 cycles each for 2 on the bus.
    assert!(run("paper")["time_share"].as_f64().unwrap() < 1.2, "{}", run("paper"));
    assert_eq!(run("paper")["sent"], serde_json::json!([300, 0, 0, 0]));
    let text = String::from_utf8(paper(folder.path(), &args).stdout).unwrap();
    let told =
        "\nnoise: 300 of 300 payloads end in a part of a line, which takes no more than its own bits\n";
    assert!(text.contains(told) && !text.contains("whole: 0 of"), "{text}");
    let table = fs::read_to_string(folder.path().join("out/table5.csv")).unwrap();
    let last = |row: &str| row.rsplit(',').next().unwrap().to_owned();
    assert_eq!(table.lines().map(last).collect::<Vec<_>>(), ["partial_payloads", "300", "0"]);
}

#[test]
fn folders_stand_for_their_traces() {
    let good = record(0, 1, 2, 7, &[0; 64]);
    let folder = folder(&[("sc_b.bin", &good), ("a.bin", &good), ("README.md", b"no trace")]);
    let rows = good_rows(folder.path(), &["--trace", "."]);
    let tables: Vec<&Value> = rows.iter().filter(|row| row["row"] == "table5").collect();
    assert_eq!((&tables[0]["name"], &tables[1]["name"], tables.len()), (&"a".into(), &"sc_b".into(), 2));
    // The front of the name says what it is to be compared with.
    assert_eq!((&tables[0]["paper"], &tables[1]["paper"]["bdi"]), (&Value::Null, &2.69.into()));
}

#[test]
fn traces_of_one_name_are_told_apart() {
    let good = record(0, 1, 2, 7, &[0; 64]);
    let near = record(0, 1, 2, 7, &near_words());
    let folder = folder(&[("fir.bin", &good), ("a_b.bin", &good), ("a-b.bin", &good)]);
    for (name, content) in [("a", &good), ("b", &near)] {
        fs::create_dir(folder.path().join(name)).unwrap();
        fs::write(folder.path().join(name).join("x.bin"), content).unwrap();
    }
    let traces = ["--trace", "a/x.bin", "b/x.bin", "fir.bin", "a_b.bin", "a-b.bin"];
    let more = ["--bench", "FIR", "--lambda", "6", "--csv", "out", "--plot", "out"];
    let rows = good_rows(folder.path(), &[&traces[..], &more, &SMALL].concat());
    let tables = rows.iter().filter(|row| row["row"] == "table5");
    let found: Vec<&str> = tables.map(|row| row["name"].as_str().unwrap()).collect();
    assert_eq!(found, ["FIR", "a/x.bin", "b/x.bin", "fir.bin", "a_b", "a-b"]);
    let read = |name: &str| fs::read_to_string(folder.path().join("out").join(name)).expect(name);
    // Zero lines are 4 bits for BDI, the others 180.
    let ratios = |name: &str| {
        let table = read("table5.csv");
        let row = table.lines().find(|row| row.starts_with(&format!("{name},"))).unwrap().to_owned();
        row.split(',').nth(5).unwrap().to_owned()
    };
    assert_eq!(["a/x.bin", "b/x.bin"].map(ratios), ["128.00000", "2.84444"]);
    for (slug, name) in [
        ("fir", "FIR"),
        ("a-x-bin", "a/x.bin"),
        ("b-x-bin", "b/x.bin"),
        ("fir-bin", "fir.bin"),
        ("a-b", "a_b"),
        ("a-b-2", "a-b"),
    ] {
        let svg = read(&format!("figure1-{slug}-sizes.svg"));
        assert!(svg.contains(&format!("of the first transfers, {name}</text>")), "{slug}: {svg}");
    }
}

#[test]
#[cfg(unix)]
fn names_order_nothing_and_pictures_of_them_are_xml() {
    let good = record(0, 1, 2, 7, &[0; 64]);
    let folder = folder(&[("a\x1b[31m\x07.bin", &good), ("a\x1b[31m\x08.bin", &good)]);
    let args = ["--trace", "a\x1b[31m\x07.bin", "a\x1b[31m\x08.bin", "--lambda", "6"];
    let output = paper(folder.path(), &[&args[..], &["--csv", "out", "--plot", "out"]].concat());
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let mut texts = vec![String::from_utf8(output.stdout).unwrap()];
    for entry in fs::read_dir(folder.path().join("out")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|end| end != "png") {
            texts.push(fs::read_to_string(path).unwrap());
        }
    }
    let is_order = |letter: char| letter.is_control() && letter != '\n';
    assert!(!texts.iter().any(|text| text.contains(is_order)), "{texts:?}");
    // The two are told apart all the same.
    assert!(
        texts[0].contains("\na\u{fffd}[31m\u{fffd}.bin ") || texts[0].contains("\na\u{fffd}[31m\u{fffd} "),
        "{}",
        texts[0]
    );
    assert!(texts[0].contains("\na\u{fffd}[31m\u{fffd}.bin#2 "), "{}", texts[0]);
}

#[test]
fn traces_are_told_apart_in_words() {
    let good = record(0, 1, 2, 7, &[0; 64]);
    let folder = folder(&[("fir_a.bin", &good), ("fir_b.bin", &good), ("other.bin", &good)]);
    let output = paper(folder.path(), &["--trace", "."]);
    let text = String::from_utf8(output.stdout).unwrap();
    // Zero lines: 4, 3 and 2 bits.
    let order = "the order of codecs is C-Pack+Z > FPC > BDI, the paper's BDI > C-Pack+Z > FPC.";
    let ratios = "BDI 128.00 for 2.41, FPC 170.67 for 1.00, C-Pack+Z 256.00 for 1.73.";
    for name in ["fir_a", "fir_b"] {
        assert!(
            text.contains(&format!("\n{name}: {order} More than 10 % off the paper's ratios: {ratios}")),
            "{text}"
        );
    }
    assert!(text.contains("\nOf traces of FIR: the public program filters float32(i)"), "{text}");
    assert!(text.contains("\nother: not among the paper's benchmarks"), "{text}");
    assert!(!text.contains("\nFIR: "), "that is of what is generated: {text}");
}

#[test]
fn real_traces_have_the_ratios_of_their_readme() {
    let Some(traces) = std::env::var_os("MGCOMP_TRACES") else {
        println!("SKIPPED: MGCOMP_TRACES names no folder with traces");
        return;
    };
    // BDI, FPC, C-Pack+Z by the rules of the codecs.
    let expected = [
        ("aes_768k", [1.003, 1.007, 1.010]),
        ("bs_4096", [1.029, 1.225, 1.242]),
        ("fir_256k", [1.641, 1.005, 1.334]),
        ("floyd_128", [2.666, 5.108, 4.079]),
        ("mt_1024", [2.084, 1.015, 1.530]),
        ("relu_256k", [1.646, 1.005, 1.301]),
        ("sc_382_iota", [2.418, 1.080, 1.731]),
        ("stencil_256", [3.674, 1.697, 2.846]),
    ];
    let files: Vec<String> = expected.iter().map(|(name, _)| format!("{name}.bin.xz")).collect();
    let mut args = vec!["--lambda", "6", "--trace"];
    args.extend(files.iter().map(String::as_str));
    let rows = good_rows(Path::new(&traces), &args);
    let tables = rows.iter().filter(|row| row["row"] == "table5");
    for ((name, ratios), row) in expected.into_iter().zip(tables) {
        assert_eq!(row["name"], name);
        let found = ["bdi", "fpc", "cpackz"].map(|key| row[key].as_f64().unwrap());
        let same = ratios.iter().zip(found).all(|(a, b)| (a - b).abs() <= 0.0006);
        assert!(same, "{name}: {found:?}, not {ratios:?}");
    }
}

//! `mgcomp-bench ratio`, with figures worked out by hand.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};

use serde_json::Value;

use crate::{folder, rows, run, stderr};

fn ratio(folder: &Path, args: &[&str]) -> Output {
    run(folder, &[&["ratio"], args].concat())
}

#[track_caller]
fn good_rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    crate::good_rows(folder, &[&["ratio"], args].concat())
}

fn line_of(word: impl Fn(u32) -> u32) -> Vec<u8> {
    (0..16).flat_map(|i| word(i).to_le_bytes()).collect()
}

/// Paper bits of `content` by algorithm.
fn paper_bits(content: &[u8]) -> BTreeMap<String, Value> {
    let folder = folder(&[("x", content)]);
    good_rows(folder.path(), &["--data", "x"])
        .into_iter()
        .map(|row| (row["algorithm"].as_str().unwrap().to_owned(), row["paper_bits"].clone()))
        .collect()
}

#[test]
fn paper_bits_are_those_of_table_ii() {
    // Name, content, and by hand: BDI, FPC, C-Pack+Z.
    let cases: [(&str, Vec<u8>, [u64; 3]); 7] = [
        // One prefix for the line.
        ("zero line", vec![0; 64], [4, 3, 2]),
        ("ten zero lines", vec![0; 640], [40, 30, 20]),
        // The second line is filled up with zeros.
        ("zero line and a byte", vec![0; 65], [8, 6, 4]),
        // BDI: eight equal words, 4 + 64. FPC: 16 · (3 + 4). C-Pack+Z: upper three bytes zero, 16 · (4 + 8).
        ("fives", line_of(|_| 5), [68, 112, 192]),
        // FPC: four equal bytes, 16 · (3 + 8). C-Pack+Z: 2 + 32, then 15 · (4 + 4).
        ("repeated byte", line_of(|_| 0x5151_5151), [68, 176, 154]),
        // FPC: 16 · (3 + 32) would be over 512. C-Pack+Z as before.
        ("repeated word", line_of(|_| 0x1234_5678), [68, 512, 154]),
        // No two upper halves alike, no short values, no base near enough.
        ("nothing in common", line_of(|i| (0x21 + 7 * i) << 24 | 0x34_5678), [512, 512, 512]),
    ];
    for (name, content, [bdi, fpc, cpackz]) in cases {
        let bits = paper_bits(&content);
        assert_eq!(bits["bdi"], bdi, "{name}");
        assert_eq!(bits["fpc"], fpc, "{name}");
        assert_eq!(bits["cpackz"], cpackz, "{name}");
        assert_eq!(bits["zvc"], Value::Null, "{name}");
    }
}

#[test]
fn rows_have_exactly_these_keys() {
    let folder = folder(&[("zeros.bin", &[0; 640])]);
    let args = ["--data", "zeros.bin", "--algorithm", "bdi", "fpc", "cpackz", "zvc"];
    let rows = good_rows(folder.path(), &args);
    let expected = |algorithm: &str, coded_bytes: u64, paper_bits: Value| {
        serde_json::json!({
            "file": "zeros.bin", "element": "u8", "algorithm": algorithm,
            "raw_bytes": 640, "coded_bytes": coded_bytes, "paper_bits": paper_bits,
        })
    };
    // Header 16, table 16; the line codecs keep a few bits per zero line, which fit in one unit of 16; ZVC
    // has 20 masks of 4 bytes.
    let expected = [
        expected("bdi", 48, 40.into()),
        expected("fpc", 48, 30.into()),
        expected("cpackz", 48, 20.into()),
        expected("zvc", 112, Value::Null),
        expected("any", 48, Value::Null),
    ];
    assert_eq!(rows, expected);
}

#[test]
fn algorithms_can_be_chosen() {
    let folder = folder(&[("x", &[1; 100])]);
    let rows = good_rows(folder.path(), &["--data", "x", "--algorithm", "zvc", "--algorithm", "bdi"]);
    let algorithms: Vec<_> = rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(algorithms, ["bdi", "zvc", "any"]);
    let rows = good_rows(folder.path(), &["--data", "x", "--algorithm", "zvc"]);
    assert_eq!(rows.len(), 1, "one algorithm alone is any: {rows:?}");
    assert_eq!(ratio(folder.path(), &["--data", "x", "--algorithm", "none"]).status.code(), Some(2));
}

#[test]
fn dtypes_of_the_list_become_elements() {
    let dtypes = [
        ("uint8", "u8"),
        ("int8", "u8"),
        ("uint16", "u16"),
        ("int16", "u16"),
        ("uint32", "u32"),
        ("int32", "u32"),
        ("uint64", "u64"),
        ("int64", "u64"),
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("float32", "f32"),
        ("float64", "f64"),
        ("float8_e4m3", "f8e4m3"),
        ("float8_e5m2", "f8e5m2"),
    ];
    let data = tempfile::tempdir().unwrap();
    let mut tensors = Vec::new();
    for (dtype, _) in dtypes {
        // The list is right even where the name says something else.
        let file = format!("{dtype}.f64.bin");
        fs::write(data.path().join(&file), [0; 64]).unwrap();
        tensors.push(serde_json::json!({"file": file, "dtype": dtype, "shape": [1, 2]}));
    }
    fs::write(data.path().join("not-in-the-list"), [0; 64]).unwrap();
    fs::write(data.path().join("corpus.json"), serde_json::json!({"tensors": tensors}).to_string()).unwrap();

    let rows = good_rows(data.path(), &["--data", ".", "--algorithm", "zvc"]);
    let found: Vec<_> =
        rows.iter().map(|row| (row["file"].as_str().unwrap(), row["element"].as_str().unwrap())).collect();
    let names: Vec<String> = dtypes.iter().map(|(dtype, _)| format!("{dtype}.f64.bin")).collect();
    let expected: Vec<_> = names.iter().map(String::as_str).zip(dtypes.map(|(_, element)| element)).collect();
    assert_eq!(found, expected);

    // A file named by itself is looked up as well; its row has the path as given.
    let rows = good_rows(data.path(), &["--data", "./bfloat16.f64.bin", "--element", "u64"]);
    assert_eq!((&rows[0]["file"], &rows[0]["element"]), (&"./bfloat16.f64.bin".into(), &"bf16".into()));
}

#[test]
fn without_a_list_the_flag_decides_then_the_name() {
    let files: [(&str, &[u8]); 5] = [
        ("b.f32.bin", &[0; 64]),
        ("a.i64.bin", &[0; 64]),
        ("c", &[0; 64]),
        ("README.md", b"x"),
        (".x", b"x"),
    ];
    let folder = folder(&files);
    fs::create_dir(folder.path().join("sub")).unwrap();
    let elements = |args: &[&str]| -> Vec<(String, String)> {
        let rows = good_rows(folder.path(), &[&["--algorithm", "bdi", "--data", "."], args].concat());
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        rows.iter().map(|row| (text(&row["file"]), text(&row["element"]))).collect()
    };
    let pairs = |pairs: [(&str, &str); 3]| pairs.map(|(file, element)| (file.to_owned(), element.to_owned()));
    assert_eq!(elements(&[]), pairs([("a.i64.bin", "u64"), ("b.f32.bin", "f32"), ("c", "u8")]));
    assert_eq!(
        elements(&["--element", "f16"]),
        pairs([("a.i64.bin", "f16"), ("b.f32.bin", "f16"), ("c", "f16")])
    );
}

/// Checks a run in which some files fail: what it says of them, and that the others are measured.
#[track_caller]
fn check_failures(folder: &Path, args: &[&str], said: &[&str], measured: &[&str]) {
    let output = ratio(folder, &[&["--json", "--algorithm", "bdi"], args].concat());
    let message = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{message}");
    for line in said {
        assert!(
            message.lines().any(|m| m.starts_with("mgcomp-bench: ") && m.contains(line)),
            "{line:?}: {message}"
        );
    }
    assert_eq!(message.lines().count(), said.len(), "{message}");
    let rows = rows(&output);
    let files: Vec<_> = rows.iter().map(|row| row["file"].as_str().unwrap()).collect();
    assert_eq!(files, measured);
}

#[test]
fn a_bad_file_does_not_hide_the_others() {
    let folder = folder(&[("first", &[1; 64]), ("empty", &[]), ("last", &[2; 64])]);
    fs::create_dir(folder.path().join("no-files")).unwrap();
    check_failures(
        folder.path(),
        &["--data", "first", "absent", "empty", "no-files", "last"],
        &[
            "cannot read absent: No such file",
            "cannot measure empty: it is empty",
            "no-files has no files to measure",
            "3 of 5 files could not be measured",
        ],
        &["first", "last"],
    );
}

#[test]
fn a_bad_entry_does_not_hide_the_others() {
    let list = br#"{"tensors": [{"file": "a", "dtype": "complex64"}, {"file": "b", "dtype": "int8"},
        {"file": "../c", "dtype": "int8"}, {"file": "d", "dtype": "int8"}, {"file": "e", "dtype": "int8"}]}"#;
    let files: [(&str, &[u8]); 4] =
        [("corpus.json", list), ("a", &[1; 64]), ("b", &[1; 64]), ("e", &[1; 64])];
    let folder = folder(&files);
    check_failures(
        folder.path(),
        &["--data", "."],
        &[
            "./corpus.json: entry 0 (a) has the unknown dtype \"complex64\"",
            "./corpus.json: entry 2 names \"../c\", which is no file inside that folder",
            "cannot read ./d: No such file",
            "3 of 5 files could not be measured",
        ],
        &["b", "e"],
    );
}

#[test]
fn a_broken_list_is_named() {
    let folder = folder(&[("corpus.json", b"{\"tensors\": 7}"), ("a", &[1; 64])]);
    let said = ["./corpus.json is no list of tensors: invalid type", "1 of 1 files could not be measured"];
    check_failures(folder.path(), &["--data", "."], &said, &[]);
}

#[test]
fn the_table_has_a_row_per_figure_and_totals() {
    let folder = folder(&[("zeros", &[0; 640]), ("fives", &line_of(|_| 5))]);
    let output =
        ratio(folder.path(), &["--data", "zeros", "fives", "--algorithm", "bdi", "--algorithm", "zvc"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    // Fives under BDI: 16 + 16, then 4 of form and padding and 8 of data in one unit; under ZVC by bytes: 2
    // masks of 4 and 16 bytes. Paper ratios: 5120 / 40, 512 / 68, 5632 / 108.
    let note = "any: computed from the smallest algorithm of each chunk";
    let note: Vec<&str> = note.split(' ').collect();
    let expected: [&[&str]; 12] = [
        &[
            "file",
            "element",
            "algorithm",
            "raw",
            "bytes",
            "coded",
            "bytes",
            "ratio",
            "paper",
            "bits",
            "paper",
            "ratio",
        ],
        &["zeros", "u8", "bdi", "640", "48", "13.333", "40", "128.000"],
        &["zeros", "u8", "zvc", "640", "112", "5.714", "-", "-"],
        &["zeros", "u8", "any", "640", "48", "13.333", "-", "-"],
        &["fives", "u8", "bdi", "64", "48", "1.333", "68", "7.529"],
        &["fives", "u8", "zvc", "64", "64", "1.000", "-", "-"],
        &["fives", "u8", "any", "64", "48", "1.333", "-", "-"],
        &[],
        &["total", "-", "bdi", "704", "96", "7.333", "108", "52.148"],
        &["total", "-", "zvc", "704", "176", "4.000", "-", "-"],
        &["total", "-", "any", "704", "96", "7.333", "-", "-"],
        &note,
    ];
    assert_eq!(lines, expected);
}

#[test]
fn each_chunk_counts_with_its_smallest_algorithm() {
    // Five chunks of 16 KiB: more than 64 KiB, so that they have that size. ZVC shrinks the first ones, which
    // have one element in 32; BDI the others, which count up by one from 2^30.
    let sparse = (0..2 * 4096u32).map(|i| if i % 32 == 9 { 0x8123_4567 + (i << 8) } else { 0 });
    let counting = (0..3 * 4096u32).map(|i| (1 << 30) + i);
    let raw: Vec<u8> = sparse.chain(counting).flat_map(u32::to_le_bytes).collect();
    let folder = folder(&[("x.i32", &raw)]);
    let rows = good_rows(folder.path(), &["--data", "x.i32", "--algorithm", "bdi", "zvc"]);
    let coded = |at: usize| rows[at]["coded_bytes"].as_u64().unwrap();
    // Header 16, table 5 · 8, padded to 48. ZVC by hand: 128 masks of 4 bytes and 128 values; raw chunks.
    let zvc = 64 + 2 * (512 + 512) + 3 * 16_384;
    assert_eq!(coded(1), zvc);
    // BDI by hand, chunks that count: 256 lines of base 4 bytes, 16 deltas of 1 byte, 16 mask bits and 4 bits
    // of form, as the low byte has no carry inside a line.
    let counting_chunk = 128 + 256 * (2 + 4 + 16);
    let any = 64 + 2 * (512 + 512) + 3 * counting_chunk;
    assert_eq!((&rows[2]["algorithm"], coded(2)), (&"any".into(), any));
    assert!(coded(0) > any, "{rows:?}");
}

#[test]
fn the_table_ends_in_ratios_by_kind() {
    let list = br#"{"tensors": [{"file": "a.f32", "dtype": "float32", "kind": "cnn_relu"},
        {"file": "b.f16", "dtype": "float16", "kind": "cnn_relu_grad"}, {"file": "c", "dtype": "int8"}]}"#;
    let folder =
        folder(&[("corpus.json", list), ("a.f32", &[0; 4096]), ("b.f16", &[0; 4096]), ("c", &[1; 4096])]);
    let output = ratio(folder.path(), &["--data", ".", "--algorithm", "zvc"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let words: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let [heading, row] = &words[words.len() - 2..] else { unreachable!() };
    assert_eq!(heading[..], ["kind", "of", "data", "files", "MiB", "goal", "zvc", "any", "lz4", "zstd-1"]);
    // Headers of 32 and one mask of 4 bytes for 32 elements: 8192 / (160 + 288).
    let expected = ["CNN", "maps,", "masked", "gradients", "2", "0.01", "3.4", "18.286", "-"];
    assert_eq!(row[..9], expected);
    // Runs of zeros are what general libraries are best at.
    assert!(row[9..].iter().all(|ratio| ratio.parse::<f64>().unwrap() > 100.0), "{row:?}");
}

#[test]
fn a_plot_names_every_algorithm() {
    let folder = folder(&[("x.f32", &[0; 4096])]);
    let output = ratio(folder.path(), &["--data", "x.f32", "--algorithm", "zvc", "bdi", "--plot", "p.svg"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let svg = fs::read_to_string(folder.path().join("p.svg")).unwrap();
    assert!(svg.starts_with("<svg ") && svg.ends_with("</svg>\n"), "{svg}");
    for name in ["zvc", "bdi", "lz4", "zstd-1", "memcpy"] {
        assert!(svg.contains(&format!(">{name}</text>")), "{name}: {svg}");
    }
    assert!(svg.contains(">any: "), "{svg}");
    // A ring and a dot for each algorithm.
    assert_eq!(svg.matches("<circle ").count(), 8);

    for (path, why) in
        [("no/p.svg", "cannot write no/p.svg: No such file"), (".", "cannot write .: it is no file")]
    {
        let output = ratio(folder.path(), &["--data", "x.f32", "--plot", path]);
        assert_eq!(output.status.code(), Some(1), "{path}");
        assert_eq!(output.stdout, b"", "{path}: nothing may be measured in vain");
        assert!(stderr(&output).contains(why), "{path}: {}", stderr(&output));
    }
}

#[test]
fn the_samples_of_the_repository_are_the_default() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/cli/samples");
    let list: Value = serde_json::from_slice(&fs::read(samples.join("corpus.json")).unwrap()).unwrap();
    let expected: Vec<_> = list["tensors"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tensor| (tensor["file"].clone(), tensor["bytes"].clone()))
        .collect();
    let elsewhere = tempfile::tempdir().unwrap();
    let rows = good_rows(elsewhere.path(), &["--algorithm", "zvc"]);
    let found: Vec<_> = rows.iter().map(|row| (row["file"].clone(), row["raw_bytes"].clone())).collect();
    assert_eq!(found, expected);
}

#[cfg(unix)]
#[test]
fn a_reader_that_leaves_is_no_failure() {
    let folder = folder(&[("x", &[1; 64])]);
    let mut command = crate::command(folder.path(), &["ratio", "--data", "x"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

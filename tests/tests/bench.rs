//! The program `mgcomp-bench` from outside, with figures worked out by hand.

mod program;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

fn command(folder: &Path, args: &[&str]) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| program::program("mgcomp-bench", "mgcomp-bench"));
    let mut command = Command::new(program);
    command.arg("ratio").args(args).current_dir(folder);
    command
}

fn ratio(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The rows of a run with `--json`.
fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of a run with `--json` that must succeed.
#[track_caller]
fn good_rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    let output = ratio(folder, &[&["--json"], args].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{args:?}");
    rows(&output)
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
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
    let rows = good_rows(folder.path(), &["--data", "zeros.bin"]);
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
    ];
    assert_eq!(rows, expected);
}

#[test]
fn algorithms_can_be_chosen() {
    let folder = folder(&[("x", &[1; 100])]);
    let rows = good_rows(folder.path(), &["--data", "x", "--algorithm", "zvc", "--algorithm", "bdi"]);
    let algorithms: Vec<_> = rows.iter().map(|row| row["algorithm"].as_str().unwrap()).collect();
    assert_eq!(algorithms, ["bdi", "zvc"]);
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
    let expected: [&[&str]; 8] = [
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
        &["fives", "u8", "bdi", "64", "48", "1.333", "68", "7.529"],
        &["fives", "u8", "zvc", "64", "64", "1.000", "-", "-"],
        &[],
        &["total", "-", "bdi", "704", "96", "7.333", "108", "52.148"],
        &["total", "-", "zvc", "704", "176", "4.000", "-", "-"],
    ];
    assert_eq!(lines, expected);
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
    let mut command = command(folder.path(), &["--data", "x"]);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(stderr(&output), "");
}

//! `mgcomp-bench codec`: which rows there are and what they say; speeds are whatever they are.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use mgcomp_codecs::{Cpu, Isa, codecs};
use serde_json::Value;

use crate::{command, folder, good_rows, rows, run, stderr};

/// As little as will do for a figure.
const SHORT: [&str; 2] = ["--seconds", "0.001"];

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key].as_str().unwrap()
}

#[test]
fn every_combination_has_one_row() {
    let folder = folder(&[("zeros.f32", &[0; 1000]), ("b", &[1, 2, 3])]);
    let args = ["codec", "--data", "zeros.f32", "b:f16", "--algorithm", "zvc", "lz4", "--isa", "portable"];
    let more = ["--threads", "1", "2", "--bytes", "4096", "10001"];
    let rows = good_rows(folder.path(), &[&args[..], &more, &SHORT].concat());
    let mut expected = Vec::new();
    for bytes in [4096, 10_001] {
        for (dataset, element) in [("zeros.f32", "f32"), ("b", "f16")] {
            for threads in [1, 2] {
                for (algorithm, isa) in [("zvc", "portable"), ("lz4", "library")] {
                    expected.push((bytes, dataset, element, threads, algorithm, isa));
                }
            }
        }
    }
    let found: Vec<_> = rows
        .iter()
        .map(|row| {
            let (bytes, threads) = (row["bytes"].as_u64().unwrap(), row["threads"].as_u64().unwrap());
            let (dataset, element) = (text(row, "dataset"), text(row, "element"));
            (bytes, dataset, element, threads, text(row, "algorithm"), text(row, "isa"))
        })
        .collect();
    assert_eq!(found, expected);
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn instructions_are_counted_per_byte() {
    let mixed: Vec<u8> = (0..4096u32).map(|i| if i % 3 == 0 { 0 } else { i as u8 }).collect();
    let folder = folder(&[("mixed.u8", &mixed)]);
    let args = ["codec", "--instructions", "--json", "--data", "mixed.u8", "--algorithm", "zvc"];
    let output = run(folder.path(), &[&args[..], &["--isa", "portable", "--bytes", "1K", "2K"]].concat());
    if stderr(&output).contains("does not let a process be traced") {
        eprintln!("SKIPPED: instructions_are_counted_per_byte: {}", stderr(&output));
        return;
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let rows = rows(&output);
    let found: Vec<_> = rows.iter().map(|row| (text(row, "algorithm"), row["bytes"].as_u64())).collect();
    assert_eq!(found, [("zvc", Some(1024)), ("zvc", Some(2048))]);
    for key in ["encode_instructions", "decode_instructions", "estimate_instructions"] {
        let [one, two] = [&rows[0], &rows[1]].map(|row| row[key].as_f64().unwrap());
        // A chunk and one twice as long. A word of eight bytes takes an instruction to load at least.
        assert!((2.0..10_000.0).contains(&one) && (one / two - 1.0).abs() < 0.25, "{key}: {one} {two}");
    }
}

#[test]
fn what_instructions_have_no_use_for_is_refused() {
    let folder = folder(&[("a.u8", &[1; 64])]);
    let flags = [
        &["--threads", "2"][..],
        &["--seconds", "1"],
        &["--checksum"],
        &["--algorithm", "zstd-1"],
        &["--algorithm", "zvc", "lz4"],
    ];
    for flag in flags {
        let output = run(folder.path(), &[&["codec", "--instructions", "--data", "a.u8"][..], flag].concat());
        assert!(!output.status.success() && stderr(&output).contains(flag[0]), "{}", stderr(&output));
        assert_eq!(output.stdout, b"", "{flag:?}");
    }
}

#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn what_instructions_cannot_be_counted_of_is_told_once_and_the_rest_is_counted() {
    let folder = folder(&[("a.u8", &[1; 64])]);
    let args =
        ["codec", "--instructions", "--json", "--algorithm", "zvc", "--isa", "portable", "--bytes", "1K"];
    for (data, found) in [(&["absent", "a.u8"][..], &["a.u8"][..]), (&["absent"], &[])] {
        let output = run(folder.path(), &[&args[..], &["--data"], data].concat());
        let said = stderr(&output);
        if said.contains("does not let a process be traced") {
            eprintln!("SKIPPED: what_instructions_cannot_be_counted_of_is_told_once: {said}");
            return;
        }
        assert_eq!(output.status.code(), Some(1), "{said}");
        let datasets: Vec<Value> = rows(&output).into_iter().map(|row| row["dataset"].clone()).collect();
        assert_eq!(datasets, found, "{data:?}");
        assert_eq!(said.matches("cannot read absent: No such file").count(), 1, "{said}");
        assert!(said.contains(&format!("1 of {} rows could not be measured", data.len())), "{said}");
    }
}

#[test]
fn rows_have_exactly_these_keys() {
    let folder = folder(&[("zeros.f32", &[0; 4096])]);
    let args = ["codec", "--data", "zeros.f32", "--bytes", "4K", "--algorithm", "zvc", "zstd-1"];
    let rows =
        good_rows(folder.path(), &[&args[..], &["--threads", "1", "--isa", "portable"], &SHORT].concat());
    let keys = [
        "algorithm",
        "bytes",
        "dataset",
        "decode_gbps",
        "element",
        "encode_gbps",
        "estimate_gbps",
        "isa",
        "memcpy_gbps",
        "ratio",
        "threads",
    ];
    for row in &rows {
        let mut found: Vec<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        found.sort_unstable();
        assert_eq!(found, keys);
        for key in ["encode_gbps", "decode_gbps", "memcpy_gbps"] {
            assert!(row[key].as_f64().unwrap() > 0.0, "{key}: {row}");
        }
    }
    // Header 16, table 4 padded to 16, 32 masks of 4 bytes.
    assert_eq!(rows[0]["ratio"], 25.6);
    assert!(rows[0]["estimate_gbps"].as_f64().unwrap() > 0.0);
    assert!(rows[1]["estimate_gbps"].is_null());
    // Checksums take 4 bytes more, which the padding has room for; of 5 chunks they take 16 more.
    let many = ["codec", "--data", "zeros.f32", "--bytes", "80K", "--algorithm", "zvc", "--threads", "1"];
    let without = good_rows(folder.path(), &[&many[..], &["--isa", "portable"], &SHORT].concat());
    let with = good_rows(folder.path(), &[&many[..], &["--isa", "portable", "--checksum"], &SHORT].concat());
    // 5 · 4 and 5 · 8, both padded to 16; 5 · 128 masks.
    assert_eq!(without[0]["ratio"], (81_920.0f64 / (16 + 32 + 2560) as f64 * 1e4).round() / 1e4);
    assert_eq!(with[0]["ratio"], (81_920.0f64 / (16 + 48 + 2560) as f64 * 1e4).round() / 1e4);
}

#[test]
fn without_data_each_codec_gets_a_sample() {
    let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../clients/cli/samples/corpus.json");
    let list: Value = serde_json::from_slice(&fs::read(samples).unwrap()).unwrap();
    let files: BTreeSet<&str> =
        list["tensors"].as_array().unwrap().iter().map(|tensor| text(tensor, "file")).collect();
    let elsewhere = tempfile::tempdir().unwrap();
    let args = ["codec", "--bytes", "64K", "--threads", "1", "--isa", "portable"];
    let rows = good_rows(elsewhere.path(), &[&args[..], &SHORT].concat());
    for codec in codecs() {
        let own = rows.iter().filter(|row| row["algorithm"] == codec.algorithm().name());
        assert_eq!(own.count(), 1, "{}", codec.algorithm());
    }
    for row in &rows {
        assert!(files.contains(text(row, "dataset")), "{row}");
        // Each codec stands beside the libraries on the same data.
        for library in ["lz4", "zstd-1"] {
            let beside = rows.iter().filter(|r| r["dataset"] == row["dataset"] && r["algorithm"] == library);
            assert_eq!(beside.count(), 1, "{library}: {row}");
        }
    }
    // An element that flags name is another choice of data: all samples of it.
    let rows = good_rows(elsewhere.path(), &[&args[..], &["--element", "u8"], &SHORT].concat());
    assert_eq!(rows.len(), codecs().count() + 2);
    assert!(rows.iter().all(|row| row["dataset"] == "random.u8.bin"));
}

#[test]
fn libraries_do_not_see_that_samples_repeat() {
    // Bytes without any repetition longer than three.
    let mut state = 1u32;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    })
    .take(5000)
    .collect();
    let folder = folder(&[("noise", &noise)]);
    let args =
        ["codec", "--data", "noise", "--bytes", "64K", "--algorithm", "lz4", "zstd-1", "--threads", "2"];
    for row in good_rows(folder.path(), &[&args[..], &SHORT].concat()) {
        assert!(row["ratio"].as_f64().unwrap() < 1.01, "{row}");
    }
}

#[test]
fn the_environment_chooses_the_instruction_set() {
    let folder = folder(&[("x", &[1; 64])]);
    let args = ["codec", "--json", "--data", "x", "--algorithm", "bdi", "--bytes", "4K", "--threads", "1"];
    for isa in Cpu::available().map(|cpu| cpu.isa().name()) {
        let mut command = command(folder.path(), &[&args[..], &SHORT].concat());
        let output = command.env("MGCOMP_CPU", isa).output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        // The others up to it stand beside it.
        let expected: Vec<_> =
            Isa::ALL.into_iter().take_while(|i| i.name() != isa).map(Isa::name).chain([isa]).collect();
        let rows = rows(&output);
        assert_eq!(rows.iter().map(|row| text(row, "isa")).collect::<Vec<_>>(), expected);
    }
}

#[test]
fn wrong_flags_are_named() {
    let folder = folder(&[("x", &[1; 64])]);
    let cases: [(&[&str], i32, &str); 12] = [
        (&["--isa", "sse2"], 2, "unknown instruction set \"sse2\"; known: portable avx2 avx512"),
        (&["--bytes", "0"], 2, "a buffer has 1 to 68719476720 bytes, not 0"),
        (&["--bytes", "64G"], 2, "a buffer has 1 to 68719476720 bytes, not 68719476736"),
        (&["--bytes", "1T"], 2, "\"1T\" is no number of bytes"),
        (&["--threads", "0"], 2, "0 is not in 1..=1024"),
        (&["--threads", "1025"], 2, "1025 is not in 1..=1024"),
        (&["--seconds", "0"], 2, "\"0\" is no number of seconds above 0 and up to 3600"),
        (&["--algorithm", "none"], 2, "invalid value 'none'"),
        (&["--element", "f80"], 2, "invalid value 'f80'"),
        (&["--data", "x:f80"], 2, "unknown element \"f80\""),
        (&["--data", "absent:f32"], 1, "cannot read absent: No such file"),
        (&["--data", "x", "--element", "f64"], 1, "none of the 1 files holds one of the elements asked for"),
    ];
    for (flags, code, said) in cases {
        let output = run(folder.path(), &[&["codec", "--json"], flags].concat());
        assert_eq!(output.status.code(), Some(code), "{flags:?}");
        assert!(stderr(&output).contains(said), "{flags:?}: {}", stderr(&output));
        assert_eq!(output.stdout, b"", "{flags:?}");
    }
}

#[test]
fn an_instruction_set_that_is_not_there_is_refused() {
    let folder = folder(&[("x", &[1; 64])]);
    let missing: Vec<Isa> = Isa::ALL.into_iter().filter(|isa| Cpu::on(*isa).is_none()).collect();
    if missing.is_empty() {
        println!("SKIPPED: this machine has every instruction set");
    }
    for isa in missing {
        let output = run(folder.path(), &["codec", "--data", "x", "--isa", isa.name()]);
        assert_eq!(output.status.code(), Some(2));
        assert!(
            stderr(&output).contains(&format!("this machine has no {isa}; it has ")),
            "{}",
            stderr(&output)
        );
    }
}

#[test]
#[cfg(unix)] // files with holes
fn of_files_that_no_memory_holds_only_the_front_is_read() {
    let folder = folder(&[("x.f32", &[1; 4096])]);
    fs::OpenOptions::new().write(true).open(folder.path().join("x.f32")).unwrap().set_len(1 << 40).unwrap();
    let args = ["codec", "--data", "x.f32", "--algorithm", "zvc", "--isa", "portable", "--bytes", "1K"];
    let rows = good_rows(folder.path(), &[&args[..], &["--threads", "1"], &SHORT].concat());
    assert_eq!(rows.len(), 1);
    // Whether or not the system lets instructions be counted.
    let output = run(folder.path(), &[&args[..], &["--instructions"]].concat());
    assert!(!stderr(&output).contains("cannot read"), "{}", stderr(&output));
}

#[test]
fn bad_data_does_not_hide_the_rest() {
    let folder = folder(&[("x", &[1; 64]), ("empty", &[])]);
    let args =
        ["codec", "--json", "--data", "empty", "absent", "x", "--algorithm", "bdi", "--isa", "portable"];
    let output = run(folder.path(), &[&args[..], &["--bytes", "100", "--threads", "1"], &SHORT].concat());
    assert_eq!(output.status.code(), Some(1));
    let datasets: Vec<Value> = rows(&output).into_iter().map(|row| row["dataset"].clone()).collect();
    assert_eq!(datasets, ["x"]);
    for said in [
        "cannot measure empty: it is empty",
        "cannot read absent: No such file",
        "2 of 3 rows could not be measured",
    ] {
        assert!(stderr(&output).contains(said), "{said}: {}", stderr(&output));
    }
}

#[test]
fn the_table_names_machine_and_command() {
    let folder = folder(&[("x", &[1; 64])]);
    let args = ["codec", "--data", "x:f32", "--algorithm", "zvc", "--isa", "portable", "--threads", "1"];
    let args = [&args[..], &["--bytes", "4K"], &SHORT].concat();
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].contains(" core"), "{text}");
    assert_eq!(lines[1], format!("mgcomp-bench {}", args.join(" ")));
    let at = lines.iter().position(|line| *line == "x (f32), 4 KiB").expect("a line about the buffer");
    assert!(lines[at + 1].starts_with("algorithm  isa "), "{text}");
    let row: Vec<&str> = lines[at + 2].split_whitespace().collect();
    // The data has no zeros: it is stored raw, with 32 bytes in front.
    assert_eq!(row[..4], ["zvc", "portable", "1", "0.992"]);
    assert_eq!(lines.len(), at + 3);
}

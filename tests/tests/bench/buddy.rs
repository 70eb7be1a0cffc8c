//! `mgcomp-bench buddy`, against counts by hand.

use crate::{folder, good_rows, run, stderr};

const BRIEFLY: [&str; 4] = ["--bytes", "100000", "--seconds", "0.000001"];

#[test]
fn capacity_and_overflow_are_those_of_the_entries() {
    // 80 entries of a ramp (a code of 2 bytes), 20 of noise: they overflow at all targets but 1.
    let ramps = (0..80 * 32u32).map(|i| i % 32);
    let noise = (1..=20 * 32u32).map(|i| (i ^ 0x5bd1_e995).wrapping_pow(7).rotate_left(i));
    let content: Vec<u8> = ramps.chain(noise).flat_map(u32::to_le_bytes).collect();
    let folder = folder(&[("x", &content[..])]);
    let rows = good_rows(folder.path(), &[&["buddy", "--data", "x:u32"], &BRIEFLY[..]].concat());
    let bpc: Vec<_> = rows.iter().filter(|row| row["forms"] == "bpc").collect();
    let targets: Vec<_> = bpc.iter().map(|row| row["target"].as_str().unwrap()).collect();
    assert_eq!(targets, ["1", "1", "16", "16", "16"]);
    assert_eq!((&bpc[2]["entries"], &bpc[2]["overflowing_entries"]), (&100.into(), &20.into()));
    assert_eq!((&bpc[2]["device_bytes"], &bpc[2]["metadata_bytes"]), (&800.into(), &64.into()));
    assert!((bpc[2]["effective_capacity"].as_f64().unwrap() - 12_800.0 / 864.0).abs() < 1e-9);
    assert_eq!(rows.iter().filter(|row| row["forms"] == "best").count(), 5);
}

#[test]
fn speeds_are_of_what_shrinks() {
    let ramp: Vec<u8> = (0..40_000u32).map(|i| i % 7_001 * i % 999).flat_map(u32::to_le_bytes).collect();
    let folder = folder(&[("x", &ramp[..])]);
    let rows = good_rows(folder.path(), &[&["buddy", "--data", "x:u32"], &BRIEFLY[..]].concat());
    let speeds: Vec<_> = rows.iter().filter(|row| row["write_gbps"].is_number()).collect();
    assert!(!speeds.is_empty(), "{rows:?}");
    for row in speeds {
        assert!(row["write_gbps"].as_f64() > Some(0.0) && row["read_gbps"].as_f64() > Some(0.0), "{row}");
    }
}

#[test]
fn people_get_tables_and_a_picture() {
    let folder = folder(&[("x", &[7; 5000][..])]);
    let args = [&["buddy", "--data", "x:u32", "--plot", "x.svg"], &BRIEFLY[..]].concat();
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("\nother      best ") && text.contains("GB/s"), "{text}");
    assert!(std::fs::read_to_string(folder.path().join("x.svg")).unwrap().contains("other best"));
}

#[test]
fn what_cannot_be_read_is_an_error() {
    let folder = folder(&[("empty", &b""[..])]);
    for data in ["empty", "absent"] {
        let output = run(folder.path(), &["buddy", "--data", data]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{data}");
        assert!(stderr(&output).contains(data), "{}", stderr(&output));
    }
}

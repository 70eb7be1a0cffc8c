//! `mgcomp-bench gather`: what its rows say, and what it refuses.

use serde_json::Value;

use crate::{folder, good_rows, run, stderr};

/// Quick enough for a test: of what is generated, and of files.
const QUICK: [&str; 7] = ["gather", "--bytes", "64K", "--batch", "64", "--seconds", "0.001"];
const OF_FILES: [&str; 5] = ["gather", "--batch", "64", "--seconds", "0.001"];

fn number(row: &Value, key: &str) -> f64 {
    row[key].as_f64().unwrap_or_else(|| panic!("{key}: {row}"))
}

#[test]
fn every_gather_says_that_its_link_is_simulated() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &[&QUICK[..], &["--threads", "1", "--plot", "gather.svg"]].concat());
    let (space, gathers): (Vec<&Value>, Vec<&Value>) =
        rows.iter().partition(|row| row["bench"] == "gather-space");
    // Six kinds of rows; and three lengths at four savings.
    assert_eq!((space.len(), gathers.len()), (6, 6 + 12));
    for row in &gathers {
        assert_eq!(row["link"], "simulated link of 16 GB/s", "{row}");
        assert!(number(row, "speed_up") > 0.0 && number(row, "packed_gbps") > 0.0, "{row}");
    }
    let saved = gathers.iter().filter(|row| row["data"] == "90 % saved");
    for row in saved {
        assert!((number(row, "saved_percent") - 90.0).abs() < 1.0, "{row}");
    }
    for row in space {
        let samples: Vec<f64> =
            row["samples"].as_array().unwrap().iter().map(|sample| number(sample, "percent")).collect();
        assert_eq!(samples, [1.0, 5.0, 10.0, 25.0, 50.0, 100.0]);
    }
    let picture = std::fs::read_to_string(folder.path().join("gather.svg")).unwrap();
    assert!(picture.contains("simulated link of 16 GB/s") && picture.contains(">1024 B<"));
}

#[test]
fn rows_come_from_files() {
    // Rows of 12 bytes, of which only the first of each four vary; the last row is cut.
    let bytes: Vec<u8> = (0..12 * 300 + 5_u32).map(|i| if i % 4 == 0 { (i / 3) as u8 } else { 9 }).collect();
    let folder = folder(&[("a:b.bin", &bytes)]);
    let args = ["--data", "a:b.bin:u32:12", "--sample", "10", "100", "--threads", "1", "2"];
    let rows = good_rows(folder.path(), &[&OF_FILES[..], &args].concat());
    assert_eq!(rows.len(), 3, "one of space, one for each number of threads");
    assert_eq!((&rows[0]["data"], &rows[0]["rows"]), (&"a:b.bin (u32)".into(), &300.into()));
    // One byte of participation and one of each four.
    let saved = number(&rows[0]["samples"][1], "saved_percent");
    assert!((saved - 100.0 * 8.0 / 12.0).abs() < 1e-9, "{saved}");
    assert_eq!((&rows[1]["threads"], &rows[2]["threads"]), (&1.into(), &2.into()));
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = folder(&[("short", &[1; 3]), ("empty", &[])]);
    let refused = |args: &[&str], code: i32, says: &str| {
        let output = run(folder.path(), &[&OF_FILES[..], args].concat());
        assert_eq!(output.status.code(), Some(code), "{args:?}");
        assert!(stderr(&output).contains(says), "{args:?}: {}", stderr(&output));
    };
    refused(&["--data", "short:u8"], 2, "FILE:ELEMENT:ROWBYTES");
    refused(&["--data", "short:u9:1"], 2, "u9");
    refused(&["--data", "short:u8:0"], 2, "row");
    refused(&["--sample", "101"], 2, "percent");
    refused(&["--data", "short:u8:4"], 1, "short");
    refused(&["--data", "empty:u8:4"], 1, "empty");
    refused(&["--data", "missing:u8:4"], 1, "missing");
    refused(&["--data", "short:u8:1", "--clusters", "300"], 1, "300 clusters");
    for threads in ["0", "1025"] {
        refused(&["--threads", threads], 2, &format!("{threads} is not in 1..=1024"));
    }
    for rate in ["0", "-1", "1e-300", "nan", "inf"] {
        refused(&["--link-gbytes", rate], 2, "is no number from 0.000001 to 1000000");
    }
    refused(&["--plot", "nowhere/x.svg"], 1, "nowhere");
    // There is nothing to draw of files.
    refused(&["--data", "short:u8:1", "--plot", "x.svg"], 2, "cannot be used with");
    refused(&["--data", "short:u8:1", "--bytes", "64K"], 2, "cannot be used with");
}

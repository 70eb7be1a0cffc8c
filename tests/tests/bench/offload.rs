//! `mgcomp-bench offload`: ratios against the count of zeros, and rows that fit together.

use serde_json::Value;

use crate::{folder, good_rows, run, stderr};

fn number(row: &Value, name: &str) -> f64 {
    row[name].as_f64().unwrap_or_else(|| panic!("no {name} in {row}"))
}

#[test]
fn zeros_of_maps_make_their_ratio_in_every_layout() {
    let folder = folder(&[]);
    let rows = good_rows(folder.path(), &["offload", "--ratios", "--algorithm", "zvc"]);
    assert!(rows.iter().any(|row| row["generated"] == true) && rows.len().is_multiple_of(3));
    for row in &rows {
        let raw = number(row, "raw_bytes");
        let bits = if row["element"] == "f16" { 16.0 } else { 32.0 };
        // A bit for each element, and those that are not zero; then a header, and a few bytes for each 4 KiB.
        let least = raw / bits + raw * (1.0 - number(row, "zero_share"));
        let most = least + 64.0 + 16.0 * (raw / 4096.0).ceil();
        assert!((least..most).contains(&number(row, "coded_bytes")), "{least} to {most}: {row}");
    }
}

#[test]
fn the_most_that_can_be_had_is_the_lower_of_two() {
    let folder = folder(&[]);
    let args = ["offload", "--algorithm", "zvc", "--bytes", "256K", "--seconds", "0.01", "--link", "0.5"];
    let rows = good_rows(folder.path(), &args);
    let rows: Vec<_> = rows.iter().filter(|row| row["offload_gbps"].is_number()).collect();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(number(row, "simulated_link_gbytes"), 0.5);
        let by_link = 0.5 * number(row, "ratio");
        for (codec, most) in [("encode_gbps", "most_offload_gbps"), ("decode_gbps", "most_prefetch_gbps")] {
            let expected = by_link.min(number(row, codec));
            assert!((number(row, most) - expected).abs() < 1e-6 * expected, "{row}");
        }
        // Nothing is faster than the link.
        assert!(
            number(row, "raw_offload_gbps") <= 0.51 && number(row, "offload_gbps") <= 1.02 * by_link,
            "{row}"
        );
    }
}

#[test]
fn wrong_usage_is_told_before_any_work() {
    let folder = folder(&[]);
    for (flag, value) in [("--link", "0"), ("--link", "nan"), ("--bytes", "0"), ("--threads", "0")] {
        let output = run(folder.path(), &["offload", flag, value]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{flag} {value}");
        assert!(stderr(&output).contains(flag), "{}", stderr(&output));
    }
    // What only throughput has a use for.
    for (flag, value) in [("--link", "8"), ("--bytes", "1M"), ("--threads", "1"), ("--seconds", "1")] {
        let output = run(folder.path(), &["offload", "--ratios", flag, value]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{flag} {value}");
        assert!(stderr(&output).contains("cannot be used with"), "{}", stderr(&output));
    }
}

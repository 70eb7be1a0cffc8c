//! `mgcomp-bench link`: which rows there are and what they say; speeds are whatever they are.

use std::collections::BTreeSet;

use crate::{folder, good_rows, run, stderr};

#[test]
fn every_link_has_a_row_for_every_length() {
    let folder = folder(&[]);
    let args = ["link", "--bytes", "1", "4K", "100001", "--seconds", "0.01"];
    let rows = good_rows(folder.path(), &args);
    let named: Vec<_> =
        rows.iter().map(|row| (row["bytes"].as_u64().unwrap(), row["link"].as_str().unwrap())).collect();
    let mut expected = Vec::new();
    for bytes in [1, 4096, 100_001] {
        // There is no shared memory between processes on other systems.
        ["loopback", "shm", "tcp"].iter().for_each(|&link| expected.push((bytes, link)));
    }
    assert_eq!(named, expected);
    for row in &rows {
        let keys: BTreeSet<_> = row.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(keys, BTreeSet::from(["bytes", "gbps", "latency_ns", "link", "memcpy_gbps", "of_memcpy"]));
        let number = |key: &str| row[key].as_f64().unwrap();
        assert!(number("latency_ns") > 0.0 && number("gbps") > 0.0 && number("memcpy_gbps") > 0.0, "{row}");
        let of_memcpy = number("gbps") / number("memcpy_gbps");
        assert!((number("of_memcpy") - of_memcpy).abs() < 1e-9 * of_memcpy, "{row}");
    }
}

#[test]
fn rings_that_cannot_be_are_named() {
    let folder = folder(&[]);
    let args = ["link", "--link", "shm", "--bytes", "8", "--ring", "5000"];
    let output = run(folder.path(), &args);
    assert_eq!(output.status.code(), Some(1));
    let text = stderr(&output);
    assert!(
        text.starts_with(
            "mgcomp-bench: shm cannot be measured with messages of 8 bytes: making rings for mgcomp-"
        ),
        "{text}"
    );
}

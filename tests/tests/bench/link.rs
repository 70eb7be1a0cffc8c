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
fn messages_that_no_header_can_say_are_refused() {
    let folder = folder(&[]);
    for (bytes, shown) in [("4G", "4294967296"), ("5G", "5368709120")] {
        let output = run(folder.path(), &["link", "--link", "loopback", "--bytes", bytes]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{bytes}");
        let said = format!("a message has at most 4294967231 bytes, not {shown}");
        assert!(stderr(&output).contains(&said), "{}", stderr(&output));
    }
}

#[test]
fn rings_that_cannot_be_are_named() {
    let folder = folder(&[]);
    for ring in ["7", "5000", "2K", "2G"] {
        let output = run(folder.path(), &["link", "--link", "shm", "--bytes", "8", "--ring", ring]);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0), "{ring}");
        let text = stderr(&output);
        assert!(text.contains("--ring") && text.contains("a ring has a power of two of bytes"), "{text}");
    }
    let shm = ["link", "--link", "shm", "--bytes", "8", "--seconds", "0.01", "--ring"];
    for ring in ["4K", "1M"] {
        assert_eq!(good_rows(folder.path(), &[&shm[..], &[ring]].concat()).len(), 1, "{ring}");
    }
}

#[test]
fn a_ring_is_for_shm_alone() {
    let folder = folder(&[]);
    let output = run(folder.path(), &["link", "--link", "tcp", "loopback", "--bytes", "8", "--ring", "64K"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    assert_eq!(stderr(&output), "mgcomp-bench: --ring cannot be used with links that are not shm\n");
}

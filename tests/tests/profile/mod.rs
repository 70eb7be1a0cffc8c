//! `mgcomp profile`, against snapshots whose entries are counted by hand.

use serde_json::Value;

use crate::workbench::{Workbench, stderr, stdout};

/// Entries of zeros, of a ramp, whose code has 2 bytes, and of noise, which takes all four sectors.
fn snapshot(zeros: usize, ramps: usize, noises: u32) -> Vec<u8> {
    let mut words = vec![0; 32 * zeros];
    (0..ramps).for_each(|_| words.extend(0..32));
    words.extend((1..=32 * noises).map(|i| (i ^ 0x5bd1_e995).wrapping_pow(7).rotate_left(i)));
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

fn rows(bench: &Workbench, args: &[&str]) -> Vec<Value> {
    let output = bench.succeed(&[&["profile", "--json"], args].concat());
    stdout(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn targets_are_those_of_the_counts() {
    let bench = Workbench::with("a.u32.bin", &snapshot(50, 40, 10));
    bench.write("b.bin", &snapshot(0, 0, 3));
    let chosen = rows(&bench, &["a.u32.bin", "b.bin", "--form", "bpc", "--threshold", "11"]);
    assert_eq!(chosen.len(), 2);
    let a = &chosen[0];
    assert_eq!((&a["form"], &a["target"], &a["element"]), (&"bpc".into(), &"16".into(), &"u32".into()));
    let counts = ["entries", "zero_entries", "overflowing_entries", "raw_bytes"].map(|key| a[key].as_u64());
    assert_eq!(counts, [Some(100), Some(50), Some(10), Some(12_800)]);
    // 100 slots of 8 bytes and 100 nibbles, in whole sectors; 128 bytes of buddy memory for each entry.
    let bytes = ["device_bytes", "metadata_bytes", "buddy_bytes"].map(|key| a[key].as_u64());
    assert_eq!(bytes, [Some(800), Some(64), Some(12_800)]);
    assert_eq!(a["overflow_share_by_target"]["bpc"]["4/3"], 0.1);
    assert_eq!((&chosen[1]["target"], &chosen[1]["element"]), (&"1".into(), &"u8".into()));

    let chosen = rows(&bench, &["a.u32.bin", "--form", "bpc", "--threshold", "10"]);
    assert_eq!((&chosen[0]["target"], &chosen[0]["overflow_share"]), (&"1".into(), &0.0.into()));
}

#[test]
fn snapshots_of_one_allocation_count_together() {
    let bench = Workbench::with("a", &snapshot(80, 0, 20));
    bench.write("b", &snapshot(100, 0, 0));
    let args = ["a", "b", "--together", "--form", "bpc", "--threshold"];
    let chosen = rows(&bench, &[&args[..], &["15"]].concat());
    // 10 % of both, but 20 % of the first: not mostly zero at all times.
    assert_eq!((chosen.len(), &chosen[0]["target"], &chosen[0]["snapshots"]), (1, &"4".into(), &2.into()));
    let chosen = rows(&bench, &[&args[..], &["25"]].concat());
    assert_eq!(chosen[0]["target"], "16");
}

#[test]
fn people_get_a_table() {
    let bench = Workbench::with("x.bin", &snapshot(0, 8, 0));
    let text = stdout(&bench.succeed(&["profile", "x.bin", "--form", "bpc"]));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("snapshot") && lines[1].starts_with("x.bin"), "{text}");
    // 1024 bytes in two sectors of slots and one of metadata.
    assert!(lines[1].contains("10.667") && lines[3].contains("threshold 30 %"), "{text}");
}

#[test]
fn what_is_no_snapshot_is_refused() {
    let bench = Workbench::with("empty", b"");
    bench.write("good", &[1; 100]);
    std::fs::create_dir(bench.path("folder")).unwrap();
    let refused: [(&[&str], &str); 4] = [
        (&["empty"], "cannot read empty: it is empty"),
        (&["good", "empty", "--together"], "cannot read empty: it is empty"),
        (&["folder"], "cannot read folder: it is a directory"),
        (&["good", "absent"], "cannot read absent"),
    ];
    for (args, message) in refused {
        let output = bench.run(&[&["profile"], args].concat());
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{args:?}");
        assert!(stderr(&output).contains(message), "{}", stderr(&output));
    }
    let wrong: [&[&str]; 5] = [
        &[],
        &["good", "--threshold", "9"],
        &["good", "--threshold", "51"],
        &["good", "--threshold", "x"],
        &["good", "--form", "zvc"],
    ];
    for args in wrong {
        assert_eq!(bench.run(&[&["profile"], args].concat()).status.code(), Some(2), "{args:?}");
    }
}

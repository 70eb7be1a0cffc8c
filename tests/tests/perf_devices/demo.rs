//! The demo.

use serde_json::Value;

use crate::mgcomp;
use crate::workbench::{Workbench, stderr, stdout};

/// 64 KiB of numbers that count up.
fn bench() -> Workbench {
    let numbers: Vec<u8> = (0..16_384u32).flat_map(u32::to_le_bytes).collect();
    Workbench::with("ramp.i32.bin", &numbers)
}

/// So slow a link that few rounds will do.
const QUICK: [&str; 9] =
    ["demo", "--data", "ramp.i32.bin", "--policy", "fixed:bdi", "--ranks", "3", "--link-gbps", "0.02"];

#[test]
fn tensors_are_exchanged_between_devices() {
    for way in [&[][..], &["--tcp"]] {
        let args = [&QUICK[..], &["--device", "cuda", "--json"], way].concat();
        let bench = bench();
        let Some(mut command) = mgcomp(&bench, "tensors_are_exchanged_between_devices", 2, &args) else {
            return;
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
        let row: Value = serde_json::from_str(&stdout(&output)).unwrap();
        assert_eq!(row["equal"], true);
        // 20 bytes of data, 2 of mask and 4 bits of form for each line of 64 bytes.
        assert!((0.35..0.37).contains(&row["traffic"].as_f64().unwrap()), "{row}");
    }
}

#[test]
fn a_table_says_whose_memory_it_is() {
    let args = [&QUICK[..], &["--device", "cuda:0"]].concat();
    let bench = bench();
    let Some(mut command) = mgcomp(&bench, "a_table_says_whose_memory_it_is", 1, &args) else { return };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let text = stdout(&output);
    assert!(text.starts_with("3 ranks (threads over loopback, memory of CPU shim), each sends"), "{text}");
    assert!(text.ends_with("every byte arrived equal\n"), "{text}");
}

#[test]
fn a_device_that_is_not_there_is_an_error() {
    let bench = bench();
    for way in [&[][..], &["--tcp"], &["--daemon"]] {
        let args = [&QUICK[..], &["--device", "cuda:1"], way].concat();
        let Some(mut command) = mgcomp(&bench, "a_device_that_is_not_there_is_an_error", 1, &args) else {
            return;
        };
        let output = command.output().unwrap();
        bench.check_exit(&output, &args, 1, &["there is no CUDA device 1; 1 are there"]);
        assert_eq!(stdout(&output), "");
    }
}

#[test]
fn without_a_driver_there_is_an_error() {
    if mgcomp_codecs::device::devices().is_ok() {
        return mgcomp_tests::shim::skip("without_a_driver_there_is_an_error", "there is a device");
    }
    bench().fail(&[&QUICK[..], &["--device", "cuda"]].concat(), &["no CUDA driver"]);
}

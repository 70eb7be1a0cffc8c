//! `mgcomp calibrate --device`.

use serde_json::Value;

use crate::mgcomp;
use crate::workbench::{Workbench, stderr, stdout};

#[test]
fn speeds_of_a_device_are_kept_by_its_name() {
    let test = "speeds_of_a_device_are_kept_by_its_name";
    let bench = Workbench::new();
    let folder = tempfile::tempdir().unwrap();
    let Some(mut command) = mgcomp(&bench, test, 2, &["calibrate", "--device", "cuda:1"]) else { return };
    // So long that each thing is timed at one length.
    command.env("MGCOMP_CACHE", folder.path()).env("MGCOMP_STUB_LAUNCH_NS", "5000000");
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let kept = folder.path().join("speeds-cuda-cpu-shim.json");
    let shown = stdout(&output);
    assert!(shown.starts_with("GB/s of raw bytes on CPU shim, "), "{shown}");
    assert!(shown.ends_with(&format!("kept in {}\n", kept.display())), "{shown}");
    // 65,536 bytes in 5 ms.
    let row = shown.lines().find(|line| line.starts_with("bf16")).unwrap();
    let rates: Vec<&str> = row.split([' ', '/']).skip(1).filter(|word| !word.is_empty()).collect();
    assert!(!rates.is_empty() && rates.iter().all(|&rate| rate == "0.01"), "{row}");
    let file: Value = serde_json::from_slice(&std::fs::read(&kept).unwrap()).unwrap();
    assert_eq!(file["processor"], "CPU shim");

    // Programs go by it, and say so where they cannot.
    let perf = |bench: &Workbench| {
        let args = [
            "perf",
            "--device",
            "cuda",
            "--link",
            "loopback",
            "--op",
            "broadcast",
            "--max",
            "64K",
            "--iters",
            "2",
        ];
        let mut command = mgcomp(bench, test, 2, &args).unwrap();
        command.env("MGCOMP_CACHE", folder.path()).env("MGCOMP_LOG", "warn").env("RUST_LOG", "warn");
        command.output().unwrap()
    };
    let output = perf(&bench);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(!stderr(&output).contains("speeds"), "{}", stderr(&output));
    std::fs::write(&kept, "{}").unwrap();
    let output = perf(&bench);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
}

#[test]
fn a_device_that_is_not_there_is_not_timed() {
    let test = "a_device_that_is_not_there_is_not_timed";
    let bench = Workbench::new();
    let Some(mut command) = mgcomp(&bench, test, 2, &["calibrate", "--json", "--device", "cuda:2"]) else {
        return;
    };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("device 2"), "{}", stderr(&output));
    bench.fail(&["calibrate", "--json", "--device", "cuda"], &["cannot use the device"]);
    assert_eq!(bench.run(&["calibrate", "--daemon", "--device", "cuda"]).status.code(), Some(2));
}

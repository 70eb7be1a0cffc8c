//! Over the links that there are for host memory as well, and from device to device.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::workbench::{Workbench, stderr, stdout};
use crate::{COUNTING, QUICK, on_stub, perf, refused, rows, rows_of, wrong_usage};

/// What devices take.
const ALL: &str = "all_gather,all_to_all,broadcast,gather,scatter,all_reduce,reduce,reduce_scatter,send_recv,read,write,barrier";

fn over(link: &str, test: &str) {
    let args = ["--device", "cuda", "--link", link, "--ranks", "3", "--op", ALL];
    let sizes = ["--min", "100", "--max", "90K", "--factor", "900"];
    let Some(rows) = rows(test, 2, &[&args[..], &sizes, &COUNTING].concat()) else { return };
    check_all(link, &rows);
}

/// Two sizes of all operations, between three ranks.
fn check_all(link: &str, rows: &[Value]) {
    assert_eq!(rows.len(), 11 * 2 + 1);
    for row in rows {
        assert_eq!((&row["link"], &row["ranks"]), (&link.into(), &3.into()));
        // What is short is not worth a frame.
        let is_long = row["bytes"].as_u64() > Some(80_000);
        // Sums of what is easily compressed may be less so.
        let least = if row["op"].as_str().is_some_and(|op| op.contains("reduce")) { 1.2 } else { 2.5 };
        assert!(!is_long || row["ratio"].as_f64() > Some(least), "{row}");
    }
}

#[test]
fn operations_are_right_over_loopback() {
    over("loopback", "operations_are_right_over_loopback");
}

#[test]
fn operations_are_right_over_tcp() {
    over("tcp", "operations_are_right_over_tcp");
}

#[cfg(target_os = "linux")]
#[test]
fn operations_are_right_over_shm() {
    over("shm", "operations_are_right_over_shm");
}

/// Under mpirun, by a program that was built with the feature `mpi`, which tests/run does.
#[test]
fn operations_are_right_over_mpi() {
    let test = "operations_are_right_over_mpi";
    let Some(program) = std::env::var_os("MGCOMP_WITH_MPI") else {
        eprintln!("SKIPPED: {test}: MGCOMP_WITH_MPI names no mgcomp with the feature mpi");
        return;
    };
    let bench = Workbench::new();
    let mut command = Command::new("mpirun.openmpi");
    command.args(["--allow-run-as-root", "--oversubscribe", "--bind-to", "none", "-np", "3"]);
    command.arg(program).arg("perf").args(QUICK).args(["--device", "cuda", "--link", "mpi", "--op", ALL]);
    command.args(["--min", "100", "--max", "90K", "--factor", "900"]).args(COUNTING);
    command.current_dir(bench.folder.path()).stdin(Stdio::null()).env("TMPDIR", bench.folder.path());
    if !on_stub(&mut command, test, 2) {
        return;
    }
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let rows = rows_of(&output);
    assert!(rows.iter().all(|row| row["wrong"] == 0 && row["device"] == "CPU shim"), "{rows:?}");
    check_all("mpi", &rows);
}

#[test]
fn operations_are_right_from_device_to_device() {
    over("cuda-threads", "operations_are_right_from_device_to_device");
}

#[cfg(target_os = "linux")]
#[test]
fn operations_are_right_from_process_to_process() {
    over("cuda", "operations_are_right_from_process_to_process");
}

/// Bytes that went by window, and by way of the host.
#[cfg(target_os = "linux")]
fn ways(row: &Value) -> (u64, u64) {
    let bytes = |name: &str| row["ways"][name].as_u64().unwrap();
    (bytes("window_bytes"), bytes("host_bytes"))
}

/// Whatever of it is missing, the host does instead.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_is_not_shared_is_no_reason_to_fail() {
    let bench = Workbench::new();
    // Without what, and whether there are windows all the same.
    let cases: [(&[&str], bool); 4] =
        [(&["NO_IPC"], true), (&["NO_VMM"], true), (&["NO_IPC", "NO_VMM"], false), (&["NO_PEERS"], false)];
    for (variables, by_window) in cases {
        let args = ["--link", "cuda", "--min", "60K", "--max", "60K"];
        let args = [&QUICK[..], &args, &COUNTING].concat();
        let test = "memory_that_is_not_shared_is_no_reason_to_fail";
        let Some(mut command) = perf(&bench, test, 2, &args) else { return };
        command.envs(variables.iter().map(|name| (format!("MGCOMP_STUB_{name}"), "1")));
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{variables:?}: {}", stderr(&output));
        let rows = rows_of(&output);
        assert!(rows[0]["wrong"] == 0 && rows[0]["ratio"].as_f64() > Some(2.5), "{variables:?}: {rows:?}");
        let (window, host) = ways(&rows[0]);
        // Two ranks send each other all of it, at less than half of the length.
        let least = 2 * 2 * 30_000 / 4;
        assert_eq!((window > least, host > least), (by_window, !by_window), "{variables:?}: {rows:?}");
        assert!(by_window || window == 0, "{variables:?}: {rows:?}");
    }
    // Other links have no windows to tell of.
    let Some(rows) =
        rows("memory_that_is_not_shared_is_no_reason_to_fail", 1, &["--device", "cuda", "--max", "8"])
    else {
        return;
    };
    assert!(rows.iter().all(|row| row["ways"].is_null()), "{rows:?}");
}

#[test]
fn ranks_share_a_device_in_contexts_of_their_own() {
    let test = "ranks_share_a_device_in_contexts_of_their_own";
    let args =
        ["--link", "cuda-threads", "--device", "cuda:0", "--ranks", "3", "--min", "60K", "--max", "60K"];
    let Some(rows) = rows(test, 1, &[&args[..], &COUNTING, &["--interleave"]].concat()) else { return };
    // The link says where buffers are, and that says what is measured.
    let found: Vec<_> = rows.iter().map(|row| (&row["op"], &row["mode"], &row["algorithms"])).collect();
    let algorithms = [serde_json::json!({ "none": 12 }), serde_json::json!({ "bdi": 12 })];
    let op = "all_gather".into();
    // Three ranks send a block to two others, two times each.
    assert_eq!(found, [(&op, &"raw".into(), &algorithms[0]), (&op, &"fixed:bdi".into(), &algorithms[1])]);
}

#[test]
fn policies_that_look_at_data_do_so_there() {
    let args = ["--link", "cuda", "--op", "write,all_to_all", "--min", "200K", "--max", "200K"];
    let more = ["--policy", "paper", "--element", "i32", "--pattern", "sequence", "--iters", "12"];
    let bench = Workbench::new();
    let Some(mut command) =
        perf(&bench, "policies_that_look_at_data_do_so_there", 2, &[&["--json"], &args[..], &more].concat())
    else {
        return;
    };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(rows_of(&output).iter().all(|row| row["wrong"] == 0));
}

#[test]
fn a_planted_wrong_byte_is_counted() {
    let bench = Workbench::new();
    for (link, op) in [("loopback", "all_gather"), ("cuda", "read"), ("cuda-threads", "read")] {
        let args = ["--json", "--iters", "2", "--spoil", "--device", "cuda", "--link", link, "--op", op];
        let more = ["--min", "5M", "--max", "5M", "--raw"];
        let Some(mut command) =
            perf(&bench, "a_planted_wrong_byte_is_counted", 2, &[&args[..], &more].concat())
        else {
            return;
        };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        assert_eq!(rows_of(&output)[0]["wrong"], 1, "{op}");
        assert!(stderr(&output).contains("1 values are not what they must be"), "{}", stderr(&output));
    }
}

#[test]
fn a_table_says_whose_memory_it_is() {
    let args = ["--device", "cuda", "--max", "1K", "--iters", "1"];
    let bench = Workbench::new();
    let Some(mut command) = perf(&bench, "a_table_says_whose_memory_it_is", 1, &args) else {
        return;
    };
    let output = command.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let head = "all_gather of f32 (normal), 2 ranks (threads over loopback, memory of CPU shim)\n";
    assert!(stdout(&output).starts_with(head), "{}", stdout(&output));
}

#[test]
fn what_devices_do_not_have_is_refused() {
    let test = "what_devices_do_not_have_is_refused";
    refused(test, 2, &["--device", "cuda:2"], &["there is no CUDA device 2; 2 are there"]);
    refused(test, 2, &["--device", "cuda:9", "--link", "tcp"], &["there is no CUDA device 9; 2 are there"]);
    refused(test, 0, &["--link", "cuda"], &["there is no CUDA device 0; 0 are there"]);
    wrong_usage(test, &["--link", "cuda", "--link-gbps", "10"], &["cuda is as fast as it is"]);
    // Longer than the memory that the driver says it has.
    refused(
        test,
        1,
        &["--device", "cuda", "--link", "tcp", "--min", "2G", "--max", "2G", "--iters", "1"],
        &["CUDA_ERROR_OUT_OF_MEMORY"],
    );
    for text in ["cpu", "cuda:", "cuda:x", "cuda:-1"] {
        let output = Workbench::new().run(&["perf", "--device", text]);
        assert_eq!(output.status.code(), Some(2), "{text}: {}", stderr(&output));
    }
}

#[test]
fn without_a_driver_there_is_an_error() {
    if mgcomp_codecs::device::devices().is_ok() {
        return mgcomp_tests::shim::skip("without_a_driver_there_is_an_error", "there is a device");
    }
    for args in [&["perf", "--device", "cuda"][..], &["perf", "--link", "cuda"]] {
        Workbench::new().fail(args, &["no CUDA driver: libcuda.so.1 is missing or does not load"]);
    }
}

#[test]
fn a_device_that_is_lost_ends_the_run() {
    let test = "a_device_that_is_lost_ends_the_run";
    for link in ["cuda", "cuda-threads", "tcp"] {
        let args = ["--device", "cuda", "--link", link, "--min", "64K", "--max", "64K", "--timeout", "8"];
        let bench = Workbench::new();
        let Some(mut command) = perf(&bench, test, 2, &[&args[..], &COUNTING].concat()) else {
            return;
        };
        let output = command.env("MGCOMP_STUB_FAULTY_LAUNCH", "3").output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        // Whoever was at it says that it failed; with the others it is a session that has ended.
        assert!(
            stderr(&output).starts_with("mgcomp: perf: ") && stdout(&output).is_empty(),
            "{}",
            stderr(&output)
        );
    }
}

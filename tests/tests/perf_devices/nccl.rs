//! Over NCCL: ranks are processes, which meet on its stub.

use std::process::Command;

use mgcomp_tests::stub::{Libraries, finds};

use crate::workbench::{Workbench, stderr};
use crate::{COUNTING, perf, refused, rows, rows_of, wrong_usage};

/// What NCCL has.
const ALL: &str = "all_gather,all_reduce,all_to_all,broadcast,gather,scatter,reduce_scatter,send_recv";
/// So long that headers go ahead.
const LONG: [&str; 4] = ["--min", "1200K", "--max", "1200K"];

fn nccl(test: &str, devices: u32, args: &[&str]) -> Option<Vec<serde_json::Value>> {
    rows(test, devices, &[&["--link", "nccl"], args].concat())
}

#[test]
fn ranks_share_a_device() {
    for ranks in ["2", "4"] {
        let args = ["--device", "cuda:0", "--ranks", ranks, "--op", ALL, "--min", "64", "--max", "64"];
        let Some(rows) = nccl("ranks_share_a_device", 1, &args) else { return };
        assert_eq!(rows.len(), 8);
        assert!(rows.iter().all(|row| row["link"] == "nccl"), "{rows:?}");
    }
}

#[test]
fn long_operations_are_compressed_and_equal_plain_ones() {
    let test = "long_operations_are_compressed_and_equal_plain_ones";
    let args = [&["--ranks", "3", "--op", ALL, "--interleave"], &LONG[..], &COUNTING].concat();
    let Some(rows) = nccl(test, 2, &args) else { return };
    assert_eq!(rows.len(), 16);
    for row in &rows {
        let is_shorter = row["ratio"].as_f64() > Some(2.5);
        let reduces = row["op"].as_str().unwrap().contains("reduce");
        assert_eq!(is_shorter, row["mode"] == "fixed:bdi" && !reduces, "{row}");
    }
}

#[test]
fn reductions_have_the_bits_of_the_library_if_asked_for() {
    let test = "reductions_have_the_bits_of_the_library_if_asked_for";
    for element in ["f32", "i16", "i32", "bf16"] {
        let args = ["--ranks", "3", "--op", "all_reduce,reduce_scatter", "--ordered", "--element", element];
        let sizes = ["--min", "6K", "--max", "600K", "--factor", "100"];
        let Some(rows) = nccl(test, 3, &[&args[..], &sizes].concat()) else { return };
        assert_eq!(rows.len(), 4, "{element}");
    }
}

#[test]
fn sums_of_nccl_are_near_enough() {
    for reduction in ["sum", "avg", "min", "max"] {
        let args = ["--ranks", "3", "--op", "all_reduce,reduce_scatter", "--reduction", reduction, "--raw"];
        let more = ["--element", "f64", "--min", "60K", "--max", "60K"];
        let Some(rows) = nccl("sums_of_nccl_are_near_enough", 3, &[&args[..], &more].concat()) else {
            return;
        };
        assert_eq!(rows.len(), 2);
    }
}

#[test]
fn a_planted_wrong_byte_is_counted() {
    let bench = Workbench::new();
    for (op, ordered) in [("all_gather", &[][..]), ("all_reduce", &["--ordered"])] {
        let args = ["--json", "--iters", "2", "--spoil", "--link", "nccl", "--op", op, "--element", "i32"];
        let more = [&args[..], &LONG, ordered].concat();
        let Some(mut command) = perf(&bench, "a_planted_wrong_byte_is_counted", 2, &more) else { return };
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
        // It is neither what the data makes nor what a plain call does.
        assert_eq!(rows_of(&output)[0]["wrong"], 2, "{op}");
    }
}

#[test]
fn what_nccl_does_not_have_is_refused() {
    let test = "what_nccl_does_not_have_is_refused";
    let nccl = |more: &[&'static str]| [&["--link", "nccl"], more].concat();
    for (op, instead) in [
        ("reduce", "all_reduce"),
        ("read", "send_recv"),
        ("write", "--link cuda"),
        ("barrier", "another link"),
    ] {
        wrong_usage(test, &nccl(&["--op", op]), &["NCCL", &format!("has no {op}"), instead]);
    }
    wrong_usage(test, &nccl(&["--element", "u16"]), &["NCCL has no sum of u16", "--ordered"]);
    refused(test, 1, &nccl(&["--device", "cuda:3"]), &["there is no CUDA device 3; 1 are there"]);
    wrong_usage(test, &nccl(&["--link-gbps", "1"]), &["nccl is as fast as it is"]);
    wrong_usage(test, &["--ordered"], &["--ordered is for --link nccl, not for loopback"]);
}

/// What a run says that does not find NCCL as it should be.
fn without_nccl(test: &str, change: impl FnOnce(&mut Command), words: &[&str]) {
    let bench = Workbench::new();
    let args = ["perf", "--link", "nccl"];
    let mut command = bench.command(&args);
    if !finds(&mut command, Libraries::DriverAndCompiler, test) {
        return;
    }
    change(&mut command);
    bench.check_exit(&command.output().unwrap(), &args, 1, words);
}

#[test]
fn nccl_that_will_not_do_is_an_error() {
    let test = "nccl_that_will_not_do_is_an_error";
    let named = |name: &'static str| {
        move |command: &mut Command| {
            command.env("MGCOMP_NCCL", name);
        }
    };
    without_nccl(test, named("libnccl.so.2"), &["MGCOMP_NCCL", "no absolute path"]);
    without_nccl(test, named("/no/such/libnccl.so.2"), &["/no/such/libnccl.so.2 does not load"]);
    let Some(compiler) = option_env!("MGCOMP_STUB_COMPILER") else { return };
    let other = format!("{compiler}/libnvrtc.so.13");
    let of_another = |command: &mut Command| {
        command.env("MGCOMP_NCCL", other);
    };
    without_nccl(test, of_another, &["NCCL has no function nccl"]);
    let bench = Workbench::new();
    let Some(mut command) = perf(&bench, test, 1, &["--link", "nccl"]) else { return };
    let output = command.env("MGCOMP_STUB_NCCL_VERSION", "21300").output().unwrap();
    bench.check_exit(&output, &[], 1, &["NCCL has version 21300; the least that will do is 21400"]);
}

#[test]
fn a_rank_that_fails_ends_the_run() {
    let args = ["--link", "nccl", "--op", "all_gather", "--timeout", "30"];
    let more = [&args[..], &LONG, &COUNTING].concat();
    let bench = Workbench::new();
    let Some(mut command) = perf(&bench, "a_rank_that_fails_ends_the_run", 2, &more) else {
        return;
    };
    let output = command.env("MGCOMP_STUB_FAULTY_LAUNCH", "2").output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    assert!(stderr(&output).contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{}", stderr(&output));
}

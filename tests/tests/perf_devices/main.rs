//! The command line with buffers in the memory of devices: those of the stub driver, which runs kernels on the CPU.

mod calibrate;
mod demo;
mod links;
mod nccl;

#[path = "../program/mod.rs"]
mod program;
#[allow(dead_code, reason = "the command line's tests use the rest")]
#[path = "../workbench/mod.rs"]
mod workbench;

use std::process::{Command, Output};

use mgcomp_tests::stub::{Libraries, finds};
use serde_json::Value;
use workbench::{Workbench, stderr, stdout};

/// Quick, and the same number of iterations however fast the machine is.
const QUICK: [&str; 5] = ["--json", "--iters", "2", "--warmup", "1"];
/// What shrinks to a third: 20 bytes of data, 2 of mask and 4 bits of form for each line of 64 bytes.
const COUNTING: [&str; 6] = ["--element", "i32", "--pattern", "sequence", "--policy", "fixed:bdi"];

/// `mgcomp perf` on so many devices, whose streams have threads; nothing where the stub was not built.
fn perf(bench: &Workbench, test: &str, devices: u32, args: &[&str]) -> Option<Command> {
    mgcomp(bench, test, devices, &[&["perf"], args].concat())
}

/// The same for any command.
fn mgcomp(bench: &Workbench, test: &str, devices: u32, args: &[&str]) -> Option<Command> {
    let mut command = bench.command(args);
    on_stub(&mut command, test, devices).then_some(command)
}

/// Lets a program find so many devices; `false` where the stub was not built.
fn on_stub(command: &mut Command, test: &str, devices: u32) -> bool {
    if !finds(command, Libraries::DriverCompilerAndNccl, test) {
        return false;
    }
    command.env("MGCOMP_STUB_DEVICES", devices.to_string()).env("MGCOMP_STUB_THREADS", "5");
    command.env("MGCOMP_STUB_STRICT_FREE", "1").env_remove("NCCL_HOSTID");
    true
}

fn rows_of(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of a run that must be right.
#[track_caller]
fn rows(test: &str, devices: u32, args: &[&str]) -> Option<Vec<Value>> {
    let bench = Workbench::new();
    let output = perf(&bench, test, devices, &[&QUICK[..], args].concat())?.output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    let rows = rows_of(&output);
    for row in &rows {
        assert_eq!((&row["wrong"], &row["device"]), (&0.into(), &"CPU shim".into()), "{row}");
    }
    Some(rows)
}

/// What must fail with exit code 1, and say each of `words` in one line.
#[track_caller]
fn refused(test: &str, devices: u32, args: &[&str], words: &[&str]) {
    let bench = Workbench::new();
    let Some(mut command) = perf(&bench, test, devices, args) else { return };
    bench.check_exit(&command.output().unwrap(), args, 1, words);
}

/// What is wrong usage, and must say so likewise with exit code 2.
#[track_caller]
fn wrong_usage(test: &str, args: &[&str], words: &[&str]) {
    let bench = Workbench::new();
    let Some(mut command) = perf(&bench, test, 1, args) else { return };
    bench.check_exit(&command.output().unwrap(), args, 2, words);
}

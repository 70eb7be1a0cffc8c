//! `mgcomp perf` from outside: what it prints, what it finds wrong, and what it does when something goes wrong.

mod by_hand;
mod ends;
mod flags;
mod output;
#[path = "../program/mod.rs"]
mod program;
mod results;
#[allow(dead_code, reason = "the command line's tests use the rest")]
#[path = "../workbench/mod.rs"]
mod workbench;

use std::process::Output;

use serde_json::Value;
use workbench::stdout;

/// Quick, and the same number of iterations however fast the machine is.
const QUICK: [&str; 5] = ["--json", "--iters", "3", "--warmup", "1"];

fn rows_of(output: &Output) -> Vec<Value> {
    stdout(output).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

//! The program `mgcomp-bench` from outside.

mod breakeven;
mod buddy;
mod codec;
mod control;
mod gather;
mod gpu;
mod gpu_script;
#[cfg(target_os = "linux")]
mod link;
mod offload;
mod paper;
#[path = "../program/mod.rs"]
mod program;
mod ratio;
mod scale;
mod select;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use serde_json::Value;
use tempfile::TempDir;

/// The program with `args`, to be run in `folder`.
fn command(folder: &Path, args: &[&str]) -> Command {
    static PROGRAM: OnceLock<PathBuf> = OnceLock::new();
    let program = PROGRAM.get_or_init(|| program::program("mgcomp-bench"));
    let mut command = Command::new(program);
    command.args(args).current_dir(folder);
    command
}

fn run(folder: &Path, args: &[&str]) -> Output {
    command(folder, args).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// The rows of a run with `--json`.
fn rows(output: &Output) -> Vec<Value> {
    let text = String::from_utf8(output.stdout.clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// The rows of a run with `--json` that must succeed.
#[track_caller]
fn good_rows(folder: &Path, args: &[&str]) -> Vec<Value> {
    let output = run(folder, &[args, &["--json"]].concat());
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
    assert_eq!(stderr(&output), "", "{args:?}");
    rows(&output)
}

/// A folder with these files.
fn folder(files: &[(&str, &[u8])]) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, content) in files {
        fs::write(folder.path().join(name), content).unwrap();
    }
    folder
}

#[test]
fn an_unknown_instruction_set_in_the_environment_is_wrong_usage() {
    let folder = folder(&[("x", &[1; 64])]);
    for bench in ["ratio", "codec"] {
        let output =
            command(folder.path(), &[bench, "--data", "x"]).env("MGCOMP_CPU", "sse9").output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{bench}");
        assert_eq!(output.stdout, b"", "{bench}");
        let expected =
            "mgcomp-bench: MGCOMP_CPU: unknown instruction set \"sse9\"; known: portable avx2 avx512\n";
        assert_eq!(stderr(&output), expected, "{bench}");
    }
}

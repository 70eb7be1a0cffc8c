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

use std::fs::{self, File};
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

#[test]
fn too_much_memory_is_not_asked_for() {
    let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let available =
        meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:")?.trim().strip_suffix(" kB"));
    let Some(available_kib) = available.and_then(|kib| kib.parse::<u64>().ok()) else {
        println!("SKIPPED: this system does not tell how much memory is available");
        return;
    };
    if available_kib >= 200 << 20 {
        println!("SKIPPED: this machine may have as much memory");
        return;
    }
    let folder = folder(&[("x", &[1; 64])]);
    File::options().write(true).open(folder.path().join("x")).unwrap().set_len(1 << 40).unwrap();
    // What each takes of the longest buffers that there are, which are 64 GiB; and `gather` the rows of a batch.
    let longest = 68_719_476_720;
    let cases: [(&[&str], u64, u64); 4] = [
        (&["codec", "--data", "x", "--bytes", "68719476720"], longest, 4 * longest),
        (&["offload", "--bytes", "68719476720"], longest, 8 * longest),
        (
            &["gather", "--batch", "100", "--bytes", "68719476720"],
            longest,
            (6 + 4) * longest + 100 * 4 * 1433,
        ),
        (&["gather", "--batch", "100", "--data", "x:u8:64"], 1 << 40, (1 + 4) * (1 << 40) + 100 * 64),
    ];
    for (args, bytes, needed) in cases {
        let output = run(folder.path(), args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}");
        let said = format!("buffers of {bytes} bytes need {needed} bytes of memory; ");
        assert!(stderr(&output).contains(&said), "{args:?}: {}", stderr(&output));
    }
}

//! `bench/gpu/run`, which runs what there is for a machine with GPUs.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use mgcomp_tests::stub::{Libraries, finds};

use crate::gpu::SMALL;
use crate::{command, folder, program, stderr};

/// What the script runs of `gpu`, one call a line, in place of the program.
fn script_calls(folder: &Path, args: &[&str]) -> (Output, Vec<String>) {
    let program = folder.join("program");
    fs::write(&program, "#!/bin/sh\necho \"$*\" >>\"${0%/*}/calls\"\necho NVRTC none\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/gpu/run");
    let mut run = Command::new("bash");
    run.arg(script).args(["--results", "results"]).args(args).current_dir(folder);
    run.env("MGCOMP_BENCH", &program).env("MGCOMP_COMMAND_LINE", "/absent").env("PATH", "/usr/bin:/bin");
    let output = run.output().unwrap();
    let calls = fs::read_to_string(folder.join("calls")).unwrap_or_default();
    (output, calls.lines().map(str::to_owned).collect())
}

#[test]
fn the_script_gives_checks_nothing_that_is_for_times() {
    let folder = folder(&[]);
    let args =
        ["--bytes", "64K", "1M", "--cases", "5", "--seconds=9", "--algorithm", "zvc", "xp", "--data", "x"];
    let (output, calls) = script_calls(folder.path(), &args);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    let (checks, times): (Vec<&String>, Vec<&String>) =
        calls.iter().partition(|call| call.starts_with("gpu --checks"));
    assert!(checks.len() >= 2 && times.len() == 1, "{calls:?}");
    for call in checks {
        assert!(!["--bytes", "--seconds", "--data"].iter().any(|flag| call.contains(flag)), "{call}");
    }
    assert_eq!(calls[0], "gpu --checks --cases 5 --algorithm zvc xp");
    let ends = "--cases 5 --algorithm zvc xp --bytes 64K 1M --seconds=9 --data x";
    assert!(times[0].starts_with("gpu --results results ") && times[0].ends_with(ends), "{times:?}");
    let (output, calls_now) = script_calls(folder.path(), &["--checks", "--bytes", "64K"]);
    assert_eq!((output.status.code(), calls_now), (Some(1), calls));
    assert!(stderr(&output).contains("--bytes is for times, and --checks takes none"), "{}", stderr(&output));
}

#[test]
fn the_script_needs_the_programs_alone() {
    let test = "the_script_needs_the_programs_alone";
    let folder = folder(&[]);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../bench/gpu/run");
    let mut run = Command::new("bash");
    run.arg(script).args(["--checks", "--longest", "300K", "--algorithm", "zvc"]).args(SMALL);
    if !finds(&mut run, Libraries::DriverCompilerAndNccl, test) {
        return;
    }
    run.env("MGCOMP_BENCH", command(folder.path(), &[]).get_program());
    // What lies on this machine must not decide.
    run.env("PATH", "/usr/bin:/bin");
    run.env("MGCOMP_COMMAND_LINE", program::program("mgcomp")).env("MGCOMP_STUB_THREADS", "3");
    let output = run.env("MGCOMP_STUB_L2_LEN", "100000").output().unwrap();
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{stdout}{}", stderr(&output));
    assert!(stdout.contains("ok      zvc      hostile frames"), "{stdout}");
    assert!(stdout.contains("== kernels as PTX\n") && stdout.contains("NVRTC none"), "{stdout}");
    for ranks in [
        "ranks in contexts of their own",
        "ranks in processes of their own",
        "2 ranks over NCCL, weights",
        "4 ranks over NCCL, sums of floats",
    ] {
        assert!(stdout.contains(&format!("== {ranks}\n")), "{stdout}");
    }
    assert!(stdout.ends_with("== all checks passed\n"), "{stdout}");
}

//! Finding and running the workspace's programs from a test.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace's program `name`, built from the sources as they are and in the profile of this test.
///
/// Cargo builds the programs of other packages for nobody, and one that lies there may be old.
///
/// # Panics
/// If it does not build.
pub(crate) fn program(name: &str) -> PathBuf {
    built("--bin", Path::new(name))
}

/// The same for an example.
#[allow(dead_code, reason = "not every test that runs programs runs examples")]
pub(crate) fn example(name: &str) -> PathBuf {
    built("--example", &Path::new("examples").join(name))
}

/// The target that lies at `path` in the profile's folder.
fn built(kind: &str, path: &Path) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    // target/[triple/]profile/deps/test
    let profile_dir = test.ancestors().nth(2).expect("tests lie two folders deep");
    let program = profile_dir.join(path).with_extension(std::env::consts::EXE_EXTENSION);
    let name = path.file_name().and_then(|name| name.to_str()).expect("targets have names");
    match std::env::var_os("CARGO").filter(|_| std::env::var_os("MGCOMP_BUILT").is_none()) {
        Some(cargo) => build(Command::new(cargo), [kind, name, "--test", this_test(&test)], profile_dir),
        // Started by hand, or by who has just built all of it: what is there has to do.
        None => assert!(program.exists(), "{} is not built", program.display()),
    }
    program
}

/// The name of the test at `path`, which has a hash behind it.
fn this_test(path: &Path) -> &str {
    let stem = path.file_stem().and_then(|stem| stem.to_str()).expect("tests have names");
    stem.rsplit_once('-').expect("Cargo puts a hash behind the name").0
}

/// Builds the targets of the workspace. One of them must be a test that is built already: then dependencies have the
/// features that they have in `cargo test --workspace`, and nothing below the targets is built anew.
fn build(mut cargo: Command, targets: [&str; 4], profile_dir: &Path) {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.toml");
    // What Cargo tells this test of itself would count as another environment for build scripts that look at it.
    let own = |name: &str| {
        name == "OUT_DIR"
            || ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_CRATE_"].iter().any(|front| name.starts_with(front))
    };
    for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_str().is_some_and(own)) {
        cargo.env_remove(name);
    }
    cargo.args(["build", "--quiet", "--workspace"]).args(targets).arg("--manifest-path").arg(manifest);
    let profile = profile_dir.file_name().and_then(|name| name.to_str()).expect("profiles have names");
    cargo.args(["--profile", if profile == "debug" { "dev" } else { profile }]);
    let mut target_dir = profile_dir.parent().expect("a profile's folder lies in another");
    // With `--target` there is a folder in between, called like the triple. Cargo's own marks of the outermost folder
    // will not do: it leaves none in a folder that was there before it.
    let between = target_dir.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    if between.starts_with(std::env::consts::ARCH) && between.contains('-') {
        cargo.arg("--target").arg(between);
        target_dir = target_dir.parent().expect("a triple's folder lies in another");
    }
    let status = cargo.arg("--target-dir").arg(target_dir).status().expect("cargo runs");
    assert!(status.success(), "{} does not build: {status}", targets[1]);
}

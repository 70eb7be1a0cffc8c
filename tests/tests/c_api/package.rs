//! What tells compilers where the library is: pkg-config and CMake.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::compiler::{C99, clients, good, has, library};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The library, its header and what describes them, as they are installed.
fn install(prefix: &Path) {
    let libdir = prefix.join("lib");
    let describe = |name: &str, place: &Path| {
        let template = fs::read_to_string(clients().join("package").join(name)).unwrap();
        let filled = template
            .replace("@PREFIX@", prefix.to_str().unwrap())
            .replace("@LIBDIR@", libdir.to_str().unwrap())
            .replace("@VERSION@", VERSION);
        assert!(!filled.contains('@'), "{filled}");
        fs::create_dir_all(place).unwrap();
        fs::write(place.join(name.trim_end_matches(".in")), filled).unwrap();
    };
    describe("mgcomp.pc.in", &libdir.join("pkgconfig"));
    describe("mgcomp-config.cmake.in", &libdir.join("cmake/mgcomp"));
    describe("mgcomp-config-version.cmake.in", &libdir.join("cmake/mgcomp"));
    for (name, kind) in [("libmgcomp.so", "so"), ("libmgcomp.so.1", "so"), ("libmgcomp.a", "a")] {
        std::os::unix::fs::symlink(library(kind), libdir.join(name)).unwrap();
    }
    fs::create_dir(prefix.join("include")).unwrap();
    fs::copy(clients().join("include/mgcomp.h"), prefix.join("include/mgcomp.h")).unwrap();
}

fn example() -> PathBuf {
    clients().join("examples/compress.c")
}

#[test]
fn pkg_config() {
    let test = "pkg_config";
    if !C99.is_here(test) || !has(test, "pkg-config", "MGCOMP_REQUIRE_PKG_CONFIG") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let ask = |flags: &[&str]| {
        let mut command = Command::new("pkg-config");
        command.args(flags).arg("mgcomp").env("PKG_CONFIG_PATH", folder.path().join("lib/pkgconfig"));
        String::from_utf8(good(&mut command).stdout).unwrap()
    };
    assert_eq!(ask(&["--modversion"]).trim(), VERSION);
    let program = folder.path().join("program");
    let flags = ask(&["--cflags", "--libs"]);
    good(Command::new("cc").arg(example()).args(flags.split_whitespace()).arg("-o").arg(&program));
    good(Command::new(&program).env("LD_LIBRARY_PATH", folder.path().join("lib")));
}

#[test]
fn cmake() {
    let test = "cmake";
    if !C99.is_here(test) || !has(test, "cmake", "MGCOMP_REQUIRE_CMAKE") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    install(folder.path());
    let build = folder.path().join("build");
    let source = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/c_api/cmake"));
    let set = |name: &str, value: &Path| format!("-D{name}={}", value.display());
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(source).arg("-B").arg(&build).arg(format!("-DWANTED={VERSION}"));
    good(configure.arg(set("CMAKE_PREFIX_PATH", folder.path())).arg(set("EXAMPLE", &example())));
    good(Command::new("cmake").arg("--build").arg(&build));
    for program in ["shared", "static"] {
        good(&mut Command::new(build.join(program)));
    }
}

//! Compiling programs against the library, and running them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use mgcomp_tests::stub::{Libraries, finds};
use tempfile::TempDir;

/// A language, what compiles it, and what fails instead of skipping where that is missing.
pub(crate) struct Language {
    compiler: &'static str,
    flags: &'static [&'static str],
    required_by: &'static str,
}

const WARNINGS: [&str; 4] = ["-Wall", "-Wextra", "-pedantic", "-Werror"];

pub(crate) const C99: Language =
    Language { compiler: "cc", flags: &["-std=c99"], required_by: "MGCOMP_REQUIRE_CC" };
pub(crate) const C11: Language =
    Language { compiler: "cc", flags: &["-std=c11"], required_by: "MGCOMP_REQUIRE_CC" };
pub(crate) const CPP17: Language =
    Language { compiler: "c++", flags: &["-std=c++17"], required_by: "MGCOMP_REQUIRE_CC" };
pub(crate) const FORTRAN: Language =
    Language { compiler: "gfortran", flags: &["-std=f2008"], required_by: "MGCOMP_REQUIRE_GFORTRAN" };

/// The C library and a folder for programs.
pub(crate) struct Bench {
    folder: TempDir,
}

pub(crate) fn clients() -> PathBuf {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../clients/c")).to_owned()
}

/// The library as it was built for this test: the shared one (`so`), or the static one (`a`).
pub(crate) fn library(kind: &str) -> PathBuf {
    // Cargo puts libraries that a test depends on beside it.
    let library = std::env::current_exe().unwrap().with_file_name(format!("libmgcomp.{kind}"));
    assert!(library.exists(), "{} is missing", library.display());
    library
}

/// Whether `program` is here. Where it is not, says that `test` is skipped, or fails if `variable` asks for it.
pub(crate) fn has(test: &str, program: &str, variable: &str) -> bool {
    let found = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !found {
        assert!(std::env::var_os(variable).is_none(), "{test}: {program} is missing, and {variable} is set");
        println!("SKIPPED: {test}: there is no {program}");
    }
    found
}

impl Language {
    pub(crate) fn is_here(&self, test: &str) -> bool {
        has(test, self.compiler, self.required_by)
    }
}

impl Bench {
    /// The library under the names that a linker and programs look for.
    pub(crate) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        for name in ["libmgcomp.so", "libmgcomp.so.1"] {
            std::os::unix::fs::symlink(library("so"), folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    /// A file in the folder that programs run in.
    pub(crate) fn write(&self, name: &str, content: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    }

    /// Compiles a program; every warning is an error.
    pub(crate) fn compile(&self, language: &Language, source: &Path) -> PathBuf {
        let name = source.file_name().unwrap().to_str().unwrap().replace('.', "-");
        let program = self.folder.path().join(name + language.flags[0]);
        let mut command = Command::new(language.compiler);
        command.args(language.flags).args(WARNINGS).arg("-g").arg("-I").arg(clients().join("include"));
        command.arg(source).arg("-o").arg(&program).arg("-L").arg(self.folder.path());
        // A program that calls nothing of the library is not linked with it.
        command
            .args(["-Wl,--as-needed", "-lmgcomp", "-ldl", "-pthread", "-lm"])
            .current_dir(self.folder.path());
        good(&mut command);
        program
    }

    /// Runs a program and returns what it prints.
    pub(crate) fn run(&self, program: &Path, words: &[&str]) -> String {
        self.run_under(&[], program, words)
    }

    /// Runs a program under another one.
    pub(crate) fn run_under(&self, launcher: &[&str], program: &Path, words: &[&str]) -> String {
        let mut all = launcher.iter().map(AsRef::as_ref).chain([program.as_os_str()]);
        let mut command = Command::new(all.next().unwrap());
        command
            .args(all)
            .args(words)
            .env("LD_LIBRARY_PATH", self.folder.path())
            .current_dir(self.folder.path());
        String::from_utf8(good(&mut command).stdout).unwrap()
    }
}

impl Bench {
    /// Runs a program beside the stub of the CUDA driver, with so many devices whose streams have threads. Where the stub was not
    /// built, says that `test` is skipped.
    pub(crate) fn run_on_stub(&self, test: &str, program: &Path, devices: u32) {
        let mut command = Command::new(program);
        if !finds(&mut command, Libraries::DriverAndCompiler, test) {
            return;
        }
        let found = command.get_envs().find(|(name, _)| *name == "LD_LIBRARY_PATH");
        let path = found.and_then(|(_, path)| path).unwrap_or_default();
        let folders = [self.folder.path().to_owned()].into_iter().chain(std::env::split_paths(path));
        command.env("LD_LIBRARY_PATH", std::env::join_paths(folders).unwrap());
        command.env("MGCOMP_STUB_DEVICES", devices.to_string()).env("MGCOMP_STUB_THREADS", "5");
        command.env("MGCOMP_STUB_STRICT_FREE", "1").current_dir(self.folder.path());
        good(&mut command);
    }
}

/// Runs a command that must succeed.
pub(crate) fn good(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {}\n{said}", output.status);
    output
}

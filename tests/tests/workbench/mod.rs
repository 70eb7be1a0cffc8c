//! A folder for a test of `mgcomp`, and the program run in it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::program;

/// A folder to work in, which also is the working directory of what runs there.
pub(crate) struct Workbench {
    pub(crate) folder: TempDir,
}

impl Workbench {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    /// A folder with the file `name` in it.
    pub(crate) fn with(name: &str, content: &[u8]) -> Self {
        let bench = Self::new();
        bench.write(name, content);
        bench
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, content: &[u8]) {
        fs::write(self.path(name), content).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap()
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        static MGCOMP: OnceLock<PathBuf> = OnceLock::new();
        let mut command = Command::new(MGCOMP.get_or_init(|| program::program("mgcomp")));
        command.args(args).current_dir(self.folder.path()).stdin(Stdio::null());
        // What was measured on this machine, or not, changes what a policy does.
        command.env("MGCOMP_CACHE", "");
        // Nor is anything switched off, or steered by a daemon that runs here.
        command.env_remove("MGCOMP").env("MGCOMP_SOCKET", "");
        command
    }

    pub(crate) fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs what must succeed.
    #[track_caller]
    pub(crate) fn succeed(&self, args: &[&str]) -> Output {
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(0), "{args:?}: {}", stderr(&output));
        output
    }

    /// Runs what must fail with exit code 1, say each of `words` in one line, and leave the folder as it is.
    #[track_caller]
    pub(crate) fn fail(&self, args: &[&str], words: &[&str]) -> Output {
        self.fail_with(args, 1, words)
    }

    /// The same with another exit code: 2 for wrong usage.
    #[track_caller]
    pub(crate) fn fail_with(&self, args: &[&str], code: i32, words: &[&str]) -> Output {
        let before = self.snapshot();
        let output = self.run(args);
        self.check_exit(&output, args, code, words);
        assert_eq!(self.snapshot(), before, "{args:?} changed files");
        output
    }

    #[track_caller]
    pub(crate) fn check_exit(&self, output: &Output, args: &[&str], code: i32, words: &[&str]) {
        let message = stderr(output);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
        assert!(message.starts_with("mgcomp: ") && message.lines().count() == 1, "{args:?}: {message}");
        for word in words {
            assert!(message.contains(word), "{args:?}: {message:?} does not say {word:?}");
        }
    }

    /// Names and contents of the files there are, hidden ones included.
    pub(crate) fn snapshot(&self) -> Vec<(String, Vec<u8>)> {
        files_under(self.folder.path())
    }
}

fn files_under(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_under(&path));
        } else {
            files.push((path.display().to_string(), fs::read(&path).unwrap_or_default()));
        }
    }
    files.sort();
    files
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

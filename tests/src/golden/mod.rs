//! Golden files: where they lie, and the program that adds to them.

pub mod cases;
#[path = "../../../codecs/tests/common/golden.rs"]
mod files;

pub use files::Golden;

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// The list of all files, as `sha256sum` writes and checks it.
pub const SUMS: &str = "SHA256SUMS";

/// The folder of the frozen frames of this version.
#[must_use]
pub fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../codecs/tests/golden/v1")
}

/// What became of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// It was missing, and is there now.
    Added,
    /// It is there, and holds this.
    Kept,
    /// It is there and holds something else, which it keeps.
    Differs,
}

/// Puts a file into `folder` if there is none of that name.
///
/// # Errors
/// Those of the file system.
pub fn freeze(folder: &Path, name: &str, content: &[u8]) -> io::Result<Frozen> {
    match OpenOptions::new().write(true).create_new(true).open(folder.join(name)) {
        Ok(mut file) => file.write_all(content).map(|()| Frozen::Added),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let same = fs::read(folder.join(name))? == content;
            Ok(if same { Frozen::Kept } else { Frozen::Differs })
        }
        Err(error) => Err(error),
    }
}

/// Adds a file to the list, which stays in order.
///
/// # Errors
/// Those of the file system.
pub fn list(folder: &Path, name: &str, content: &[u8]) -> io::Result<()> {
    let path = folder.join(SUMS);
    let known = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        known => known?,
    };
    let sum: String = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    let line = format!("{sum}  {name}");
    let mut lines: Vec<&str> = known.lines().chain([line.as_str()]).collect();
    lines.sort_unstable_by_key(|line| line.split_once("  ").map(|(_, name)| name));
    fs::write(path, lines.join("\n") + "\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_frozen_stays() {
        let folder = tempfile::tempdir().unwrap();
        let freeze = |content| freeze(folder.path(), "a", content).unwrap();
        assert_eq!(freeze(b"one"), Frozen::Added);
        assert_eq!(freeze(b"one"), Frozen::Kept);
        assert_eq!(freeze(b"two"), Frozen::Differs);
        assert_eq!(fs::read(folder.path().join("a")).unwrap(), b"one");
        list(folder.path(), "b", b"").unwrap();
        list(folder.path(), "a", b"one").unwrap();
        let sums = fs::read_to_string(folder.path().join(SUMS)).unwrap();
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855  b";
        assert!(sums.ends_with(&format!("  a\n{empty}\n")), "{sums}");
    }
}

//! Golden files: frozen frames, the raw bytes that they hold, and the codebooks that they name.

// Included by another crate, which shows it.
#![allow(unreachable_pub)]

use std::fs;
use std::path::Path;

/// A frozen frame: `NAME.frame`, `NAME.raw` and, if the frame only names its codebook, `NAME.codebook`.
pub struct Golden {
    /// What the files are called.
    pub name: String,
    /// The frame.
    pub frame: Vec<u8>,
    /// What it decodes to.
    pub raw: Vec<u8>,
    /// The section of the codebook that it names.
    pub codebook: Option<Vec<u8>>,
}

impl Golden {
    /// All of `folder`, by name.
    ///
    /// # Panics
    /// If a file cannot be read.
    #[must_use]
    pub fn all(folder: &Path) -> Vec<Self> {
        let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
        let names = entries.map(|entry| entry.expect("a file").file_name().into_string().expect("a name"));
        let mut names: Vec<String> =
            names.filter_map(|name| Some(name.strip_suffix(".frame")?.to_owned())).collect();
        names.sort();
        names.into_iter().map(|name| Self::read(folder, name)).collect()
    }

    fn read(folder: &Path, name: String) -> Self {
        let path = |extension| folder.join(format!("{name}.{extension}"));
        let content =
            |extension| fs::read(path(extension)).unwrap_or_else(|e| panic!("{name}.{extension}: {e}"));
        let codebook = path("codebook").exists().then(|| content("codebook"));
        Self { frame: content("frame"), raw: content("raw"), codebook, name }
    }
}

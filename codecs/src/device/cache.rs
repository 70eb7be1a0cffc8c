//! Compiled kernels on disk, known by what they were compiled from.
//!
//! A file is `MAGIC`, the fingerprint of what the image was compiled from, the SHA-256 of the image, the image.
//! One that is anything else is not used, and is replaced by the next that is compiled. The cache saves time
//! and nothing else: where it cannot be read or written, kernels are compiled each time.

use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::{env, process};

use sha2::{Digest as _, Sha256};

use super::CACHE_VARIABLE;
use super::kernels::{FINGERPRINT_LEN, KernelSource, Target};

const MAGIC: [u8; 16] = *b"mgcomp cubin 1\0\0";
const HASH_LEN: usize = 32;
const PREFIX_LEN: usize = MAGIC.len() + FINGERPRINT_LEN + HASH_LEN;

/// Longer than any image can be: what is longer is not read.
const MAX_FILE_LEN: u64 = 64 << 20;

/// Where compiled kernels are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// In the folder that `MGCOMP_CACHE` names, and nowhere if it is set to nothing; else in `mgcomp` in
    /// `XDG_CACHE_HOME`, else in `.cache/mgcomp` in the home folder.
    #[default]
    Default,
    /// In this folder, which is made if it is not there.
    At(PathBuf),
    /// Nowhere.
    Off,
}

impl Cache {
    /// The folder, if there is to be one.
    fn folder(&self) -> Option<PathBuf> {
        match self {
            Self::Off => None,
            Self::At(folder) => Some(folder.clone()),
            Self::Default => default_folder(|name| env::var_os(name).map(PathBuf::from)),
        }
    }
}

/// The folder by the environment. A relative path would be another folder in each working directory.
fn default_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Option<PathBuf> {
    if let Some(folder) = variable(CACHE_VARIABLE) {
        return Some(folder).filter(|folder| !folder.as_os_str().is_empty());
    }
    let caches = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let home = || variable("HOME").filter(|folder| folder.is_absolute());
    Some(caches.or_else(|| Some(home()?.join(".cache")))?.join("mgcomp"))
}

/// The place of one image in a cache.
#[derive(Debug)]
pub(super) struct Entry {
    file: PathBuf,
    key: [u8; FINGERPRINT_LEN],
}

impl Entry {
    /// The place of `source` compiled for `target`, if there is a cache.
    pub(super) fn of(cache: &Cache, source: &KernelSource, target: Target) -> Option<Self> {
        let key = source.fingerprint(target);
        let hex: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        let file = cache.folder()?.join(format!("{}-{target}-{hex}.cubin", source.algorithm));
        Some(Self { file, key })
    }

    /// The image, if it is there and whole.
    pub(super) fn read(&self) -> Option<Vec<u8>> {
        let mut content = Vec::new();
        File::open(&self.file).ok()?.take(MAX_FILE_LEN).read_to_end(&mut content).ok()?;
        let rest = content.strip_prefix(&MAGIC)?.strip_prefix(&self.key)?;
        let (hash, image) = rest.split_at_checked(HASH_LEN)?;
        if image.is_empty() || hash != Sha256::digest(image).as_slice() {
            return None;
        }
        Some(content.split_off(PREFIX_LEN))
    }

    /// Puts `image` there. Other processes see the file whole or not at all.
    pub(super) fn write(&self, image: &[u8]) -> io::Result<()> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        make_folder(self.file.parent().unwrap_or(Path::new(".")))?;
        let draft = self.file.with_extension(format!("{}-{number}.draft", process::id()));
        let written = self.write_to(&draft, image).and_then(|()| fs::rename(&draft, &self.file));
        if written.is_err() {
            let _ = fs::remove_file(&draft);
        }
        written
    }

    fn write_to(&self, draft: &Path, image: &[u8]) -> io::Result<()> {
        let mut file = File::create(draft)?;
        file.write_all(&MAGIC)?;
        file.write_all(&self.key)?;
        file.write_all(&Sha256::digest(image))?;
        file.write_all(image)
    }
}

/// Whoever can write here chooses what runs on the device, so it is the user's alone.
fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environment_names_the_folder() {
        let folder = |variables: &[(&str, &str)]| {
            let find = |name: &str| variables.iter().find(|v| v.0 == name).map(|v| PathBuf::from(v.1));
            default_folder(find)
        };
        let all = [("MGCOMP_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(folder(&all), Some("/a".into()));
        assert_eq!(folder(&all[1..]), Some("/b/mgcomp".into()));
        assert_eq!(folder(&all[2..]), Some("/c/.cache/mgcomp".into()));
        assert_eq!(folder(&[]), None);
        assert_eq!(folder(&[("MGCOMP_CACHE", ""), ("HOME", "/c")]), None);
        assert_eq!(folder(&[("XDG_CACHE_HOME", "b"), ("HOME", "/c")]), Some("/c/.cache/mgcomp".into()));
    }
}

//! Compiled kernels on disk, known by what they were compiled from.
//!
//! A file is `MAGIC`, the fingerprint of what the image was compiled from, the SHA-256 of the image, the image.
//! One that is anything else is not used, and is replaced by the next that is compiled. The cache saves time
//! and nothing else: where it cannot be read or written, kernels are compiled each time, and a warning says why.
//!
//! Who can write here chooses what runs on the device, so a folder or a file that is not the user's alone is not used.

use std::env;
use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::CACHE_VARIABLE;
use super::folder::{FolderError, PrivateFolder};
use super::kernels::{FINGERPRINT_LEN, KernelSource, Target};

const MAGIC: [u8; 16] = *b"mgcomp cubin 1\0\0";
const HASH_LEN: usize = 32;
const PREFIX_LEN: usize = MAGIC.len() + FINGERPRINT_LEN + HASH_LEN;

/// Longer than any image can be: what is longer is not read.
const MAX_FILE_LEN: u64 = 64 << 20;

/// Where compiled kernels are kept.
///
/// A folder is used only if it belongs to the user, or to root, and nobody else may write to it. What keeps it from
/// being used is told as a warning by `tracing`, and kernels are compiled without it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Cache {
    /// In the folder that `MGCOMP_CACHE` names, by an absolute path, and nowhere if it is set to nothing; else in
    /// `mgcomp` in `XDG_CACHE_HOME`, else in `.cache/mgcomp` in the home folder.
    #[default]
    Default,
    /// In this folder, which is made if it is not there.
    At(PathBuf),
    /// Nowhere.
    Off,
}

/// Why there is no cache where there could be one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum CacheError {
    #[error("{CACHE_VARIABLE} is {path:?}, which is no absolute path")]
    NotAbsolute { path: PathBuf },
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Cache {
    /// The folder, if there is to be one.
    fn folder(&self) -> Result<Option<PathBuf>, CacheError> {
        match self {
            Self::Off => Ok(None),
            Self::At(folder) => Ok(Some(folder.clone())),
            Self::Default => default_folder(|name| env::var_os(name).map(PathBuf::from)),
        }
    }
}

/// The folder by the environment. A relative path would be another folder in each working directory.
fn default_folder(variable: impl Fn(&str) -> Option<PathBuf>) -> Result<Option<PathBuf>, CacheError> {
    if let Some(path) = variable(CACHE_VARIABLE) {
        return match path {
            path if path.as_os_str().is_empty() => Ok(None),
            path if path.is_absolute() => Ok(Some(path)),
            path => Err(CacheError::NotAbsolute { path }),
        };
    }
    let caches = variable("XDG_CACHE_HOME").filter(|folder| folder.is_absolute());
    let home = || variable("HOME").filter(|folder| folder.is_absolute());
    Ok(caches.or_else(|| Some(home()?.join(".cache"))).map(|caches| caches.join("mgcomp")))
}

/// The place of one image in a cache.
#[derive(Debug)]
pub(super) struct Entry {
    folder: PrivateFolder,
    name: String,
    key: [u8; FINGERPRINT_LEN],
}

impl Entry {
    /// The place of `source` compiled for `target`, if there is a cache.
    pub(super) fn of(
        cache: &Cache,
        source: &KernelSource,
        target: Target,
    ) -> Result<Option<Self>, CacheError> {
        let Some(folder) = cache.folder()? else { return Ok(None) };
        let folder = PrivateFolder::open(folder)?;
        let key = source.fingerprint(target);
        let hex: String = key[..16].iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Some(Self { folder, name: format!("{}-{target}-{hex}.cubin", source.algorithm), key }))
    }

    /// The image, if it is there and whole.
    pub(super) fn read(&self) -> Result<Option<Vec<u8>>, CacheError> {
        let content = self.folder.read(&self.name, MAX_FILE_LEN)?;
        Ok(content.and_then(|content| self.image_of(content)))
    }

    fn image_of(&self, mut content: Vec<u8>) -> Option<Vec<u8>> {
        let rest = content.strip_prefix(&MAGIC)?.strip_prefix(&self.key)?;
        let (hash, image) = rest.split_at_checked(HASH_LEN)?;
        if image.is_empty() || hash != Sha256::digest(image).as_slice() {
            return None;
        }
        Some(content.split_off(PREFIX_LEN))
    }

    /// Puts `image` there. Other processes see the file whole or not at all.
    pub(super) fn write(&self, image: &[u8]) -> Result<(), CacheError> {
        let hash = Sha256::digest(image);
        Ok(self.folder.write(&self.name, &[&MAGIC, &self.key, &hash, image])?)
    }

    /// Throws away what is there.
    pub(super) fn remove(&self) {
        self.folder.remove(&self.name);
    }
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
        let at = |path: &str| Ok(Some(PathBuf::from(path)));
        let all = [("MGCOMP_CACHE", "/a"), ("XDG_CACHE_HOME", "/b"), ("HOME", "/c")];
        assert_eq!(folder(&all), at("/a"));
        assert_eq!(folder(&all[1..]), at("/b/mgcomp"));
        assert_eq!(folder(&all[2..]), at("/c/.cache/mgcomp"));
        assert_eq!(folder(&[]), Ok(None));
        assert_eq!(folder(&[("MGCOMP_CACHE", ""), ("HOME", "/c")]), Ok(None));
        assert_eq!(folder(&[("XDG_CACHE_HOME", "b"), ("HOME", "/c")]), at("/c/.cache/mgcomp"));
        let error = folder(&[("MGCOMP_CACHE", "a/b"), ("HOME", "/c")]).unwrap_err();
        assert_eq!(error.to_string(), "MGCOMP_CACHE is \"a/b\", which is no absolute path");
    }
}

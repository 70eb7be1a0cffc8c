//! Compiled kernels on disk, known by what they were compiled from.
//!
//! A file is `MAGIC`, the fingerprint of what the image was compiled from, the SHA-256 of the image, the image.
//! One that is anything else is not used, and is replaced by the next that is compiled. The cache saves time
//! and nothing else: where it cannot be read or written, kernels are compiled each time, and a warning says why.
//!
//! Who can write here chooses what runs on the device, so a folder or a file that is not the user's alone is not used.

use std::path::PathBuf;

use sha2::{Digest as _, Sha256};

use super::folder::{FolderError, PrivateFolder};
use super::kernels::{FINGERPRINT_LEN, KernelSource, Target};
use crate::cache::{CacheFolderError, cache_folder};

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
    #[error(transparent)]
    Named(#[from] CacheFolderError),
    #[error(transparent)]
    Folder(#[from] FolderError),
}

impl Cache {
    /// The folder, if there is to be one.
    fn folder(&self) -> Result<Option<PathBuf>, CacheError> {
        match self {
            Self::Off => Ok(None),
            Self::At(folder) => Ok(Some(folder.clone())),
            Self::Default => Ok(cache_folder()?),
        }
    }
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
        Ok(Some(Self { folder, name: format!("{}-{target}-{hex}.cubin", source.name), key }))
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

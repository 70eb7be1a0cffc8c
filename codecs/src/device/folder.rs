//! A folder that is the user's alone: what lies there was put there by this user.
#![allow(unsafe_code)] // asks the system who the user is

use std::collections::hash_map::RandomState;
use std::fs::{self, DirBuilder, File, Metadata, OpenOptions};
use std::hash::BuildHasher as _;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Who else may write: the group, and all others.
const OTHERS_WRITE: u32 = 0o022;

/// Names to try for a draft, which nobody can guess.
const MAX_DRAFTS: usize = 8;

/// Why a folder or a file in it is not used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub(super) enum FolderError {
    #[error("{} belongs to user {owner}, and this is user {user}", .path.display())]
    Owner { path: PathBuf, owner: u32, user: u32 },
    #[error("others than its owner may write to {}: its mode is {mode:o}", .path.display())]
    Writable { path: PathBuf, mode: u32 },
    #[error("{} is no folder", .path.display())]
    NoFolder { path: PathBuf },
    #[error("{} is no regular file", .path.display())]
    NoFile { path: PathBuf },
    #[error("{} has {got} bytes; no more than {limit} are read", .path.display())]
    TooLong { path: PathBuf, got: u64, limit: u64 },
    #[error("{} cannot be {action}: {kind}", .path.display())]
    Io { path: PathBuf, action: &'static str, kind: io::ErrorKind },
}

/// A folder, and files in it by their names.
#[derive(Debug)]
pub(super) struct PrivateFolder {
    path: PathBuf,
}

impl PrivateFolder {
    /// The folder at `path`, which is made if it is not there.
    ///
    /// # Errors
    /// [`FolderError`] if somebody else could have put something there.
    pub(super) fn open(path: PathBuf) -> Result<Self, FolderError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&path);
        made.map_err(|error| failed(&path, "made", &error))?;
        // The link, if it is one, and what it leads to.
        for metadata in [fs::symlink_metadata(&path), fs::metadata(&path)] {
            let metadata = metadata.map_err(|error| failed(&path, "looked at", &error))?;
            check_owner(&path, &metadata)?;
            if !metadata.is_symlink() {
                check_mode(&path, &metadata)?;
            }
        }
        // `create` leaves what is there already.
        if path.is_dir() { Ok(Self { path }) } else { Err(FolderError::NoFolder { path }) }
    }

    /// What the file `name` holds; `None` if there is none.
    ///
    /// # Errors
    /// [`FolderError`] if it is no regular file of the user's alone, or longer than `limit`.
    pub(super) fn read(&self, name: &str, limit: u64) -> Result<Option<Vec<u8>>, FolderError> {
        let path = self.path.join(name);
        // A pipe is not waited for, and a link not followed.
        let opened =
            OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_NOFOLLOW).open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            file => file.map_err(|error| failed(&path, "opened", &error))?,
        };
        let metadata = file.metadata().map_err(|error| failed(&path, "looked at", &error))?;
        if !metadata.is_file() {
            return Err(FolderError::NoFile { path });
        }
        check_owner(&path, &metadata)?;
        check_mode(&path, &metadata)?;
        let mut content = Vec::new();
        let read = file.take(limit + 1).read_to_end(&mut content);
        let got = read.map_err(|error| failed(&path, "read", &error))? as u64;
        if got > limit { Err(FolderError::TooLong { path, got, limit }) } else { Ok(Some(content)) }
    }

    /// Makes the file `name` hold `parts`, whatever was there. Others see it whole or not at all.
    ///
    /// # Errors
    /// [`FolderError::Io`].
    pub(super) fn write(&self, name: &str, parts: &[&[u8]]) -> Result<(), FolderError> {
        let (draft, mut file) = self.draft(name)?;
        let target = self.path.join(name);
        let written = parts.iter().try_for_each(|part| file.write_all(part));
        let written = written.and_then(|()| fs::rename(&draft, &target));
        written.map_err(|error| {
            let _ = fs::remove_file(&draft);
            failed(&target, "written", &error)
        })
    }

    /// Takes the file `name` away, if it can be.
    pub(super) fn remove(&self, name: &str) {
        let _ = fs::remove_file(self.path.join(name));
    }

    /// A new file beside `name`, which nobody can have expected.
    fn draft(&self, name: &str) -> Result<(PathBuf, File), FolderError> {
        let mut tries = 0..MAX_DRAFTS;
        loop {
            let path = self.path.join(format!(".{name}.{:016x}", RandomState::new().hash_one(name)));
            match OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path) {
                Ok(file) => return Ok((path, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tries.next().is_some() => {}
                Err(error) => return Err(failed(&path, "made", &error)),
            }
        }
    }
}

/// Fails if `path` is neither the user's nor of the one who may do everything.
fn check_owner(path: &Path, metadata: &Metadata) -> Result<(), FolderError> {
    // SAFETY: it takes nothing, and cannot fail.
    let user = unsafe { libc::geteuid() };
    match metadata.uid() {
        owner if owner == user || owner == 0 => Ok(()),
        owner => Err(FolderError::Owner { path: path.to_owned(), owner, user }),
    }
}

fn check_mode(path: &Path, metadata: &Metadata) -> Result<(), FolderError> {
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE == 0 { Ok(()) } else { Err(FolderError::Writable { path: path.to_owned(), mode }) }
}

fn failed(path: &Path, action: &'static str, error: &io::Error) -> FolderError {
    FolderError::Io { path: path.to_owned(), action, kind: error.kind() }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
    use std::process::Command;

    use super::*;

    const LIMIT: u64 = 100;

    fn set_mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// A user who is not this one, if this one may give things away.
    fn give_away(path: &Path) -> bool {
        let given = std::os::unix::fs::lchown(path, Some(12_345), None).is_ok();
        if !given {
            eprintln!("SKIPPED: folders of others: only root can make one");
        }
        given
    }

    #[test]
    fn a_folder_is_made_for_the_user_alone() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("a/b");
        let folder = PrivateFolder::open(path.clone()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o700);
        assert_eq!(folder.read("x", LIMIT), Ok(None));
        folder.write("x", &[b"on", b"e"]).unwrap();
        folder.write("x", &[b"two"]).unwrap();
        assert_eq!(folder.read("x", LIMIT), Ok(Some(b"two".to_vec())));
        assert_eq!(fs::metadata(path.join("x")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(fs::read_dir(&path).unwrap().count(), 1, "a draft is left");
        assert!(matches!(folder.read("x", 2), Err(FolderError::TooLong { got: 3, limit: 2, .. })));
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for (mode, good) in [(0o700, true), (0o755, true), (0o770, false), (0o702, false), (0o1777, false)] {
            set_mode(folder.path(), mode);
            match PrivateFolder::open(folder.path().to_owned()) {
                Err(FolderError::Writable { mode: found, .. }) => assert_eq!((found, good), (mode, false)),
                opened => assert!(opened.is_ok() && good, "{mode:o}: {opened:?}"),
            }
        }
    }

    #[test]
    fn a_folder_of_somebody_else_is_refused() {
        let parent = tempfile::tempdir().unwrap();
        let (folder, link) = (parent.path().join("folder"), parent.path().join("link"));
        fs::create_dir(&folder).unwrap();
        set_mode(&folder, 0o700);
        symlink(&folder, &link).unwrap();
        PrivateFolder::open(link.clone()).unwrap();
        if !give_away(&link) {
            return;
        }
        let is_refused = |path: &Path| {
            matches!(PrivateFolder::open(path.to_owned()), Err(FolderError::Owner { owner: 12_345, .. }))
        };
        assert!(is_refused(&link) && !is_refused(&folder));
        assert!(give_away(&folder) && is_refused(&folder));
    }

    #[test]
    fn what_is_no_folder_is_refused() {
        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(PrivateFolder::open(file.path().to_owned()).is_err());
        assert!(PrivateFolder::open(file.path().join("below")).is_err());
    }

    #[test]
    fn files_of_others_links_and_pipes_are_not_read_but_replaced() {
        let parent = tempfile::tempdir().unwrap();
        let elsewhere = parent.path().join("elsewhere");
        fs::write(&elsewhere, "kept").unwrap();
        let path = parent.path().join("folder");
        let folder = PrivateFolder::open(path.clone()).unwrap();
        let file = path.join("x");
        let write = |mode| {
            fs::write(&file, "not ours").unwrap();
            set_mode(&file, mode);
        };
        type Lay<'a> = &'a dyn Fn();
        let cases: [(&str, Lay<'_>); 4] = [
            ("a link", &|| symlink(&elsewhere, &file).unwrap()),
            ("a pipe", &|| assert!(Command::new("mkfifo").arg(&file).status().unwrap().success())),
            ("a file that others may write to", &|| write(0o666)),
            ("a file of somebody else, perhaps", &|| {
                write(0o600);
                if chown(&file, Some(12_345), None).is_err() {
                    set_mode(&file, 0o620);
                }
            }),
        ];
        for (what, lay) in cases {
            lay();
            assert!(folder.read("x", LIMIT).is_err(), "{what}");
            folder.write("x", &[b"ours"]).unwrap();
            assert_eq!(folder.read("x", LIMIT), Ok(Some(b"ours".to_vec())), "{what}");
            folder.remove("x");
            assert_eq!(folder.read("x", LIMIT), Ok(None), "{what}");
        }
        assert_eq!(fs::read(&elsewhere).unwrap(), b"kept");
    }
}

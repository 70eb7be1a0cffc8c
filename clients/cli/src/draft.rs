//! A file that is being written, and has its name only when it is whole.

use std::fs::{self, File};
use std::io;
#[cfg(target_os = "linux")]
use std::os::fd::AsRawFd;
#[cfg(unix)]
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
#[cfg(target_os = "linux")]
use std::path::PathBuf;

use mgcomp_plot::folder_of;
#[cfg(unix)]
use mgcomp_transport::regular::permissions::Replaced;
#[cfg(target_os = "linux")]
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use tempfile::NamedTempFile;

/// What is written, in the folder where it is to lie, so that its name is all that it needs. It goes away when it is dropped.
#[derive(Debug)]
pub(crate) enum Draft {
    /// It has no name, so that nothing is left of it however this process ends before it gets one.
    #[cfg(target_os = "linux")]
    Nameless(File),
    /// It has one that nobody has asked for, where the file system knows no others. It stays where this process is killed.
    Named(NamedTempFile),
}

impl Draft {
    /// An empty one of what is to be called `target`. Who may not read what it takes the place of, if anything is there, may not
    /// read it either.
    pub(crate) fn of(target: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        let replaced = Replaced::at(target)?;
        #[cfg(unix)]
        let mode = replaced.map_or(0o666, |replaced| replaced.of_draft().mode());
        #[cfg(not(unix))]
        let mode = 0;
        let draft = Self::open(folder_of(target), mode)?;
        #[cfg(unix)]
        if let Some(replaced) = replaced {
            replaced.pass_on(draft.file())?;
        }
        Ok(draft)
    }

    fn open(folder: &Path, mode: u32) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = nameless(folder, mode) {
            return Ok(Self::Nameless(file));
        }
        // Opened here for the usual permissions, and for errors that do not name a file that nobody asked for.
        let named = named().make_in(folder, |path| {
            let mut options = File::options();
            #[cfg(unix)]
            options.mode(mode);
            #[cfg(not(unix))]
            let _ = mode;
            options.write(true).create_new(true).open(path)
        })?;
        Ok(Self::Named(named))
    }

    /// What is written to.
    pub(crate) fn file(&self) -> &File {
        match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => file,
            Self::Named(named) => named.as_file(),
        }
    }

    /// Gives it the name `target`, at once and with all that is in it; in place of what has it only if that is to be.
    pub(crate) fn keep(self, target: &Path, overwrite: bool) -> io::Result<()> {
        self.file().sync_all()?;
        let path = match self {
            #[cfg(target_os = "linux")]
            Self::Nameless(file) if !overwrite => return link(&file, target),
            // Names can be taken over by other names alone.
            #[cfg(target_os = "linux")]
            Self::Nameless(file) => {
                named().make_in(folder_of(target), |path| link(&file, path))?.into_temp_path()
            }
            Self::Named(named) => named.into_temp_path(),
        };
        let kept = if overwrite { path.persist(target) } else { path.persist_noclobber(target) };
        kept.map_err(|failed| failed.error)
    }
}

/// What makes up names for drafts.
fn named() -> tempfile::Builder<'static, 'static> {
    let mut named = tempfile::Builder::new();
    named.prefix(".mgcomp-");
    named
}

/// A file in `folder` that has no name and can get one; `None` where that is not possible, or nothing is.
#[cfg(target_os = "linux")]
fn nameless(folder: &Path, mode: u32) -> Option<File> {
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(folder, flags, Mode::from_raw_mode(mode)).ok()?);
    fs::metadata(path_of_open(&file)).is_ok().then_some(file)
}

/// Gives a file without a name one that nothing has.
#[cfg(target_os = "linux")]
fn link(file: &File, path: &Path) -> io::Result<()> {
    rustix::fs::linkat(CWD, path_of_open(file), CWD, path, AtFlags::SYMLINK_FOLLOW)?;
    Ok(())
}

/// Where the system shows this process what it has open.
#[cfg(target_os = "linux")]
fn path_of_open(file: &File) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

#[cfg(test)]
mod tests {
    #[cfg(unix)]
    use std::fs::Permissions;
    use std::io::Write;
    #[cfg(unix)]
    use std::os::unix::fs::MetadataExt;

    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    /// In both ways, of which the folder may have only one.
    fn drafts(target: &Path, mode: u32) -> Vec<Draft> {
        let folder = folder_of(target);
        let named = named().make_in(folder, |path| File::options().write(true).create_new(true).open(path));
        let mut drafts = vec![Draft::Named(named.unwrap())];
        #[cfg(target_os = "linux")]
        match nameless(folder, mode) {
            Some(file) => drafts.push(Draft::Nameless(file)),
            None => println!("SKIPPED: {} has no files without names", folder.display()),
        }
        drafts
    }

    #[test]
    fn names_are_taken_over_only_where_that_is_to_be() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        for (content, overwrite) in [("first", false), ("second", true), ("third", false)] {
            for draft in drafts(&path, 0o600) {
                let before = fs::read(&path).ok();
                draft.file().write_all(content.as_bytes()).unwrap();
                let kept = draft.keep(&path, overwrite).map_err(|error| error.kind());
                let is_kept = overwrite || before.is_none();
                assert_eq!(
                    kept,
                    if is_kept { Ok(()) } else { Err(io::ErrorKind::AlreadyExists) },
                    "{content}"
                );
                let after = if is_kept { Some(content.as_bytes().to_vec()) } else { before };
                assert_eq!(fs::read(&path).ok(), after);
            }
            assert_eq!(names(folder.path()), ["out"], "{content}");
        }
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn nothing_is_seen_of_it_until_it_has_its_name() {
        let folder = tempfile::tempdir().unwrap();
        let draft = Draft::of(&folder.path().join("out")).unwrap();
        match draft {
            Draft::Nameless(_) => assert!(names(folder.path()).is_empty()),
            Draft::Named(_) => println!("SKIPPED: {} has no files without names", folder.path().display()),
        }
    }

    #[cfg(unix)]
    #[test]
    fn what_takes_the_place_of_a_file_is_open_to_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mode = |metadata: fs::Metadata| metadata.mode() & 0o777;
        for before in [0o600, 0o666] {
            fs::write(&path, b"before").unwrap();
            fs::set_permissions(&path, Permissions::from_mode(before)).unwrap();
            let draft = Draft::of(&path).unwrap();
            assert_eq!(mode(draft.file().metadata().unwrap()) & !before, 0);
            draft.keep(&path, true).unwrap();
            assert_eq!((mode(fs::metadata(&path).unwrap()), fs::read(&path).unwrap()), (before, Vec::new()));
        }
    }

    /// A list by which a user reads what the owner does: owner, that user, group, what all others on the list may at most, and
    /// the rest.
    #[cfg(target_os = "linux")]
    fn list() -> Vec<u8> {
        let entries: [(u16, u16, u32); 5] =
            [(1, 7, u32::MAX), (2, 4, 65_534), (4, 4, u32::MAX), (16, 7, u32::MAX), (32, 0, u32::MAX)];
        let bytes = |(tag, may, who): (u16, u16, u32)| {
            [&tag.to_le_bytes()[..], &may.to_le_bytes(), &who.to_le_bytes()].concat()
        };
        [&2u32.to_le_bytes()[..], &entries.map(bytes).concat()].concat()
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_list_of_the_folder_opens_nothing_that_was_not_open() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, b"before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        let flags = rustix::fs::XattrFlags::empty();
        if rustix::fs::setxattr(folder.path(), "system.posix_acl_default", &list(), flags).is_err() {
            println!("SKIPPED: {} has no lists of who may do what", folder.path().display());
            return;
        }
        let has_list =
            |path: &Path| rustix::fs::getxattr(path, "system.posix_acl_access", &mut [0; 0][..]).is_ok();
        fs::write(folder.path().join("new"), b"").unwrap();
        assert!(has_list(&folder.path().join("new")));
        Draft::of(&path).unwrap().keep(&path, true).unwrap();
        assert!(!has_list(&path));
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o640);
    }
}

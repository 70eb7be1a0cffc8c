//! Who may do what with a file that takes the place of another one: nobody more than with that.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::Path;

/// Where Linux keeps who may do what beside owner, group and others.
#[cfg(target_os = "linux")]
const LIST: &str = "system.posix_acl_access";

/// What there is to know of a file that is replaced.
#[derive(Clone, Copy, Debug)]
pub struct Replaced {
    mode: u32,
    group: u32,
    has_list: bool,
}

impl Replaced {
    /// Of the file at `path`, if there is one.
    ///
    /// # Errors
    /// Whatever the system says, but for a file that is not there.
    pub fn at(path: &Path) -> io::Result<Option<Self>> {
        match fs::metadata(path) {
            Ok(file) => Ok(Some(Self { mode: file.mode(), group: file.gid(), has_list: has_list(path) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Those that a draft is to be made with: it is of the group of whoever makes it, which may not be that of the file.
    #[must_use]
    pub fn of_draft(&self) -> Permissions {
        Permissions::from_mode(self.mode & 0o700)
    }

    /// Gives a draft the group of the file, and its permissions; where it cannot have the group, those that let nobody more in.
    ///
    /// # Errors
    /// Whatever the system says of its permissions.
    pub fn pass_on(&self, draft: &File) -> io::Result<()> {
        // With a list of who may do what, the bits of the group say what all on it may at most.
        let is_of_group = !self.has_list && fchown(draft, None, Some(self.group)).is_ok();
        // With bits of the group the list would count that the draft has from its folder.
        let mode = match is_without_list(draft) {
            true => mode_of(self.mode, is_of_group),
            false => self.mode & 0o700,
        };
        draft.set_permissions(Permissions::from_mode(mode))
    }
}

/// What may be done with a file that takes the place of another one. Where it is not of the same group, those of that group are among
/// the others, and those of its own have nothing to do with it.
fn mode_of(replaced: u32, is_of_group: bool) -> u32 {
    match is_of_group {
        true => replaced & 0o777,
        false => replaced & 0o700 | replaced & replaced >> 3 & 0o007,
    }
}

/// Whether there may be a list of who may do what with the file at `path`.
#[cfg(target_os = "linux")]
fn has_list(path: &Path) -> bool {
    use rustix::io::Errno;

    !matches!(rustix::fs::getxattr_query(path, LIST), Err(Errno::NODATA | Errno::OPNOTSUPP))
}

/// Whether there is none, or no more, with a draft.
#[cfg(target_os = "linux")]
fn is_without_list(draft: &File) -> bool {
    use rustix::io::Errno;

    matches!(rustix::fs::fremovexattr(draft, LIST), Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP))
}

#[cfg(not(target_os = "linux"))]
const fn has_list(_: &Path) -> bool {
    false
}

#[cfg(not(target_os = "linux"))]
const fn is_without_list(_: &File) -> bool {
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_may_more_than_before() {
        for mode in [0o600, 0o640, 0o604, 0o666, 0o755] {
            assert_eq!(mode_of(0o100_000 | mode, true), mode);
        }
        let of_another_group = [0o600, 0o640, 0o604, 0o644, 0o666, 0o657].map(|mode| mode_of(mode, false));
        assert_eq!(of_another_group, [0o600, 0o600, 0o600, 0o604, 0o606, 0o605]);
    }

    #[test]
    fn a_draft_is_for_its_owner_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert!(Replaced::at(&path).unwrap().is_none());
        fs::write(&path, "text").unwrap();
        for (mode, of_draft) in [(0o640, 0o600), (0o666, 0o600), (0o444, 0o400)] {
            fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
            assert_eq!(Replaced::at(&path).unwrap().unwrap().of_draft().mode(), of_draft);
        }
    }
}

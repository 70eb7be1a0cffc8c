//! Where pictures and tables go: a file that is complete or as it was before.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::PlotError;

/// Fails now, not after all is measured, if no file can be written to `path`.
///
/// # Errors
/// [`PlotError`] if something is there that is no file, or if it lies in no folder that there is.
pub fn check_place(path: &Path) -> Result<(), PlotError> {
    target(path).map(drop)
}

/// Writes a file, in place of one that is there. Where there is no room for all of it, that one stays.
///
/// # Errors
/// [`PlotError`] if it cannot be written, or something is there that is no file.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), PlotError> {
    let target = target(path)?;
    let write = || {
        // Beside it, so that renaming needs no copy; opened here for the usual permissions.
        let mut draft = tempfile::Builder::new()
            .prefix(".mgcomp-")
            .make_in(folder_of(&target), |path| File::options().write(true).create_new(true).open(path))?;
        draft.as_file_mut().write_all(content)?;
        draft.as_file().sync_all()?;
        draft.persist(&target).map_err(|failed| failed.error)?;
        io::Result::Ok(())
    };
    write().map_err(|source| PlotError::Write { path: path.to_owned(), source })
}

/// The file that `path` names: of a link the one that it leads to, so that the link stays.
fn target(path: &Path) -> Result<PathBuf, PlotError> {
    let no_place = || PlotError::NoPlace { path: path.to_owned() };
    let failed = |source| PlotError::Write { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => fs::canonicalize(path).map_err(failed),
        Ok(_) => Err(no_place()),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed(error)),
        // A link that leads nowhere, or the name of a folder.
        Err(_) if path.is_symlink() || !has_file_name(path) => Err(no_place()),
        Err(_) => match fs::metadata(folder_of(path)) {
            Ok(metadata) if metadata.is_dir() => Ok(path.to_owned()),
            Ok(_) => Err(no_place()),
            Err(source) => Err(failed(source)),
        },
    }
}

/// Whether a file may be called so. What ends as `new/` or `new/.` does would be a folder.
#[must_use]
pub fn has_file_name(path: &Path) -> bool {
    let text = path.as_os_str().as_encoded_bytes();
    let of_folder = text.strip_suffix(b".").unwrap_or(text).last();
    path.file_name().is_some() && !of_folder.is_some_and(|&last| std::path::is_separator(last.into()))
}

/// The folder that a file lies in.
#[must_use]
pub fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_replaced_and_nothing_is_left_beside_them() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.svg");
        for content in ["a longer one", "short"] {
            check_place(&path).unwrap();
            write_file(&path, content.as_bytes()).unwrap();
            assert_eq!(fs::read_to_string(&path).unwrap(), content);
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        for no_file in ["", "new/", "new/."] {
            let place = check_place(&folder.path().join(no_file));
            assert!(matches!(place, Err(PlotError::NoPlace { .. })), "{no_file}");
        }
        assert!(matches!(check_place(&folder.path().join("no/p.svg")), Err(PlotError::Write { .. })));
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_what_is_no_file_is_not_replaced() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let [real, link, lost] = ["real", "link", "lost"].map(|name| folder.path().join(name));
        fs::write(&real, "old").unwrap();
        symlink("real", &link).unwrap();
        symlink("nowhere", &lost).unwrap();
        write_file(&link, b"new").unwrap();
        assert!(link.is_symlink() && fs::read(&real).unwrap() == b"new");
        assert!(matches!(write_file(&lost, b"new"), Err(PlotError::NoPlace { .. })));
        let socket = folder.path().join("socket");
        let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
        assert!(matches!(write_file(&socket, b"new"), Err(PlotError::NoPlace { .. })));
    }
}

//! Regular files, and nothing else that has a path.

#[cfg(unix)]
pub mod permissions;

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Opens the regular file at `path` for reading; none if something else is there.
pub(crate) fn open(path: &Path) -> io::Result<Option<File>> {
    // Opening a pipe would wait for somebody to write to it, and opening a device may do anything.
    if !fs::metadata(path)?.is_file() {
        return Ok(None);
    }
    open_at_once(path)
}

/// The same without a look at what is there before: it may be something else by the time it is opened.
fn open_at_once(path: &Path) -> io::Result<Option<File>> {
    let mut options = OpenOptions::new();
    options.read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::custom_flags(&mut options, libc::O_NONBLOCK); // a pipe does not wait
    let file = options.open(path)?;
    Ok(file.metadata()?.is_file().then_some(file))
}

/// The file that is to be replaced where `path` is to be written: of a link the one that it leads to, so that the link stays.
/// None if something else is there.
pub(crate) fn target(path: &Path) -> io::Result<Option<PathBuf>> {
    match fs::metadata(path) {
        Ok(metadata) if metadata.is_file() => fs::canonicalize(path).map(Some),
        Ok(_) => Ok(None),
        // Nothing at all, or a link that leads nowhere.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Ok((!path.is_symlink()).then(|| path.to_owned()))
        }
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_regular_files_are_opened() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        assert_eq!(open(&path).unwrap_err().kind(), io::ErrorKind::NotFound);
        fs::write(&path, "text").unwrap();
        assert_eq!(io::read_to_string(open(&path).unwrap().unwrap()).unwrap(), "text");
        assert!(open(folder.path()).unwrap().is_none());
    }

    #[cfg(unix)]
    #[test]
    fn links_lead_to_what_is_replaced() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let [file, link, lost] = ["file", "link", "lost"].map(|name| folder.path().join(name));
        assert_eq!(target(&file).unwrap(), Some(file.clone()));
        fs::write(&file, "text").unwrap();
        symlink("file", &link).unwrap();
        symlink("nowhere", &lost).unwrap();
        assert_eq!(target(&link).unwrap(), Some(fs::canonicalize(&file).unwrap()));
        assert_eq!((target(&lost).unwrap(), target(folder.path()).unwrap()), (None, None));
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_pipe_that_comes_in_between_does_not_wait() {
        use rustix::fs::{CWD, FileType, Mode, mknodat};

        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("pipe");
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        assert!(open_at_once(&pipe).unwrap().is_none());
        assert!(open(&pipe).unwrap().is_none());
    }
}

//! Regular files, and nothing else that has a path.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::Path;

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

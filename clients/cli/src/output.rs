//! Writing a file so that nobody ever sees half of it, or standard output.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use mgcomp_plot::{folder_of, has_file_name};

use crate::draft::Draft;
use crate::error::CliError;
use crate::input::is_stream;

/// Where a command's bytes go. A file gets its name only in [`finish`](Output::finish); until then its bytes
/// are in a draft, which goes away with the `Output`.
#[derive(Debug)]
pub(crate) struct Output {
    name: String,
    sink: Sink,
}

#[derive(Debug)]
enum Sink {
    Stdout,
    File { draft: Draft, target: PathBuf, overwrite: bool },
}

impl Output {
    /// Checks that `path` may be written, and that it is not `input`.
    pub(crate) fn create(path: &Path, input: &Path, overwrite: bool) -> Result<Self, CliError> {
        Self::open(path, Some(input), overwrite)
    }

    /// The same for what is made out of nothing and takes the place of what is there.
    pub(crate) fn replace(path: &Path) -> Result<Self, CliError> {
        Self::open(path, None, true)
    }

    fn open(path: &Path, input: Option<&Path>, overwrite: bool) -> Result<Self, CliError> {
        let name = name(path);
        if is_stream(path) {
            return Ok(Self { name, sink: Sink::Stdout });
        }
        let target = target(path, input, overwrite)?;
        let draft = Draft::of(&target).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => {
                CliError::NoFolder { name: name.clone(), folder: folder_of(&target).display().to_string() }
            }
            _ => CliError::Write { name: name.clone(), source },
        })?;
        Ok(Self { name, sink: Sink::File { draft, target, overwrite } })
    }

    /// Appends `bytes`.
    pub(crate) fn write(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        let written = match &mut self.sink {
            Sink::Stdout => io::stdout().write_all(bytes),
            Sink::File { draft, .. } => draft.file().write_all(bytes),
        };
        written.map_err(|source| CliError::Write { name: self.name.clone(), source })
    }

    /// Gives the file its name, now that everything is in it.
    pub(crate) fn finish(self) -> Result<(), CliError> {
        let name = self.name;
        let done = match self.sink {
            Sink::Stdout => io::stdout().flush(),
            Sink::File { draft, target, overwrite } => draft.keep(&target, overwrite),
        };
        done.map_err(|source| match source.kind() {
            // Somebody made it in the meantime.
            io::ErrorKind::AlreadyExists => CliError::Exists { name },
            _ => CliError::Write { name, source },
        })
    }
}

/// What messages call an output.
pub(crate) fn name(path: &Path) -> String {
    if is_stream(path) { "standard output".into() } else { path.display().to_string() }
}

/// Writes text to standard output.
pub(crate) fn print(text: &str) -> Result<(), CliError> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(text.as_bytes())
        .and_then(|()| stdout.flush())
        .map_err(|source| CliError::Write { name: name(Path::new("-")), source })
}

/// The file that `path` names: of a link the file it leads to, so that the link stays.
fn target(path: &Path, input: Option<&Path>, overwrite: bool) -> Result<PathBuf, CliError> {
    let name = || name(path);
    match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => Err(CliError::NotWritable { name: name() }),
        Ok(_) => {
            let target = fs::canonicalize(path).map_err(|source| CliError::Write { name: name(), source })?;
            if input.is_some_and(|input| fs::canonicalize(input).is_ok_and(|input| input == target)) {
                Err(CliError::SameFile { name: name() })
            } else if overwrite {
                Ok(target)
            } else {
                Err(CliError::Exists { name: name() })
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => match path.is_symlink() {
            true => Err(CliError::Nowhere { name: name() }),
            false if !has_file_name(path) => Err(CliError::NoFileName { name: name() }),
            false => Ok(path.to_owned()),
        },
        Err(source) => Err(CliError::Write { name: name(), source }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_do_not_name_the_temporary_file() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("absent").join("out");
        let error = Output::create(&path, Path::new("-"), false).unwrap_err();
        let expected = format!(
            "cannot write {}: there is no folder {}",
            path.display(),
            folder.path().join("absent").display()
        );
        assert_eq!(crate::error::with_causes(&error), expected);
        fs::write(folder.path().join("absent"), b"no folder").unwrap();
        let error = Output::replace(&path).unwrap_err();
        assert!(!crate::error::with_causes(&error).contains(".mgcomp-"), "{error}");
    }

    #[test]
    fn names_of_folders_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["new/", "new//", "new/.", "new/..", ".."] {
            let path = folder.path().join(name);
            let error = Output::create(&path, Path::new("-"), true).unwrap_err();
            let is_there = matches!(error, CliError::NotWritable { .. });
            assert!(
                is_there == (name == "..") && (is_there || matches!(error, CliError::NoFileName { .. })),
                "{name}"
            );
        }
        assert!(
            ["new", "new.", "a/new", "./new", "new..", ".new"]
                .iter()
                .all(|name| has_file_name(Path::new(name)))
        );
        assert!(["", "/", ".", "a/."].iter().all(|name| !has_file_name(Path::new(name))));
    }

    fn names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_has_its_name_only_when_it_is_complete() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::create(&path, Path::new("-"), false).unwrap();
        output.write(b"half").unwrap();
        assert!(!path.exists());
        drop(output);
        assert!(names(folder.path()).is_empty());

        let mut output = Output::create(&path, Path::new("-"), false).unwrap();
        output.write(b"wh").unwrap();
        output.write(b"ole").unwrap();
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"whole");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn what_is_overwritten_stays_until_all_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        fs::write(&path, b"old").unwrap();
        let mut output = Output::create(&path, Path::new("-"), true).unwrap();
        output.write(b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        output.finish().unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_file_made_in_the_meantime_stays() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut output = Output::create(&path, Path::new("-"), false).unwrap();
        output.write(b"ours").unwrap();
        fs::write(&path, b"theirs").unwrap();
        assert!(matches!(output.finish(), Err(CliError::Exists { .. })));
        assert_eq!(fs::read(&path).unwrap(), b"theirs");
        assert_eq!(names(folder.path()), ["out"]);
    }
}

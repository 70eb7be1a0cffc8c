//! Files of results: there as a whole or not at all, and never in the place of others.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::{Builder, NamedTempFile, PersistError};

use crate::error::BenchError;

/// Runs of one day whose results are kept beside each other.
const MAX_RUNS: u32 = 1000;

/// Writes files with these extensions and contents into `folder`. Their names start with `stem`; where there are such
/// files already, with `stem_2` and so on.
pub(super) fn write(folder: &Path, stem: &str, files: &[(&str, String)]) -> Result<(), BenchError> {
    let failed = |path: &Path, source| BenchError::Write { path: path.to_owned(), source };
    fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let drafts: Result<Vec<NamedTempFile>, _> = files.iter().map(|(_, text)| draft(folder, text)).collect();
    let mut drafts = drafts.map_err(|source| failed(folder, source))?;
    for run in 1..=MAX_RUNS {
        let stem = if run == 1 { stem.to_owned() } else { format!("{stem}_{run}") };
        let paths: Vec<PathBuf> =
            files.iter().map(|(extension, _)| folder.join(format!("{stem}.{extension}"))).collect();
        if paths.iter().any(|path| path.symlink_metadata().is_ok()) {
            continue;
        }
        match place(drafts, &paths) {
            Ok(()) => return Ok(()),
            // Another run has just taken this name.
            Err((rest, error))
                if error.kind() == io::ErrorKind::AlreadyExists && rest.len() == files.len() =>
            {
                drafts = rest;
            }
            Err((rest, source)) => return Err(failed(&paths[paths.len() - rest.len()], source)),
        }
    }
    Err(failed(&folder.join(stem), io::ErrorKind::AlreadyExists.into()))
}

/// Gives the drafts their names, where there is nothing yet. Gives back those that have none.
fn place(drafts: Vec<NamedTempFile>, paths: &[PathBuf]) -> Result<(), (Vec<NamedTempFile>, io::Error)> {
    let mut drafts = drafts.into_iter();
    for path in paths {
        let Some(draft) = drafts.next() else { break };
        if let Err(PersistError { error, file }) = draft.persist_noclobber(path) {
            return Err((std::iter::once(file).chain(drafts).collect(), error));
        }
    }
    Ok(())
}

/// A file in `folder` that holds `text` and goes away unless it gets a name.
fn draft(folder: &Path, text: &str) -> io::Result<NamedTempFile> {
    // Opened here for the usual permissions.
    let open = |path: &Path| File::options().write(true).create_new(true).open(path);
    let mut file = Builder::new().prefix(".mgcomp-").make_in(folder, open)?.into_parts();
    file.0.write_all(text.as_bytes())?;
    file.0.sync_all()?;
    Ok(NamedTempFile::from_parts(file.0, file.1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn content(folder: &Path) -> BTreeMap<String, String> {
        let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries
            .map(|e| (e.file_name().into_string().unwrap(), fs::read_to_string(e.path()).unwrap()))
            .collect()
    }

    fn write_run(folder: &Path, text: &str) {
        write(folder, "day_gpu", &[("json", format!("{text} j")), ("md", format!("{text} m"))]).unwrap();
    }

    #[test]
    fn nothing_is_written_over() {
        let parent = tempfile::tempdir().unwrap();
        let folder = parent.path().join("new");
        write_run(&folder, "first");
        write_run(&folder, "second");
        // Only one of the third's names is taken.
        fs::write(folder.join("day_gpu_3.md"), "kept").unwrap();
        write_run(&folder, "third");
        let expected = [
            ("day_gpu.json", "first j"),
            ("day_gpu.md", "first m"),
            ("day_gpu_2.json", "second j"),
            ("day_gpu_2.md", "second m"),
            ("day_gpu_3.md", "kept"),
            ("day_gpu_4.json", "third j"),
            ("day_gpu_4.md", "third m"),
        ];
        let expected = expected.map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(content(&folder), expected.into());
    }

    #[test]
    fn names_that_are_taken_meanwhile_are_not_written_over() {
        let folder = tempfile::tempdir().unwrap();
        let drafts = ["a", "b"].map(|text| draft(folder.path(), text).unwrap()).into();
        let paths = ["x.json", "x.md"].map(|name| folder.path().join(name));
        fs::write(&paths[1], "kept").unwrap();
        let (rest, error) = place(drafts, &paths).unwrap_err();
        assert_eq!((rest.len(), error.kind()), (1, io::ErrorKind::AlreadyExists));
        drop(rest);
        let expected =
            [("x.json", "a"), ("x.md", "kept")].map(|(name, text)| (name.to_owned(), text.to_owned()));
        assert_eq!(content(folder.path()), expected.into());
    }
}

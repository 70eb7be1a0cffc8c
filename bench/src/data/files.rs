//! Which files to measure, and what they hold.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use mgcomp_codecs::Element;

use super::corpus::{self, Corpus, Entry};
use super::tile;
use crate::error::BenchError;

/// One file to measure.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Item {
    /// What rows call it: the path as given, or inside a given folder the path from there.
    pub(crate) label: String,
    pub(crate) path: PathBuf,
    pub(crate) element: Element,
    /// What sort of data it is, where a list says so.
    pub(crate) kind: Option<String>,
}

/// The files behind `data`, in that order, each with what is wrong with it if something is.
///
/// A `corpus.json` beside a file says what it holds; else `element` does, else its name.
pub(crate) fn list(data: &[PathBuf], element: Option<Element>) -> Vec<Result<Item, BenchError>> {
    let mut items = Vec::new();
    for path in data {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => match list_folder(path, element) {
                Ok(found) => items.extend(found),
                Err(error) => items.push(Err(error)),
            },
            Ok(_) => items.push(item(path, element)),
            Err(source) => items.push(Err(BenchError::Read { path: path.clone(), source })),
        }
    }
    items
}

/// The shape of the tensor in a file, as the list beside it tells; empty where none does.
pub(crate) fn shape(path: &Path) -> Result<Vec<usize>, BenchError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new(""));
    match Corpus::of_folder(folder)?.and_then(|corpus| corpus.find(&name)) {
        Some(entry) => Ok(entry?.shape),
        None => Ok(Vec::new()),
    }
}

/// The content of a file that is worth measuring.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, BenchError> {
    read_first(path, usize::MAX)
}

/// The same of a file of which no more than the first `most` bytes are needed.
pub(crate) fn read_first(path: &Path, most: usize) -> Result<Vec<u8>, BenchError> {
    let failed = |source| BenchError::Read { path: path.to_owned(), source };
    let metadata = fs::metadata(path).map_err(failed)?;
    // Devices are refused: some of them never end.
    if !metadata.is_file() {
        return Err(BenchError::NotReadable { path: path.to_owned() });
    }
    let mut raw = Vec::new();
    let expected = metadata.len().min(most as u64) as usize;
    raw.try_reserve_exact(expected).map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
    let file = File::open(path).map_err(failed)?;
    file.take(most as u64).read_to_end(&mut raw).map_err(failed)?;
    if raw.is_empty() { Err(BenchError::Empty { path: path.to_owned() }) } else { Ok(raw) }
}

/// Fills a buffer from the file of `item`, of which no more is read than that takes; returns the length of a [`tile`].
pub(crate) fn fill(item: &Item, to: &mut [u8]) -> Result<usize, BenchError> {
    let width = item.element.width_bytes();
    // Whole elements: of a longer file nothing is repeated.
    let content = read_first(&item.path, to.len().next_multiple_of(width))?;
    Ok(tile(&content, width, to))
}

fn item(path: &Path, element: Option<Element>) -> Result<Item, BenchError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let folder = path.parent().unwrap_or(Path::new(""));
    let (element, kind) = match Corpus::of_folder(folder)?.and_then(|corpus| corpus.find(&name)) {
        Some(entry) => entry.map(|entry| (entry.element, entry.kind))?,
        None => (element.unwrap_or_else(|| element_in_name(&name)), None),
    };
    Ok(Item { label: path.display().to_string(), path: path.to_owned(), element, kind })
}

fn list_folder(folder: &Path, element: Option<Element>) -> Result<Vec<Result<Item, BenchError>>, BenchError> {
    let items: Vec<_> = match Corpus::of_folder(folder)? {
        Some(corpus) => corpus
            .entries()
            .map(|entry| {
                entry.map(|Entry { file, element, kind, .. }| Item {
                    path: folder.join(&file),
                    label: file,
                    element,
                    kind,
                })
            })
            .collect(),
        None => list_names(folder)?.into_iter().map(|name| Ok(item_in(folder, &name, element))).collect(),
    };
    if items.is_empty() { Err(BenchError::NoFiles { path: folder.to_owned() }) } else { Ok(items) }
}

fn item_in(folder: &Path, name: &Path, element: Option<Element>) -> Item {
    let label = name.display().to_string();
    let element = element.unwrap_or_else(|| element_in_name(&label));
    Item { path: folder.join(name), label, element, kind: None }
}

/// Regular files of `folder` in alphabetical order, without READMEs and hidden files.
fn list_names(folder: &Path) -> Result<Vec<PathBuf>, BenchError> {
    let failed = |source| BenchError::Read { path: folder.to_owned(), source };
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        let is_data = !shown.starts_with('.') && !shown.starts_with("README") && shown != corpus::FILE_NAME;
        if is_data && fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file()) {
            names.push(PathBuf::from(name));
        }
    }
    names.sort();
    Ok(names)
}

/// The element that a name ends in, as in `x.f32.bin` or `x.i64`; without one, bytes.
fn element_in_name(name: &str) -> Element {
    let stem = name.strip_suffix(".bin").unwrap_or(name);
    match stem.rsplit_once('.').map_or("", |(_, suffix)| suffix) {
        "i8" => Element::U8,
        "i16" => Element::U16,
        "i32" => Element::U32,
        "i64" => Element::U64,
        suffix => suffix.parse().unwrap_or(Element::U8),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_much_is_read_as_is_needed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        fs::write(&path, b"0123456789").unwrap();
        for (most, expected) in [(4, &b"0123"[..]), (10, b"0123456789"), (11, b"0123456789")] {
            assert_eq!(read_first(&path, most).unwrap(), expected);
        }
        assert_eq!(read(&path).unwrap(), b"0123456789");
        assert!(matches!(read_first(folder.path(), 4), Err(BenchError::NotReadable { .. })));
        fs::write(&path, b"").unwrap();
        assert!(matches!(read_first(&path, 4), Err(BenchError::Empty { .. })));
    }

    #[test]
    #[cfg(unix)] // files with holes
    fn buffers_are_filled_from_files_that_no_memory_holds() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x");
        let words: Vec<u8> = (0..1000u32).flat_map(u32::to_le_bytes).collect();
        fs::write(&path, &words).unwrap();
        let item = Item { label: "x".into(), path, element: Element::U32, kind: None };
        let mut short = [0; 4002];
        assert_eq!(fill(&item, &mut short).unwrap(), 4000);
        // 1 000 003 mod 1000 = 3: the second tile starts there.
        assert_eq!((&short[..4000], &short[4000..]), (&words[..], &words[12..14]));
        File::options().write(true).open(&item.path).unwrap().set_len(1 << 40).unwrap();
        let mut first = [0; 1001];
        assert_eq!(fill(&item, &mut first).unwrap(), 1004);
        assert_eq!(first, words[..1001]);
    }

    #[test]
    fn names_tell_elements() {
        let cases = [
            ("x.f32.bin", Element::F32),
            ("x.y.bf16", Element::Bf16),
            ("x.i64.bin", Element::U64),
            ("x.f8e5m2.bin", Element::F8E5M2),
            ("x.bin", Element::U8),
            ("f32", Element::U8),
            ("f32.bin", Element::U8),
            ("x.f32.txt", Element::U8),
        ];
        for (name, element) in cases {
            assert_eq!(element_in_name(name), element, "{name}");
        }
    }
}

//! `corpus.json`: what the files of a folder hold.
//!
//! ```json
//! {"tensors": [{"file": "weights.bf16.bin", "dtype": "bfloat16", "kind": "weights"}]}
//! ```
//! `kind` and `shape` may be missing; other keys are ignored.

use std::io::ErrorKind;
use std::path::{Component, Path, PathBuf};
use std::{fs, io};

use mgcomp_codecs::Element;
use serde::Deserialize;

use crate::error::BenchError;

/// The name of the list, in the folder of the files that it describes.
pub(crate) const FILE_NAME: &str = "corpus.json";

/// One folder's list, and where it lies.
#[derive(Debug)]
pub(crate) struct Corpus {
    path: PathBuf,
    tensors: Vec<Tensor>,
}

#[derive(Debug, Deserialize)]
struct List {
    tensors: Vec<Tensor>,
}

#[derive(Debug, Deserialize)]
struct Tensor {
    file: String,
    dtype: String,
    kind: Option<String>,
    #[serde(default)]
    shape: Vec<usize>,
}

/// A file that the list names.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) file: String,
    pub(crate) element: Element,
    /// What sort of data it is, such as `weights`.
    pub(crate) kind: Option<String>,
    /// Elements along each dimension, the outermost first; empty where the list does not say.
    pub(crate) shape: Vec<usize>,
}

impl Corpus {
    /// The list of `folder`, or `None` if it has none.
    pub(crate) fn of_folder(folder: &Path) -> Result<Option<Self>, BenchError> {
        let path = folder.join(FILE_NAME);
        match fs::read(&path) {
            Ok(json) => Self::parse(path, &json).map(Some),
            Err(error) if is_absent(&error) => Ok(None),
            Err(source) => Err(BenchError::Read { path, source }),
        }
    }

    fn parse(path: PathBuf, json: &[u8]) -> Result<Self, BenchError> {
        match serde_json::from_slice::<List>(json) {
            Ok(List { tensors }) => Ok(Self { path, tensors }),
            Err(source) => Err(BenchError::Corpus { path, source }),
        }
    }

    /// Every entry in the order of the list.
    pub(crate) fn entries(&self) -> impl Iterator<Item = Result<Entry, BenchError>> {
        (0..self.tensors.len()).map(|index| self.entry(index))
    }

    /// The entry for `file`, if there is one.
    pub(crate) fn find(&self, file: &str) -> Option<Result<Entry, BenchError>> {
        self.tensors.iter().position(|tensor| tensor.file == file).map(|index| self.entry(index))
    }

    fn entry(&self, index: usize) -> Result<Entry, BenchError> {
        let Tensor { file, dtype, kind, shape } = &self.tensors[index];
        let (path, file, kind, shape) = (self.path.clone(), file.clone(), kind.clone(), shape.clone());
        if file.is_empty() || !Path::new(&file).components().all(|part| matches!(part, Component::Normal(_)))
        {
            return Err(BenchError::Outside { path, index, file });
        }
        match element_of(dtype) {
            Some(element) => Ok(Entry { file, element, kind, shape }),
            None => Err(BenchError::Dtype { path, index, file, dtype: dtype.clone() }),
        }
    }
}

/// A folder without the list, or something that is no folder.
fn is_absent(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// The element of an array library's type name. Codecs do not tell signed integers from unsigned ones.
fn element_of(dtype: &str) -> Option<Element> {
    Some(match dtype {
        "uint8" | "int8" => Element::U8,
        "uint16" | "int16" => Element::U16,
        "uint32" | "int32" => Element::U32,
        "uint64" | "int64" => Element::U64,
        "float16" => Element::F16,
        "bfloat16" => Element::Bf16,
        "float32" => Element::F32,
        "float64" => Element::F64,
        "float8_e4m3" => Element::F8E4M3,
        "float8_e5m2" => Element::F8E5M2,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn corpus(json: &str) -> Corpus {
        Corpus::parse("d/corpus.json".into(), json.as_bytes()).unwrap()
    }

    #[test]
    fn entries_keep_their_order_and_find_theirs() {
        let list = corpus(
            r#"{"set": 1, "tensors": [{"file": "b", "dtype": "bfloat16", "shape": [2], "kind": "kv"}, {"file": "a/c", "dtype": "int64"}]}"#,
        );
        let entries: Vec<Entry> = list.entries().map(Result::unwrap).collect();
        let entry = |file: &str, element, kind: Option<&str>, shape| Entry {
            file: file.into(),
            element,
            kind: kind.map(str::to_owned),
            shape,
        };
        assert_eq!(entries[0], entry("b", Element::Bf16, Some("kv"), vec![2]));
        assert_eq!(entries[1], entry("a/c", Element::U64, None, vec![]));
        assert_eq!(list.find("a/c").unwrap().unwrap(), entries[1]);
        assert!(list.find("c").is_none());
    }

    #[test]
    fn one_bad_entry_does_not_hide_the_others() {
        let list = corpus(
            r#"{"tensors": [{"file": "../x", "dtype": "int8"}, {"file": "/x", "dtype": "int8"}, {"file": "", "dtype": "int8"},
                {"file": "c", "dtype": "complex64"}, {"file": "d", "dtype": "uint16"}]}"#,
        );
        let entries: Vec<_> = list.entries().collect();
        for (at, entry) in entries[..3].iter().enumerate() {
            assert!(matches!(entry, Err(BenchError::Outside { index, .. }) if *index == at), "{entry:?}");
        }
        assert!(
            matches!(&entries[3], Err(BenchError::Dtype { index: 3, dtype, .. }) if dtype == "complex64")
        );
        assert_eq!(entries[4].as_ref().unwrap().element, Element::U16);
    }

    #[test]
    fn what_is_no_list_is_refused() {
        for json in ["", "[]", "{}", r#"{"tensors": [{"file": "x"}]}"#] {
            let parsed = Corpus::parse("d/corpus.json".into(), json.as_bytes());
            assert!(matches!(parsed, Err(BenchError::Corpus { .. })), "{json}");
        }
    }
}

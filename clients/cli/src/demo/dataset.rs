//! What the demo exchanges.

use std::borrow::Cow;
use std::io::{self, Read};

use mgcomp_codecs::Element;
use serde::{Deserialize, Serialize};

use super::Args;
use crate::error::CliError;
use crate::input;
use crate::progress::Progress;
use crate::samples::SAMPLES;

/// One tensor.
#[derive(Clone, Debug)]
pub(super) struct Dataset {
    pub(super) name: String,
    pub(super) element: Element,
    pub(super) bytes: Cow<'static, [u8]>,
}

impl Dataset {
    /// The tensor of one rank: the data set turned by a whole number of lines, so that no two ranks have the
    /// same bytes in the same place.
    pub(super) fn of_rank(&self, rank: u32, ranks: u32) -> Vec<u8> {
        let turn = (self.bytes.len() as u64 * u64::from(rank) / u64::from(ranks)) as usize;
        let mut bytes = self.bytes.to_vec();
        bytes.rotate_left(turn / 64 * 64);
        bytes
    }
}

/// What a rank in another process is told of one before its bytes.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Head {
    name: String,
    /// By name.
    element: String,
    len: u64,
}

impl Head {
    pub(super) fn of(dataset: &Dataset) -> Self {
        let (name, element) = (dataset.name.clone(), dataset.element.name().to_owned());
        Self { name, element, len: dataset.bytes.len() as u64 }
    }

    /// The data set whose bytes come next from `source`.
    pub(super) fn read(self, source: &mut impl Read) -> io::Result<Dataset> {
        let element = self.element.parse().map_err(io::Error::other)?;
        let mut bytes = Vec::new();
        if source.take(self.len).read_to_end(&mut bytes)? as u64 != self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(Dataset { name: self.name, element, bytes: bytes.into() })
    }
}

/// The files that were named, or else the samples.
pub(super) fn load(args: &Args, progress: &mut Progress) -> Result<Vec<Dataset>, CliError> {
    if args.data.is_empty() {
        let sample = |s: &crate::samples::Sample| Dataset {
            name: s.name.to_owned(),
            element: s.element,
            bytes: s.bytes.into(),
        };
        return Ok(SAMPLES.iter().map(sample).collect());
    }
    let file = |path: &std::path::PathBuf| {
        Ok(Dataset {
            name: match path.file_name() {
                Some(name) if !input::is_stream(path) => name.to_string_lossy().into(),
                _ => input::name(path),
            },
            element: args.element.unwrap_or_else(|| input::element_of_name(path)),
            bytes: input::read_raw(path, progress)?.into(),
        })
    };
    args.data.iter().map(file).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_have_the_same_lines_in_different_places() {
        let bytes: Vec<u8> = (0..4).flat_map(|line| [line; 64]).collect();
        let set = Dataset { name: "x".into(), element: Element::U8, bytes: bytes.clone().into() };
        assert_eq!(set.of_rank(0, 4), bytes);
        assert_eq!(set.of_rank(1, 4), [&bytes[64..], &bytes[..64]].concat());
        assert_eq!(set.of_rank(3, 4)[..64], [3; 64]);
    }

    #[test]
    fn data_sets_come_one_after_the_other() {
        let set = |name: &str, bytes: &[u8]| Dataset {
            name: name.into(),
            element: Element::Bf16,
            bytes: bytes.to_vec().into(),
        };
        let mut source = &b"abc"[..];
        for sent in [set("x", b"ab"), set("y", b"c")] {
            let got = Head::of(&sent).read(&mut source).unwrap();
            assert_eq!((got.name, got.element, got.bytes), (sent.name, sent.element, sent.bytes));
        }
        let missing = Head::of(&set("z", b"d")).read(&mut source).unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::UnexpectedEof);
    }
}

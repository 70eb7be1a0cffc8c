//! What the flags of `mgcomp-bench gather` may say.

use std::path::PathBuf;
use std::str::FromStr;

use mgcomp_codecs::{Element, UnknownElement};

/// A value that is none of its flag's.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArgError {
    #[error("{0:?} is not FILE:ELEMENT:ROWBYTES")]
    Data(String),
    #[error(transparent)]
    Element(#[from] UnknownElement),
    #[error("{0:?} is no number of bytes of a row")]
    RowLen(String),
    #[error("{0:?} is no part of the rows in percent, above 0 and up to 100")]
    Percent(String),
}

/// A file of rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RowFile {
    pub(super) path: PathBuf,
    pub(super) element: Element,
    pub(super) row_len: usize,
}

impl FromStr for RowFile {
    type Err = ArgError;

    fn from_str(text: &str) -> Result<Self, ArgError> {
        // A path may have colons as well.
        let mut parts = text.rsplitn(3, ':');
        let (Some(row_len), Some(element), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            return Err(ArgError::Data(text.to_owned()));
        };
        let row_len = match row_len.parse() {
            Ok(0) | Err(_) => return Err(ArgError::RowLen(row_len.to_owned())),
            Ok(row_len) => row_len,
        };
        Ok(Self { path: path.into(), element: element.parse()?, row_len })
    }
}

/// A part of the rows.
pub(super) fn parse_percent(text: &str) -> Result<f64, ArgError> {
    match text.parse() {
        Ok(percent) if percent > 0.0 && percent <= 100.0 => Ok(percent),
        _ => Err(ArgError::Percent(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_have_elements_and_rows() {
        let file = RowFile { path: "a:b/c".into(), element: Element::F32, row_len: 400 };
        assert_eq!("a:b/c:f32:400".parse(), Ok(file));
        assert_eq!("a:f32".parse::<RowFile>(), Err(ArgError::Data("a:f32".into())));
        assert_eq!("a:f31:4".parse::<RowFile>(), Err(ArgError::Element(UnknownElement("f31".into()))));
        for row_len in ["0", "-1", "x", ""] {
            assert_eq!(format!("a:f32:{row_len}").parse::<RowFile>(), Err(ArgError::RowLen(row_len.into())));
        }
    }

    #[test]
    fn parts_are_percentages() {
        assert_eq!((parse_percent("0.5"), parse_percent("100")), (Ok(0.5), Ok(100.0)));
        for text in ["0", "-1", "101", "NaN", "x"] {
            assert_eq!(parse_percent(text), Err(ArgError::Percent(text.into())));
        }
    }
}

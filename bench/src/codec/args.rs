//! What the flags of `mgcomp-bench codec` may say.

use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use mgcomp_codecs::frame::MAX_RAW_LEN;
use mgcomp_codecs::{Cpu, Element, Isa, UnknownElement, UnknownIsa};

/// The longest `--seconds`.
const MAX_SECONDS: f64 = 3600.0;

/// A value that is none of its flag's.
#[derive(Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum ArgError {
    #[error(transparent)]
    Element(#[from] UnknownElement),
    #[error(transparent)]
    Isa(#[from] UnknownIsa),
    #[error("this machine has no {wanted}; it has {has}")]
    MissingIsa { wanted: Isa, has: String },
    #[error("{0:?} is no number of bytes, such as 65536, 512K, 256M or 1G")]
    Bytes(String),
    #[error("a buffer has 1 to {MAX_RAW_LEN} bytes, not {0}")]
    BytesRange(u64),
    #[error("{0:?} is none of cpu, cuda and cuda:NUMBER")]
    Processor(String),
    #[error("{0:?} is no number of seconds above 0 and up to {MAX_SECONDS}")]
    Seconds(String),
}

/// Where codecs run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Processor {
    Cpu,
    /// The CUDA device with this number.
    Cuda(u32),
}

impl FromStr for Processor {
    type Err = ArgError;

    fn from_str(text: &str) -> Result<Self, ArgError> {
        let unknown = || ArgError::Processor(text.to_owned());
        match text.split_once(':') {
            None if text == "cpu" => Ok(Self::Cpu),
            None if text == "cuda" => Ok(Self::Cuda(0)),
            Some(("cuda", number)) => number.parse().map(Self::Cuda).map_err(|_| unknown()),
            _ => Err(unknown()),
        }
    }
}

/// A file with its element, or a file or folder whose list or names say it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Data {
    pub(crate) path: PathBuf,
    pub(crate) element: Option<Element>,
}

impl FromStr for Data {
    type Err = ArgError;

    fn from_str(text: &str) -> Result<Self, ArgError> {
        let whole = Self { path: text.into(), element: None };
        match text.rsplit_once(':') {
            // A path may have a colon as well; one in an outer folder tells nothing about the file.
            Some((path, suffix)) if !suffix.contains('/') && !whole.path.exists() => {
                Ok(Self { path: path.into(), element: Some(suffix.parse()?) })
            }
            _ => Ok(whole),
        }
    }
}

/// The instruction set called `name`, if this machine has it.
pub(super) fn parse_isa(name: &str) -> Result<Cpu, ArgError> {
    let wanted: Isa = name.parse()?;
    Cpu::on(wanted).ok_or_else(|| {
        let has: Vec<&str> = Cpu::available().map(|cpu| cpu.isa().name()).collect();
        ArgError::MissingIsa { wanted, has: has.join(" ") }
    })
}

/// A size: bytes, or with a binary suffix.
pub(crate) fn parse_bytes(text: &str) -> Result<usize, ArgError> {
    let number = text.trim_end_matches("iB").trim_end_matches(['K', 'M', 'G']);
    let shift = match text.strip_prefix(number).unwrap_or_default().trim_end_matches("iB") {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        _ => return Err(ArgError::Bytes(text.to_owned())),
    };
    let number: u64 = number.parse().map_err(|_| ArgError::Bytes(text.to_owned()))?;
    let bytes = number.saturating_mul(1 << shift);
    if (1..=MAX_RAW_LEN).contains(&bytes) { Ok(bytes as usize) } else { Err(ArgError::BytesRange(bytes)) }
}

/// A time above zero.
pub(crate) fn parse_seconds(text: &str) -> Result<Duration, ArgError> {
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= MAX_SECONDS => Ok(Duration::from_secs_f64(seconds)),
        _ => Err(ArgError::Seconds(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_binary_suffixes() {
        let good =
            [("1", 1), ("512K", 524_288), ("512KiB", 524_288), ("256M", 268_435_456), ("2G", 2_147_483_648)];
        for (text, bytes) in good {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "K", "iB", "1KK", "1k", "-1", "1.5M", "1iB2", "1B", " 1"] {
            assert_eq!(parse_bytes(text), Err(ArgError::Bytes(text.into())), "{text}");
        }
        assert_eq!(parse_bytes("0"), Err(ArgError::BytesRange(0)));
        assert_eq!(parse_bytes("0K"), Err(ArgError::BytesRange(0)));
        assert_eq!(parse_bytes("64G"), Err(ArgError::BytesRange(1 << 36)));
        assert_eq!(parse_bytes("99999999999G"), Err(ArgError::BytesRange(u64::MAX)));
    }

    #[test]
    fn seconds_are_above_zero() {
        assert_eq!(parse_seconds("0.25"), Ok(Duration::from_millis(250)));
        for text in ["0", "-1", "NaN", "inf", "3601", "x", ""] {
            assert_eq!(parse_seconds(text), Err(ArgError::Seconds(text.into())), "{text}");
        }
    }

    #[test]
    fn processors_have_names() {
        let cases = [("cpu", Processor::Cpu), ("cuda", Processor::Cuda(0)), ("cuda:3", Processor::Cuda(3))];
        for (text, processor) in cases {
            assert_eq!(text.parse(), Ok(processor));
        }
        for text in ["", "gpu", "cpu:0", "cuda:", "cuda:x", "cuda:-1"] {
            assert_eq!(text.parse::<Processor>(), Err(ArgError::Processor(text.into())));
        }
    }

    #[test]
    fn data_may_name_its_element() {
        let data = |path: &str, element| Ok(Data { path: path.into(), element });
        assert_eq!("a/b:bf16".parse(), data("a/b", Some(Element::Bf16)));
        assert_eq!("a/b".parse(), data("a/b", None));
        assert_eq!("a:b/c".parse(), data("a:b/c", None));
        assert_eq!("a:b".parse::<Data>(), Err(ArgError::Element(UnknownElement("b".into()))));
    }

    #[test]
    fn instruction_sets_are_those_of_the_machine() {
        assert_eq!(parse_isa("portable"), Ok(Cpu::Portable));
        assert_eq!(parse_isa("sse2"), Err(ArgError::Isa(UnknownIsa("sse2".into()))));
        for isa in Isa::ALL {
            let missing =
                matches!(parse_isa(isa.name()), Err(ArgError::MissingIsa { wanted, .. }) if wanted == isa);
            assert_eq!(missing, Cpu::on(isa).is_none());
        }
    }
}

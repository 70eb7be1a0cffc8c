//! The 4-bit number that says how a payload is coded.

use std::fmt;
use std::str::FromStr;
use std::sync::LazyLock;

use crate::set::{NumberSet, Numbered};

/// How a payload is coded: the 4-bit field of Data-Ready and Write messages and of the frame header.
///
/// Numbers are never reused. That a number has a name here does not mean that this version has the codec:
/// ask [`codec`](crate::codec).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Algorithm {
    /// Not compressed; the payload is the raw bytes, without a frame.
    None = 0,
    /// Base-delta-immediate, on 64-byte lines.
    Bdi = 1,
    /// Frequent pattern compression, on 64-byte lines.
    Fpc = 2,
    /// C-Pack with zero lines, on 64-byte lines.
    CpackZ = 3,
    /// Zero-value compression, on windows of 32 elements.
    Zvc = 4,
    /// Run lengths of zero and literal elements.
    Rle = 5,
    /// zlib format, for reference only.
    Deflate = 6,
    /// Bit-plane compression, on 128-byte entries.
    Bpc = 7,
    /// Invariant bit packing.
    Ibp = 8,
    /// Float exponents in few bits.
    Xp = 9,
    /// Integers, indices and fields.
    Int = 10,
}

impl Algorithm {
    /// Every named algorithm, in the order of its number.
    pub const ALL: [Self; 11] = [
        Self::None,
        Self::Bdi,
        Self::Fpc,
        Self::CpackZ,
        Self::Zvc,
        Self::Rle,
        Self::Deflate,
        Self::Bpc,
        Self::Ibp,
        Self::Xp,
        Self::Int,
    ];

    /// The number on the wire, 0 to 10.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// The one spelling used in flags, files and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Bdi => "bdi",
            Self::Fpc => "fpc",
            Self::CpackZ => "cpackz",
            Self::Zvc => "zvc",
            Self::Rle => "rle",
            Self::Deflate => "deflate",
            Self::Bpc => "bpc",
            Self::Ibp => "ibp",
            Self::Xp => "xp",
            Self::Int => "int",
        }
    }
}

impl fmt::Display for Algorithm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A number or name that is no [`Algorithm`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown algorithm {0:?}; known: none bdi fpc cpackz zvc rle deflate bpc ibp xp int")]
pub struct UnknownAlgorithm(pub String);

impl FromStr for Algorithm {
    type Err = UnknownAlgorithm;

    fn from_str(name: &str) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.into_iter().find(|a| a.name() == name).ok_or_else(|| UnknownAlgorithm(name.to_owned()))
    }
}

impl TryFrom<u8> for Algorithm {
    type Error = UnknownAlgorithm;

    fn try_from(number: u8) -> Result<Self, UnknownAlgorithm> {
        Self::ALL.get(usize::from(number)).copied().ok_or_else(|| UnknownAlgorithm(number.to_string()))
    }
}

impl Numbered for Algorithm {
    const ALL: &'static [Self] = &Self::ALL;

    fn number(self) -> u8 {
        self.number()
    }
}

/// A set of algorithms.
pub type AlgorithmSet = NumberSet<Algorithm>;

impl AlgorithmSet {
    /// `none` and every algorithm that this version has a codec for.
    #[must_use]
    pub fn supported() -> Self {
        // Asked for each transfer.
        static SUPPORTED: LazyLock<AlgorithmSet> = LazyLock::new(|| {
            std::iter::once(Algorithm::None).chain(crate::codecs().map(crate::Codec::algorithm)).collect()
        });
        *SUPPORTED
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for (number, algorithm) in Algorithm::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(algorithm.number()), number);
            assert_eq!(Algorithm::try_from(algorithm.number()), Ok(algorithm));
            assert_eq!(algorithm.name().parse(), Ok(algorithm));
        }
        for number in 11..=255u8 {
            assert!(Algorithm::try_from(number).is_err());
        }
        assert!("BDI".parse::<Algorithm>().is_err());
    }

    #[test]
    fn supported_set_is_none_and_the_codecs() {
        let set = AlgorithmSet::supported();
        for algorithm in Algorithm::ALL {
            let expected = algorithm == Algorithm::None || crate::codec(algorithm).is_some();
            assert_eq!(set.contains(algorithm), expected, "{algorithm}");
        }
    }
}

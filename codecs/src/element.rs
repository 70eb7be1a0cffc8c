//! The layout hint that travels with a buffer.

use std::fmt;
use std::str::FromStr;

use crate::set::{NumberSet, Numbered};

/// How the bytes of a buffer are grouped into values.
///
/// A hint for codecs only: it never changes which bits come back. What a reduction computes on is a
/// *datatype*, another type altogether.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Element {
    /// 8-bit integers, or bytes of unknown meaning.
    U8 = 0,
    /// 16-bit integers.
    U16 = 1,
    /// 32-bit integers.
    U32 = 2,
    /// 64-bit integers.
    U64 = 3,
    /// IEEE half precision.
    F16 = 4,
    /// bfloat16: 8 bits of exponent, 7 of fraction.
    Bf16 = 5,
    /// IEEE single precision.
    F32 = 6,
    /// IEEE double precision.
    F64 = 7,
    /// 8-bit float, 4 bits of exponent, 3 of fraction.
    F8E4M3 = 8,
    /// 8-bit float, 5 bits of exponent, 2 of fraction.
    F8E5M2 = 9,
}

impl Element {
    /// Every element, in the order of its number.
    pub const ALL: [Self; 10] = [
        Self::U8,
        Self::U16,
        Self::U32,
        Self::U64,
        Self::F16,
        Self::Bf16,
        Self::F32,
        Self::F64,
        Self::F8E4M3,
        Self::F8E5M2,
    ];

    /// The number in frame and hello headers.
    #[must_use]
    pub const fn number(self) -> u8 {
        self as u8
    }

    /// Width of one value in bytes: 1, 2, 4 or 8.
    #[must_use]
    pub const fn width_bytes(self) -> usize {
        match self {
            Self::U8 | Self::F8E4M3 | Self::F8E5M2 => 1,
            Self::U16 | Self::F16 | Self::Bf16 => 2,
            Self::U32 | Self::F32 => 4,
            Self::U64 | Self::F64 => 8,
        }
    }

    /// The one spelling used in flags, files and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::U64 => "u64",
            Self::F16 => "f16",
            Self::Bf16 => "bf16",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::F8E4M3 => "f8e4m3",
            Self::F8E5M2 => "f8e5m2",
        }
    }
}

impl fmt::Display for Element {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A number or name that is no [`Element`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown element {0:?}; known: u8 u16 u32 u64 f16 bf16 f32 f64 f8e4m3 f8e5m2")]
pub struct UnknownElement(pub String);

impl FromStr for Element {
    type Err = UnknownElement;

    fn from_str(name: &str) -> Result<Self, UnknownElement> {
        Self::ALL.into_iter().find(|e| e.name() == name).ok_or_else(|| UnknownElement(name.to_owned()))
    }
}

impl TryFrom<u8> for Element {
    type Error = UnknownElement;

    fn try_from(number: u8) -> Result<Self, UnknownElement> {
        Self::ALL.get(usize::from(number)).copied().ok_or_else(|| UnknownElement(number.to_string()))
    }
}

impl Numbered for Element {
    const ALL: &'static [Self] = &Self::ALL;

    fn number(self) -> u8 {
        self.number()
    }
}

/// A set of elements.
pub type ElementSet = NumberSet<Element>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_round_trip() {
        for (number, element) in Element::ALL.into_iter().enumerate() {
            assert_eq!(usize::from(element.number()), number);
            assert_eq!(Element::try_from(element.number()), Ok(element));
            assert_eq!(element.name().parse(), Ok(element));
        }
        assert!(Element::try_from(10).is_err());
        assert_eq!("float32".parse::<Element>(), Err(UnknownElement("float32".into())));
    }
}

//! How much of an allocation lies in device memory.

use std::fmt;
use std::str::FromStr;

/// The target ratio of an allocation: its raw bytes by the bytes of its slots in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Target {
    /// Every entry has room for its raw bytes.
    One,
    /// Three sectors of four.
    FourThirds,
    /// Five eighths; not for [`Form::Bpc`](super::Form::Bpc), whose sectors are quarters.
    EightFifths,
    /// Two sectors of four.
    Two,
    /// Three eighths; not for [`Form::Bpc`](super::Form::Bpc).
    EightThirds,
    /// One sector of four.
    Four,
    /// A sixteenth: for what stays almost all zero.
    Sixteen,
}

impl Target {
    /// Every target, the smallest ratio first.
    pub const ALL: [Self; 7] = [
        Self::One,
        Self::FourThirds,
        Self::EightFifths,
        Self::Two,
        Self::EightThirds,
        Self::Four,
        Self::Sixteen,
    ];

    /// Sixteenths of an entry that have a place in device memory.
    #[must_use]
    pub const fn device_sixteenths(self) -> usize {
        match self {
            Self::One => 16,
            Self::FourThirds => 12,
            Self::EightFifths => 10,
            Self::Two => 8,
            Self::EightThirds => 6,
            Self::Four => 4,
            Self::Sixteen => 1,
        }
    }

    /// Raw bytes per byte of a slot.
    #[must_use]
    pub fn ratio(self) -> f64 {
        16.0 / self.device_sixteenths() as f64
    }

    /// The one spelling used in flags, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::One => "1",
            Self::FourThirds => "4/3",
            Self::EightFifths => "8/5",
            Self::Two => "2",
            Self::EightThirds => "8/3",
            Self::Four => "4",
            Self::Sixteen => "16",
        }
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no [`Target`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown target {0:?}; known: 1 4/3 8/5 2 8/3 4 16")]
pub struct UnknownTarget(pub String);

impl FromStr for Target {
    type Err = UnknownTarget;

    fn from_str(name: &str) -> Result<Self, UnknownTarget> {
        Self::ALL.into_iter().find(|t| t.name() == name).ok_or_else(|| UnknownTarget(name.to_owned()))
    }
}

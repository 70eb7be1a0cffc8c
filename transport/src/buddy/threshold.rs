//! How many entries may overflow.

use super::ProfileError;

/// The most entries of an allocation that may overflow, in percent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Threshold(u8);

impl Threshold {
    /// That of the paper.
    pub const DEFAULT: Self = Self(30);

    /// A threshold of 10 to 50 percent.
    ///
    /// # Errors
    /// If it is another number.
    pub const fn percent(percent: u8) -> Result<Self, ProfileError> {
        if 10 <= percent && percent <= 50 {
            Ok(Self(percent))
        } else {
            Err(ProfileError::Threshold { percent })
        }
    }

    /// The number.
    #[must_use]
    pub const fn as_percent(self) -> u8 {
        self.0
    }

    /// Whether `part` of `all` is under the threshold.
    pub(super) const fn keeps(self, part: u64, all: u64) -> bool {
        part as u128 * 100 < all as u128 * self.0 as u128
    }
}

impl Default for Threshold {
    fn default() -> Self {
        Self::DEFAULT
    }
}

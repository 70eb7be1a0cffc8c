//! What a kernel says of one buffer.

use std::fmt;

use super::launch::{STATUS_CODE_BITS, status_text};

/// The status word that a kernel leaves in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// 0 if all is well, else one of the codes of `launch.h`.
    pub code: u32,
    /// Number of the first chunk with an error; 0 where the error is not in a chunk.
    pub chunk: u64,
}

impl Status {
    /// All is well.
    pub const GOOD: Self = Self { code: 0, chunk: 0 };

    /// Takes the word apart.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        let chunk = word >> STATUS_CODE_BITS;
        Self { code: (word - (chunk << STATUS_CODE_BITS)) as u32, chunk }
    }

    /// What its code says, if that is known.
    pub(super) fn text(self) -> Option<String> {
        status_text(self.code)
    }

    /// An error unless all is well.
    ///
    /// # Errors
    /// [`Refused`], with what is wrong.
    pub const fn check(self) -> Result<(), Refused> {
        if self.code == 0 { Ok(()) } else { Err(Refused(self)) }
    }
}

/// A buffer that a kernel could not encode or decode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub Status);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, chunk } = self.0;
        match self.0.text() {
            Some(text) => write!(f, "chunk {chunk}: {text} (status {code})"),
            None => write!(f, "chunk {chunk}: status {code}"),
        }
    }
}

impl std::error::Error for Refused {}

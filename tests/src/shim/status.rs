//! The status word that a kernel leaves behind.

/// The constants of `codecs/kernels/launch.h`.
pub mod launch {
    include!(concat!(env!("OUT_DIR"), "/launch.rs"));
}

/// What a kernel says of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status {
    /// [`launch::GOOD`] or one of the `launch::BAD_` codes.
    pub code: u32,
    /// Index of the first chunk with an error; 0 where the error is not in a chunk.
    pub chunk: u64,
}

impl Status {
    /// All chunks are decoded.
    pub const GOOD: Self = Self { code: launch::GOOD, chunk: 0 };

    /// Takes the word apart.
    #[must_use]
    pub const fn from_word(word: u64) -> Self {
        let chunk = word >> launch::STATUS_CODE_BITS;
        Self { code: (word - (chunk << launch::STATUS_CODE_BITS)) as u32, chunk }
    }
}

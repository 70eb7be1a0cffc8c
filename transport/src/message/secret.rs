//! What the ranks of one job know and nobody else does.

use std::fmt;
use std::hint::black_box;
use std::str::FromStr;

/// The job secret: 128 bits that every rank of a job shows in its hello.
///
/// It is never printed, and comparing two takes the same time wherever they differ.
#[derive(Clone, Copy)]
pub struct Secret([u8; 16]);

impl Secret {
    /// The secret of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }

    /// The bytes as they go on the wire.
    #[must_use]
    pub const fn bytes(&self) -> [u8; 16] {
        self.0
    }
}

impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        // Every byte is looked at: how long this takes must not tell how much of a guess was right.
        let differing =
            self.0.iter().zip(&other.0).fold(0, |differing, (a, b)| black_box(differing | (a ^ b)));
        differing == 0
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// Why text is no [`Secret`]. The text itself is not repeated, for it may be most of one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SecretError {
    /// Not 32 characters.
    #[error("a job secret has 32 hexadecimal digits, not {got}")]
    Length {
        /// How many there are.
        got: usize,
    },
    /// A character that is no hexadecimal digit.
    #[error("character {position} of the job secret is no hexadecimal digit")]
    Digit {
        /// Which, counted from 1.
        position: usize,
    },
}

impl FromStr for Secret {
    type Err = SecretError;

    /// Reads 32 hexadecimal digits, upper or lower case.
    fn from_str(text: &str) -> Result<Self, SecretError> {
        let mut bytes = [0; 16];
        let got = text.chars().count();
        if got != 2 * bytes.len() {
            return Err(SecretError::Length { got });
        }
        for (i, c) in text.chars().enumerate() {
            let digit = c.to_digit(16).ok_or(SecretError::Digit { position: i + 1 })?;
            bytes[i / 2] = bytes[i / 2] << 4 | digit as u8;
        }
        Ok(Self(bytes))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    pub(crate) fn any_secret() -> impl Strategy<Value = Secret> {
        any::<[u8; 16]>().prop_map(Secret::new)
    }

    const TEXT: &str = "000102030405060708090A0b0c0d0eff";
    const BYTES: [u8; 16] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 255];

    #[test]
    fn hexadecimal_text_is_read() {
        assert_eq!(TEXT.parse::<Secret>().unwrap().bytes(), BYTES);
    }

    #[test]
    fn other_text_is_refused_without_repeating_it() {
        assert_eq!("".parse::<Secret>(), Err(SecretError::Length { got: 0 }));
        assert_eq!(TEXT[1..].parse::<Secret>(), Err(SecretError::Length { got: 31 }));
        assert_eq!(format!("{TEXT}0").parse::<Secret>(), Err(SecretError::Length { got: 33 }));
        let bad = TEXT.replace("ff", "fg");
        assert_eq!(bad.parse::<Secret>(), Err(SecretError::Digit { position: 32 }));
        // As many characters as digits are wanted, but more bytes.
        let bad = TEXT.replace("01", "é1");
        assert_eq!(bad.parse::<Secret>(), Err(SecretError::Digit { position: 3 }));
    }

    #[test]
    fn secrets_differ_by_any_bit() {
        let secret = Secret::new(BYTES);
        assert_eq!(secret, Secret::new(BYTES));
        for bit in 0..128 {
            let mut bytes = BYTES;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_ne!(secret, Secret::new(bytes), "bit {bit}");
        }
    }

    #[test]
    fn debug_text_tells_nothing() {
        assert_eq!(format!("{:?}", Secret::new(BYTES)), "Secret(..)");
    }
}

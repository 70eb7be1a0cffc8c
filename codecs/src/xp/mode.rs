//! The first two bytes of a chunk.

use super::float::Float;
use crate::chunk::ChunkError;

const SIGNED: u8 = 1;
const WIDE: u8 = 2;
const ZERO_MASK: u8 = 4;
const CHANGE_MASK: u8 = 8;
const STORED: u8 = 0x80;

/// What a coded chunk consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Mode {
    /// The sign goes with the exponent.
    pub(super) signed: bool,
    /// The second tier has 3 bits.
    pub(super) wide: bool,
    /// The depth of the mask of non-zero values, where there is one.
    pub(super) zero_mask: Option<u8>,
    /// The depth of the mask of values that differ from the one before, where there is one.
    pub(super) change_mask: Option<u8>,
}

impl Mode {
    /// Length in bytes.
    pub(super) const LEN: usize = 2;

    /// The mode of a chunk whose raw bytes follow.
    pub(super) const STORED: [u8; Self::LEN] = [STORED, 0];

    /// Bytes of a symbol in the table.
    pub(super) const fn symbol_bytes(self, float: Float) -> usize {
        if float.split(self.signed).symbol_bits <= 8 { 1 } else { 2 }
    }

    pub(super) fn to_bytes(self) -> [u8; Self::LEN] {
        let flags = [
            (self.signed, SIGNED),
            (self.wide, WIDE),
            (self.zero_mask.is_some(), ZERO_MASK),
            (self.change_mask.is_some(), CHANGE_MASK),
        ];
        let flags = flags.into_iter().filter(|(set, _)| *set).fold(0, |flags, (_, flag)| flags | flag);
        [flags, self.zero_mask.unwrap_or(0) | self.change_mask.unwrap_or(0) << 4]
    }

    /// The mode in `bytes`; `None` if the raw bytes follow.
    pub(super) fn from_bytes(bytes: &[u8]) -> Result<Option<Self>, ChunkError> {
        if bytes == Self::STORED {
            return Ok(None);
        }
        let (flags, depths) = (bytes[0], bytes[1]);
        let depth = |flag, depth| if flags & flag != 0 { Some(depth) } else { None };
        let mode = Self {
            signed: flags & SIGNED != 0,
            wide: flags & WIDE != 0,
            zero_mask: depth(ZERO_MASK, depths & 3),
            change_mask: depth(CHANGE_MASK, depths >> 4 & 3),
        };
        if mode.to_bytes() != bytes {
            return Err(ChunkError::Mode { flags, depths });
        }
        Ok(Some(mode))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_all_bytes_those_that_an_encoder_writes_are_taken() {
        let mut known = 0;
        for flags in 0..=255 {
            for depths in 0..=255 {
                match Mode::from_bytes(&[flags, depths]) {
                    Ok(None) => assert_eq!([flags, depths], Mode::STORED),
                    Ok(Some(mode)) => {
                        assert_eq!(mode.to_bytes(), [flags, depths]);
                        known += 1;
                    }
                    Err(error) => assert_eq!(error, ChunkError::Mode { flags, depths }),
                }
            }
        }
        // Signed or not, wide or not, each mask absent or at one of four depths.
        assert_eq!(known, 2 * 2 * 5 * 5);
        assert_eq!(Mode::from_bytes(&[0b1110, 0x31]).unwrap().unwrap().change_mask, Some(3));
    }
}

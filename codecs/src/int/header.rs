//! How a chunk is coded, and the bytes that say so.

use super::word::{reversed, rotated_left, rotated_right, truncated, unzigzag, word, word_bits, zigzag};
use crate::chunk::{ChunkError, SectionReader};

/// What is done to differences before they are rotated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Map {
    /// Nothing: words relative to the smallest.
    Identity = 0,
    /// Zigzag: differences of both signs.
    Zigzag = 1,
    /// The bits in reverse order: floats that hold small integers vary in their upper bits.
    Reversed = 2,
}

/// All that a decoder has to know of a chunk before its blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) map: Map,
    /// By how many bits a mapped difference is rotated right.
    pub(super) rotation: u32,
    /// Planes of a patched block.
    pub(super) low_bits: u32,
    /// Distances in words to what a word is predicted from; 0 is none.
    pub(super) lags: [usize; 2],
    /// The word before the first.
    pub(super) base: u64,
}

/// Bytes before the base.
const FIELDS_LEN: usize = 8;

impl Header {
    /// Bytes of the header of a chunk of words of `B` bytes.
    pub(super) const fn len<const B: usize>() -> usize {
        FIELDS_LEN + B
    }

    pub(super) fn write<const B: usize>(&self, coded: &mut [u8]) {
        coded[..4].copy_from_slice(&[self.map as u8, self.rotation as u8, self.low_bits as u8, 0]);
        coded[4..6].copy_from_slice(&(self.lags[0] as u16).to_le_bytes());
        coded[6..8].copy_from_slice(&(self.lags[1] as u16).to_le_bytes());
        coded[FIELDS_LEN..][..B].copy_from_slice(&self.base.to_le_bytes()[..B]);
    }

    pub(super) fn read<const B: usize>(sections: &mut SectionReader<'_>) -> Result<Self, ChunkError> {
        let bytes = sections.take(Self::len::<B>())?;
        let field = |offset: usize, most: u32| {
            let value = u32::from(bytes[offset]);
            if value <= most { Ok(value) } else { Err(ChunkError::Field { offset, value, most }) }
        };
        let map = match field(0, 2)? {
            0 => Map::Identity,
            1 => Map::Zigzag,
            _ => Map::Reversed,
        };
        let rotation = field(1, word_bits::<B>() - 1)?;
        let low_bits = field(2, word_bits::<B>() - 1)?;
        field(3, 0)?;
        let lags = [4, 6].map(|offset| usize::from(u16::from_le_bytes([bytes[offset], bytes[offset + 1]])));
        let base = bytes[FIELDS_LEN..].as_chunks::<B>().0.iter().map(word).sum();
        Ok(Self { map, rotation, low_bits, lags, base })
    }

    /// What is stored for a difference.
    pub(super) const fn residual<const B: usize>(&self, difference: u64) -> u64 {
        let mapped = match self.map {
            Map::Identity => difference,
            Map::Zigzag => zigzag::<B>(difference),
            Map::Reversed => reversed::<B>(difference),
        };
        rotated_right::<B>(mapped, self.rotation)
    }

    /// The inverse of [`residual`](Self::residual).
    pub(super) const fn difference<const B: usize>(&self, residual: u64) -> u64 {
        let mapped = rotated_left::<B>(residual, self.rotation);
        match self.map {
            Map::Identity => mapped,
            Map::Zigzag => unzigzag::<B>(mapped),
            Map::Reversed => reversed::<B>(mapped),
        }
    }

    /// What word `index` is predicted to be, given those before it.
    pub(super) fn prediction<const B: usize>(&self, words: &[[u8; B]], index: usize) -> u64 {
        let before = |lag: usize| index.checked_sub(lag).map_or(self.base, |index| word(&words[index]));
        truncated::<B>(match self.lags {
            [0, 0] => self.base,
            [lag, 0] | [0, lag] => before(lag),
            [a, b] => before(a).wrapping_add(before(b)).wrapping_sub(before(a + b)),
        })
    }
}

//! Sorting the lines of a block by form, so that vector code does one form after the other.
//!
//! Neighbouring lines rarely have the same form; a branch on it would be guessed wrong for most lines. Where
//! the code of each line lies follows from the forms before it, so lines can be done in any order.

use super::{DATA_LENS, FORMS, MASK_LENS};

/// Lines in a block: a line's number fits a byte.
pub(super) const BLOCK_LINES: usize = 256;

/// The lines of one block, sorted by form.
pub(super) struct Plan {
    pub(super) lists: [[u8; BLOCK_LINES]; FORMS],
    pub(super) counts: [usize; FORMS],
    pub(super) mask_at: [u16; BLOCK_LINES],
    pub(super) data_at: [u16; BLOCK_LINES],
}

/// Where one line lies, counted from the start of its block.
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) mask_at: usize,
    pub(super) data_at: usize,
}

impl Plan {
    pub(super) fn new() -> Self {
        Self {
            lists: [[0; BLOCK_LINES]; FORMS],
            counts: [0; FORMS],
            mask_at: [0; BLOCK_LINES],
            data_at: [0; BLOCK_LINES],
        }
    }

    /// Plans the first `lines` of `forms`, at most a block; returns the lengths of their masks and data.
    pub(super) fn fill(&mut self, forms: &[u8], lines: usize) -> (usize, usize) {
        self.counts = [0; FORMS];
        let (mut mask_at, mut data_at) = (0u16, 0u16);
        for line in 0..lines {
            let form = usize::from(forms[line / 2] >> (4 * (line % 2)) & 0xf);
            self.mask_at[line] = mask_at;
            self.data_at[line] = data_at;
            mask_at += u16::from(MASK_LENS[form]);
            data_at += u16::from(DATA_LENS[form]);
            self.lists[form][self.counts[form]] = line as u8;
            self.counts[form] += 1;
        }
        (mask_at.into(), data_at.into())
    }

    /// The lines of `form`.
    pub(super) fn places(&self, form: u8) -> impl Iterator<Item = Place> {
        let form = usize::from(form);
        self.lists[form][..self.counts[form]].iter().map(|&line| {
            let line = usize::from(line);
            Place { line, mask_at: self.mask_at[line].into(), data_at: self.data_at[line].into() }
        })
    }
}

/// The number in up to eight little-endian bytes.
#[inline(always)]
pub(super) fn number(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

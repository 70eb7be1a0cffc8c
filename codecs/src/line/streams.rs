//! The data sections of an FPC or C-Pack+Z chunk: what belongs to the tags, sorted by width.
//!
//! Words, then halfwords, then bytes, then 4-bit fields, so that each stands on a multiple of its own width.
//! Every section holds its fields in the order of the lines, and in a line in the order of the words; a
//! decoder that has counted the tags before a line knows where in each section its data starts.

use crate::chunk::{ChunkError, SectionReader, SectionWriter};
use crate::packed::{PackedWriter, packed_field, packed_len, packed_tail_is_zero};

#[derive(Default)]
pub(crate) struct StreamWriter {
    words: Vec<u8>,
    halves: Vec<u8>,
    bytes: Vec<u8>,
    nibbles: PackedWriter<4>,
}

impl StreamWriter {
    pub(crate) fn word(&mut self, word: u32) {
        self.words.extend_from_slice(&word.to_le_bytes());
    }

    pub(crate) fn line(&mut self, line: &super::Line) {
        self.words.extend_from_slice(line);
    }

    pub(crate) fn half(&mut self, half: u16) {
        self.halves.extend_from_slice(&half.to_le_bytes());
    }

    pub(crate) fn byte(&mut self, byte: u8) {
        self.bytes.push(byte);
    }

    pub(crate) fn nibble(&mut self, nibble: u8) {
        self.nibbles.push(nibble);
    }

    pub(crate) fn write(&self, out: &mut SectionWriter<'_>) {
        out.align(4);
        out.put(&self.words);
        out.put(&self.halves);
        out.put(&self.bytes);
        out.put(self.nibbles.bytes());
    }
}

/// How many fields of each width were taken so far, or are there in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taken {
    pub(crate) words: usize,
    pub(crate) halves: usize,
    pub(crate) bytes: usize,
    pub(crate) nibbles: usize,
}

impl Taken {
    pub(crate) const NONE: Self = Self { words: 0, halves: 0, bytes: 0, nibbles: 0 };

    /// What the fields take, without any padding.
    pub(crate) const fn bits(&self) -> u64 {
        32 * self.words as u64 + 16 * self.halves as u64 + 8 * self.bytes as u64 + 4 * self.nibbles as u64
    }

    /// Where the four sections end if the one before them ends at byte `start`.
    pub(crate) const fn end(&self, start: usize) -> usize {
        start.next_multiple_of(4)
            + 4 * self.words
            + 2 * self.halves
            + self.bytes
            + packed_len::<4>(self.nibbles)
    }
}

/// Hands out fields in order. Never runs dry: it was built from a count of all tags.
pub(crate) struct StreamReader<'a> {
    pub(super) words: &'a [[u8; 4]],
    pub(super) halves: &'a [[u8; 2]],
    pub(super) bytes: &'a [u8],
    pub(super) nibbles: &'a [u8],
    taken: Taken,
}

impl<'a> StreamReader<'a> {
    /// Takes the four sections for `total` fields, which must be all that the chunk still holds.
    pub(crate) fn read(mut sections: SectionReader<'a>, total: Taken) -> Result<Self, ChunkError> {
        sections.align(4)?;
        let words = sections.take(4 * total.words)?.as_chunks().0;
        let halves = sections.take(2 * total.halves)?.as_chunks().0;
        let bytes = sections.take(total.bytes)?;
        let nibbles = sections.take(packed_len::<4>(total.nibbles))?;
        if !packed_tail_is_zero::<4>(nibbles, total.nibbles) {
            return Err(ChunkError::Padding { offset: sections.offset() });
        }
        sections.finish()?;
        Ok(Self { words, halves, bytes, nibbles, taken: Taken::default() })
    }

    pub(crate) fn word(&mut self) -> u32 {
        self.taken.words += 1;
        self.word_at(self.taken.words - 1)
    }

    /// The word at `index`, counted from the start of the section.
    pub(crate) fn word_at(&self, index: usize) -> u32 {
        u32::from_le_bytes(self.words[index])
    }

    pub(crate) fn line(&mut self) -> super::Line {
        super::from_words(&std::array::from_fn(|_| self.word()))
    }

    pub(crate) fn half(&mut self) -> u16 {
        self.taken.halves += 1;
        u16::from_le_bytes(self.halves[self.taken.halves - 1])
    }

    pub(crate) fn byte(&mut self) -> u8 {
        self.taken.bytes += 1;
        self.bytes[self.taken.bytes - 1]
    }

    pub(crate) fn nibble(&mut self) -> u8 {
        self.taken.nibbles += 1;
        packed_field::<4>(self.nibbles, self.taken.nibbles - 1)
    }

    pub(crate) fn taken(&self) -> Taken {
        self.taken
    }
}

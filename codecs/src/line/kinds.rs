//! What kind of line each line is: the first section of an FPC or C-Pack+Z chunk.
//!
//! Two bit strings, each padded to a byte: one bit per line (set = coded), then one bit per line that is
//! *not* coded (set = raw, clear = zero). A coded line so costs one bit on top of its size in Table II, the
//! others at most two.

use super::line_count;
use crate::chunk::{ChunkError, SectionReader, SectionWriter};
use crate::packed::{PackedWriter, packed_field, packed_len, packed_tail_is_zero};

/// How a line is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Nothing is stored: all 64 bytes are zero.
    Zero,
    /// Word prefixes and their data.
    Coded,
    /// Its 16 words, as they are.
    Raw,
}

#[derive(Default)]
pub(crate) struct KindWriter {
    coded: PackedWriter<1>,
    raw: PackedWriter<1>,
}

impl KindWriter {
    pub(crate) fn push(&mut self, kind: Kind) {
        self.coded.push(u8::from(kind == Kind::Coded));
        if kind != Kind::Coded {
            self.raw.push(u8::from(kind == Kind::Raw));
        }
    }

    pub(crate) fn write(&self, out: &mut SectionWriter<'_>) {
        out.put(self.coded.bytes());
        out.put(self.raw.bytes());
    }
}

/// The bytes that the kinds of `lines` lines take, `coded` of which are coded.
pub(crate) const fn kinds_len(lines: usize, coded: usize) -> usize {
    packed_len::<1>(lines) + packed_len::<1>(lines - coded)
}

/// The kinds of all lines of a chunk, read back.
pub(crate) struct KindReader<'a> {
    pub(super) lines: usize,
    coded_lines: usize,
    pub(super) coded: &'a [u8],
    pub(super) raw: &'a [u8],
}

impl<'a> KindReader<'a> {
    /// Reads the section for a chunk of `raw_len` bytes.
    pub(crate) fn read(sections: &mut SectionReader<'a>, raw_len: usize) -> Result<Self, ChunkError> {
        let lines = line_count(raw_len);
        let coded = take_bits(sections, lines)?;
        let coded_lines = coded.iter().map(|byte| byte.count_ones() as usize).sum();
        let raw = take_bits(sections, lines - coded_lines)?;
        Ok(Self { lines, coded_lines, coded, raw })
    }

    pub(crate) fn coded_lines(&self) -> usize {
        self.coded_lines
    }

    pub(crate) fn raw_lines(&self) -> usize {
        self.raw.iter().map(|byte| byte.count_ones() as usize).sum()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = Kind> + '_ {
        let mut uncoded = 0;
        (0..self.lines).map(move |line| {
            if packed_field::<1>(self.coded, line) == 1 {
                return Kind::Coded;
            }
            uncoded += 1;
            if packed_field::<1>(self.raw, uncoded - 1) == 1 { Kind::Raw } else { Kind::Zero }
        })
    }
}

fn take_bits<'a>(sections: &mut SectionReader<'a>, bits: usize) -> Result<&'a [u8], ChunkError> {
    let section = sections.take(packed_len::<1>(bits))?;
    if packed_tail_is_zero::<1>(section, bits) {
        Ok(section)
    } else {
        Err(ChunkError::Padding { offset: sections.offset() })
    }
}

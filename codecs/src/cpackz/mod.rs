//! C-Pack with zero lines: 32-bit words against a dictionary of the line's own earlier words.
//!
//! # Layout of a chunk of *n* lines
//! | section | length in bytes | content |
//! |---|---|---|
//! | coded | ⌈n / 8⌉ | one bit per line, set = coded |
//! | raw | ⌈u / 8⌉, u = lines not coded | one bit per line that is not coded, set = raw, clear = all zero |
//! | padding | 0–1 | zero, up to a multiple of 2 |
//! | codes | 4 per coded line | two 16-bit planes: bit i of plane p = bit p of the code of word i |
//! | sub-codes | 2 bits per code 3, padded to a byte | the second half of a 4-bit prefix |
//! | padding | 0–3 | zero, up to a multiple of 4 |
//! | words | 4 each | new words, and the 16 words of each raw line |
//! | halfwords | 2 each | low halfwords, sub-code 1 |
//! | bytes | 1 each | low bytes, sub-codes 2 and 3 |
//! | indices | ½ each, padded to a byte | dictionary index, sub-codes 0, 1 and 3 |
//!
//! | code | sub-code | word | data |
//! |---|---|---|---|
//! | 1 | – | zero | – |
//! | 2 | – | new: it joins the dictionary | the word |
//! | 3 | 0 | equals a dictionary word | index |
//! | 3 | 1 | upper halfword equals a dictionary word's | index, low halfword |
//! | 3 | 2 | upper three bytes zero | low byte |
//! | 3 | 3 | upper three bytes equal a dictionary word's | index, low byte |
//!
//! Code 0 has no meaning in a coded line. Only new words join the dictionary, and new words are stored in
//! order; so dictionary entry *k* of a line is the *k*-th word that the line has in the words section, and
//! no word has to wait for another to be decoded.
//!
//! # Source
//! IPDPS 2019, Table II; Chen et al., TVLSI 2010. A word is tried as zero, equal, one byte, three bytes
//! equal, halfword equal, new: fewest bits first. (Among equal matches the lowest index would win, but there
//! is never a second: a word joins only if no entry shares its upper halfword.)

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod plan;
mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::line::{LINE_LEN, OVERSHOOT, Taken, kinds_len, line_count};
use crate::packed::packed_len;
use crate::{Algorithm, Codec, Cpu, Element};

pub use portable::line_bits;

/// The C-Pack+Z codec. Elements do not matter to it.
#[derive(Clone, Copy, Debug)]
pub struct CpackZ {
    cpu: Cpu,
}

/// What the lines of a chunk add up to.
#[derive(Clone, Copy, Debug)]
struct Totals {
    lines: usize,
    coded_lines: usize,
    raw_lines: usize,
    /// Words with a sub-code.
    extended: usize,
    /// Fields in each of the data sections.
    fields: Taken,
}

/// Bytes that the codes of a line take.
const PLANES_LEN: usize = 4;

impl Totals {
    fn of_lines_in(raw: &[u8]) -> Self {
        let lines = line_count(raw.len());
        Self { lines, coded_lines: 0, raw_lines: 0, extended: 0, fields: Taken::NONE }
    }

    fn chunk_len(&self) -> usize {
        let planes_start = kinds_len(self.lines, self.coded_lines).next_multiple_of(2);
        let subcodes_start = planes_start + PLANES_LEN * self.coded_lines;
        self.fields.end(subcodes_start + packed_len::<2>(self.extended))
    }

    fn paper_bits(&self) -> u64 {
        // A raw line is its 16 words, 512 bits, in the words section.
        let zero_lines = self.lines - self.coded_lines - self.raw_lines;
        let codes = 2 * zero_lines + 16 * 2 * self.coded_lines + 2 * self.extended;
        codes as u64 + self.fields.bits()
    }
}

impl CpackZ {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }

    /// The size of `raw` in bits as the paper counts it: the sum of [`line_bits`] over its lines.
    #[must_use]
    pub fn paper_bits(self, raw: &[u8]) -> u64 {
        self.totals(raw).paper_bits()
    }

    fn totals(self, raw: &[u8]) -> Totals {
        match self.cpu {
            Cpu::Portable => portable::totals(raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::totals(cpu, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::totals(cpu, raw),
        }
    }
}

impl Codec for CpackZ {
    fn algorithm(&self) -> Algorithm {
        Algorithm::CpackZ
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        // Two kind bits at most, and no coded line takes more than a raw one.
        let lines = line_count(raw_len);
        (2 * lines.div_ceil(8) + 1 + 1 + 3 + 1 + lines * LINE_LEN + OVERSHOOT).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, _: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::encode(raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::encode(cpu, raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::encode(cpu, raw, coded),
        }
    }

    fn chunk_len(&self, _: Element, raw: &[u8]) -> usize {
        self.totals(raw).chunk_len()
    }

    fn decode_chunk(&self, _: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        match self.cpu {
            Cpu::Portable => portable::decode(coded, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode(cpu, coded, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode(cpu, coded, raw),
        }
    }
}

//! Frequent pattern compression: a 3-bit prefix per 32-bit word, and as much of the word as the prefix leaves.
//!
//! # Layout of a chunk of *n* lines
//! | section | length in bytes | content |
//! |---|---|---|
//! | coded | ⌈n / 8⌉ | one bit per line, set = coded |
//! | raw | ⌈u / 8⌉, u = lines not coded | one bit per line that is not coded, set = raw, clear = all zero |
//! | padding | 0–1 | zero, up to a multiple of 2 |
//! | prefixes | 6 per coded line | three 16-bit planes: bit i of plane p = bit p of the prefix of word i |
//! | padding | 0–2 | zero, up to a multiple of 4 |
//! | words | 4 each | unmatched words, and the 16 words of each raw line |
//! | halfwords | 2 each | data of prefixes 5, 6 and 7 |
//! | bytes | 1 each | data of prefixes 2 and 4 |
//! | 4-bit fields | ½ each, padded to a byte | data of prefix 3 |
//!
//! | prefix | word | data |
//! |---|---|---|
//! | 0 | matches nothing | the word |
//! | 1 | zero | – |
//! | 2 | four equal bytes | the byte |
//! | 3 | 4-bit value, sign-extended | its 4 bits |
//! | 4 | 8-bit value, sign-extended | its 8 bits |
//! | 5 | 16-bit value, sign-extended | its 16 bits |
//! | 6 | low halfword zero | the high halfword |
//! | 7 | two halfwords, each an 8-bit value sign-extended | low byte of each, the low halfword's first |
//!
//! # Source
//! IPDPS 2019, Table II; Alameldeen and Wood, 2004. Prefix 0 means "unmatched" inside a coded line, since
//! all-zero lines are told apart at line level; the paper leaves such a word without a code.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod plan;
mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::line::{LINE_LEN, OVERSHOOT, Taken, kinds_len, line_count};
use crate::{Algorithm, Codec, Cpu, Element};

pub use portable::line_bits;

/// The FPC codec. Elements do not matter to it.
#[derive(Clone, Copy, Debug)]
pub struct Fpc {
    cpu: Cpu,
}

/// What the lines of a chunk add up to.
#[derive(Clone, Copy, Debug)]
struct Totals {
    lines: usize,
    coded_lines: usize,
    raw_lines: usize,
    /// Fields in each of the data sections.
    fields: Taken,
}

/// Bytes that the prefixes of a line take.
const PLANES_LEN: usize = 6;

impl Totals {
    fn of_lines_in(raw: &[u8]) -> Self {
        Self { lines: line_count(raw.len()), coded_lines: 0, raw_lines: 0, fields: Taken::NONE }
    }

    fn chunk_len(&self) -> usize {
        let planes_start = kinds_len(self.lines, self.coded_lines).next_multiple_of(2);
        self.fields.end(planes_start + PLANES_LEN * self.coded_lines)
    }

    fn paper_bits(&self) -> u64 {
        // A raw line is its 16 words, 512 bits, in the words section.
        let zero_lines = self.lines - self.coded_lines - self.raw_lines;
        3 * zero_lines as u64 + 16 * 3 * self.coded_lines as u64 + self.fields.bits()
    }
}

impl Fpc {
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

impl Codec for Fpc {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Fpc
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        // Two kind bits at most, and no coded line takes more than a raw one.
        let lines = line_count(raw_len);
        (2 * lines.div_ceil(8) + 2 + 4 + 1 + lines * LINE_LEN + OVERSHOOT).next_multiple_of(CHUNK_ALIGN)
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

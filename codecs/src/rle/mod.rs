//! Run-length encoding: control bytes that count zero elements or literal ones, then the literals.
//!
//! # Layout of a chunk of *e* whole elements of *w* bytes and a tail of *t* < *w* bytes
//! | section | length in bytes | content |
//! |---|---|---|
//! | count | 4 | the number of control bytes, u32 |
//! | controls | count | one byte per run; their lengths add up to e |
//! | padding | 0 to w − 1 | zero, up to a multiple of w |
//! | literals | w · elements of literal runs | those elements in order |
//! | tail | t | what is left of the chunk, as it is |
//!
//! A control byte holds the run's length − 1 in bits 0–6; bit 7 is set for literals, clear for zeros. Controls
//! stand apart from the literals, so sums over them tell where each run starts on both sides, and no run
//! waits for another.
//!
//! # Encoder
//! A *stretch* of zeros is as many zero elements next to each other as there are, and counts only if it takes
//! more than two bytes: 3 elements of one byte, 2 of two bytes, 1 of four or eight. To leave a literal run and
//! come back costs two control bytes, so a shorter stretch stays in the literals. Each stretch of zeros, and each
//! stretch of elements between two of them, is cut into runs of 128 elements; its last run has the rest.
//!
//! "Zero" means that all bits are zero: −0.0 is a literal.
//!
//! # Source
//! HPCA 2018 (compressing DMA engine), section V, which compares ZVC with it; the byte is ours.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Cpu, Element};

/// The RLE codec, for elements of 8, 16, 32 and 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Rle {
    cpu: Cpu,
}

/// Bytes that hold the number of control bytes.
const COUNT_LEN: usize = 4;
/// Elements in the longest run.
const MAX_RUN: usize = 128;
/// The bit of a control byte that says literals.
const LITERALS: u8 = 0x80;

/// Zero elements of `W` bytes that make a stretch: the fewest that take more than two bytes.
const fn min_zeros<const W: usize>() -> usize {
    2 / W + 1
}

impl Rle {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }

    fn encode<const W: usize>(self, raw: &[u8], coded: &mut [u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::encode::<W>(raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::encode::<W>(cpu, raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::encode::<W>(cpu, raw, coded),
        }
    }

    fn len<const W: usize>(self, raw: &[u8]) -> usize {
        let counts = match self.cpu {
            Cpu::Portable => portable::count::<W>(raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::count::<W>(cpu, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::count::<W>(cpu, raw),
        };
        (COUNT_LEN + counts.controls).next_multiple_of(W) + W * counts.literals + raw.len() % W
    }

    fn decode<const W: usize>(self, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        let sections = portable::sections::<W>(coded, raw.len())?;
        match self.cpu {
            Cpu::Portable => portable::decode::<W>(sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode::<W>(cpu, sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode::<W>(cpu, sections, raw),
        }
        Ok(())
    }
}

/// What a chunk consists of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    /// Control bytes.
    controls: usize,
    /// Elements in literal runs.
    literals: usize,
}

impl Codec for Rle {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Rle
    }

    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
        let width = element.width_bytes();
        let controls = (raw_len / width).div_ceil(MAX_RUN);
        // Whole vectors are stored where the last elements or controls go.
        ((COUNT_LEN + controls).next_multiple_of(width) + raw_len + 64).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        match element.width_bytes() {
            1 => self.encode::<1>(raw, coded),
            2 => self.encode::<2>(raw, coded),
            4 => self.encode::<4>(raw, coded),
            _ => self.encode::<8>(raw, coded),
        }
    }

    fn chunk_len(&self, element: Element, raw: &[u8]) -> usize {
        match element.width_bytes() {
            1 => self.len::<1>(raw),
            2 => self.len::<2>(raw),
            4 => self.len::<4>(raw),
            _ => self.len::<8>(raw),
        }
    }

    fn overhead_len(&self, _: Element) -> usize {
        COUNT_LEN
    }

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        match element.width_bytes() {
            1 => self.decode::<1>(coded, raw),
            2 => self.decode::<2>(coded, raw),
            4 => self.decode::<4>(coded, raw),
            _ => self.decode::<8>(coded, raw),
        }
    }
}

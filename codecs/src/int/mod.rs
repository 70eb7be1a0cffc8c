//! Integers, indices and fields: differences in bit-planes, with patches for what stands out.
//!
//! # Layout of a chunk of *n* words of *w* bytes (the element's width) and a tail of *t* < *w* bytes
//! | section | length in bytes | content |
//! |---|---|---|
//! | header | 8 + w | see below |
//! | codes | ⌈n / 32⌉; for w = 1 ⌈⌈n / 32⌉ / 2⌉ | the form of each block of 32 words: a byte, for w = 1 half a byte |
//! | padding | 0–3 | zero, up to a multiple of 4 |
//! | planes | 4 · sum of the planes column | plane after plane, block after block; bits past the last word are zero |
//! | patches | sum of the patches column | block after block, in the order of the words |
//! | tail | t | what is left of the chunk, as it is |
//!
//! | byte of the header | field |
//! |---|---|
//! | 0 | map: 0 identity, 1 zigzag, 2 bits reversed |
//! | 1 | rotation, less than 8w |
//! | 2 | low bits *c*, less than 8w |
//! | 3 | 0 |
//! | 4–5, 6–7 | lags *a* and *b* in words; 0 is none |
//! | 8 … | base, a word |
//!
//! | code | planes | patches |
//! |---|---|---|
//! | *p* ≤ 8w | p: bit 0 to p − 1 of each residual | |
//! | 8w + *k*, 1 ≤ k ≤ w | c + 1: bits 0 to c − 1, then a mark | k bytes for each marked residual: its bits from c on |
//!
//! A *residual* is a difference between a word and its prediction, modulo 2 to the word's bits, mapped, then
//! rotated right. The prediction of word x\[i\] is the base without lags, x\[i − a\] with one, and
//! x\[i − a\] + x\[i − b\] − x\[i − a − b\] with two. Words before the first are the base.
//!
//! # Source
//! Own design. Delta coding in bit-planes as in BPC (ISCA 2016), patches as in PFOR (ICDE 2006), the two-lag
//! prediction is Lorenzo's (2003) in two dimensions.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod header;
mod layout;
mod plan;
mod portable;
mod word;

use crate::chunk::ChunkError;
use crate::{Algorithm, Codec, Cpu, Element};

/// The codec for integers, indices and fields.
#[derive(Clone, Copy, Debug)]
pub struct Int {
    cpu: Cpu,
}

/// Words per block.
const BLOCK: usize = 32;

impl Int {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }

    fn encode<const B: usize>(self, raw: &[u8], coded: &mut [u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::encode::<B>(raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::encode::<B>(cpu, raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::encode::<B>(cpu, raw, coded),
        }
    }

    fn len<const B: usize>(self, raw: &[u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::len::<B>(raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::len::<B>(cpu, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::len::<B>(cpu, raw),
        }
    }

    fn decode<const B: usize>(self, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        let sections = layout::sections::<B>(coded, raw.len())?;
        match self.cpu {
            Cpu::Portable => portable::decode::<B>(&sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode::<B>(cpu, &sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode::<B>(cpu, &sections, raw),
        }
        Ok(())
    }
}

impl Codec for Int {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Int
    }

    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
        match element.width_bytes() {
            1 => layout::room::<1>(raw_len),
            2 => layout::room::<2>(raw_len),
            4 => layout::room::<4>(raw_len),
            _ => layout::room::<8>(raw_len),
        }
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

    fn overhead_len(&self, element: Element) -> usize {
        8 + element.width_bytes()
    }

    fn asks_ahead(&self) -> bool {
        self.cpu != Cpu::Portable
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

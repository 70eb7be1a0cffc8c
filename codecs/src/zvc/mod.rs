//! Zero-value compression: a mask of the non-zero elements, then those elements.
//!
//! # Layout of a chunk of *e* whole elements of *w* bytes and a tail of *t* < *w* bytes
//! | section | length in bytes | content |
//! |---|---|---|
//! | masks | 4 · ⌈e / 32⌉ | bit i of mask k = element 32k + i is not zero; bits past the last element are zero |
//! | padding | 0 or 4 | zero, up to a multiple of 8 |
//! | elements | w · number of set bits | the non-zero elements in order |
//! | tail | t | what is left of the chunk, as it is |
//!
//! "Zero" means that all bits are zero: −0.0 is kept.
//!
//! # Source
//! HPCA 2018 (compressing DMA engine), section V: windows of 32 elements.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Cpu, Element};

/// The ZVC codec, for elements of 8, 16, 32 and 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Zvc {
    cpu: Cpu,
}

/// Elements per mask.
const WINDOW: usize = 32;

impl Zvc {
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
        let kept = match self.cpu {
            Cpu::Portable => portable::non_zeros::<W>(raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::non_zeros::<W>(cpu, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::non_zeros::<W>(cpu, raw),
        };
        masks_len::<W>(raw.len()).next_multiple_of(8) + W * kept + raw.len() % W
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

/// Length of the masks in bytes.
const fn masks_len<const W: usize>(raw_len: usize) -> usize {
    4 * (raw_len / W).div_ceil(WINDOW)
}

/// Bytes of mask for one vector of 64 bytes.
#[cfg(target_arch = "x86_64")]
const fn mask_len<const W: usize>() -> usize {
    8 / W
}

/// The number in up to eight little-endian bytes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn mask_of(bytes: &[u8]) -> u64 {
    let mut wide = [0; 8];
    wide[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(wide)
}

impl Codec for Zvc {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Zvc
    }

    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
        let masks = 4 * (raw_len / element.width_bytes()).div_ceil(WINDOW);
        // Whole vectors are stored where the non-zero elements of one go.
        (masks.next_multiple_of(8) + raw_len + 64).next_multiple_of(CHUNK_ALIGN)
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

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        match element.width_bytes() {
            1 => self.decode::<1>(coded, raw),
            2 => self.decode::<2>(coded, raw),
            4 => self.decode::<4>(coded, raw),
            _ => self.decode::<8>(coded, raw),
        }
    }
}

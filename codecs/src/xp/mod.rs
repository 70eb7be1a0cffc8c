//! Floats without loss: few bits for the exponents that are common, all other bits as they are.
//!
//! # Layout of a chunk of *e* whole elements of *w* bytes and a tail of *t* < *w* bytes
//! A value falls into a *symbol* and a *rest*. Unsigned, the value is rotated left by one within its own
//! bits, so that the sign is the lowest bit; the symbol is the exponent on top, the rest what is below.
//! Signed, the symbol is sign and exponent of the value as it is.
//!
//! | section | length in bytes | content |
//! |---|---|---|
//! | mode | 2 | byte 0: bit 0 signed, bit 1 wide, bit 2 zero mask, bit 3 change mask; byte 1: depth of the zero mask in bits 0–1, of the change mask in bits 4–5 |
//! | zero mask | if there is one | bit i = element i is not zero |
//! | change mask | if there is one | bit i = the i-th non-zero element differs from the one before it, the first from 0 |
//! | table | 13, wide 17; twice that if symbols have over 8 bits | the symbols of the codes 0–2, of 0–2 or wide 0–6, of 0–6 in tiers 1, 2, 3 |
//! | padding | 0–7 | zero, up to a multiple of 8 |
//! | tier 1 | 2 bits each | per value left a code, 3 = escape to tier 2 |
//! | rests | s − symbol bits each | |
//! | tier 2 | 2 bits each, wide 3 | per escape of tier 1 a code, 3 or wide 7 = escape to tier 3 |
//! | tier 3 | 3 bits each | per escape of tier 2 a code, 7 = symbol without a code |
//! | symbols | symbol bits each | per escape of tier 3 |
//! | tail | t | what is left of the chunk, as it is |
//!
//! The six sections from tier 1 to symbols are columns: whole low bytes, then planes of one bit per number.
//! "Values left" are all elements, or the non-zero ones, and of these the changed ones, as the masks say. If
//! none is left, there is no table, no padding and no column. Mode bytes 80 00 mean that the raw bytes
//! follow.
//!
//! "Zero" means that all bits are zero: −0.0 is a value like others. Nothing is ever computed with floats.

// What only the vector code uses is dead where there is none.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code))]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod column;
mod float;
mod mask;
mod mode;
mod portable;
mod table;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Cpu, Element, Isa};
use mode::Mode;

/// The XP codec. An integer counts as the float of its width: `u8` as `f8e4m3`, `u16` as `bf16`.
#[derive(Clone, Copy, Debug)]
pub struct Xp {
    cpu: Cpu,
}

impl Xp {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }
}

impl Codec for Xp {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Xp
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        // No code is longer than mode and raw bytes. Vector code writes masks, table, first codes and rests
        // before it looks: at most a bit and a bit per value, 41 bytes, two bits and at most the value
        // without two, all rounded up; and stores whole vectors.
        (Mode::LEN + raw_len + 512).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::encode(element, raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => vector::encode(cpu, self, element, raw, coded),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => vector::encode(cpu, self, element, raw, coded),
        }
    }

    fn chunk_len(&self, element: Element, raw: &[u8]) -> usize {
        match self.cpu {
            Cpu::Portable => portable::chunk_len(element, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => vector::chunk_len(cpu, element, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => vector::chunk_len(cpu, element, raw),
        }
    }

    fn overhead_len(&self, element: Element) -> usize {
        // Mode, table and padding of a chunk that has values.
        if element == Element::F64 || element == Element::U64 { 32 } else { 16 }
    }

    fn asks_ahead(&self) -> bool {
        self.cpu.isa() == Isa::Avx512
    }

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        match self.cpu {
            Cpu::Portable => portable::decode(element, coded, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => vector::decode(cpu, element, coded, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => vector::decode(cpu, element, coded, raw),
        }
    }
}

//! Bit-plane compression: differences of neighbours, turned into planes of bits, most of which are simple.
//!
//! An *entry* is 128 bytes = 32 words of 32 bits; the last one of a chunk is filled up with zeros. The element
//! does not matter. Its 31 differences of consecutive words, as two's complement of 33 bits, are transposed into
//! 33 planes of 31 bits: bit i of plane p (*DBP*) is bit p of difference i. *DBX* of plane 32 is its DBP, that of
//! each other plane its DBP xor the DBP of the plane above.
//!
//! # Layout of a chunk of *n* entries
//! | section | length in bytes | content |
//! |---|---|---|
//! | sizes | n | one byte per entry: the bytes it takes in the next section, 0 to 128 |
//! | entries | sum of the sizes | entry after entry |
//!
//! | size | entry | content |
//! |---|---|---|
//! | 0 | all zero | |
//! | 1–127 | coded | codes, then planes, then 0–7 unused bits, which are zero |
//! | 128 | raw | the 128 bytes |
//!
//! *Codes*: that of the first word, then those of the planes from 32 down to 0. Codes stand here in the order of
//! the stream, the first bit lowest; a number in them has its least significant bit first.
//!
//! | first word | code | bits | | DBX | code | bits |
//! |---|---|---|---|---|---|---|
//! | zero | `000` | 3 | | zero, as are 1–32 planes below | `01` + planes − 2 in 5 | 7 |
//! | 4-bit value, sign-extended | `001` + value | 7 | | zero | `001` | 3 |
//! | 8-bit value, sign-extended | `010` + value | 11 | | all ones | `00000` | 5 |
//! | 16-bit value, sign-extended | `011` + value | 19 | | not zero, and the DBP is | `00001` | 5 |
//! | any other | `1` + word | 33 | | two ones next to each other | `00010` + index of the lower in 5 | 10 |
//! | | | | | a single one | `00011` + its index in 5 | 10 |
//! | | | | | any other | `1` | 1 |
//!
//! *Planes*: the DBX of each plane of code `1`, 31 bits, in the order of the codes.
//!
//! The first row that fits is the code, and runs are as long as can be. The sizes of the rows and of an entry are
//! those of the paper; that the 31 bits of code `1` stand behind all codes makes runs of it runs of ones, and puts
//! the planes, which are most of the bits, where their place follows from a count. An entry that would take 128
//! bytes is stored raw. Sums of the sizes tell where each entry starts.
//!
//! # Source
//! Kim et al., ISCA 2016; ISCA 2020 (buddy compression), which uses it for memory entries of 128 bytes.

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod portable;
mod string;
mod symbol;
#[cfg(target_arch = "x86_64")]
mod vector;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Cpu, Element};

/// Bytes in an entry.
pub const ENTRY_LEN: usize = 128;
/// What an entry costs that is not compressed, in bits.
pub const RAW_ENTRY_BITS: u32 = 1024;

/// One entry.
pub type Entry = [u8; ENTRY_LEN];

/// The size of `entry` in bits, at most [`RAW_ENTRY_BITS`]. No framing is counted.
#[must_use]
pub fn entry_bits(entry: &Entry) -> u32 {
    portable::code_bits(entry).min(RAW_ENTRY_BITS)
}

/// The BPC codec. Elements do not matter to it.
#[derive(Clone, Copy, Debug)]
pub struct Bpc {
    cpu: Cpu,
}

/// Words in an entry, and differences between them.
const WORDS: usize = ENTRY_LEN / 4;
const DELTAS: usize = WORDS - 1;
/// Bits in a difference.
const PLANES: usize = 33;
/// A plane of ones.
const ALL_ONES: u32 = u32::MAX >> 1;

impl Bpc {
    /// The codec on `cpu`.
    #[must_use]
    pub const fn on(cpu: Cpu) -> Self {
        Self { cpu }
    }
}

impl Codec for Bpc {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Bpc
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        let entries = raw_len.div_ceil(ENTRY_LEN);
        // Whole vectors are stored where the last entry's planes go.
        (entries * (1 + ENTRY_LEN) + 128).next_multiple_of(CHUNK_ALIGN)
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
        match self.cpu {
            Cpu::Portable => portable::chunk_len(raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::chunk_len(cpu, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::chunk_len(cpu, raw),
        }
    }

    fn writes_steadily(&self) -> bool {
        true
    }

    fn decode_chunk(&self, _: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        let sections = portable::sections(coded, raw.len())?;
        match self.cpu {
            Cpu::Portable => portable::decode(&sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx2(cpu) => avx2::decode(cpu, &sections, raw),
            #[cfg(target_arch = "x86_64")]
            Cpu::Avx512(cpu) => avx512::decode(cpu, &sections, raw),
        }
    }
}

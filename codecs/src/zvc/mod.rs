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

mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::{Algorithm, Codec, Element};

/// The ZVC codec, for elements of 8, 16, 32 and 64 bits.
#[derive(Clone, Copy, Debug)]
pub struct Zvc;

/// Elements per mask.
const WINDOW: usize = 32;

impl Codec for Zvc {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Zvc
    }

    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
        let masks = 4 * (raw_len / element.width_bytes()).div_ceil(WINDOW);
        (masks.next_multiple_of(8) + raw_len).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        match element.width_bytes() {
            1 => portable::encode::<1>(raw, coded),
            2 => portable::encode::<2>(raw, coded),
            4 => portable::encode::<4>(raw, coded),
            _ => portable::encode::<8>(raw, coded),
        }
    }

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        match element.width_bytes() {
            1 => portable::decode::<1>(coded, raw),
            2 => portable::decode::<2>(coded, raw),
            4 => portable::decode::<4>(coded, raw),
            _ => portable::decode::<8>(coded, raw),
        }
    }
}

//! Base-delta-immediate: a line as one base and short differences from it.
//!
//! # Layout of a chunk of *n* lines
//! | section | length in bytes | content |
//! |---|---|---|
//! | forms | ⌈n / 2⌉ | 4 bits per line, line 2k in the low half of byte k; an unused half is zero |
//! | masks | sum of the mask column | for each base+delta line one bit per element, set = explicit base |
//! | padding | 0–3 | zero, up to a multiple of 4 |
//! | data | sum of the data column | line after line |
//!
//! | form | line | mask bytes | data bytes |
//! |---|---|---|---|
//! | 0 | all zero | 0 | 0 |
//! | 1 | eight equal 64-bit words | 0 | 8: the word |
//! | 2 | base 8, delta 1 | 1 | 16: base, then 8 deltas |
//! | 3 | base 8, delta 2 | 1 | 24 |
//! | 4 | base 8, delta 4 | 1 | 40 |
//! | 5 | base 4, delta 1 | 2 | 20: base, then 16 deltas |
//! | 6 | base 4, delta 2 | 2 | 36 |
//! | 7 | base 2, delta 1 | 4 | 34: base, then 32 deltas |
//! | 8 | raw | 0 | 64 |
//!
//! An element whose mask bit is clear is its delta, sign-extended; one whose bit is set is base + delta, the
//! delta unsigned. Lengths follow from the forms, so all lines of a chunk can be decoded at once.
//!
//! # Source
//! IPDPS 2019, Table II; Pekhimenko et al., PACT 2012. The choice of the base is ours: the smallest element
//! that is no short signed number, so that its deltas need no sign.

mod portable;

use crate::chunk::{CHUNK_ALIGN, ChunkError};
use crate::line::{LINE_LEN, line_count};
use crate::{Algorithm, Codec, Element};

pub use portable::line_bits;

/// The BDI codec. Elements do not matter to it.
#[derive(Clone, Copy, Debug)]
pub struct Bdi;

impl Codec for Bdi {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Bdi
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        let lines = line_count(raw_len);
        (lines.div_ceil(2).next_multiple_of(4) + lines * LINE_LEN).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, _: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        portable::encode(raw, coded)
    }

    fn chunk_len(&self, _: Element, raw: &[u8]) -> usize {
        portable::chunk_len(raw)
    }

    fn decode_chunk(&self, _: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        portable::decode(coded, raw)
    }
}

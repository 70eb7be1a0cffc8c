//! The contract of a codec and the table of all of them.

use crate::chunk::ChunkError;
use crate::{Algorithm, Element, bdi, cpackz, fpc, line, zvc};

/// Turns one chunk of raw bytes into coded bytes and back, without loss.
///
/// A codec never fails to encode: where data does not compress, its output may be as long as
/// [`max_chunk_len`](Codec::max_chunk_len) says, and the frame stores the chunk raw instead.
/// Output depends on the input alone, so equal chunks have equal codes on every machine.
pub trait Codec: Send + Sync {
    /// The number under which frames and messages know this codec.
    fn algorithm(&self) -> Algorithm;

    /// The most bytes that [`encode_chunk`](Codec::encode_chunk) writes for a chunk of `raw_len` bytes.
    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize;

    /// Writes the code of `raw` to the front of `coded` and returns its length in bytes.
    ///
    /// # Panics
    /// If `coded` is shorter than [`max_chunk_len`](Codec::max_chunk_len).
    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize;

    /// Fills `raw` from `coded`, which may end in up to 15 zero bytes of padding.
    ///
    /// # Errors
    /// [`ChunkError`] if `coded` is no code of `raw.len()` bytes. `raw` then holds anything.
    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError>;
}

/// The size of one 64-byte line in bits, as the paper's Table II counts it (no framing).
pub type LineBits = fn(&line::Line) -> u32;

static CODECS: [&dyn Codec; 4] = [&bdi::Bdi, &fpc::Fpc, &cpackz::CpackZ, &zvc::Zvc];

/// Every codec of this version, in the order of its algorithm's number.
pub fn codecs() -> impl Iterator<Item = &'static dyn Codec> {
    CODECS.iter().copied()
}

/// The codec for `algorithm`, or `None` where this version has none (and for [`Algorithm::None`]).
#[must_use]
pub fn codec(algorithm: Algorithm) -> Option<&'static dyn Codec> {
    codecs().find(|c| c.algorithm() == algorithm)
}

/// The line-size function of a line codec; `None` for algorithms that do not work on 64-byte lines.
#[must_use]
pub fn line_bits(algorithm: Algorithm) -> Option<LineBits> {
    match algorithm {
        Algorithm::Bdi => Some(bdi::line_bits),
        Algorithm::Fpc => Some(fpc::line_bits),
        Algorithm::CpackZ => Some(cpackz::line_bits),
        _ => None,
    }
}

/// The size of `raw` in bits as the paper counts it: the sum of its line sizes, the last line zero-padded.
///
/// [`Algorithm::None`] counts 512 bits a line. `None` for algorithms that do not work on lines.
///
/// # Source
/// IPDPS 2019, section V (`N` of the penalty) and Table II.
#[must_use]
pub fn paper_bits(algorithm: Algorithm, raw: &[u8]) -> Option<u64> {
    if algorithm == Algorithm::None {
        return Some(line::line_count(raw.len()) as u64 * u64::from(line::RAW_LINE_BITS));
    }
    let size = line_bits(algorithm)?;
    Some(line::lines(raw).map(|l| u64::from(size(&l))).sum())
}

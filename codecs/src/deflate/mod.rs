//! DEFLATE in the zlib format: the general-purpose codec that the others are measured against.
//!
//! A chunk is one zlib stream (RFC 1950) of the raw bytes: header, blocks, Adler-32. The element does not
//! matter. Bits depend on one another from the first to the last, so no GPU decodes it; it is here for
//! reference.
//!
//! # Encoder
//! The crate `miniz_oxide` at level 1, its fastest, which makes hardly more bytes of a chunk of numbers than its
//! slower ones. If that takes more bytes than stored blocks of 65,535 bytes would, those are written instead:
//! so the longest code is known. Bytes are the same for one version of that crate, on every machine: it uses
//! no instruction set's own hash.
//!
//! # Source
//! HPCA 2018 (compressing DMA engine), section V, which compares ZVC with zlib.

use std::cell::RefCell;

use miniz_oxide::deflate::CompressionLevel;
use miniz_oxide::deflate::core::{CompressorOxide, TDEFLFlush, TDEFLStatus, compress_to_output};
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::{DecompressorOxide, decompress, inflate_flags};
use miniz_oxide::{DataFormat, MZ_ADLER32_INIT, mz_adler32_oxide};

use crate::chunk::{CHUNK_ALIGN, ChunkError, SectionReader, SectionWriter};
use crate::{Algorithm, Codec, Element};

/// The DEFLATE codec.
#[derive(Clone, Copy, Debug)]
pub struct Deflate;

const LEVEL: CompressionLevel = CompressionLevel::BestSpeed;
/// Raw bytes in the longest stored block.
const MAX_STORED: usize = 65_535;
/// What a compressor at [`LEVEL`] writes first.
const ZLIB_HEADER: [u8; 2] = [0x78, 0x01];

thread_local! {
    // Its tables are many times as large as a chunk, so they are set aside once a thread.
    static COMPRESSOR: RefCell<CompressorOxide> =
        RefCell::new(CompressorOxide::with_format_and_level(DataFormat::Zlib, LEVEL));
}

impl Codec for Deflate {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Deflate
    }

    fn max_chunk_len(&self, _: Element, raw_len: usize) -> usize {
        stored_len(raw_len).next_multiple_of(CHUNK_ALIGN)
    }

    fn encode_chunk(&self, _: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        let mut out = SectionWriter::new(&mut coded[..stored_len(raw.len())]);
        if compress(raw, |bytes| out.put(bytes)) { out.len() } else { store(raw, coded) }
    }

    /// Runs the compressor and counts what it would write, so it takes as long as encoding.
    fn chunk_len(&self, _: Element, raw: &[u8]) -> usize {
        let mut len = 0;
        if compress(raw, |bytes| len += bytes.len()) { len } else { stored_len(raw.len()) }
    }

    fn overhead_len(&self, _: Element) -> usize {
        // Header, checksum, and the lengths of a block's codes, which are about this long for bytes of all values.
        64
    }

    fn writes_steadily(&self) -> bool {
        true
    }

    fn decode_chunk(&self, _: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        let flags = inflate_flags::TINFL_FLAG_PARSE_ZLIB_HEADER
            | inflate_flags::TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
        let (status, read, written) = decompress(&mut DecompressorOxide::new(), coded, raw, 0, flags);
        if status != TINFLStatus::Done || written != raw.len() {
            return Err(ChunkError::Stream { offset: read, needed: raw.len(), got: written });
        }
        let mut sections = SectionReader::new(coded);
        sections.take(read)?;
        sections.finish()
    }
}

/// Passes the stream of `raw` to `put`, piece by piece. `false` if it is longer than [`stored_len`]; `put` has
/// then seen no more than that.
fn compress(raw: &[u8], mut put: impl FnMut(&[u8])) -> bool {
    let mut room = stored_len(raw.len());
    COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.reset();
        let (status, _) = compress_to_output(compressor, raw, TDEFLFlush::Finish, |bytes| {
            let fits = bytes.len() <= room;
            if fits {
                room -= bytes.len();
                put(bytes);
            }
            fits
        });
        status == TDEFLStatus::Done
    })
}

/// The length of `raw_len` bytes in stored blocks.
const fn stored_len(raw_len: usize) -> usize {
    let blocks = if raw_len == 0 { 1 } else { raw_len.div_ceil(MAX_STORED) };
    ZLIB_HEADER.len() + 5 * blocks + raw_len + 4
}

/// Writes `raw` in stored blocks.
fn store(raw: &[u8], coded: &mut [u8]) -> usize {
    let mut out = SectionWriter::new(coded);
    out.put(&ZLIB_HEADER);
    let mut left = raw;
    loop {
        let (block, rest) = left.split_at(left.len().min(MAX_STORED));
        let len = block.len() as u16;
        out.put(&[u8::from(rest.is_empty())]);
        out.put(&len.to_le_bytes());
        out.put(&(!len).to_le_bytes());
        out.put(block);
        left = rest;
        if left.is_empty() {
            break;
        }
    }
    out.put(&mz_adler32_oxide(MZ_ADLER32_INIT, raw).to_be_bytes());
    out.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_blocks_are_as_long_as_said_and_decode() {
        for len in [0, 1, 65_535, 65_536, 131_071] {
            let raw: Vec<u8> = (0..len).map(|i| ((i * i) >> 3) as u8).collect();
            let mut coded = vec![0; stored_len(len)];
            assert_eq!(store(&raw, &mut coded), coded.len());
            let mut decoded = vec![1; len];
            assert_eq!(Deflate.decode_chunk(Element::U8, &coded, &mut decoded), Ok(()), "{len}");
            assert_eq!(decoded, raw);
        }
    }
}

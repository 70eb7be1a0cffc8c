//! The contract of a codec and the table of all of them.

use std::sync::LazyLock;

use crate::chunk::ChunkError;
use crate::ibp::CodebookSection;
use crate::{Algorithm, Cpu, Element};
use crate::{bdi, bpc, cpackz, deflate, fpc, ibp, int, line, rle, xp, zvc};

/// Turns one chunk of raw bytes into coded bytes and back, without loss.
///
/// A codec never fails to encode: where data does not compress, its output may be as long as
/// [`max_chunk_len`](Codec::max_chunk_len) says, and the frame stores the chunk raw instead.
/// Output depends on the input alone, so equal chunks have equal codes on every machine and on every
/// instruction set.
pub trait Codec: Send + Sync {
    /// The number under which frames and messages know this codec.
    fn algorithm(&self) -> Algorithm;

    /// The room in bytes that [`encode_chunk`](Codec::encode_chunk) needs for a chunk of `raw_len` bytes.
    ///
    /// No code is longer. The encoder may write anywhere in it, so behind the code it holds anything.
    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize;

    /// Writes the code of `raw` to the front of `coded` and returns its length in bytes.
    ///
    /// # Panics
    /// If `coded` is shorter than [`max_chunk_len`](Codec::max_chunk_len).
    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize;

    /// The length in bytes that [`encode_chunk`](Codec::encode_chunk) would return for `raw`, without
    /// writing anything.
    fn chunk_len(&self, element: Element, raw: &[u8]) -> usize;

    /// About how many bytes a code spends on its header and tables, whatever the chunk holds.
    ///
    /// An estimate from short pieces of a buffer takes this off each piece.
    fn overhead_len(&self, element: Element) -> usize {
        let _ = element;
        0
    }

    /// Fills `raw` from `coded`, which may end in up to 15 zero bytes of padding.
    ///
    /// # Errors
    /// [`ChunkError`] if `coded` is no code of `raw.len()` bytes. `raw` then holds anything.
    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError>;

    /// Whether this codec writes to memory at a pace that memory keeps up with.
    ///
    /// The output of the others is collected in a cache, where a buffer is far larger than that, and streamed
    /// past it.
    fn writes_steadily(&self) -> bool {
        false
    }

    /// Whether the encoder asks memory for the chunk behind the one that it works on.
    ///
    /// For the others that is done between the stores of what was encoded before, where it takes more time.
    fn asks_ahead(&self) -> bool {
        false
    }

    /// As [`encode_chunk`](Codec::encode_chunk), for a chunk that starts `offset` bytes into its buffer:
    /// some codecs know more of one place than of another.
    fn encode_chunk_at(&self, _offset: u64, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        self.encode_chunk(element, raw, coded)
    }

    /// As [`chunk_len`](Codec::chunk_len), for a chunk that starts `offset` bytes into its buffer.
    fn chunk_len_at(&self, _offset: u64, element: Element, raw: &[u8]) -> usize {
        self.chunk_len(element, raw)
    }

    /// As [`decode_chunk`](Codec::decode_chunk), for a chunk that starts `offset` bytes into its buffer.
    ///
    /// # Errors
    /// [`ChunkError`] if `coded` is no code of `raw.len()` bytes there. `raw` then holds anything.
    fn decode_chunk_at(
        &self,
        _offset: u64,
        element: Element,
        coded: &[u8],
        raw: &mut [u8],
    ) -> Result<(), ChunkError> {
        self.decode_chunk(element, coded, raw)
    }

    /// A codec of the same algorithm that has learnt from `raw` how to code it, of which it looks at `sample_len` bytes
    /// or little more; `None` where there is nothing to learn, or no gain. Frames are written with all that more
    /// than so many bytes could tell ([`usize::MAX`]), and estimated with less.
    fn fitted(&self, _element: Element, _raw: &[u8], _sample_len: usize) -> Option<Box<dyn Codec>> {
        None
    }

    /// What a frame must name or carry so that a reader can decode the chunks of this codec.
    fn codebook(&self) -> Option<CodebookSection> {
        None
    }
}

type CodecTable = Vec<Box<dyn Codec>>;

/// One table per instruction set of this machine, the plainest first.
static TABLES: LazyLock<Vec<(Cpu, CodecTable)>> =
    LazyLock::new(|| Cpu::available().map(|cpu| (cpu, table(cpu))).collect());

/// Every codec of this version on `cpu`, in the order of its algorithm's number.
fn table(cpu: Cpu) -> CodecTable {
    vec![
        Box::new(bdi::Bdi::on(cpu)),
        Box::new(fpc::Fpc::on(cpu)),
        Box::new(cpackz::CpackZ::on(cpu)),
        Box::new(zvc::Zvc::on(cpu)),
        Box::new(rle::Rle::on(cpu)),
        Box::new(deflate::Deflate),
        Box::new(bpc::Bpc::on(cpu)),
        Box::new(ibp::Ibp::on(cpu)),
        Box::new(xp::Xp::on(cpu)),
        Box::new(int::Int::on(cpu)),
    ]
}

/// Every codec of this version on [`Cpu::active`], in the order of its algorithm's number.
pub fn codecs() -> impl Iterator<Item = &'static dyn Codec> {
    codecs_on(Cpu::active())
}

/// Every codec of this version on `cpu`, in the order of its algorithm's number.
pub fn codecs_on(cpu: Cpu) -> impl Iterator<Item = &'static dyn Codec> {
    TABLES.iter().filter(move |(owner, _)| *owner == cpu).flat_map(|(_, table)| table.iter().map(Box::as_ref))
}

/// The codec for `algorithm` on [`Cpu::active`], or `None` where this version has none (and for
/// [`Algorithm::None`]).
#[must_use]
pub fn codec(algorithm: Algorithm) -> Option<&'static dyn Codec> {
    codec_on(Cpu::active(), algorithm)
}

/// The codec for `algorithm` on `cpu`, or `None` where this version has none (and for [`Algorithm::None`]).
#[must_use]
pub fn codec_on(cpu: Cpu, algorithm: Algorithm) -> Option<&'static dyn Codec> {
    codecs_on(cpu).find(|c| c.algorithm() == algorithm)
}

/// The size of one 64-byte line in bits, as the paper's Table II counts it (no framing).
pub type LineBits = fn(&line::Line) -> u32;

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
    match algorithm {
        Algorithm::None => Some(line::line_count(raw.len()) as u64 * u64::from(line::RAW_LINE_BITS)),
        Algorithm::Bdi => Some(bdi::Bdi::on(Cpu::active()).paper_bits(raw)),
        Algorithm::Fpc => Some(fpc::Fpc::on(Cpu::active()).paper_bits(raw)),
        Algorithm::CpackZ => Some(cpackz::CpackZ::on(Cpu::active()).paper_bits(raw)),
        _ => None,
    }
}

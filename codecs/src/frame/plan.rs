//! What a frame is made of: the codec with what it has learnt, the header, and each chunk's code.

use super::{FrameError, HEADER_LEN, Header, MAX_RAW_LEN, Options, UNIT, crc32c};
use crate::cpu::Streamer;
use crate::{Codec, Element};

/// What is to be framed, and how.
pub(super) struct Plan<'a> {
    coder: Coder<'a>,
    pub(super) raw: &'a [u8],
    pub(super) header: Header,
    pub(super) options: Options,
    /// What follows the table: the codebook, if there is one.
    pub(super) codebook: Vec<u8>,
}

/// What codes the chunks.
enum Coder<'a> {
    Given(&'a dyn Codec),
    Fitted(Box<dyn Codec>),
    /// Nothing: what the codec saves is less than its codebook takes. All chunks are stored raw.
    None,
}

impl<'a> Plan<'a> {
    pub(super) fn new(
        codec: &'a dyn Codec,
        element: Element,
        raw: &'a [u8],
        options: Options,
    ) -> Result<Self, FrameError> {
        let raw_len = raw.len() as u64;
        if raw_len > MAX_RAW_LEN {
            return Err(FrameError::RawLength { got: raw_len, limit: MAX_RAW_LEN });
        }
        Ok(Self::of(codec, element, raw, options))
    }

    /// The same for a buffer that no frame could hold, perhaps.
    pub(super) fn of(codec: &'a dyn Codec, element: Element, raw: &'a [u8], options: Options) -> Self {
        let plan = Self::fitted(codec, element, raw, options, usize::MAX);
        if plan.saves_codebook() { plan } else { plan.without_codebook() }
    }

    /// As [`of`](Self::of), fitted to about `sample_len` bytes, and with whatever codebook these say that pays.
    pub(super) fn fitted(
        codec: &'a dyn Codec,
        element: Element,
        raw: &'a [u8],
        options: Options,
        sample_len: usize,
    ) -> Self {
        let Options { chunk_size, checksum } = options;
        let raw_len = raw.len() as u64;
        let coder = codec.fitted(element, raw, sample_len).map_or(Coder::Given(codec), Coder::Fitted);
        let codebook = coder.codec().and_then(Codec::codebook).map(|section| section.to_bytes());
        let (algorithm, has_codebook) = (codec.algorithm(), codebook.is_some());
        let header = Header { algorithm, element, checksum, codebook: has_codebook, chunk_size, raw_len };
        Self { coder, raw, header, options, codebook: codebook.unwrap_or_default() }
    }

    /// Whether the chunks save as much as the codebook takes, so that no frame is longer than one of raw
    /// chunks. Mostly the first chunk settles it.
    fn saves_codebook(&self) -> bool {
        let mut left = self.codebook.len() / UNIT;
        let mut chunks = self.chunks();
        while left > 0 {
            let Some((offset, chunk)) = chunks.next() else { return false };
            let raw_units = chunk.len().div_ceil(UNIT);
            left = left.saturating_sub(raw_units - self.chunk_units(offset, chunk));
        }
        true
    }

    fn without_codebook(self) -> Self {
        let header = Header { codebook: false, ..self.header };
        Self { coder: Coder::None, header, codebook: Vec::new(), ..self }
    }

    /// The chunks, each with its place in the buffer.
    pub(super) fn chunks(&self) -> impl Iterator<Item = (u64, &'a [u8])> {
        let chunk_len = self.header.chunk_size.bytes();
        self.raw.chunks(chunk_len).enumerate().map(move |(index, chunk)| ((index * chunk_len) as u64, chunk))
    }

    /// Units that a chunk takes, coded or raw.
    pub(super) fn chunk_units(&self, offset: u64, raw: &[u8]) -> usize {
        let raw_units = raw.len().div_ceil(UNIT);
        raw_units.min(self.coded_len(offset, raw).map_or(raw_units, |len| len.div_ceil(UNIT)))
    }

    /// Bytes of the code of what starts `offset` bytes into the buffer; `None` if nothing is coded.
    pub(super) fn coded_len(&self, offset: u64, raw: &[u8]) -> Option<usize> {
        self.coder.codec().map(|codec| codec.chunk_len_at(offset, self.header.element, raw))
    }

    /// How codes get to their places that were written aside.
    pub(super) fn streamer(&self) -> Streamer {
        Streamer::for_len(self.raw.len())
    }

    /// How much of a batch of `batch_len` bytes has to be asked for before it is encoded.
    pub(super) fn unasked_len(&self, batch_len: usize) -> usize {
        let asks_ahead = self.coder.codec().is_some_and(Codec::asks_ahead);
        if asks_ahead { self.header.chunk_size.bytes() } else { batch_len }
    }

    /// Whether codes are written where they belong, if their place is known.
    pub(super) fn writes_in_place(&self) -> bool {
        !self.streamer().streams() || self.coder.codec().is_some_and(Codec::writes_steadily)
    }

    /// Where the first chunk starts, in bytes.
    pub(super) fn chunks_offset(&self) -> usize {
        self.header.table_end() + self.codebook.len()
    }

    /// Appends the frame to `frame`, chunk after chunk.
    pub(super) fn append_to(&self, frame: &mut Vec<u8>, progress: &(dyn Fn(u64) + Sync)) {
        frame.extend_from_slice(&self.header.to_bytes());
        frame.resize(self.header.table_end(), 0);
        frame.extend_from_slice(&self.codebook);
        let mut stage = vec![0; self.chunk_room()];
        let (mut end_units, mut done) = (0, 0);
        for (index, (offset, raw)) in self.chunks().enumerate() {
            let units = self.write_chunk(offset, raw, &mut stage);
            frame.extend_from_slice(&stage[..units as usize * UNIT]);
            end_units += units;
            let at = HEADER_LEN + index * self.header.entry_len();
            Entry::of(raw, units, &self.header)
                .write(end_units, &mut frame[at..at + self.header.entry_len()]);
            done += raw.len() as u64;
            progress(done);
        }
    }

    /// Room for one chunk's code or, where it does not compress, its raw bytes.
    pub(super) fn chunk_room(&self) -> usize {
        let raw_len = self.header.chunk_size.bytes().min(self.raw.len());
        let coded = self.coder.codec().map_or(0, |codec| codec.max_chunk_len(self.header.element, raw_len));
        coded.max(raw_len.next_multiple_of(UNIT))
    }

    /// Writes the chunk that starts `offset` bytes into the buffer, coded or raw, whichever takes fewer units,
    /// to the front of `room`; returns its units.
    pub(super) fn write_chunk(&self, offset: u64, raw: &[u8], room: &mut [u8]) -> u32 {
        let raw_units = raw.len().div_ceil(UNIT);
        let mut len = match self.coder.codec() {
            Some(codec) => codec.encode_chunk_at(offset, self.header.element, raw, room),
            None => raw.len(),
        };
        if len.div_ceil(UNIT) >= raw_units {
            room[..raw.len()].copy_from_slice(raw);
            len = raw.len();
        }
        let end = len.next_multiple_of(UNIT);
        room[len..end].fill(0);
        (end / UNIT) as u32
    }
}

impl Coder<'_> {
    fn codec(&self) -> Option<&dyn Codec> {
        match self {
            Self::Given(codec) => Some(*codec),
            Self::Fitted(codec) => Some(codec.as_ref()),
            Self::None => None,
        }
    }
}

/// What the table will say of a chunk.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    pub(super) units: u32,
    /// CRC32C of the raw bytes; 0 where the frame has no checksums.
    checksum: u32,
}

impl Entry {
    pub(super) fn of(raw: &[u8], units: u32, header: &Header) -> Self {
        Self { units, checksum: if header.checksum { crc32c(raw) } else { 0 } }
    }

    /// Writes the entry of a chunk that ends at `end_units` to `place`, which has room for a checksum if the
    /// frame has one.
    pub(super) fn write(self, end_units: u32, place: &mut [u8]) {
        let (end, checksum) = place.split_at_mut(4);
        end.copy_from_slice(&end_units.to_le_bytes());
        if !checksum.is_empty() {
            checksum.copy_from_slice(&self.checksum.to_le_bytes());
        }
    }
}

//! Reading frames. Nothing in a frame is trusted before it was checked.

use std::sync::Arc;

use super::crew::Work;
use super::read::Reader;
use super::{FrameError, HEADER_LEN, Header, UNIT, crc32c};
use crate::ibp::{Codebook, CodebookSection, Ibp};
use crate::{Codec, Cpu, codec_on};

/// A frame whose header, chunk table and codebook hold together; its chunks are checked when they are decoded.
#[derive(Clone, Debug)]
pub struct Frame<'a> {
    header: Header,
    bytes: &'a [u8],
    cpu: Cpu,
    chunks_offset: usize,
    codebook: Option<CodebookSection>,
    /// The codec that knows the codebook.
    fitted: Option<Arc<Ibp>>,
}

/// Where one chunk lies and what the table says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chunk<'a> {
    /// Position of the chunk in the frame.
    pub index: usize,
    /// Its first byte, counted from the start of the frame.
    pub offset: usize,
    /// The stored bytes, padding included.
    pub stored: &'a [u8],
    /// Bytes it decodes to.
    pub raw_len: usize,
    /// CRC32C of the raw bytes, where the frame has checksums.
    pub checksum: Option<u32>,
}

impl Chunk<'_> {
    /// Whether the raw bytes are stored as they are.
    #[must_use]
    pub fn is_raw(&self) -> bool {
        self.stored.len() / UNIT == self.raw_len.div_ceil(UNIT)
    }

    /// Compares the checksum of `raw` with that of the table.
    fn check(&self, raw: &[u8]) -> Result<(), FrameError> {
        match self.checksum {
            Some(stored) if stored != crc32c(raw) => {
                let (chunk, offset) = (self.index, self.offset as u64);
                Err(FrameError::Checksum { chunk, offset, stored, computed: crc32c(raw) })
            }
            _ => Ok(()),
        }
    }
}

impl<'a> Frame<'a> {
    /// Checks the header and every table entry; `bytes` must be the frame and nothing else.
    ///
    /// # Errors
    /// [`FrameError`] naming the first byte that is wrong.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, FrameError> {
        let header = Header::parse(bytes)?;
        let got = bytes.len() as u64;
        let table_end = header.table_end();
        if bytes.len() < table_end {
            let needed = (table_end - HEADER_LEN) as u64;
            let offset = HEADER_LEN as u64;
            return Err(FrameError::Truncated { part: "chunk table", offset, needed, got: got - offset });
        }
        let mut frame = Self {
            header,
            bytes,
            cpu: Cpu::active(),
            chunks_offset: table_end,
            codebook: None,
            fitted: None,
        };
        frame.check_table_padding()?;
        let units = frame.check_table()?;
        if frame.header.codebook {
            frame.take_codebook()?;
        }
        let end = (frame.chunks_offset + units as usize * UNIT) as u64;
        if got < end {
            let offset = frame.chunks_offset as u64;
            return Err(FrameError::Truncated {
                part: "chunks",
                offset,
                needed: end - offset,
                got: got - offset,
            });
        }
        if got > end {
            return Err(FrameError::Trailing { end, got });
        }
        Ok(frame)
    }

    /// The same frame, to be decoded on `cpu` instead of [`Cpu::active`].
    #[must_use]
    pub fn on(mut self, cpu: Cpu) -> Self {
        self.cpu = cpu;
        // What was fitted before is right for any instruction set.
        self.fitted = self.fitted.map(|codec| Arc::new(codec.on_other(cpu)));
        self
    }

    /// The same frame, with the codebook that it only names.
    ///
    /// # Errors
    /// [`FrameError::CodebookOther`] if it names another, or none; [`FrameError::Codebook`] if frames cannot
    /// use this one.
    pub fn with_codebook(mut self, codebook: &Codebook) -> Result<Self, FrameError> {
        let (needed, given) = (self.codebook.as_ref().map_or(0, CodebookSection::id), codebook.id());
        if needed != given {
            return Err(FrameError::CodebookOther { needed, given });
        }
        self.fit(codebook.clone())?;
        Ok(self)
    }

    /// The codebook that the frame names or carries.
    #[must_use]
    pub fn codebook(&self) -> Option<&CodebookSection> {
        self.codebook.as_ref()
    }

    /// Where the first chunk starts, in bytes.
    #[must_use]
    pub fn chunks_offset(&self) -> usize {
        self.chunks_offset
    }

    /// The header.
    #[must_use]
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// The chunks in order.
    pub fn chunks(&self) -> impl ExactSizeIterator<Item = Chunk<'a>> + '_ {
        (0..self.header.chunks()).map(|index| self.chunk(index))
    }

    /// Chunk `index`.
    ///
    /// # Panics
    /// If the frame has no such chunk.
    #[must_use]
    pub fn chunk(&self, index: usize) -> Chunk<'a> {
        assert!(index < self.header.chunks(), "chunk {index} of {}", self.header.chunks());
        let start = if index == 0 { 0 } else { self.end_units(index - 1) };
        let offset = self.chunks_offset + start as usize * UNIT;
        let end = self.chunks_offset + self.end_units(index) as usize * UNIT;
        Chunk {
            index,
            offset,
            stored: &self.bytes[offset..end],
            raw_len: self.header.chunk_raw_len(index),
            checksum: self.header.checksum.then(|| self.table_word(index, 4)),
        }
    }

    /// Fills `raw` with the frame's raw bytes.
    ///
    /// # Errors
    /// [`FrameError`] if `raw` has another length than the frame's raw bytes, or a chunk is damaged; `raw`
    /// then holds anything.
    pub fn decode_into(&self, raw: &mut [u8]) -> Result<(), FrameError> {
        let reader = Reader::new(self, raw, 1)?;
        reader.work(0);
        reader.finish()
    }

    /// The frame's raw bytes, if they are at most `limit`.
    ///
    /// # Errors
    /// [`FrameError::RawLength`] if they are more, else as [`decode_into`](Self::decode_into).
    pub fn decode_to_vec(&self, limit: u64) -> Result<Vec<u8>, FrameError> {
        let raw_len = self.header.raw_len;
        if raw_len > limit {
            return Err(FrameError::RawLength { got: raw_len, limit });
        }
        let mut raw = vec![0; raw_len as usize];
        self.decode_into(&mut raw)?;
        Ok(raw)
    }

    /// Decodes one of the frame's chunks into `raw`, which has the chunk's raw length.
    ///
    /// # Errors
    /// [`FrameError::Chunk`] or [`FrameError::Checksum`]; `raw` then holds anything.
    ///
    /// # Panics
    /// If `raw` has not the chunk's raw length.
    pub fn decode_chunk(&self, chunk: &Chunk<'_>, raw: &mut [u8]) -> Result<(), FrameError> {
        assert_eq!(raw.len(), chunk.raw_len, "destination of chunk {}", chunk.index);
        if chunk.is_raw() {
            raw.copy_from_slice(self.raw_content(chunk)?);
            return Ok(());
        }
        let place = chunk.index as u64 * self.header.chunk_size.bytes() as u64;
        self.codec()?.decode_chunk_at(place, self.header.element, chunk.stored, raw).map_err(|source| {
            FrameError::Chunk { chunk: chunk.index, offset: chunk.offset as u64, source }
        })?;
        chunk.check(raw)
    }

    /// The raw bytes of a chunk that is stored raw.
    pub(super) fn raw_content(&self, chunk: &Chunk<'a>) -> Result<&'a [u8], FrameError> {
        let (content, padding) = chunk.stored.split_at(chunk.raw_len);
        if let Some(i) = padding.iter().position(|&b| b != 0) {
            let offset = (chunk.offset + content.len() + i) as u64;
            return Err(FrameError::Reserved { offset, got: padding[i] });
        }
        chunk.check(content)?;
        Ok(content)
    }

    /// Whether the codec's output is better written straight to memory, however much there is.
    pub(super) fn writes_steadily(&self) -> bool {
        self.codec().is_ok_and(Codec::writes_steadily)
    }

    fn codec(&self) -> Result<&dyn Codec, FrameError> {
        match (&self.fitted, &self.codebook) {
            (Some(codec), _) => return Ok(codec.as_ref()),
            (None, Some(section)) => return Err(FrameError::CodebookMissing { id: section.id() }),
            (None, None) => {}
        }
        codec_on(self.cpu, self.header.algorithm).ok_or(FrameError::Unsupported(self.header.algorithm))
    }

    /// Reads the codebook, which starts where the table ends.
    fn take_codebook(&mut self) -> Result<(), FrameError> {
        let offset = self.chunks_offset as u64;
        let bytes = &self.bytes[self.chunks_offset..];
        let failed = |source| FrameError::Codebook { offset, source };
        let truncated = |needed| {
            let (part, needed, got) = ("codebook", needed as u64, bytes.len() as u64);
            Err(FrameError::Truncated { part, offset, needed, got })
        };
        if bytes.len() < UNIT {
            return truncated(UNIT);
        }
        let len = CodebookSection::len_of(bytes).map_err(failed)?;
        if bytes.len() < len {
            return truncated(len);
        }
        let section = CodebookSection::parse(bytes).map_err(failed)?;
        if let CodebookSection::Carried(codebook) = &section {
            self.fit(codebook.clone())?;
        }
        self.chunks_offset += len;
        self.codebook = Some(section);
        Ok(())
    }

    fn fit(&mut self, codebook: Codebook) -> Result<(), FrameError> {
        let offset = self.header.table_end() as u64;
        let codec =
            Ibp::with(self.cpu, codebook).map_err(|source| FrameError::Codebook { offset, source })?;
        self.fitted = Some(Arc::new(codec));
        Ok(())
    }

    /// The u32 at byte `at` of entry `index`. The table is known to be there.
    fn table_word(&self, index: usize, at: usize) -> u32 {
        let offset = HEADER_LEN + index * self.header.entry_len() + at;
        let mut word = [0; 4];
        word.copy_from_slice(&self.bytes[offset..offset + 4]);
        u32::from_le_bytes(word)
    }

    fn end_units(&self, index: usize) -> u32 {
        self.table_word(index, 0)
    }

    /// Checks that every chunk takes at least one unit and no more than its raw bytes would; returns the end
    /// of the last one in units.
    fn check_table(&self) -> Result<u32, FrameError> {
        let mut start = 0;
        for chunk in 0..self.header.chunks() {
            let end = self.end_units(chunk);
            let limit = self.header.chunk_raw_len(chunk).div_ceil(UNIT) as u32;
            if end <= start || end - start > limit {
                let offset = (HEADER_LEN + chunk * self.header.entry_len()) as u64;
                return Err(FrameError::Table { offset, chunk, start, end, limit });
            }
            start = end;
        }
        Ok(start)
    }

    fn check_table_padding(&self) -> Result<(), FrameError> {
        let used = HEADER_LEN + self.header.chunks() * self.header.entry_len();
        match self.bytes[used..self.header.table_end()].iter().position(|&b| b != 0) {
            Some(i) => {
                let offset = used + i;
                Err(FrameError::Reserved { offset: offset as u64, got: self.bytes[offset] })
            }
            None => Ok(()),
        }
    }
}

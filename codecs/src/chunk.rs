//! Building and taking apart the coded form of one chunk: a few sections, one after the other.

/// Alignment of chunks in a frame, and the unit of the chunk table, in bytes.
pub(crate) const CHUNK_ALIGN: usize = 16;

/// Why the bytes of a chunk are not a code of the length asked for. Offsets count from the chunk's start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ChunkError {
    /// A section ends behind the end of the chunk.
    #[error("truncated at byte {offset}: a section needs {needed} bytes, {got} are left")]
    Truncated {
        /// Where the section starts.
        offset: usize,
        /// Its length in bytes.
        needed: usize,
        /// What is left of the chunk in bytes.
        got: usize,
    },
    /// Bytes are left over that no section accounts for.
    #[error("{extra} bytes after the last section, which ends at byte {offset}; at most 15 may be")]
    Trailing {
        /// Where the last section ends.
        offset: usize,
        /// How many bytes follow it.
        extra: usize,
    },
    /// Padding, or an unused bit of a mask, is not zero.
    #[error("padding before byte {offset} is not zero")]
    Padding {
        /// Where the padding ends.
        offset: usize,
    },
    /// A tag with no meaning.
    #[error("line {line}: tag {tag} has no meaning")]
    Tag {
        /// Index of the line in the chunk.
        line: usize,
        /// The tag found.
        tag: u8,
    },
    /// Bytes that say how a chunk is coded have no meaning.
    #[error("flags {flags:#04x} with mask depths {depths:#04x} have no meaning")]
    Mode {
        /// The first byte.
        flags: u8,
        /// The second byte.
        depths: u8,
    },
    /// An index names a dictionary word that the line has not stored yet.
    #[error("line {line}: dictionary index {index}, but only {words} words are there")]
    Index {
        /// Index of the line in the chunk.
        line: usize,
        /// The index found.
        index: u8,
        /// How many dictionary words the line has at that point.
        words: usize,
    },
    /// A field of a header or a table of codes is out of range.
    #[error("the field at byte {offset} is {value}, at most {most} may be")]
    Field {
        /// Where the field is, or the byte that holds it.
        offset: usize,
        /// What it says.
        value: u32,
        /// The largest value with a meaning.
        most: u32,
    },
    /// Run lengths that do not add up to the chunk.
    #[error("the runs have {got} elements, the chunk {needed}")]
    Runs {
        /// Whole elements in the chunk.
        needed: usize,
        /// Elements in all runs.
        got: usize,
    },
    /// A size that no entry has.
    #[error("entry {entry}: size {size}, but no entry takes more than 128 bytes")]
    EntrySize {
        /// Index of the entry in the chunk.
        entry: usize,
        /// The size found.
        size: u8,
    },
    /// An index that no plane has, or a run of more planes than are left.
    #[error("entry {entry}: the code of plane {plane} has no meaning")]
    EntryCode {
        /// Index of the entry in the chunk.
        entry: usize,
        /// The plane that the code is for, or the first one.
        plane: usize,
    },
    /// The codes and planes of an entry take more or fewer bytes than its size says.
    #[error("entry {entry}: needs {needed} bits, its size says {got}")]
    EntryBits {
        /// Index of the entry in the chunk.
        entry: usize,
        /// What its codes and planes take in bits.
        needed: usize,
        /// Eight times its size.
        got: usize,
    },
    /// The chunk is no zlib stream, or one of another length.
    #[error("no zlib stream of {needed} raw bytes: it ends or breaks at byte {offset}, after {got}")]
    Stream {
        /// How far it was read.
        offset: usize,
        /// The length asked for in bytes.
        needed: usize,
        /// How many raw bytes it gave.
        got: usize,
    },
    /// A tensor names a cluster that the codebook has not.
    #[error("tensor {tensor}: cluster {cluster}, but the codebook has {clusters}")]
    Cluster {
        /// Index of the tensor in the chunk.
        tensor: usize,
        /// The cluster found.
        cluster: u8,
        /// How many clusters the codebook has.
        clusters: usize,
    },
}

/// Lays sections one after the other into a chunk.
pub(crate) struct SectionWriter<'a> {
    coded: &'a mut [u8],
    len: usize,
}

impl<'a> SectionWriter<'a> {
    pub(crate) fn new(coded: &'a mut [u8]) -> Self {
        Self::after(coded, 0)
    }

    /// Goes on behind `len` bytes that are written already.
    pub(crate) fn after(coded: &'a mut [u8], len: usize) -> Self {
        Self { coded, len }
    }

    pub(crate) fn put(&mut self, section: &[u8]) {
        self.coded[self.len..self.len + section.len()].copy_from_slice(section);
        self.len += section.len();
    }

    /// Pads with zero bytes up to a multiple of `align`.
    pub(crate) fn align(&mut self, align: usize) {
        let end = self.len.next_multiple_of(align);
        self.coded[self.len..end].fill(0);
        self.len = end;
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }
}

/// Takes sections off the front of a chunk, each checked against what is left.
pub(crate) struct SectionReader<'a> {
    coded: &'a [u8],
    offset: usize,
}

impl<'a> SectionReader<'a> {
    pub(crate) fn new(coded: &'a [u8]) -> Self {
        Self { coded, offset: 0 }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], ChunkError> {
        let left = &self.coded[self.offset..];
        let section = left.get(..len).ok_or(ChunkError::Truncated {
            offset: self.offset,
            needed: len,
            got: left.len(),
        })?;
        self.offset += len;
        Ok(section)
    }

    /// Skips the padding up to a multiple of `align`.
    pub(crate) fn align(&mut self, align: usize) -> Result<(), ChunkError> {
        let padding = self.take(self.offset.next_multiple_of(align) - self.offset)?;
        self.expect_zero(padding)
    }

    /// Checks that nothing but the padding to the next chunk is left.
    pub(crate) fn finish(mut self) -> Result<(), ChunkError> {
        let extra = self.coded.len() - self.offset;
        if extra >= CHUNK_ALIGN {
            return Err(ChunkError::Trailing { offset: self.offset, extra });
        }
        let padding = self.take(extra)?;
        self.expect_zero(padding)
    }

    /// Everything from the next section on.
    pub(crate) fn rest(&self) -> &'a [u8] {
        &self.coded[self.offset..]
    }

    /// Where the next section starts.
    pub(crate) fn offset(&self) -> usize {
        self.offset
    }

    fn expect_zero(&self, padding: &[u8]) -> Result<(), ChunkError> {
        if padding.iter().all(|&b| b == 0) {
            Ok(())
        } else {
            Err(ChunkError::Padding { offset: self.offset })
        }
    }
}

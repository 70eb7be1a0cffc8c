//! Decoding every chunk of a frame to see whether it can be done.

use mgcomp_codecs::frame::{Chunk, Frame, FrameError};
use serde::Serialize;

use crate::error::CliError;
use crate::progress::Progress;

/// What the chunks of a frame came to.
#[derive(Debug, Default)]
pub(crate) struct Scan {
    /// Chunks in all.
    pub(crate) chunks: usize,
    /// Chunks whose raw bytes are stored as they are.
    pub(crate) raw: usize,
    /// Index and stored bytes of the smallest chunk, the first of them.
    pub(crate) smallest: Option<(usize, usize)>,
    /// Index and stored bytes of the largest chunk, the first of them.
    pub(crate) largest: Option<(usize, usize)>,
    /// Chunks that do not decode.
    pub(crate) damaged: usize,
    /// Why the first of them does not.
    pub(crate) first_damage: Option<FrameError>,
    /// Chunks that only a codebook decodes which the frame does not carry.
    pub(crate) unchecked: usize,
    /// The identity of that codebook, if there are any.
    pub(crate) missing_codebook: Option<u64>,
    /// Every chunk, if the list was asked for.
    pub(crate) list: Option<Vec<ChunkLine>>,
}

/// One line in the list of chunks.
#[derive(Debug, Serialize)]
pub(crate) struct ChunkLine {
    pub(crate) chunk: usize,
    pub(crate) offset: usize,
    pub(crate) stored_bytes: usize,
    pub(crate) raw_bytes: usize,
    pub(crate) crc32c: Option<String>,
    pub(crate) state: State,
}

/// How a chunk is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum State {
    Coded,
    Raw,
    Damaged,
    Unchecked,
}

impl State {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Coded => "coded",
            Self::Raw => "raw",
            Self::Damaged => "damaged",
            Self::Unchecked => "unchecked",
        }
    }
}

/// Decodes all chunks of `frame`.
pub(crate) fn scan(frame: &Frame<'_>, list: bool, progress: &mut Progress) -> Scan {
    progress.stage("checking chunks".into(), frame.header().raw_len);
    let mut scan = Scan { list: list.then(Vec::new), ..Scan::default() };
    let mut raw = vec![0; frame.header().chunk_size.bytes()];
    let mut done_bytes = 0;
    for chunk in frame.chunks() {
        scan.add(&chunk, frame.decode_chunk(&chunk, &mut raw[..chunk.raw_len]));
        done_bytes += chunk.raw_len as u64;
        progress.set(done_bytes);
    }
    scan
}

impl Scan {
    fn add(&mut self, chunk: &Chunk<'_>, decoded: Result<(), FrameError>) {
        let stored_bytes = chunk.stored.len();
        self.chunks += 1;
        self.raw += usize::from(chunk.is_raw());
        if self.smallest.is_none_or(|(_, bytes)| stored_bytes < bytes) {
            self.smallest = Some((chunk.index, stored_bytes));
        }
        if self.largest.is_none_or(|(_, bytes)| stored_bytes > bytes) {
            self.largest = Some((chunk.index, stored_bytes));
        }
        let state = match decoded {
            Ok(()) if chunk.is_raw() => State::Raw,
            Ok(()) => State::Coded,
            Err(FrameError::CodebookMissing { id }) => {
                self.unchecked += 1;
                self.missing_codebook = Some(id);
                State::Unchecked
            }
            Err(error) => {
                self.damaged += 1;
                self.first_damage.get_or_insert(error);
                State::Damaged
            }
        };
        if let Some(list) = &mut self.list {
            list.push(ChunkLine {
                chunk: chunk.index,
                offset: chunk.offset,
                stored_bytes,
                raw_bytes: chunk.raw_len,
                crc32c: chunk.checksum.map(|crc| format!("{crc:08x}")),
                state,
            });
        }
    }

    /// Why not all chunks decode, if they do not.
    pub(crate) fn why_not_all(&self) -> Option<String> {
        let missing = self.missing_codebook.map(|id| FrameError::CodebookMissing { id });
        self.first_damage.as_ref().or(missing.as_ref()).map(ToString::to_string)
    }

    /// An error if a chunk of the frame `name` is damaged, or may be.
    pub(crate) fn into_verdict(self, name: String) -> Result<(), CliError> {
        let Self { chunks, damaged, first_damage, unchecked, missing_codebook, .. } = self;
        match (first_damage, missing_codebook) {
            (Some(source), _) => Err(CliError::Damaged { name, damaged, chunks, source }),
            (None, Some(id)) => Err(CliError::Unchecked { name, unchecked, chunks, id }),
            (None, None) => Ok(()),
        }
    }
}

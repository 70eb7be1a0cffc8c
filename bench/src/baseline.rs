//! What others reach: LZ4 and zstd, by their C libraries.

use std::{fmt, io};

use zstd_safe::{CCtx, DCtx, get_error_name};

/// A general compressor to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Library {
    /// LZ4, blocks at the default acceleration.
    Lz4,
    /// zstd at level 1.
    Zstd1,
}

/// Why a library failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum LibraryError {
    #[error("lz4 failed on {len} bytes")]
    Lz4 { len: usize, source: io::Error },
    #[error("zstd-1 failed on {len} bytes: {reason}")]
    Zstd { len: usize, reason: &'static str },
    #[error("{library} made {got} bytes of a block of {expected}")]
    Length { library: Library, expected: usize, got: usize },
}

impl Library {
    /// Each one, in the order in which they are listed.
    pub(crate) const ALL: [Self; 2] = [Self::Lz4, Self::Zstd1];

    /// The most bytes that one block holds: the largest block of the LZ4 frame format.
    pub(crate) const MAX_BLOCK_BYTES: usize = 4 << 20;

    /// The one spelling used in flags, tables and JSON.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lz4 => "lz4",
            Self::Zstd1 => "zstd-1",
        }
    }

    /// The room that a block of `raw_len` bytes may take.
    pub(crate) fn max_len(self, raw_len: usize) -> usize {
        match self {
            // LZ4_compressBound, which the crate offers for lengths that are an error above 2 GiB only.
            Self::Lz4 => raw_len + raw_len / 255 + 16,
            Self::Zstd1 => zstd_safe::compress_bound(raw_len),
        }
    }

    /// The size of `raw`, coded in blocks of [`MAX_BLOCK_BYTES`](Self::MAX_BLOCK_BYTES).
    pub(crate) fn coded_len(self, raw: &[u8]) -> Result<u64, LibraryError> {
        let mut coder = Coder::new(self);
        let mut coded = vec![0; self.max_len(raw.len().min(Self::MAX_BLOCK_BYTES))];
        let blocks = raw.chunks(Self::MAX_BLOCK_BYTES);
        blocks.map(|block| Ok(coder.encode(block, &mut coded)? as u64)).sum()
    }
}

impl fmt::Display for Library {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A library with the memory that it works in, for one thread.
pub(crate) struct Coder {
    kind: Library,
    encoder: CCtx<'static>,
    decoder: DCtx<'static>,
}

impl Coder {
    pub(crate) fn new(kind: Library) -> Self {
        Self { kind, encoder: CCtx::create(), decoder: DCtx::create() }
    }

    /// Writes the code of `raw` to the front of `coded` and returns its length in bytes.
    pub(crate) fn encode(&mut self, raw: &[u8], coded: &mut [u8]) -> Result<usize, LibraryError> {
        let len = raw.len();
        match self.kind {
            Library::Lz4 => lz4::block::compress_to_buffer(raw, None, false, coded)
                .map_err(|source| LibraryError::Lz4 { len, source }),
            Library::Zstd1 => self.encoder.compress(coded, raw, 1).map_err(|code| zstd_error(len, code)),
        }
    }

    /// Fills `raw` from the code of as many bytes.
    pub(crate) fn decode(&mut self, coded: &[u8], raw: &mut [u8]) -> Result<(), LibraryError> {
        let (len, library, expected) = (coded.len(), self.kind, raw.len());
        let got = match library {
            Library::Lz4 => lz4::block::decompress_to_buffer(coded, Some(expected as i32), raw)
                .map_err(|source| LibraryError::Lz4 { len, source })?,
            Library::Zstd1 => self.decoder.decompress(raw, coded).map_err(|code| zstd_error(len, code))?,
        };
        if got == expected { Ok(()) } else { Err(LibraryError::Length { library, expected, got }) }
    }
}

fn zstd_error(len: usize, code: usize) -> LibraryError {
    LibraryError::Zstd { len, reason: get_error_name(code) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_round_trip_and_shrink_zeros() {
        for library in Library::ALL {
            let mut coder = Coder::new(library);
            let raw = vec![0; 100_000];
            let mut coded = vec![0; library.max_len(raw.len())];
            let len = coder.encode(&raw, &mut coded).unwrap();
            assert!(len < 1000, "{library}: {len}");
            assert_eq!(library.coded_len(&raw).unwrap(), len as u64);
            let mut back = vec![1; raw.len()];
            coder.decode(&coded[..len], &mut back).unwrap();
            assert_eq!(back, raw);
            assert!(coder.decode(&coded[..len / 2], &mut back).is_err(), "{library}");
            let short = coder.decode(&coded[..len], &mut back[1..]);
            assert!(short.is_err(), "{library}: {short:?}");
        }
    }

    #[test]
    fn bounds_hold_for_noise() {
        let noise: Vec<u8> = (0..5000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 13) as u8).collect();
        for library in Library::ALL {
            for len in [1, 2, 15, 255, 256, 5000] {
                let mut coded = vec![0; library.max_len(len)];
                Coder::new(library).encode(&noise[..len], &mut coded).unwrap();
            }
        }
    }
}

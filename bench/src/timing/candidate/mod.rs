//! What is timed: a codec with its frame, or a library with its blocks.

mod blocks;
mod framed;

use std::io;
use std::time::Duration;

use mgcomp_codecs::frame::{FrameError, WorkersError};

pub(crate) use blocks::Blocks;
pub(crate) use framed::Framed;

use crate::baseline::LibraryError;

/// Why a candidate failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum CandidateError {
    #[error(transparent)]
    Frame(#[from] FrameError),
    #[error(transparent)]
    Library(#[from] LibraryError),
    #[error(transparent)]
    Workers(#[from] WorkersError),
    #[error("cannot have {bytes} bytes")]
    Buffer { bytes: usize, source: io::Error },
}

/// Codes a buffer, keeps the code, and says how long that took. Each call works on the whole buffer.
pub(crate) trait Candidate {
    /// Codes `raw` so many times, each into the memory of the time before.
    fn encode(&mut self, raw: &[u8], calls: usize) -> Result<Duration, CandidateError>;

    /// Decodes what [`encode`](Self::encode) made last.
    fn decode(&mut self, raw: &mut [u8], calls: usize) -> Result<Duration, CandidateError>;

    /// The length of the code of `raw` without making it, and the time to find it out; none where there is
    /// no way.
    fn estimate(&mut self, raw: &[u8], calls: usize) -> Option<(Duration, u64)>;

    /// About the same from a sample of `raw`, by one thread.
    fn sample(&mut self, raw: &[u8], calls: usize) -> Option<(Duration, u64)>;

    /// Length of what [`encode`](Self::encode) made last.
    fn coded_len(&self) -> u64;
}

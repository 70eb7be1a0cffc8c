//! Several threads on one frame.

use super::write::{Plan, Writer};
use super::{Frame, FrameError, Options};
use crate::frame::read::Reader;
use crate::{Codec, Element};

/// Threads that encode and decode the chunks of one buffer together.
///
/// The thread that asks works as well, so one thread means no thread is started. Frames are the same bytes
/// whatever the number of threads. The threads live as long as this value; a call costs some microseconds,
/// not the start of a thread.
#[derive(Debug)]
pub struct Workers {
    /// Threads besides the caller's.
    pool: Option<rayon::ThreadPool>,
    threads: usize,
}

/// Why threads could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// No thread at all was asked for.
    #[error("at least one thread is needed")]
    None,
    /// The system refused.
    #[error("cannot start {threads} threads: {source}")]
    Start {
        /// How many were asked for.
        threads: usize,
        /// What the system says.
        source: rayon::ThreadPoolBuildError,
    },
}

impl Workers {
    /// `threads` threads, the caller's included.
    ///
    /// # Errors
    /// [`WorkersError`] if it is 0, or the system cannot start as many.
    pub fn new(threads: usize) -> Result<Self, WorkersError> {
        let pool = match threads {
            0 => return Err(WorkersError::None),
            1 => None,
            _ => Some(
                rayon::ThreadPoolBuilder::new()
                    .num_threads(threads - 1)
                    .thread_name(|i| format!("mgcomp-codec-{i}"))
                    .build()
                    .map_err(|source| WorkersError::Start { threads, source })?,
            ),
        };
        Ok(Self { pool, threads })
    }

    /// How many threads work on a frame, the caller's included.
    #[must_use]
    pub const fn threads(&self) -> usize {
        self.threads
    }

    /// Writes the frame of `raw` to the front of `room`: [`encode_to`](super::encode_to) by several threads.
    ///
    /// `progress` is called with the raw bytes done so far, from any of the threads, not always in order.
    ///
    /// # Errors
    /// As [`encode_to`](super::encode_to).
    pub fn encode_to(
        &self,
        codec: &dyn Codec,
        element: Element,
        raw: &[u8],
        options: Options,
        room: &mut [u8],
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<usize, FrameError> {
        let plan = Plan::new(codec, element, raw, options)?;
        let writer = Writer::new(&plan, room, progress)?;
        self.together(&|| writer.work());
        Ok(writer.finish())
    }

    /// Fills `raw` with the raw bytes of `frame`: [`Frame::decode_into`] by several threads.
    ///
    /// # Errors
    /// As [`Frame::decode_into`]; of several damaged chunks the first one is named.
    pub fn decode_into(&self, frame: &Frame<'_>, raw: &mut [u8]) -> Result<(), FrameError> {
        let reader = Reader::new(frame, raw)?;
        self.together(&|| reader.work());
        reader.finish()
    }

    fn together(&self, work: &(dyn Fn() + Sync)) {
        match &self.pool {
            None => work(),
            Some(pool) => pool.in_place_scope(|scope| {
                for _ in 1..self.threads {
                    scope.spawn(|_| work());
                }
                work();
            }),
        }
    }
}

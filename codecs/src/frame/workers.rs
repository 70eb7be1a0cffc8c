//! Several threads on one frame.

use super::crew::{Crew, Work};
use super::plan::Plan;
use super::read::Reader;
use super::stage::Stages;
use super::write::Writer;
use super::{Frame, FrameError, Options};
use crate::{Codec, Element};

/// Threads that encode and decode the chunks of one buffer together.
///
/// The thread that asks works as well, so one thread means no thread is started. Frames are the same bytes
/// whatever the number of threads. The threads live as long as this value, and a call does not wait for one
/// that wakes too late to help. Calls at the same time are allowed; all but one of them work alone.
#[derive(Debug)]
pub struct Workers {
    /// Threads besides the caller's.
    crew: Option<Crew>,
    threads: usize,
    stages: Stages,
}

/// Up to so many raw bytes, one thread is done before another has come.
const ALONE_LEN: usize = 64 << 10;

/// The most threads that one buffer can have.
pub const MAX_THREADS: usize = 1024;

const TOO_MANY: usize = MAX_THREADS + 1;

/// Why threads could not be started.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkersError {
    /// None was asked for, or more than [`MAX_THREADS`].
    #[error("{threads} threads; 1 to {MAX_THREADS} can be had")]
    Number {
        /// How many were asked for.
        threads: usize,
    },
    /// The system refused.
    #[error("cannot start {threads} threads: {source}")]
    Start {
        /// How many were asked for.
        threads: usize,
        /// What the system says.
        source: std::io::Error,
    },
}

impl Workers {
    /// `threads` threads, the caller's included.
    ///
    /// # Errors
    /// [`WorkersError`] if it is 0 or over [`MAX_THREADS`], or the system cannot start as many.
    pub fn new(threads: usize) -> Result<Self, WorkersError> {
        let crew = match threads {
            0 | TOO_MANY.. => return Err(WorkersError::Number { threads }),
            1 => None,
            _ => Some(Crew::start(threads - 1).map_err(|source| WorkersError::Start { threads, source })?),
        };
        Ok(Self { crew, threads, stages: Stages::new(threads) })
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
        let writer = Writer::new(&plan, room, self.threads, &self.stages, progress)?;
        self.together(raw.len(), &writer);
        Ok(writer.finish())
    }

    /// Fills `raw` with the raw bytes of `frame`: [`Frame::decode_into`] by several threads.
    ///
    /// # Errors
    /// As [`Frame::decode_into`]; of several damaged chunks the first one is named.
    pub fn decode_into(&self, frame: &Frame<'_>, raw: &mut [u8]) -> Result<(), FrameError> {
        let raw_len = raw.len();
        let reader = Reader::new(frame, raw, self.threads)?;
        self.together(raw_len, &reader);
        reader.finish()
    }

    /// Calls `work` with 0 on this thread, and with another number on each of the others that comes in time; returns when
    /// all are done. So the work must be such that any number of threads can share it.
    ///
    /// # Panics
    /// If `work` does, on any thread.
    pub fn run(&self, work: &(dyn Fn(usize) + Sync)) {
        match &self.crew {
            Some(crew) => crew.run(&|thread| work(thread)),
            None => work(0),
        }
    }

    /// Does `work` on every thread, or on this one alone if there is little of it.
    fn together(&self, raw_len: usize, work: &dyn Work) {
        match &self.crew {
            Some(crew) if raw_len > ALONE_LEN => crew.run(work),
            _ => work.work(0),
        }
    }
}

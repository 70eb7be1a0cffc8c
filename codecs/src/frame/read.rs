//! The work of reading a frame, for one thread or several: batches of chunks are taken in order, each chunk
//! decoded in place or, in large buffers, aside and then streamed past the caches.

use std::iter::Enumerate;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::write::LARGE_BATCH_LEN;
use super::{Chunk, Frame, FrameError};
use crate::cpu::Streamer;

/// A buffer on its way from its frame. Any number of threads may [`work`](Self::work) on it at once.
pub(super) struct Reader<'a> {
    frame: &'a Frame<'a>,
    raw_len: usize,
    /// Chunks in a batch.
    batch: usize,
    /// The batches that no thread has taken yet.
    left: Mutex<Enumerate<ChunksMut<'a, u8>>>,
    failed: AtomicBool,
    /// The first damaged chunk, with what is wrong with it.
    error: Mutex<Option<(usize, FrameError)>>,
}

impl<'a> Reader<'a> {
    pub(super) fn new(frame: &'a Frame<'a>, raw: &'a mut [u8]) -> Result<Self, FrameError> {
        let (raw_len, destination) = (frame.header().raw_len, raw.len() as u64);
        if destination != raw_len {
            return Err(FrameError::Destination { raw_len, destination });
        }
        let chunk_len = frame.header().chunk_size.bytes();
        let batch = if Streamer::for_len(raw.len()).streams() { LARGE_BATCH_LEN / chunk_len } else { 1 };
        Ok(Self {
            frame,
            raw_len: raw.len(),
            batch,
            left: Mutex::new(raw.chunks_mut(batch * chunk_len).enumerate()),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        })
    }

    /// Takes batches until none is left or a chunk is damaged.
    pub(super) fn work(&self) {
        let chunk_len = self.frame.header().chunk_size.bytes();
        let streamer =
            if self.frame.writes_steadily() { Streamer::plain() } else { Streamer::for_len(self.raw_len) };
        let mut stage = vec![0; if streamer.streams() { chunk_len } else { 0 }];
        while !self.failed.load(Ordering::Relaxed) {
            let Some((batch, out)) = self.next() else { return };
            for (index, out) in out.chunks_mut(chunk_len).enumerate() {
                let chunk = self.frame.chunk(batch * self.batch + index);
                let result = if streamer.streams() {
                    self.stream(&streamer, &chunk, &mut stage, out)
                } else {
                    self.frame.decode_chunk(&chunk, out)
                };
                if let Err(error) = result {
                    self.fail(chunk.index, error);
                    return;
                }
            }
        }
    }

    /// Decodes a chunk aside and streams it to `out`.
    fn stream(
        &self,
        streamer: &Streamer,
        chunk: &Chunk<'_>,
        stage: &mut [u8],
        out: &mut [u8],
    ) -> Result<(), FrameError> {
        let next = if chunk.index + 1 < self.frame.header().chunks() {
            self.frame.chunk(chunk.index + 1).stored
        } else {
            &[]
        };
        let content = if chunk.is_raw() {
            self.frame.raw_content(chunk)?
        } else {
            let stage = &mut stage[..out.len()];
            self.frame.decode_chunk(chunk, stage)?;
            stage
        };
        streamer.copy(out, content, next);
        Ok(())
    }

    /// The outcome, once all work is done.
    pub(super) fn finish(self) -> Result<(), FrameError> {
        match self.error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            None => Ok(()),
            Some((_, error)) => Err(error),
        }
    }

    fn next(&self) -> Option<(usize, &'a mut [u8])> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner).next()
    }

    /// Batches are taken in order and each is decoded to its first error, so every chunk before the first
    /// damaged one gets its turn: which error is kept does not depend on the threads.
    fn fail(&self, index: usize, error: FrameError) {
        self.failed.store(true, Ordering::Relaxed);
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
            *first = Some((index, error));
        }
    }
}

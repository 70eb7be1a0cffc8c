//! The work of reading a frame, for one thread or several: chunks are taken in order, each decoded in place or,
//! in large buffers, aside and then streamed past the caches.

use std::iter::Enumerate;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use super::{Frame, FrameError};
use crate::cpu::{Streamer, prefetch};

/// A buffer on its way from its frame. Any number of threads may [`work`](Self::work) on it at once.
pub(super) struct Reader<'a> {
    frame: &'a Frame<'a>,
    raw_len: usize,
    /// What no thread has taken yet.
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
        Ok(Self {
            frame,
            raw_len: raw.len(),
            left: Mutex::new(raw.chunks_mut(frame.header().chunk_size.bytes()).enumerate()),
            failed: AtomicBool::new(false),
            error: Mutex::new(None),
        })
    }

    /// Takes chunks until none is left or one is damaged.
    pub(super) fn work(&self) {
        let streamer = Streamer::for_len(self.raw_len);
        let mut stage = Vec::new();
        if streamer.streams() {
            stage.resize(self.frame.header().chunk_size.bytes(), 0);
        }
        while !self.failed.load(Ordering::Relaxed) {
            let Some((index, out)) = self.next() else { return };
            let chunk = self.frame.chunk(index);
            if streamer.streams() && index + 1 < self.frame.header().chunks() {
                prefetch(self.frame.chunk(index + 1).stored);
            }
            let result = if streamer.streams() && !chunk.is_raw() {
                let stage = &mut stage[..out.len()];
                self.frame.decode_chunk(&chunk, stage).map(|()| streamer.copy(out, stage))
            } else {
                self.frame.decode_chunk(&chunk, out)
            };
            if let Err(error) = result {
                self.fail(index, error);
            }
        }
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

    /// Chunks are taken in order, so every chunk before the first damaged one gets its turn: which error is
    /// kept does not depend on the threads.
    fn fail(&self, index: usize, error: FrameError) {
        self.failed.store(true, Ordering::Relaxed);
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
            *first = Some((index, error));
        }
    }
}

//! The work of reading a frame, for one thread or several: each has a share of the chunks, one behind the other,
//! and helps with other shares when it is through with its own. A chunk is decoded in place or, in large buffers,
//! aside and then streamed past the caches.

use std::iter::Enumerate;
use std::slice::ChunksMut;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use super::apart::Apart;
use super::crew::Work;
use super::write::LARGE_BATCH_LEN;
use super::{Chunk, Frame, FrameError};
use crate::cpu::Streamer;

/// A buffer on its way from its frame. Any number of threads may [`work`](Work::work) on it at once.
pub(super) struct Reader<'a> {
    frame: &'a Frame<'a>,
    raw_len: usize,
    /// Chunks in a batch.
    batch: usize,
    /// That of the caller, which most buffers need no other than.
    first_share: Apart<Share<'a>>,
    /// Those of the other threads.
    shares: Vec<Apart<Share<'a>>>,
    /// The first chunk known to be damaged; behind the last one while there is none.
    damaged: AtomicUsize,
    /// What is wrong with it.
    error: Mutex<Option<(usize, FrameError)>>,
}

/// Batches of a share that no thread has taken yet. In repeated calls a thread meets the same ones again, as far
/// as it can: writing to lines that are in another core's cache takes several times as long.
struct Share<'a> {
    /// Number of the first batch.
    first: usize,
    left: Mutex<Enumerate<ChunksMut<'a, u8>>>,
}

impl<'a> Reader<'a> {
    /// For `threads` threads; more may work and fewer, but that is how many shares there are.
    pub(super) fn new(frame: &'a Frame<'a>, raw: &'a mut [u8], threads: usize) -> Result<Self, FrameError> {
        let (raw_len, destination) = (frame.header().raw_len, raw.len() as u64);
        if destination != raw_len {
            return Err(FrameError::Destination { raw_len, destination });
        }
        let raw_len = raw.len();
        let chunk_len = frame.header().chunk_size.bytes();
        let batch = if Streamer::for_len(raw_len).streams() { LARGE_BATCH_LEN / chunk_len } else { 1 };
        let batch_len = batch * chunk_len;
        let share = raw_len.div_ceil(batch_len).div_ceil(threads).max(1);
        let share_of = |(index, raw): (usize, &'a mut [u8])| {
            Apart(Share { first: index * share, left: Mutex::new(raw.chunks_mut(batch_len).enumerate()) })
        };
        let (first, rest) = raw.split_at_mut(raw_len.min(share * batch_len));
        Ok(Self {
            frame,
            raw_len,
            batch,
            first_share: share_of((0, first)),
            shares: (1..).zip(rest.chunks_mut(share * batch_len)).map(share_of).collect(),
            damaged: AtomicUsize::new(usize::MAX),
            error: Mutex::new(None),
        })
    }

    /// Decodes a batch. Chunks behind a damaged one are left out, those before it are not: which error is kept
    /// does not depend on the threads.
    fn read(&self, batch: usize, out: &mut [u8], streamer: &Streamer, stage: &mut [u8]) {
        let chunk_len = self.frame.header().chunk_size.bytes();
        for (index, out) in (batch * self.batch..).zip(out.chunks_mut(chunk_len)) {
            if index > self.damaged.load(Ordering::Relaxed) {
                return;
            }
            let chunk = self.frame.chunk(index);
            let result = if streamer.streams() {
                self.stream(streamer, &chunk, stage, out)
            } else {
                self.frame.decode_chunk(&chunk, out)
            };
            if let Err(error) = result {
                return self.fail(index, error);
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

    fn fail(&self, index: usize, error: FrameError) {
        self.damaged.fetch_min(index, Ordering::Relaxed);
        let mut first = self.error.lock().unwrap_or_else(PoisonError::into_inner);
        if first.as_ref().is_none_or(|(earlier, _)| index < *earlier) {
            *first = Some((index, error));
        }
    }

    fn share(&self, index: usize) -> &Share<'a> {
        if index == 0 { &self.first_share } else { &self.shares[index - 1] }
    }
}

impl Work for Reader<'_> {
    /// Takes batches until none is left.
    fn work(&self, thread: usize) {
        let chunk_len = self.frame.header().chunk_size.bytes();
        let streamer =
            if self.frame.writes_steadily() { Streamer::plain() } else { Streamer::for_len(self.raw_len) };
        let mut stage = vec![0; if streamer.streams() { chunk_len } else { 0 }];
        let shares = self.shares.len() + 1;
        let own = thread % shares;
        while let Some((batch, out)) = self.share(own).next() {
            self.read(batch, out, &streamer, &mut stage);
        }
        for other in (1..shares).map(|step| self.share((own + step) % shares)) {
            while let Some((batch, out)) = other.next_back() {
                self.read(batch, out, &streamer, &mut stage);
            }
        }
    }
}

impl<'a> Share<'a> {
    /// What its own thread does next.
    fn next(&self) -> Option<(usize, &'a mut [u8])> {
        self.take(Iterator::next)
    }

    /// What other threads help with: what its own comes to last.
    fn next_back(&self) -> Option<(usize, &'a mut [u8])> {
        self.take(DoubleEndedIterator::next_back)
    }

    fn take(
        &self,
        next: impl FnOnce(&mut Enumerate<ChunksMut<'a, u8>>) -> Option<(usize, &'a mut [u8])>,
    ) -> Option<(usize, &'a mut [u8])> {
        let mut left = self.left.lock().unwrap_or_else(PoisonError::into_inner);
        next(&mut left).map(|(index, out)| (self.first + index, out))
    }
}

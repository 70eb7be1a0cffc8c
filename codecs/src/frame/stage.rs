//! Where codes wait until their place in the frame is known.

use std::sync::Mutex;

use super::UNIT;
use super::apart::Apart;
use super::plan::{Entry, Plan};

/// A stage for each of some threads, kept from frame to frame: getting memory and filling it with zeros takes as
/// long as encoding some chunks.
#[derive(Debug, Default)]
pub(super) struct Stages(Vec<Apart<Mutex<Stage>>>);

/// The codes of a batch.
#[derive(Debug, Default)]
pub(super) struct Stage {
    bytes: Vec<u8>,
    len: usize,
    entries: Vec<Entry>,
}

impl Stages {
    /// For `threads` threads.
    pub(super) fn new(threads: usize) -> Self {
        Self((0..threads).map(|_| Apart::default()).collect())
    }

    /// Lends the stage of a thread, or another if somebody has it or there is none.
    pub(super) fn lend(&self, thread: usize, work: impl FnOnce(&mut Stage)) {
        match self.0.get(thread).and_then(|stage| stage.try_lock().ok()) {
            Some(mut stage) => work(&mut stage),
            None => work(&mut Stage::default()),
        }
    }
}

impl Stage {
    pub(super) fn clear(&mut self) {
        self.len = 0;
        self.entries.clear();
    }

    /// Encodes the chunk that starts `offset` bytes into the buffer, one of a batch of `batch_len` raw bytes.
    pub(super) fn push(&mut self, plan: &Plan<'_>, offset: u64, chunk: &[u8], batch_len: usize) {
        // No chunk is stored in more units than its raw bytes, so only the last one needs more room.
        let room = batch_len.next_multiple_of(UNIT) + plan.chunk_room();
        if self.bytes.len() < room {
            self.bytes.resize(room, 0);
        }
        let units = plan.write_chunk(offset, chunk, &mut self.bytes[self.len..]);
        self.len += units as usize * UNIT;
        self.entries.push(Entry::of(chunk, units, &plan.header));
    }

    /// The codes, one behind the other.
    pub(super) fn codes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }

    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}

//! The work of writing a frame, for one thread or several.
//!
//! Chunks are taken in batches, in order. Where a batch goes is known once the one before it has its length;
//! until then its codes wait on a stage that fits a core's cache. A thread whose turn it is already, as with a
//! single thread always, writes in place. Large frames are staged and streamed past the caches, unless the codec
//! writes steadily (see [`Codec::writes_steadily`](crate::Codec::writes_steadily)).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::plan::{Entry, Plan};
use super::{FrameError, HEADER_LEN, Header, UNIT, max_frame_len};

/// Raw bytes of a batch: small, so that several threads share a small buffer evenly.
pub(super) const BATCH_LEN: usize = 32 << 10;
/// Raw bytes of a batch of a large buffer: long, so that threads keep out of each other's lines and pages.
pub(super) const LARGE_BATCH_LEN: usize = 128 << 10;

/// How often a thread looks for its turn before it sleeps: some ten microseconds.
const SPINS: usize = 2000;

/// What no batch has taken yet of the frame's table and chunks. The first batch without a place comes next.
struct Unwritten<'a> {
    table: &'a mut [u8],
    chunks: &'a mut [u8],
    end_units: u32,
}

/// A frame in the making. Any number of threads may [`work`](Self::work) on it at once.
pub(super) struct Writer<'a> {
    plan: &'a Plan<'a>,
    progress: &'a (dyn Fn(u64) + Sync),
    batch_len: usize,
    in_place: bool,
    /// The next batch that nobody works on.
    next: AtomicUsize,
    /// The batch that may take its place now.
    turn: AtomicUsize,
    done: AtomicU64,
    /// Threads that wait for [`turned`](Self::turned).
    sleepers: AtomicUsize,
    turned: Condvar,
    /// A thread died with its batch: nobody must wait for it.
    abandoned: AtomicBool,
    unwritten: Mutex<Unwritten<'a>>,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        plan: &'a Plan<'a>,
        room: &'a mut [u8],
        progress: &'a (dyn Fn(u64) + Sync),
    ) -> Result<Self, FrameError> {
        let needed = max_frame_len(plan.raw.len(), plan.options);
        if room.len() < needed {
            return Err(FrameError::Room { needed: needed as u64, got: room.len() as u64 });
        }
        let (front, chunks) = room.split_at_mut(plan.chunks_offset());
        let (header, front) = front.split_at_mut(HEADER_LEN);
        let (table, codebook) = front.split_at_mut(front.len() - plan.codebook.len());
        codebook.copy_from_slice(&plan.codebook);
        header.copy_from_slice(&plan.header.to_bytes());
        let used = plan.header.chunks() * plan.header.entry_len();
        table[used..].fill(0);
        let batch_len = if plan.streamer().streams() { LARGE_BATCH_LEN } else { BATCH_LEN };
        Ok(Self {
            plan,
            progress,
            batch_len: batch_len.max(plan.header.chunk_size.bytes()),
            in_place: plan.writes_in_place(),
            next: AtomicUsize::new(0),
            turn: AtomicUsize::new(0),
            done: AtomicU64::new(0),
            sleepers: AtomicUsize::new(0),
            turned: Condvar::new(),
            abandoned: AtomicBool::new(false),
            unwritten: Mutex::new(Unwritten { table, chunks, end_units: 0 }),
        })
    }

    /// Takes batches until none is left.
    pub(super) fn work(&self) {
        let _guard = Abandon(self);
        let mut stage = Stage::default();
        loop {
            let batch = self.next.fetch_add(1, Ordering::Relaxed);
            let start = batch.saturating_mul(self.batch_len);
            let Some(rest) = self.plan.raw.get(start..).filter(|rest| !rest.is_empty()) else { return };
            let raw = &rest[..rest.len().min(self.batch_len)];
            if self.in_place && self.turn.load(Ordering::SeqCst) == batch {
                self.write_in_place(start, raw);
                self.pass_turn(batch);
            } else if !self.write_staged(batch, start, raw, &mut stage) {
                return;
            }
            let done = self.done.fetch_add(raw.len() as u64, Ordering::Relaxed) + raw.len() as u64;
            (self.progress)(done);
        }
    }

    /// The length of the frame, once all work is done.
    pub(super) fn finish(self) -> usize {
        let unwritten = self.unwritten.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.plan.chunks_offset() + unwritten.end_units as usize * UNIT
    }

    /// Writes a batch, which starts `start` bytes into the buffer, where it belongs.
    fn write_in_place(&self, start: usize, raw: &[u8]) {
        let mut unwritten = self.unwritten();
        let chunk_room = self.plan.chunk_room();
        let chunk_len = self.plan.header.chunk_size.bytes();
        for (index, chunk) in raw.chunks(chunk_len).enumerate() {
            let offset = (start + index * chunk_len) as u64;
            let units = if unwritten.chunks.len() >= chunk_room {
                self.plan.write_chunk(offset, chunk, unwritten.chunks)
            } else {
                // The end of the room: enough for the code, but not for what the encoder asks.
                let mut stage = vec![0; chunk_room];
                let units = self.plan.write_chunk(offset, chunk, &mut stage);
                let len = units as usize * UNIT;
                unwritten.chunks[..len].copy_from_slice(&stage[..len]);
                units
            };
            unwritten.take(units as usize * UNIT);
            unwritten.push_entry(&self.plan.header, Entry::of(chunk, units, &self.plan.header));
        }
    }

    /// Encodes a batch aside and copies it to its place; `false` if its place will never be known.
    fn write_staged(&self, batch: usize, start: usize, raw: &[u8], stage: &mut Stage) -> bool {
        stage.fill(self.plan, self.batch_len, start, raw);
        if !self.wait_for_turn(batch) {
            return false;
        }
        let mut unwritten = self.unwritten();
        let place = unwritten.take(stage.len);
        for &entry in &stage.entries {
            unwritten.push_entry(&self.plan.header, entry);
        }
        drop(unwritten);
        self.pass_turn(batch);
        self.plan.streamer().copy(place, &stage.bytes[..stage.len], self.next_raw());
        true
    }

    /// What the next batch reads first, if no other thread takes it.
    fn next_raw(&self) -> &[u8] {
        let start = self.next.load(Ordering::Relaxed).saturating_mul(self.batch_len);
        let rest = self.plan.raw.get(start..).unwrap_or_default();
        &rest[..rest.len().min(self.plan.unasked_len(self.batch_len))]
    }

    /// Batches take about the same time and started in order, so the wait is short, unless the thread ahead
    /// lost its core: then this one sleeps and leaves it its own.
    fn wait_for_turn(&self, batch: usize) -> bool {
        let is_over = || self.turn.load(Ordering::SeqCst) == batch || self.abandoned.load(Ordering::SeqCst);
        for _ in 0..SPINS {
            if is_over() {
                break;
            }
            std::hint::spin_loop();
        }
        if !is_over() {
            self.sleepers.fetch_add(1, Ordering::SeqCst);
            let mut unwritten = self.unwritten();
            while !is_over() {
                unwritten = self.turned.wait(unwritten).unwrap_or_else(PoisonError::into_inner);
            }
            drop(unwritten);
            self.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
        self.turn.load(Ordering::SeqCst) == batch
    }

    /// Lets the batch behind `batch` take its place.
    fn pass_turn(&self, batch: usize) {
        self.turn.store(batch + 1, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes those who sleep. One who counted itself too late to be seen here sees the new turn instead.
    fn wake(&self) {
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.unwritten());
            self.turned.notify_all();
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten<'a>> {
        // A thread that panicked has set `abandoned`; what it left is never used.
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<'a> Unwritten<'a> {
    /// The next `len` bytes of the chunks.
    fn take(&mut self, len: usize) -> &'a mut [u8] {
        let (place, rest) = std::mem::take(&mut self.chunks).split_at_mut(len);
        self.chunks = rest;
        place
    }

    fn push_entry(&mut self, header: &Header, entry: Entry) {
        self.end_units += entry.units;
        let (place, rest) = std::mem::take(&mut self.table).split_at_mut(header.entry_len());
        self.table = rest;
        entry.write(self.end_units, place);
    }
}

/// The codes of a batch before they have a place.
#[derive(Default)]
struct Stage {
    bytes: Vec<u8>,
    len: usize,
    entries: Vec<Entry>,
}

impl Stage {
    fn fill(&mut self, plan: &Plan<'_>, batch_len: usize, start: usize, raw: &[u8]) {
        if self.bytes.is_empty() {
            // No chunk is stored in more units than its raw bytes, so only the last one needs more room.
            self.bytes = vec![0; batch_len.min(plan.raw.len().next_multiple_of(UNIT)) + plan.chunk_room()];
        }
        self.len = 0;
        self.entries.clear();
        let chunk_len = plan.header.chunk_size.bytes();
        for (index, chunk) in raw.chunks(chunk_len).enumerate() {
            let offset = (start + index * chunk_len) as u64;
            let units = plan.write_chunk(offset, chunk, &mut self.bytes[self.len..]);
            self.len += units as usize * UNIT;
            self.entries.push(Entry::of(chunk, units, &plan.header));
        }
    }
}

/// Tells the others when its thread unwinds.
struct Abandon<'a, 'w>(&'a Writer<'w>);

impl Drop for Abandon<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.abandoned.store(true, Ordering::SeqCst);
            self.0.wake();
        }
    }
}

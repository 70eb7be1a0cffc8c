//! The work of writing a frame, for one thread or several.
//!
//! Chunks are taken in batches, in order. Where a batch goes is known once the one before it has its length;
//! until then its codes wait on a stage that fits a core's cache. From then on a thread writes in place, as a
//! single thread always does. Large frames are staged and streamed past the caches, unless the codec writes
//! steadily (see [`Codec::writes_steadily`](crate::Codec::writes_steadily)).

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::apart::Apart;
use super::crew::{Work, spin_until};
use super::plan::{Entry, Plan};
use super::stage::{Stage, Stages};
use super::{FrameError, HEADER_LEN, Header, UNIT, max_frame_len};

/// Raw bytes of a batch of a large buffer: long, so that threads keep out of each other's lines and pages.
pub(super) const LARGE_BATCH_LEN: usize = 128 << 10;
/// The most raw bytes of a batch of any other: its codes wait in the second-level cache.
const MAX_BATCH_LEN: usize = 256 << 10;

/// A frame in the making. Any number of threads may [`work`](Work::work) on it at once.
pub(super) struct Writer<'a> {
    plan: &'a Plan<'a>,
    progress: &'a (dyn Fn(u64) + Sync),
    threads: usize,
    stages: &'a Stages,
    in_place: bool,
    taken: Apart<Taken>,
    order: Apart<Order>,
    unwritten: Apart<Mutex<Unwritten<'a>>>,
}

/// What is taken, and what is done, in raw bytes.
#[derive(Default)]
struct Taken {
    /// Where the next batch starts that nobody works on.
    next: AtomicUsize,
    done: AtomicU64,
}

/// Who writes.
#[derive(Default)]
struct Order {
    /// The start of the batch that may take its place now.
    turn: AtomicUsize,
    /// Threads that wait for [`turned`](Self::turned).
    sleepers: AtomicUsize,
    turned: Condvar,
    /// A thread died with its batch: nobody must wait for it.
    abandoned: AtomicBool,
}

/// What no batch has taken yet of the frame's table and chunks. The first batch without a place comes next.
struct Unwritten<'a> {
    table: &'a mut [u8],
    chunks: &'a mut [u8],
    end_units: u32,
}

/// Chunks that one thread writes.
#[derive(Clone, Copy)]
struct Batch<'a> {
    /// Where it starts in the buffer.
    start: usize,
    raw: &'a [u8],
}

impl<'a> Writer<'a> {
    /// For `threads` threads; more may work and fewer, but that is how many the batches are cut for.
    pub(super) fn new(
        plan: &'a Plan<'a>,
        room: &'a mut [u8],
        threads: usize,
        stages: &'a Stages,
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
        Ok(Self {
            plan,
            progress,
            threads,
            stages,
            in_place: plan.writes_in_place(),
            taken: Apart::default(),
            order: Apart::default(),
            unwritten: Apart(Mutex::new(Unwritten { table, chunks, end_units: 0 })),
        })
    }

    /// The length of the frame, once all work is done.
    pub(super) fn finish(self) -> usize {
        let unwritten = self.unwritten.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.plan.chunks_offset() + unwritten.end_units as usize * UNIT
    }

    /// The next batch that nobody works on.
    fn take(&self) -> Option<Batch<'a>> {
        let raw = self.plan.raw;
        let end = |start| (start < raw.len()).then(|| raw.len().min(start + self.batch_len(start)));
        let start = self.taken.next.fetch_update(Ordering::Relaxed, Ordering::Relaxed, end).ok()?;
        Some(Batch { start, raw: &raw[start..end(start)?] })
    }

    /// Raw bytes of the batch that starts at `start`.
    ///
    /// Each takes its part of what is left, so that there are few of them and threads are through at the same
    /// time. The first is shorter than those that are taken with it: then their turn comes while they are on
    /// their way, not later.
    fn batch_len(&self, start: usize) -> usize {
        let chunk_len = self.plan.header.chunk_size.bytes();
        if self.plan.streamer().streams() {
            return LARGE_BATCH_LEN.max(chunk_len);
        }
        let part = (self.plan.raw.len() - start) / self.threads;
        let part = if start == 0 && self.threads > 1 { part / 3 * 2 } else { part };
        (part.min(MAX_BATCH_LEN) / chunk_len * chunk_len).max(chunk_len)
    }

    /// Encodes a batch, aside until its place is known; `false` if that will never be.
    fn write(&self, batch: Batch<'_>, stage: &mut Stage) -> bool {
        let Batch { start, raw } = batch;
        stage.clear();
        let mut chunks = raw.chunks(self.plan.header.chunk_size.bytes());
        let mut offset = start;
        while !(self.in_place && self.is_turn(start)) {
            let Some(chunk) = chunks.next() else { break };
            stage.push(self.plan, offset as u64, chunk, raw.len());
            offset += chunk.len();
        }
        if !self.wait_for_turn(start) {
            return false;
        }
        let mut unwritten = self.unwritten();
        let place = unwritten.take(stage.codes().len());
        for &entry in stage.entries() {
            unwritten.push_entry(&self.plan.header, entry);
        }
        for chunk in chunks {
            unwritten.push(self.plan, offset as u64, chunk);
            offset += chunk.len();
        }
        drop(unwritten);
        self.pass_turn(offset);
        self.plan.streamer().copy(place, stage.codes(), self.next_raw());
        true
    }

    /// What the next batch reads first, if no other thread takes it.
    fn next_raw(&self) -> &[u8] {
        let start = self.taken.next.load(Ordering::Relaxed);
        let rest = self.plan.raw.get(start..).unwrap_or_default();
        &rest[..rest.len().min(self.plan.unasked_len(LARGE_BATCH_LEN))]
    }

    fn is_turn(&self, start: usize) -> bool {
        self.order.turn.load(Ordering::SeqCst) == start
    }

    /// Batches take about the same time and started in order, so the wait is short, unless the thread ahead
    /// lost its core: then this one sleeps and leaves it its own.
    fn wait_for_turn(&self, start: usize) -> bool {
        let is_over = || self.is_turn(start) || self.order.abandoned.load(Ordering::SeqCst);
        spin_until(is_over);
        if !is_over() {
            self.order.sleepers.fetch_add(1, Ordering::SeqCst);
            let mut unwritten = self.unwritten();
            while !is_over() {
                unwritten = self.order.turned.wait(unwritten).unwrap_or_else(PoisonError::into_inner);
            }
            drop(unwritten);
            self.order.sleepers.fetch_sub(1, Ordering::SeqCst);
        }
        self.is_turn(start)
    }

    /// Lets the batch that starts at `end` take its place.
    fn pass_turn(&self, end: usize) {
        self.order.turn.store(end, Ordering::SeqCst);
        self.wake();
    }

    /// Wakes those who sleep. One who counted itself too late to be seen here sees the new turn instead.
    fn wake(&self) {
        if self.order.sleepers.load(Ordering::SeqCst) > 0 {
            drop(self.unwritten());
            self.order.turned.notify_all();
        }
    }

    fn unwritten(&self) -> MutexGuard<'_, Unwritten<'a>> {
        // A thread that panicked has set `abandoned`; what it left is never used.
        self.unwritten.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Work for Writer<'_> {
    /// Takes batches until none is left.
    fn work(&self, thread: usize) {
        let _guard = Abandon(self);
        self.stages.lend(thread, |stage| {
            while let Some(batch) = self.take() {
                if !self.write(batch, stage) {
                    return;
                }
                let len = batch.raw.len() as u64;
                let done = self.taken.done.fetch_add(len, Ordering::Relaxed) + len;
                (self.progress)(done);
            }
        });
    }
}

impl<'a> Unwritten<'a> {
    /// The next `len` bytes of the chunks.
    fn take(&mut self, len: usize) -> &'a mut [u8] {
        let (place, rest) = std::mem::take(&mut self.chunks).split_at_mut(len);
        self.chunks = rest;
        place
    }

    /// Writes the chunk that starts `offset` bytes into the buffer where it belongs.
    fn push(&mut self, plan: &Plan<'_>, offset: u64, chunk: &[u8]) {
        let chunk_room = plan.chunk_room();
        let units = if self.chunks.len() >= chunk_room {
            plan.write_chunk(offset, chunk, self.chunks)
        } else {
            // The end of the room: enough for the code, but not for what the encoder asks.
            let mut stage = vec![0; chunk_room];
            let units = plan.write_chunk(offset, chunk, &mut stage);
            let len = units as usize * UNIT;
            self.chunks[..len].copy_from_slice(&stage[..len]);
            units
        };
        self.take(units as usize * UNIT);
        self.push_entry(&plan.header, Entry::of(chunk, units, &plan.header));
    }

    fn push_entry(&mut self, header: &Header, entry: Entry) {
        self.end_units += entry.units;
        let (place, rest) = std::mem::take(&mut self.table).split_at_mut(header.entry_len());
        self.table = rest;
        entry.write(self.end_units, place);
    }
}

/// Tells the others when its thread unwinds.
struct Abandon<'a, 'w>(&'a Writer<'w>);

impl Drop for Abandon<'_, '_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.order.abandoned.store(true, Ordering::SeqCst);
            self.0.wake();
        }
    }
}

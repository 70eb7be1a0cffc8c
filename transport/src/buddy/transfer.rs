//! Reading and writing ranges of an allocation.

use std::cell::RefCell;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

use super::cache::MetadataCache;
use super::entry::{self, BATCH};
use super::error::{BuddyError, EntryError};
use super::memory::Memory;
use super::shape::{Shape, Span};
use super::stats::Accesses;

/// Buffers of a thread, kept because calls may be short.
#[derive(Default)]
struct Scratch {
    coded: Vec<u8>,
    raw: Vec<u8>,
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One call on one allocation.
pub(super) struct Transfer<'a> {
    shape: &'a Shape,
    cache: &'a Mutex<MetadataCache>,
    scratch: Scratch,
    /// What the call has done.
    pub(super) accesses: Accesses,
    /// By how many entries more than before do not fit their slots.
    pub(super) more_overflowing: i64,
}

impl Drop for Transfer<'_> {
    fn drop(&mut self) {
        SCRATCH.replace(std::mem::take(&mut self.scratch));
    }
}

impl<'a> Transfer<'a> {
    pub(super) fn new(shape: &'a Shape, cache: &'a Mutex<MetadataCache>) -> Self {
        let (accesses, more_overflowing) = (Accesses::default(), 0);
        Self { shape, cache, scratch: SCRATCH.take(), accesses, more_overflowing }
    }

    /// Reads `range`, which is inside the allocation and as long as `out`.
    pub(super) fn read(
        &mut self,
        (device, buddy): (&impl Memory, &impl Memory),
        range: Range<u64>,
        out: &mut [u8],
    ) -> Result<(), BuddyError> {
        for span in self.shape.spans(range.clone()) {
            let done = span.bytes.start - range.start;
            let out = &mut out[done as usize..(span.bytes.end - range.start) as usize];
            self.read_span((device, buddy), &span, out).map_err(|error| error.after(done))?;
        }
        Ok(())
    }

    /// Writes `data` to `range`, which is inside the allocation and as long.
    pub(super) fn write(
        &mut self,
        (device, buddy): (&mut impl Memory, &mut impl Memory),
        range: Range<u64>,
        data: &[u8],
    ) -> Result<(), BuddyError> {
        for span in self.shape.spans(range.clone()) {
            let done = span.bytes.start - range.start;
            let data = &data[done as usize..(span.bytes.end - range.start) as usize];
            self.write_span((device, buddy), &span, data).map_err(|error| error.after(done))?;
        }
        Ok(())
    }

    fn read_span(
        &mut self,
        memories: (&impl Memory, &impl Memory),
        span: &Span,
        out: &mut [u8],
    ) -> Result<(), EntryError> {
        if self.shape.is_whole(span) {
            return self.read_entries(memories, span.entries.clone(), out);
        }
        let mut raw = self.raw_of(span);
        let read = self.read_entries(memories, span.entries.clone(), &mut raw);
        let start = (span.bytes.start - self.shape.start(span.entries.start)) as usize;
        out.copy_from_slice(&raw[start..start + out.len()]);
        self.scratch.raw = raw;
        read
    }

    /// A buffer for all raw bytes of the entries of `span`, of which nothing is known.
    fn raw_of(&mut self, span: &Span) -> Vec<u8> {
        let mut raw = std::mem::take(&mut self.scratch.raw);
        let len = self.shape.end(span.entries.end - 1) - self.shape.start(span.entries.start);
        raw.resize(len as usize, 0);
        raw
    }

    /// Reads whole entries, all of one batch.
    fn read_entries(
        &mut self,
        (device, buddy): (&impl Memory, &impl Memory),
        entries: Range<u64>,
        raw: &mut [u8],
    ) -> Result<(), EntryError> {
        let (shape, first) = (self.shape, entries.start);
        let mut states = [0; BATCH];
        let states = &mut states[..(entries.end - first) as usize];
        entry::load(device, shape, first, states)?;
        self.look_up(first, states.len() as u64);
        self.accesses.reads += states.len() as u64;

        let mut overflowing = 0;
        let fetch = |number: usize, to: &mut [u8]| {
            let entry = first + number as u64;
            let (here, there) = to.split_at_mut(shape.slot_len(entry).min(to.len()));
            device.load(shape.slot_at(entry), here)?;
            if !there.is_empty() {
                overflowing += 1;
                buddy.load(shape.spill_at(entry), there)?;
            }
            Ok(())
        };
        let decoded = shape.form.decode(first, states, &mut self.scratch.coded, fetch, raw);
        self.accesses.buddy_reads += overflowing;
        decoded
    }

    fn write_span(
        &mut self,
        (device, buddy): (&mut impl Memory, &mut impl Memory),
        span: &Span,
        data: &[u8],
    ) -> Result<(), EntryError> {
        if self.shape.is_whole(span) {
            return self.write_entries((device, buddy), span.entries.clone(), data);
        }
        let mut raw = self.raw_of(span);
        let written = self.fill_up((device, buddy), span, &mut raw).and_then(|()| {
            let start = (span.bytes.start - self.shape.start(span.entries.start)) as usize;
            raw[start..start + data.len()].copy_from_slice(data);
            self.write_entries((device, buddy), span.entries.clone(), &raw)
        });
        self.scratch.raw = raw;
        written
    }

    /// Reads to `raw` the entries that `span` has only a part of, and fills up the last one of the allocation.
    fn fill_up(
        &mut self,
        memories: (&impl Memory, &impl Memory),
        span: &Span,
        raw: &mut [u8],
    ) -> Result<(), EntryError> {
        let shape = self.shape;
        let start = shape.start(span.entries.start);
        let (first, last) = (span.entries.start, span.entries.end - 1);
        let head = span.bytes.start > start;
        let tail = span.bytes.end < shape.end(last).min(shape.len);
        if head || (tail && first == last) {
            self.read_entries(memories, first..first + 1, &mut raw[..shape.raw_len(first)])?;
        }
        if tail && first < last {
            let last_at = (shape.start(last) - start) as usize;
            self.read_entries(memories, last..last + 1, &mut raw[last_at..])?;
        }
        if span.bytes.end == shape.len {
            raw[(shape.len - start) as usize..].fill(0);
        }
        Ok(())
    }

    /// Writes whole entries, all of one batch: what fits their slots, what does not, and last their states.
    fn write_entries(
        &mut self,
        (device, buddy): (&mut impl Memory, &mut impl Memory),
        entries: Range<u64>,
        raw: &[u8],
    ) -> Result<(), EntryError> {
        let (shape, first) = (self.shape, entries.start);
        let count = (entries.end - first) as usize;
        let (mut before, mut states) = ([0; BATCH], [0; BATCH]);
        entry::load(device, shape, first, &mut before[..count])?;
        self.look_up(first, count as u64);

        let mut overflowing = 0;
        let keep = |number: usize, state: u16, stored: &[u8]| {
            let entry = first + number as u64;
            states[number] = state;
            let (here, there) = stored.split_at(shape.slot_len(entry).min(stored.len()));
            device.store(shape.slot_at(entry), here)?;
            if !there.is_empty() {
                overflowing += 1;
                buddy.store(shape.spill_at(entry), there)?;
            }
            Ok(())
        };
        shape.form.encode(raw, &mut self.scratch.coded, keep)?;
        entry::store(device, shape, first, &states[..count])?;
        self.accesses.writes += count as u64;
        self.accesses.buddy_writes += overflowing;
        self.more_overflowing += overflowing as i64 - self.overflowing(first, &before[..count]);
        Ok(())
    }

    /// How many entries in these states do not fit their slots.
    fn overflowing(&self, first: u64, states: &[u16]) -> i64 {
        let overflows = |&(entry, &state): &(u64, &u16)| {
            let stored = self.shape.form.stored_len(state, self.shape.raw_len(entry));
            stored.is_some_and(|len| len > self.shape.slot_len(entry))
        };
        (first..).zip(states).filter(overflows).count() as i64
    }

    /// Looks up the metadata of `count` entries, which lie in one sector.
    fn look_up(&mut self, first: u64, count: u64) {
        let sector = entry::sector_at(self.shape, first);
        let hit = self.cache.lock().unwrap_or_else(PoisonError::into_inner).look_up(sector);
        self.accesses.metadata_hits += count - u64::from(!hit);
        self.accesses.metadata_misses += u64::from(!hit);
    }
}

//! What is counted.

use std::ops::AddAssign;
use std::sync::atomic::{AtomicU64, Ordering};

/// What an allocation or a pool holds, and what has been done to it.
///
/// An *access* is an entry that a call reads or writes; an entry that is written in part is read, too. An access
/// touches buddy memory if not all that is stored of the entry fits its slot. Nothing is ever refused because an
/// entry does not reach its target: it overflows, and that is counted here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Bytes of the allocations, as asked for.
    pub raw_bytes: u64,
    /// Bytes of their slots in device memory.
    pub device_bytes: u64,
    /// Bytes of their metadata, in device memory too.
    pub metadata_bytes: u64,
    /// Bytes of buddy memory that are theirs, used or not.
    pub buddy_bytes: u64,
    /// Entries that there are.
    pub entries: u64,
    /// Of these, entries that do not fit their slots now.
    pub overflowing_entries: u64,
    /// What has been done so far; in a pool, to allocations that are freed as well.
    pub accesses: Accesses,
}

impl Stats {
    /// Raw bytes per byte of device memory, metadata counted; 1 where there is nothing.
    #[must_use]
    pub fn effective_capacity(&self) -> f64 {
        match self.device_bytes + self.metadata_bytes {
            0 => 1.0,
            bytes => self.raw_bytes as f64 / bytes as f64,
        }
    }
}

impl AddAssign for Stats {
    fn add_assign(&mut self, other: Self) {
        self.raw_bytes += other.raw_bytes;
        self.device_bytes += other.device_bytes;
        self.metadata_bytes += other.metadata_bytes;
        self.buddy_bytes += other.buddy_bytes;
        self.entries += other.entries;
        self.overflowing_entries += other.overflowing_entries;
        self.accesses += other.accesses;
    }
}

/// Accesses, and what they needed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Accesses {
    /// Entries read.
    pub reads: u64,
    /// Of these, entries of which a part was in buddy memory.
    pub buddy_reads: u64,
    /// Entries written.
    pub writes: u64,
    /// Of these, entries of which a part went to buddy memory.
    pub buddy_writes: u64,
    /// Accesses whose metadata the modelled cache had.
    pub metadata_hits: u64,
    /// Accesses whose metadata it had not.
    pub metadata_misses: u64,
}

impl Accesses {
    /// The share of accesses that touched buddy memory; 0 where there were none.
    #[must_use]
    pub fn buddy_share(&self) -> f64 {
        share(self.buddy_reads + self.buddy_writes, self.reads + self.writes)
    }

    /// The share of accesses whose metadata the cache had; 0 where there were none.
    #[must_use]
    pub fn metadata_hit_share(&self) -> f64 {
        share(self.metadata_hits, self.metadata_hits + self.metadata_misses)
    }
}

impl AddAssign for Accesses {
    fn add_assign(&mut self, other: Self) {
        self.reads += other.reads;
        self.buddy_reads += other.buddy_reads;
        self.writes += other.writes;
        self.buddy_writes += other.buddy_writes;
        self.metadata_hits += other.metadata_hits;
        self.metadata_misses += other.metadata_misses;
    }
}

/// `part` of `all`.
pub(super) fn share(part: u64, all: u64) -> f64 {
    if all == 0 { 0.0 } else { part as f64 / all as f64 }
}

/// [`Accesses`] that several threads add to.
#[derive(Debug, Default)]
pub(super) struct Counters {
    reads: AtomicU64,
    buddy_reads: AtomicU64,
    writes: AtomicU64,
    buddy_writes: AtomicU64,
    metadata_hits: AtomicU64,
    metadata_misses: AtomicU64,
}

impl Counters {
    pub(super) fn add(&self, new: &Accesses) {
        let add = |to: &AtomicU64, number| to.fetch_add(number, Ordering::Relaxed);
        add(&self.reads, new.reads);
        add(&self.buddy_reads, new.buddy_reads);
        add(&self.writes, new.writes);
        add(&self.buddy_writes, new.buddy_writes);
        add(&self.metadata_hits, new.metadata_hits);
        add(&self.metadata_misses, new.metadata_misses);
    }

    pub(super) fn so_far(&self) -> Accesses {
        let load = |from: &AtomicU64| from.load(Ordering::Relaxed);
        Accesses {
            reads: load(&self.reads),
            buddy_reads: load(&self.buddy_reads),
            writes: load(&self.writes),
            buddy_writes: load(&self.buddy_writes),
            metadata_hits: load(&self.metadata_hits),
            metadata_misses: load(&self.metadata_misses),
        }
    }
}

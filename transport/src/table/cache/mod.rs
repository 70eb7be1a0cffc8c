//! Rows that are kept near, packed one behind the other.

mod entry;

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use mgcomp_codecs::ChunkError;

use entry::{IndexHash, MAX_SLAB_BYTES};
pub use entry::{MAX_SLABS, SlabEntry};

use super::gather::Gathering;
use super::shared::{piece_rows, share};
use super::{Gathered, Shared, Table, TableError, Version};

/// A static cache: some rows of a table, chosen once, in slabs of near memory (one for each device, say).
///
/// As rows are packed, a slab holds more of them. A hash map tells where each is and how it is stored, in one word
/// ([`SlabEntry`]), so that a look-up takes no more memory accesses than it would without packing.
#[derive(Debug)]
pub struct Cache {
    slabs: Vec<Vec<u8>>,
    entries: HashMap<u64, SlabEntry, IndexHash>,
    hits: AtomicU64,
    misses: AtomicU64,
    version: Version,
    shared: Arc<Shared>,
}

/// What a gather found where.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheHits {
    /// Rows that were in the cache.
    pub hits: u64,
    /// What was read from the table, because it was not.
    pub from_table: Gathered,
}

impl Cache {
    /// Takes rows of `table`, the most wanted first, into slabs of these lengths in bytes: each into the first one that has
    /// room for it. Rows for which there is no room are left out; one that is named twice is taken once.
    ///
    /// # Errors
    /// [`TableError`] if an index is out of range, or slabs are too many or too long.
    pub fn fill<M: AsRef<[u8]>>(
        table: &Table<M>,
        indices: impl IntoIterator<Item = u64>,
        slab_bytes: &[u64],
    ) -> Result<Self, TableError> {
        check_slabs(slab_bytes)?;
        let mut cache = Self {
            slabs: vec![Vec::new(); slab_bytes.len()],
            entries: HashMap::default(),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
            version: table.version,
            shared: Arc::clone(&table.shared),
        };
        for (position, index) in indices.into_iter().enumerate() {
            table.check_index(position, index)?;
            cache.take(table, (position, index), slab_bytes)?;
        }
        Ok(cache)
    }

    /// How many rows it holds.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.entries.len() as u64
    }

    /// Bytes of the slabs that are in use.
    #[must_use]
    pub fn used_bytes(&self) -> u64 {
        self.slabs.iter().map(|slab| slab.len() as u64).sum()
    }

    /// Where a row is, if it is here.
    #[must_use]
    pub fn entry(&self, index: u64) -> Option<SlabEntry> {
        self.entries.get(&index).copied()
    }

    /// Each row that is here, and where, in no order.
    pub fn entries(&self) -> impl Iterator<Item = (u64, SlabEntry)> {
        self.entries.iter().map(|(row, entry)| (*row, *entry))
    }

    /// The bytes of a slab, if there is one of this number.
    #[must_use]
    pub fn slab(&self, slab: usize) -> Option<&[u8]> {
        self.slabs.get(slab).map(Vec::as_slice)
    }

    /// Rows that gathers have found here since it was filled.
    #[must_use]
    pub fn hits(&self) -> u64 {
        self.hits.load(Relaxed)
    }

    /// Rows that they have not.
    #[must_use]
    pub fn misses(&self) -> u64 {
        self.misses.load(Relaxed)
    }

    /// As [`Table::gather`], with those rows from the cache that are there.
    ///
    /// # Errors
    /// As [`Table::gather`]; [`TableError::Stale`] if it was filled from another table, or one that was changed since other
    /// than by [`update`](Self::update).
    pub fn gather<M: AsRef<[u8]> + Sync>(
        &self,
        table: &Table<M>,
        indices: &[u64],
        out: &mut [u8],
    ) -> Result<CacheHits, TableError> {
        self.version.check(table.version)?;
        table.check_gather(indices, out)?;
        let (row_len, rows, bytes) = (table.row_len(), piece_rows(table.row_len()), out.len());
        let gathering = Gathering::default();
        let pieces = indices.chunks(rows).zip(out.chunks_mut(rows * row_len)).enumerate();
        share(&self.shared.workers, bytes, pieces, |(number, (indices, out))| {
            gathering.add(self.gather_piece(table, rows * number, indices, out));
        });
        let from_table = gathering.finish()?;
        let hits = indices.len() as u64 - from_table.rows;
        self.hits.fetch_add(hits, Relaxed);
        self.misses.fetch_add(from_table.rows, Relaxed);
        Ok(CacheHits { hits, from_table })
    }

    /// Changes a row of the table that this was filled from. The row leaves the cache, the others stay. Its bytes of the slab
    /// are not used again.
    ///
    /// # Errors
    /// As [`Table::update`], and [`TableError::Stale`].
    pub fn update<M: AsRef<[u8]> + AsMut<[u8]>>(
        &mut self,
        table: &mut Table<M>,
        index: u64,
        row: &[u8],
    ) -> Result<(), TableError> {
        self.version.check(table.version)?;
        table.update(index, row)?;
        self.entries.remove(&index);
        self.version = table.version;
        Ok(())
    }

    fn take<M: AsRef<[u8]>>(
        &mut self,
        table: &Table<M>,
        (position, index): (usize, u64),
        lens: &[u64],
    ) -> Result<(), TableError> {
        if self.entries.contains_key(&index) {
            return Ok(());
        }
        let (form, row) = table.stored_row_at(position, index)?;
        let fits = |(slab, &len): (&Vec<u8>, &u64)| slab.len() as u64 + row.len() as u64 <= len;
        if let Some(slab) = self.slabs.iter().zip(lens).position(fits) {
            let bytes = &mut self.slabs[slab];
            self.entries.insert(index, SlabEntry::new(slab, bytes.len() as u64, form));
            bytes.extend_from_slice(row);
        }
        Ok(())
    }

    fn gather_piece<M: AsRef<[u8]> + Sync>(
        &self,
        table: &Table<M>,
        position: usize,
        indices: &[u64],
        out: &mut [u8],
    ) -> Result<Gathered, TableError> {
        let mut gathered = Gathered::default();
        for (i, (&index, out)) in indices.iter().zip(out.chunks_exact_mut(table.row_len())).enumerate() {
            let read = match self.entries.get(&index) {
                Some(entry) => self.read(*entry, out).map(|()| Gathered::default()),
                None => table.read_row(index, out),
            };
            gathered.add(read.map_err(|source| TableError::Row { position: position + i, index, source })?);
        }
        Ok(gathered)
    }

    fn read(&self, entry: SlabEntry, out: &mut [u8]) -> Result<(), ChunkError> {
        let stored = &self.slabs[entry.slab()][entry.offset() as usize..];
        self.shared.packer.unpack(entry.form(), stored, out).map(drop)
    }
}

fn check_slabs(slab_bytes: &[u64]) -> Result<(), TableError> {
    if slab_bytes.len() > MAX_SLABS {
        return Err(TableError::Slabs { slabs: slab_bytes.len() });
    }
    match slab_bytes.iter().position(|&bytes| bytes > MAX_SLAB_BYTES) {
        Some(slab) => Err(TableError::SlabLen { slab, bytes: slab_bytes[slab], most: MAX_SLAB_BYTES }),
        None => Ok(()),
    }
}

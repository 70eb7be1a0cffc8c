//! Rows that are kept in the memory of the device.

use mgcomp_codecs::device::{GatherRows, RowCache, Stream, Workspace};

use super::super::{Cache, CacheHits, TableError, Version};
use super::{DeviceTable, DeviceTableError, gathered_of};

/// A static cache on the device: some rows of a table, chosen once, packed in slabs of device memory, with the map that says
/// where they are and how they are stored. The device looks rows up there by itself, and counts what it finds.
#[derive(Debug)]
pub struct DeviceCache {
    rows: RowCache,
    count: u64,
    version: Version,
}

impl DeviceCache {
    /// Takes rows of `table` into slabs of device memory, as [`Cache::fill`] does on the host. What brings them there is waited
    /// for.
    ///
    /// # Errors
    /// As [`Cache::fill`], and whatever the driver says.
    pub fn fill(
        stream: &Stream,
        table: &DeviceTable,
        indices: impl IntoIterator<Item = u64>,
        slab_bytes: &[u64],
    ) -> Result<Self, DeviceTableError> {
        let cache = Cache::fill(table.table(), indices, slab_bytes)?;
        let slabs: Vec<&[u8]> = (0..slab_bytes.len()).filter_map(|slab| cache.slab(slab)).collect();
        let entries: Vec<(u64, u64)> = cache.entries().map(|(row, entry)| (row, entry.bits())).collect();
        let rows = table.device().row_cache(stream, &slabs, entries.into_iter())?;
        Ok(Self { rows, count: cache.rows(), version: table.table().version })
    }

    /// How many rows it holds.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.count
    }

    /// Bytes of device memory that it takes, with the map.
    #[must_use]
    pub fn device_bytes(&self) -> u64 {
        self.rows.bytes()
    }

    /// As [`DeviceTable::gather`], with those rows from here that are here.
    ///
    /// # Errors
    /// As [`DeviceTable::gather`]; [`TableError::Stale`] if this was filled from another table, or one that was changed since
    /// other than by [`update`](Self::update).
    pub fn gather(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        table: &DeviceTable,
        wanted: &GatherRows<'_>,
    ) -> Result<(), DeviceTableError> {
        self.check_version(table)?;
        table.enqueue(stream, workspace, Some(&self.rows), wanted)
    }

    /// As [`DeviceTable::gathered`]: what the last gather with this report found where.
    ///
    /// # Errors
    /// As [`DeviceTable::gathered`].
    pub fn gathered(
        &self,
        stream: &Stream,
        table: &DeviceTable,
        wanted: &GatherRows<'_>,
    ) -> Result<CacheHits, DeviceTableError> {
        // A graph that was recorded before the table changed is launched without being asked.
        self.check_version(table)?;
        let report = table.report(stream, wanted)?;
        Ok(CacheHits { hits: report.hits, from_table: gathered_of(&report) })
    }

    /// Rows that gathers have found here since it was filled, and rows that they have read from the table, as the device counts
    /// them: those of graphs each time. All work on `stream` is waited for.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn hits_and_misses(&self, stream: &Stream) -> Result<(u64, u64), DeviceTableError> {
        Ok(self.rows.totals(stream)?)
    }

    /// Changes a row of the table that this was filled from, as [`DeviceTable::update_rows`] does. The row leaves the cache, the
    /// others stay. Its bytes of the slab are not used again.
    ///
    /// # Errors
    /// As [`DeviceTable::update_rows`], and [`TableError::Stale`]. If the row has changed and is still here, because the driver
    /// failed in between, this cache is of no more use.
    pub fn update(
        &mut self,
        stream: &Stream,
        table: &mut DeviceTable,
        index: u64,
        row: &[u8],
    ) -> Result<(), DeviceTableError> {
        self.check_version(table)?;
        table.update_rows(stream, &[index], row)?;
        self.count -= u64::from(self.rows.remove(stream, index)?);
        self.version = table.table().version;
        Ok(())
    }

    fn check_version(&self, table: &DeviceTable) -> Result<(), TableError> {
        self.version.check(table.table().version)
    }
}

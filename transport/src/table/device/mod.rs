//! Tables whose rows a device reads by itself.

mod cache;
mod error;

use std::path::Path;

use mgcomp_codecs::device::{
    Buffer, Device, DeviceError, GatherRows, PackedRows, PinnedBytes, Region, RowCache, RowReader, RowReport,
    Stream, Workspace,
};

use super::{Gathered, LoadOptions, Table, TableError, TableFileError, TableOptions};

pub use cache::DeviceCache;
pub use error::DeviceTableError;

/// A table whose rows lie packed in page-locked memory of the host, for a device that gathers them by itself.
///
/// Of each row that is wanted the device reads the stored bytes over its link, and nothing else, and writes the row to its
/// own memory. It has masks, forms and clusters in its memory: two rows for each cluster, and a bit, or with several clusters
/// nine, for each row.
///
/// ```
/// use mgcomp_codecs::device::{Device, DeviceError, GatherRows, RowReport, workspace_len};
/// use mgcomp_codecs::frame::ChunkSize;
/// use mgcomp_transport::table::{DeviceTable, TableOptions};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let device = match Device::open(0) {
///     Err(DeviceError::NoDriver) => return Ok(()), // no GPU here
///     device => device?,
/// };
/// let stream = device.stream()?;
/// // A thousand rows of 64 bytes: small numbers.
/// let rows: Vec<u8> = (0..16_000u32).flat_map(|i| (i % 100).to_le_bytes()).collect();
/// let table = DeviceTable::build(&device, &stream, &rows, 64, &TableOptions::default())?;
///
/// let (indices, out) = (device.alloc(2 * 8)?, device.alloc(2 * 64)?);
/// let report = device.alloc(RowReport::LEN)?;
/// stream.upload(&[7u64, 999].map(u64::to_le_bytes).concat(), indices.region())?;
/// let mut workspace = device.workspace(&stream, workspace_len(ChunkSize::SMALL, &[]))?;
/// let wanted = GatherRows { indices: indices.region(), out: out.region(), report: report.region() };
/// table.gather(&stream, &mut workspace, &wanted)?; // waits for nothing
/// assert_eq!(table.gathered(&stream, &wanted)?.rows, 2); // waits
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct DeviceTable {
    device: Device,
    reader: RowReader,
    table: Table<PinnedBytes>,
    packed: Buffer,
    clusters: Option<Buffer>,
    /// Whether forms were changed that the device does not know of.
    is_behind: bool,
}

impl DeviceTable {
    /// Packs a copy of `rows`, of `row_len` bytes each, in page-locked memory.
    ///
    /// # Errors
    /// As [`Table::build`], and whatever the driver says.
    pub fn build(
        device: &Device,
        stream: &Stream,
        rows: &[u8],
        row_len: usize,
        options: &TableOptions,
    ) -> Result<Self, DeviceTableError> {
        let mut memory = device.pinned_bytes(rows.len())?;
        memory.as_mut().copy_from_slice(rows);
        Ok(Self::new(device, stream, Table::build(memory, row_len, options)?)?)
    }

    /// Reads a table that was [saved](Table::save) into page-locked memory.
    ///
    /// # Errors
    /// As [`Table::load`], and whatever the driver says.
    pub fn load(
        device: &Device,
        stream: &Stream,
        path: &Path,
        options: &LoadOptions,
    ) -> Result<Self, DeviceTableError> {
        let mut refused = None;
        let allocate = |bytes| device.pinned_bytes(bytes).map_err(|error| refused = Some(error)).ok();
        let table = Table::load_into(path, options, allocate);
        match (table, refused) {
            (Err(TableFileError::Memory { .. }), Some(error)) => Err(error.into()),
            (table, _) => Ok(Self::new(device, stream, table?)?),
        }
    }

    /// Lets `device` gather from a table in page-locked memory of its own. What it needs besides the rows is brought there
    /// on `stream`, which is waited for.
    ///
    /// # Errors
    /// As [`Device::row_reader`].
    pub fn new(device: &Device, stream: &Stream, table: Table<PinnedBytes>) -> Result<Self, DeviceError> {
        let reader = device.row_reader(stream, table.codebook())?;
        let bring = |bytes: &[u8]| {
            let buffer = device.alloc(bytes.len() as u64)?;
            stream.upload(bytes, buffer.region())?;
            Ok::<_, DeviceError>(buffer)
        };
        let packed = bring(table.packed_mask())?;
        let clusters = table.row_clusters();
        let has_clusters = table.codebook().clusters().len() > 1;
        let clusters = if has_clusters { Some(bring(clusters)?) } else { None };
        Ok(Self { device: device.clone(), reader, table, packed, clusters, is_behind: false })
    }

    /// Keeps each gather to as many blocks as `count` multiprocessors can run at a time, at least 1, wherever the device
    /// runs them; see [`RowReader::limit_sms`].
    #[must_use]
    pub fn limit_sms(self, count: u32) -> Self {
        Self { reader: self.reader.limit_sms(count), ..self }
    }

    /// The same table for the host: to gather there, or to save it.
    #[must_use]
    pub fn table(&self) -> &Table<PinnedBytes> {
        &self.table
    }

    /// The device.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Enqueues a gather of rows: of the indices in device memory to device memory. It waits for nothing and can be recorded
    /// in a graph; what indices and rows are wrong is in the report, see [`gathered`](Self::gathered).
    ///
    /// # Errors
    /// [`DeviceTableError::Device`] for regions that do not fit, and whatever the driver says; [`DeviceTableError::Behind`]
    /// after an update that failed.
    pub fn gather(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        wanted: &GatherRows<'_>,
    ) -> Result<(), DeviceTableError> {
        self.enqueue(stream, workspace, None, wanted)
    }

    /// What the last gather with this report has read, once all work on `stream` has ended, which is waited for.
    ///
    /// # Errors
    /// [`TableError::Index`] and [`TableError::Row`] for the first row that it could not give; then `out` is not whole. And
    /// whatever the driver says.
    pub fn gathered(&self, stream: &Stream, wanted: &GatherRows<'_>) -> Result<Gathered, DeviceTableError> {
        self.report(stream, wanted).map(|report| gathered_of(&report))
    }

    /// Gives the rows that `indices` name other bytes, as [`Table::update_rows`] does, when all work on `stream` has ended,
    /// which is waited for; so are the copies that tell the device. Gathers on other streams must have ended: what they read
    /// of these rows may be neither the old nor the new.
    ///
    /// # Errors
    /// As [`Table::update_rows`], and then nothing is changed. [`DeviceTableError::Device`] for what the driver says: if the rows
    /// have changed by then, the device cannot gather until this has been called again and went well, be it with no rows.
    ///
    /// Graphs are not checked when they are launched: after an error here, or if they gather from a [`DeviceCache`] that was
    /// not told ([`DeviceCache::update`]), they give old or wrong rows, which only `gathered` refuses.
    pub fn update_rows(
        &mut self,
        stream: &Stream,
        indices: &[u64],
        rows: &[u8],
    ) -> Result<(), DeviceTableError> {
        stream.wait()?;
        self.table.update_rows(indices, rows)?;
        let changed = indices.iter().min().zip(indices.iter().max());
        let changed = match changed {
            _ if self.is_behind => 0..self.table.rows(),
            Some((first, last)) => *first..last + 1,
            None => return Ok(()),
        };
        self.is_behind = true;
        let bytes = changed.start / 8..changed.end.div_ceil(8);
        bring(stream, self.table.packed_mask(), &self.packed, bytes)?;
        if let Some(clusters) = &self.clusters {
            bring(stream, self.table.row_clusters(), clusters, changed)?;
        }
        self.is_behind = false;
        Ok(())
    }

    fn enqueue(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        cache: Option<&RowCache>,
        wanted: &GatherRows<'_>,
    ) -> Result<(), DeviceTableError> {
        if self.is_behind {
            return Err(DeviceTableError::Behind);
        }
        let clusters = self.clusters.as_ref().map(Buffer::region);
        let (slots, packed) = (self.table.memory(), self.packed.region());
        let table = PackedRows { slots, packed, clusters, cache };
        Ok(self.reader.gather(stream, workspace, &table, wanted)?)
    }

    /// The report of a gather that went well.
    fn report(&self, stream: &Stream, wanted: &GatherRows<'_>) -> Result<RowReport, DeviceTableError> {
        // A graph is launched without being asked.
        if self.is_behind {
            return Err(DeviceTableError::Behind);
        }
        let mut bytes = [0; RowReport::LEN as usize];
        stream.download(wanted.report, &mut bytes)?;
        let report = RowReport::from_bytes(&bytes);
        match report.check() {
            Ok(()) => Ok(report),
            Err(refused) => Err(self
                .explain(stream, refused.0.chunk, wanted.indices)?
                .map_or_else(|| DeviceTableError::Refused(refused), DeviceTableError::Table)),
        }
    }

    /// What is wrong with the row at a position, as the host sees it, if it is.
    fn explain(
        &self,
        stream: &Stream,
        position: u64,
        indices: Region<'_>,
    ) -> Result<Option<TableError>, DeviceError> {
        let start = position.saturating_mul(8);
        if start.checked_add(8).is_none_or(|end| end > indices.len()) {
            return Ok(None);
        }
        let index = stream.read(indices.word(start))?;
        let position = position as usize;
        if let Err(error) = self.table.check_index(position, index) {
            return Ok(Some(error));
        }
        let mut row = vec![0; self.table.row_len()];
        let damage = self.table.read_row(index, &mut row).err();
        Ok(damage.map(|source| TableError::Row { position, index, source }))
    }
}

/// Copies part of `bytes` to the same place of `buffer`, and waits for that.
fn bring(
    stream: &Stream,
    bytes: &[u8],
    buffer: &Buffer,
    range: std::ops::Range<u64>,
) -> Result<(), DeviceError> {
    stream.upload(&bytes[range.start as usize..range.end as usize], buffer.slice(range))
}

/// What was read from the table.
fn gathered_of(report: &RowReport) -> Gathered {
    let RowReport { rows, packed_rows, stored_bytes, link_bytes, .. } = *report;
    Gathered { rows, packed_rows, stored_bytes, link_bytes }
}

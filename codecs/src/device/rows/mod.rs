//! Rows of packed tables, gathered by a device from memory of the host.
#![allow(unsafe_code)] // launches a kernel

mod cache;
mod report;

use std::sync::Arc;

use super::launch::{BLOCK_THREADS, MAX_SLABS, PIECE_LEN, Rows, WORD, WORKSPACE_WORDS, rows_shared_len};
use super::module::{Prepared, SmLimit};
use super::{Buffer, Device, DeviceError, KernelSource, PinnedBytes, Region, Shared, Stream, Workspace};
use crate::Algorithm;
use crate::ibp::{Codebook, Invariants};

use cache::Places;
pub use cache::RowCache;
pub use report::{RowReport, RowsRefused};

/// Rows that a block works on at a time.
const BLOCK_ROWS: u64 = BLOCK_THREADS as u64 / 32;

/// Gathers rows that were packed with one codebook.
///
/// A call enqueues one launch and returns; it allocates nothing and waits for nothing, so it can be recorded in a graph. A
/// warp reads the stored bytes of a row where they lie, in aligned pieces of 128 bytes, and writes the row. What is wrong
/// with the arguments is an error of the call, and then nothing is enqueued; what is wrong with indices or rows is in
/// the [`RowReport`].
#[derive(Debug)]
pub struct RowReader {
    shared: Arc<Shared>,
    kernel: Prepared,
    row_len: u32,
    granule: u32,
    cluster_count: u32,
    /// Mask and value of each word, cluster by cluster; then the fewest bytes of a packed row of each cluster.
    masks: Buffer,
    masks_len: u64,
    sm_limit: SmLimit,
}

/// A packed table where a device finds it. The rows are as many as the bytes of `slots` give.
#[derive(Clone, Copy, Debug)]
pub struct PackedRows<'a> {
    /// The places of the rows: row i starts at i · row length.
    pub slots: &'a PinnedBytes,
    /// One bit for each row, the first in the lowest bit: set = packed, clear = as it is.
    pub packed: Region<'a>,
    /// One byte for each row: the cluster whose bits it leaves out. `None` if the codebook has one cluster.
    pub clusters: Option<Region<'a>>,
    /// Rows that are read from device memory instead.
    pub cache: Option<&'a RowCache>,
}

/// Rows that are wanted.
#[derive(Clone, Copy, Debug)]
pub struct GatherRows<'a> {
    /// Their indices, words of 64 bits on a multiple of 8.
    pub indices: Region<'a>,
    /// Where they go, one behind the other: exactly their room, at any address, overlapping nothing else of the call. Of
    /// rows that are refused it holds anything.
    pub out: Region<'a>,
    /// Where the [`RowReport`] goes: [`RowReport::LEN`] bytes on a multiple of 8.
    pub report: Region<'a>,
}

impl Device {
    /// A reader of rows that were packed with `codebook`, which is brought to the device; that is waited for.
    ///
    /// The first time this loads the kernels of IBP, as [`coder`](Self::coder) does.
    ///
    /// # Errors
    /// As [`coder`](Self::coder), and whatever the driver says.
    pub fn row_reader(&self, stream: &Stream, codebook: &Codebook) -> Result<RowReader, DeviceError> {
        let (row_len, granule) = (codebook.tensor_len() as u32, codebook.granule().bytes() as u32);
        let source = KernelSource::of(Algorithm::Ibp).ok_or(DeviceError::NoKernels(Algorithm::Ibp))?;
        let kernel = self.shared.with_module(source, |module| {
            let entered = self.shared.context.enter()?;
            let shared_len = rows_shared_len(row_len, granule);
            module.prepare_named(&entered, "rows", shared_len, self.shared.info.shared_bytes)
        })?;
        let clusters = codebook.clusters();
        let mut bytes: Vec<u8> = clusters.iter().flat_map(|cluster| masks_of(codebook, cluster)).collect();
        let masks_len = bytes.len() as u64;
        bytes.extend(clusters.iter().flat_map(|cluster| least_len(codebook, cluster).to_le_bytes()));
        let masks = self.alloc(bytes.len() as u64)?;
        stream.upload(&bytes, masks.region())?;
        let (shared, cluster_count) = (Arc::clone(&self.shared), clusters.len() as u32);
        Ok(RowReader {
            shared,
            kernel,
            row_len,
            granule,
            cluster_count,
            masks,
            masks_len,
            sm_limit: SmLimit::NONE,
        })
    }
}

impl RowReader {
    /// Keeps each launch to as many blocks as `count` multiprocessors can run at a time, at least 1: few of them are enough
    /// to keep a link to the host busy.
    #[must_use]
    pub fn limit_sms(mut self, count: u32) -> Self {
        self.sm_limit = SmLimit::of(count);
        self
    }

    /// Length of a row in bytes.
    #[must_use]
    pub const fn row_len(&self) -> u64 {
        self.row_len as u64
    }

    /// Enqueues a gather. A workspace of [`workspace_len`](super::workspace_len) of no buffers is enough.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn gather(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        table: &PackedRows<'_>,
        wanted: &GatherRows<'_>,
    ) -> Result<(), DeviceError> {
        let rows = self.check_table(table)?;
        let count = self.check_wanted(wanted)?;
        let workspace = workspace.address_for(stream, WORD * WORKSPACE_WORDS)?;
        let Places { map_log2, map, totals, slabs, slab_lens } =
            table.cache.map_or_else(Places::default, RowCache::places);
        let masks = self.masks.region().address();
        let parameters = Rows {
            slots: table.slots.address(),
            rows,
            packed: table.packed.address(),
            clusters: table.clusters.map_or(0, |clusters| clusters.address()),
            masks,
            least_lens: masks + self.masks_len,
            row_len: self.row_len,
            granule: self.granule,
            cluster_count: self.cluster_count,
            map_log2,
            map,
            totals,
            slabs,
            slab_lens,
            indices: wanted.indices.address(),
            count,
            out: wanted.out.address(),
            report: wanted.report.address(),
            workspace,
        };
        let blocks = self.kernel.blocks(count.div_ceil(BLOCK_ROWS), self.sm_limit, &self.shared.info);
        let entered = self.shared.context.enter()?;
        // SAFETY: the kernel takes `Rows`. All regions were found as it wants them, and are there as long as their work
        // lasts, as `slots`, the cache and the masks are, which wait before they are freed. What indices and rows hold may
        // be anything. The rest is as for a coder.
        unsafe { self.kernel.launch(&entered, stream.handle, blocks, &parameters) }
    }

    /// How many rows a table has, if it is as the kernel wants it.
    fn check_table(&self, table: &PackedRows<'_>) -> Result<u64, DeviceError> {
        let rows = table.slots.as_ref().len() as u64 / self.row_len();
        let slots = table.slots.address();
        if !slots.is_multiple_of(PIECE_LEN) {
            return Err(DeviceError::Misaligned { what: "the rows", address: slots, align: PIECE_LEN });
        }
        table.packed.check_len("the bits of the rows", rows.div_ceil(8))?;
        match table.clusters {
            Some(clusters) => clusters.check_len("the clusters of the rows", rows)?,
            None if self.cluster_count == 1 => {}
            None => {
                return Err(DeviceError::TooShort { what: "the clusters of the rows", needed: rows, got: 0 });
            }
        }
        Ok(rows)
    }

    /// How many rows are wanted, if there is room for exactly these.
    fn check_wanted(&self, wanted: &GatherRows<'_>) -> Result<u64, DeviceError> {
        let GatherRows { indices, out, report } = wanted;
        let (count, rest) = (indices.len() / WORD, indices.len() % WORD);
        if rest != 0 {
            return Err(DeviceError::TooShort { what: "the last index", needed: WORD, got: rest });
        }
        indices.check_align("the indices", WORD)?;
        report.check_align("the report of a gather", WORD)?;
        report.check_len("the report of a gather", RowReport::LEN)?;
        let needed = count.saturating_mul(self.row_len());
        out.check_len("the room for rows", needed)?;
        if out.len() > needed {
            return Err(DeviceError::TooLong { what: "the room for rows", limit: needed, got: out.len() });
        }
        Ok(count)
    }
}

/// Mask and value of each word of the whole granules.
fn masks_of<'a>(codebook: &Codebook, cluster: &'a Invariants) -> impl Iterator<Item = u8> + 'a {
    let whole = codebook.tensor_len() - codebook.tensor_len() % codebook.granule().bytes();
    let words = cluster.mask[..whole].chunks_exact(4).zip(cluster.bitval[..whole].chunks_exact(4));
    words.flat_map(|(mask, value)| mask.iter().chain(value)).copied()
}

/// The bytes that a packed row takes if all of its granules participate.
fn least_len(codebook: &Codebook, cluster: &Invariants) -> u32 {
    let (granule, tail) = (codebook.granule().bytes(), codebook.tensor_len() % codebook.granule().bytes());
    let whole = codebook.tensor_len() - tail;
    let kept: u32 = cluster.mask[..whole].iter().map(|byte| byte.count_zeros()).sum();
    (whole / granule).div_ceil(8) as u32 + kept.div_ceil(8) + tail as u32
}

const _: () = assert!(MAX_SLABS == 1 << 3); // the bits of a slab in an entry

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ibp::Granule;

    #[test]
    fn masks_stand_beside_their_values() {
        let mask = vec![0xf0, 0xff, 0, 0, 0, 0, 0, 0xff, 0, 0];
        let bitval = vec![0x30, 0x12, 0, 0, 0, 0, 0, 0x40, 0, 0];
        let codebook = Codebook::new(Granule::Four, 10, vec![Invariants { mask, bitval }]).unwrap();
        let cluster = &codebook.clusters()[0];
        let bytes: Vec<u8> = masks_of(&codebook, cluster).collect();
        assert_eq!(bytes, [0xf0, 0xff, 0, 0, 0x30, 0x12, 0, 0, 0, 0, 0, 0xff, 0, 0, 0, 0x40]);
        // A byte of participation, 44 bits, two bytes of the tail.
        assert_eq!(least_len(&codebook, cluster), 1 + 6 + 2);
    }
}

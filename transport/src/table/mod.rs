//! Tables of rows that share bits, packed where they are, of which any row can be had at any time.
//!
//! Rows of features, embeddings or keys agree in most of their bits at many places. A [`Table`] finds out which
//! ([`mgcomp_codecs::ibp`]), once, and leaves them out of every row. Row i still starts at i · row length, with only the front
//! of its place in use: so an index is all that is needed to find it, and a gather over a slow link moves the front alone.
//! A row that would not get shorter stays as it is; one bit for each row tells the two apart.
//!
//! ```
//! use mgcomp_transport::table::{Table, TableOptions};
//!
//! // A thousand rows of 64 bytes: small numbers.
//! let rows: Vec<u8> = (0..16_000u32).flat_map(|i| (i % 100).to_le_bytes()).collect();
//! let mut table = Table::build(rows.clone(), 64, &TableOptions::default())?;
//! assert!(table.stored_bytes() < rows.len() as u64 / 3);
//!
//! let mut out = [0; 2 * 64];
//! table.gather(&[7, 999], &mut out)?;
//! assert_eq!(out[..64], rows[7 * 64..8 * 64]);
//!
//! table.update(7, &[0xff; 64])?; // unlike the others, so it is kept as it is
//! table.gather(&[7], &mut out[..64])?;
//! assert_eq!(out[..64], [0xff; 64]);
//! # Ok::<(), mgcomp_transport::table::TableError>(())
//! ```
//!
//! | part | what it does |
//! |---|---|
//! | [`Table::build`], [`Table::with_codebook`] | packs rows in place |
//! | [`Table::gather`], [`Table::update_rows`] | gives rows, takes others |
//! | [`Table::save`], [`Table::load`] | a file with checksums, whole or not there (`FORMAT.md`) |
//! | [`Table::enlarge_pages`] | makes rows by chance quicker to find |
//! | [`Cache`] | some rows, packed one behind the other in slabs of near memory |
//!
//! The rows lie in any memory that looks like bytes: a `Vec<u8>`, borrowed bytes, a memory map, or page-locked memory, from
//! which a CUDA device gathers by itself (`DeviceTable`, with its own cache `DeviceCache`; feature `cuda`).
//!
//! # Source
//! *Reducing the GPU Memory Bottleneck with Lossless Compression for ML*, sections 4 and 5.

mod build;
mod cache;
#[cfg(feature = "cuda")]
mod device;
mod error;
mod file;
mod forms;
mod gather;
mod options;
mod shared;
mod update;

use std::sync::Arc;

use mgcomp_codecs::frame::Workers;
use mgcomp_codecs::ibp::{Codebook, Form, Packer};

pub use cache::{Cache, CacheHits, MAX_SLABS, SlabEntry};
#[cfg(feature = "cuda")]
pub use device::{DeviceCache, DeviceTable, DeviceTableError};
pub use error::TableError;
pub use file::{LoadOptions, TableFileError};
pub use gather::{Gathered, PIECE_LEN};
pub use options::{Sample, TableOptions};

use crate::memory::pages;
use forms::Forms;

/// Rows of one length, packed in place in `M`.
///
/// Reading takes `&self`, from any number of threads; changing takes `&mut self`.
#[derive(Debug)]
pub struct Table<M = Vec<u8>> {
    memory: M,
    rows: u64,
    forms: Forms,
    /// Bytes of all rows as they are stored.
    stored_bytes: u64,
    version: Version,
    shared: Arc<Shared>,
}

/// What a table has in common with its caches.
#[derive(Debug)]
struct Shared {
    packer: Packer,
    workers: Workers,
}

/// Which table, after how many changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Version {
    table: u64,
    changes: u64,
}

impl Version {
    /// Refuses the table if a cache of this version does not hold its rows.
    fn check(self, now: Self) -> Result<(), TableError> {
        if self == now {
            return Ok(());
        }
        let Self { table: cached_table, changes: cached_changes } = self;
        Err(TableError::Stale { cached_table, cached_changes, table: now.table, changes: now.changes })
    }
}

impl<M> Table<M> {
    /// The memory that it was built in.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.memory
    }

    /// How many rows there are.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Length of a row in bytes.
    #[must_use]
    pub fn row_len(&self) -> usize {
        self.codebook().tensor_len()
    }

    /// Bytes of all rows.
    #[must_use]
    pub fn raw_bytes(&self) -> u64 {
        self.rows * self.row_len() as u64
    }

    /// Bytes of all rows as they are stored: what it takes to read each of them once.
    #[must_use]
    pub fn stored_bytes(&self) -> u64 {
        self.stored_bytes
    }

    /// Which bits the rows leave out.
    #[must_use]
    pub fn codebook(&self) -> &Codebook {
        self.shared.packer.codebook()
    }

    /// One bit per row, the first in the lowest bit: set = packed, clear = as it is.
    #[must_use]
    pub fn packed_mask(&self) -> &[u8] {
        self.forms.packed_mask()
    }

    /// For each row the cluster whose bits it leaves out, 0 for one that is not packed; empty if the codebook has one
    /// cluster.
    #[must_use]
    pub fn row_clusters(&self) -> &[u8] {
        self.forms.clusters()
    }

    fn check_index(&self, position: usize, index: u64) -> Result<(), TableError> {
        if index < self.rows { Ok(()) } else { Err(TableError::Index { position, index, rows: self.rows }) }
    }

    fn packer(&self) -> &Packer {
        &self.shared.packer
    }
}

impl<M: AsRef<[u8]>> Table<M> {
    /// The places of all rows: row i starts at i · row length, and what lies behind its stored bytes means nothing.
    #[must_use]
    pub fn slots(&self) -> &[u8] {
        self.memory.as_ref()
    }

    /// The stored bytes of a row, and how they are to be read.
    ///
    /// # Errors
    /// [`TableError::Index`] if there is no such row, [`TableError::Row`] if its stored bytes are none of a row's.
    pub fn stored_row(&self, index: u64) -> Result<(Form, &[u8]), TableError> {
        self.stored_row_at(0, index)
    }

    /// The same of a row that stands there among the indices of a call.
    fn stored_row_at(&self, position: usize, index: u64) -> Result<(Form, &[u8]), TableError> {
        self.check_index(position, index)?;
        let (form, slot) = self.slot(index);
        let damaged = |source| TableError::Row { position, index, source };
        let len = self.packer().stored_len(form, slot).map_err(damaged)?;
        // A slot that somebody else wrote to may say that it goes on behind its end.
        Ok((form, &slot[..len.min(slot.len())]))
    }

    /// Puts large pages under the rows, where the system has them: rows by chance are found sooner then, the more so the larger
    /// the table is. On Linux since 6.1, and unless the machine is set to give none. What the memory holds stays.
    ///
    /// It is not done unasked, because it copies the rows once, while other threads wait that need new pages; and because all of
    /// each large page is there then, even if the memory is a map of which most had not been touched.
    ///
    /// # Errors
    /// That of the system, if it does not give all of them. Some may be there all the same.
    pub fn enlarge_pages(&self) -> std::io::Result<()> {
        pages::enlarge(self.slots())
    }

    /// A row that is there.
    #[inline]
    fn slot(&self, index: u64) -> (Form, &[u8]) {
        let (index, len) = (index as usize, self.row_len());
        (self.forms.form(index), &self.memory.as_ref()[index * len..][..len])
    }
}

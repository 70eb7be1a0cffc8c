//! Fitting and packing.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mgcomp_codecs::frame::Workers;
use mgcomp_codecs::ibp::{Codebook, CodebookError, Granule, MAX_CLUSTERS, Packer, fit_sample};

use super::forms::{Forms, FormsMut};
use super::shared::{piece_rows, share};
use super::{Shared, Table, TableError, TableOptions, Version};

impl<M: AsRef<[u8]> + AsMut<[u8]>> Table<M> {
    /// Finds the bits that the rows in `memory`, of `row_len` bytes each, have in common, and packs each row where it is.
    ///
    /// # Errors
    /// [`TableError`] if the length of a row, the number of clusters or that of threads is out of range, or the memory ends
    /// within a row. The rows are as they were then.
    pub fn build(memory: M, row_len: usize, options: &TableOptions) -> Result<Self, TableError> {
        check_even(memory.as_ref(), row_len, options.clusters)?;
        let codebook = fit_rows(memory.as_ref(), row_len, options)?;
        Self::with_codebook(memory, codebook, options)
    }

    /// Packs rows with a codebook that is there already, such as that of an earlier table of the same kind; granule,
    /// clusters and sample of the options are not looked at.
    ///
    /// # Errors
    /// [`TableError`] if the memory ends within a row of the codebook's length, or the number of threads is out of range. The
    /// rows are as they were then.
    pub fn with_codebook(memory: M, codebook: Codebook, options: &TableOptions) -> Result<Self, TableError> {
        let (row_len, clusters) = (codebook.tensor_len(), codebook.clusters().len());
        let rows = check_even(memory.as_ref(), row_len, clusters)?;
        let workers = Workers::new(options.threads)?;
        let shared = Arc::new(Shared { packer: Packer::on(options.cpu, codebook), workers });
        let forms = Forms::raw(rows, clusters);
        let mut table = Self::from_parts(memory, forms, 0, shared);
        table.pack();
        Ok(table)
    }

    /// Packs all rows, which are raw.
    fn pack(&mut self) {
        let (row_len, Shared { packer, workers }) = (self.row_len(), &*self.shared);
        let slots = self.memory.as_mut();
        let rows = piece_rows(row_len);
        let (bytes, stored) = (slots.len(), AtomicU64::new(0));
        let pieces = slots.chunks_mut(rows * row_len).zip(self.forms.stretches_mut(rows));
        share(workers, bytes, pieces, |(slots, forms)| {
            stored.fetch_add(pack_piece(packer, slots, forms), Ordering::Relaxed);
        });
        self.stored_bytes = stored.into_inner();
    }
}

impl<M: AsRef<[u8]>> Table<M> {
    /// A table whose rows are packed already, whole rows of the codebook's length.
    pub(super) fn from_parts(memory: M, forms: Forms, stored_bytes: u64, shared: Arc<Shared>) -> Self {
        static TABLES: AtomicU64 = AtomicU64::new(1);

        let rows = (memory.as_ref().len() / shared.packer.codebook().tensor_len()) as u64;
        let version = Version { table: TABLES.fetch_add(1, Ordering::Relaxed), changes: 0 };
        Self { memory, rows, forms, stored_bytes, version, shared }
    }
}

/// Packs rows in place; returns their stored bytes.
fn pack_piece(packer: &Packer, slots: &mut [u8], mut forms: FormsMut<'_>) -> u64 {
    let row_len = packer.codebook().tensor_len();
    let mut row = vec![0; row_len];
    let mut stored = 0;
    for (index, slot) in slots.chunks_exact_mut(row_len).enumerate() {
        row.copy_from_slice(slot);
        let packed = packer.pack(&row, slot);
        forms.set(index, packed.form);
        stored += packed.len as u64;
    }
    stored
}

/// How many rows there are.
fn check_even(memory: &[u8], row_len: usize, clusters: usize) -> Result<usize, TableError> {
    if row_len == 0 {
        return Err(CodebookError::TensorLen { tensor_len: row_len, clusters }.into());
    }
    let bytes = memory.len();
    if bytes.is_multiple_of(row_len) {
        Ok(bytes / row_len)
    } else {
        Err(TableError::Uneven { bytes, row_len })
    }
}

/// The codebook of the sample; of granules that nobody chose, the one with which the sample is shortest.
fn fit_rows(memory: &[u8], row_len: usize, options: &TableOptions) -> Result<Codebook, TableError> {
    let TableOptions { granule, clusters, sample, cpu, .. } = *options;
    if clusters > MAX_CLUSTERS {
        return Err(CodebookError::Clusters(clusters).into());
    }
    let indices = sample.indices((memory.len() / row_len) as u64, clusters);
    let sample: Vec<&[u8]> = indices.map(|index| &memory[index as usize * row_len..][..row_len]).collect();
    let first = fit_sample(&sample, row_len, granule.unwrap_or(Granule::Four), clusters)?;
    if granule.is_some() || !row_len.is_multiple_of(8) {
        return Ok(first);
    }
    let second = fit_sample(&sample, row_len, Granule::Eight, clusters)?;
    let packed_bytes = |codebook: &Codebook| {
        let packer = Packer::on(cpu, codebook.clone());
        sample.iter().map(|row| packer.packed(row).len as u64).sum::<u64>()
    };
    // Of equals the longer granule: half as many to decode.
    Ok(if packed_bytes(&first) < packed_bytes(&second) { first } else { second })
}

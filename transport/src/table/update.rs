//! New contents for rows.

use super::{Table, TableError};

impl<M: AsRef<[u8]> + AsMut<[u8]>> Table<M> {
    /// Gives a row other bytes. The invariant bits stay those of the codebook: where most rows change, a new table packs
    /// better.
    ///
    /// # Errors
    /// [`TableError::Index`] and [`TableError::Buffer`]; then nothing is changed.
    pub fn update(&mut self, index: u64, row: &[u8]) -> Result<(), TableError> {
        self.update_rows(&[index], row)
    }

    /// Gives the rows that `indices` name other bytes, which lie one behind the other in `rows`. Of a row that is named twice,
    /// the last bytes count.
    ///
    /// # Errors
    /// As [`update`](Self::update): nothing is changed, of no row.
    pub fn update_rows(&mut self, indices: &[u64], rows: &[u8]) -> Result<(), TableError> {
        let row_len = self.row_len();
        if indices.len().checked_mul(row_len) != Some(rows.len()) {
            return Err(TableError::Buffer { rows: indices.len(), row_len, got: rows.len() });
        }
        indices.iter().enumerate().try_for_each(|(position, &index)| self.check_index(position, index))?;
        if indices.is_empty() {
            return Ok(()); // caches still hold what the table does
        }
        self.version.changes += 1;
        for (&index, row) in indices.iter().zip(rows.chunks_exact(row_len)) {
            self.store(index as usize, row);
        }
        Ok(())
    }

    fn store(&mut self, index: usize, row: &[u8]) {
        let packer = &self.shared.packer;
        let slot = &mut self.memory.as_mut()[index * row.len()..][..row.len()];
        // What somebody else wrote there was counted as something else; a row is as good a guess as any.
        let before = packer.stored_len(self.forms.form(index), slot).unwrap_or(row.len());
        let packed = packer.pack(row, slot);
        self.forms.set(index, packed.form);
        self.stored_bytes = (self.stored_bytes + packed.len as u64).saturating_sub(before as u64);
    }
}

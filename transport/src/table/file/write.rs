//! From a table to a file.

use std::io::{self, Write};

use super::super::Table;
use super::checksum;
use super::error::TableFileError;
use super::header::{Header, WORD_LEN, block_rows};

pub(super) fn write<M: AsRef<[u8]>>(table: &Table<M>, mut to: impl Write) -> Result<(), TableFileError> {
    let codebook = table.codebook().to_bytes();
    let (rows, stored_bytes) = (table.rows(), table.stored_bytes());
    let header = Header { rows, stored_bytes, codebook_len: codebook.len() };
    let front = [&codebook, table.packed_mask(), table.row_clusters()];
    put(&mut to, &[&header.to_bytes(), front[0], front[1], front[2], &checksum(&front).to_le_bytes()])?;

    let rows_of_block = block_rows(table.row_len()) as u64;
    let (mut block, mut written) = (Vec::new(), 0);
    for first in (0..rows).step_by(rows_of_block as usize) {
        block.clear();
        block.extend_from_slice(&[0; WORD_LEN]);
        for index in first..rows.min(first + rows_of_block) {
            block.extend_from_slice(table.stored_row(index).map_err(TableFileError::Table)?.1);
        }
        let len = block.len() - WORD_LEN;
        written += len as u64;
        block[..WORD_LEN].copy_from_slice(&(len as u32).to_le_bytes());
        put(&mut to, &[&block, &checksum(&[&block]).to_le_bytes()])?;
    }
    if written != stored_bytes {
        return Err(TableFileError::StoredBytes { header: stored_bytes, rows: written });
    }
    to.flush().map_err(TableFileError::Io)
}

fn put(to: &mut impl Write, parts: &[&[u8]]) -> Result<(), TableFileError> {
    let result: io::Result<()> = parts.iter().try_for_each(|part| to.write_all(part));
    result.map_err(TableFileError::Io)
}

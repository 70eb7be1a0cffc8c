//! From a file to a table. Nothing in it is true before it was checked, and no memory is taken on its word alone.

use std::io::{self, Read};
use std::sync::Arc;

use mgcomp_codecs::frame::Workers;
use mgcomp_codecs::ibp::{Codebook, Packer};

use super::super::forms::Forms;
use super::super::{Shared, Table};
use super::error::TableFileError;
use super::header::{HEADER_LEN, Header, WORD_LEN, block_rows, word};
use super::{LoadOptions, checksum};

pub(super) fn read<M: AsRef<[u8]> + AsMut<[u8]>>(
    from: impl Read,
    file_len: u64,
    options: &LoadOptions,
    allocate: impl FnOnce(usize) -> Option<M>,
) -> Result<Table<M>, TableFileError> {
    let mut source = Source { from, offset: 0, file_len };
    let mut bytes = [0; HEADER_LEN];
    source.fill(&mut bytes)?;
    let header = Header::parse(&bytes)?;
    let body = source.take(header.codebook_len as u64)?;
    let codebook = Codebook::parse(&body)?;
    let needed = header.file_len(&codebook);
    if needed != u128::from(file_len) {
        return Err(TableFileError::Length { needed, got: file_len });
    }
    // Before anything is allocated that the number of rows decides.
    let bytes = u128::from(header.rows) * codebook.tensor_len() as u128;
    if bytes > u128::from(options.max_bytes.min(isize::MAX as u64)) {
        return Err(TableFileError::TooLarge { bytes, limit: options.max_bytes });
    }
    let bytes = bytes as usize;
    let forms = read_forms(&mut source, &header, &codebook, &body)?;

    let packer = Packer::on(options.cpu, codebook);
    check_stored(&header, &forms, &packer)?;
    let workers = Workers::new(options.threads)?;
    let got = allocate(bytes);
    let Some(mut memory) = got.filter(|memory| memory.as_ref().len() == bytes) else {
        return Err(TableFileError::Memory { bytes });
    };
    read_rows(&mut source, &header, &forms, &packer, memory.as_mut())?;
    let shared = Arc::new(Shared { packer, workers });
    Ok(Table::from_parts(memory, forms, header.stored_bytes, shared))
}

/// The bits and clusters of the rows. The file is as long as they need.
fn read_forms<R: Read>(
    source: &mut Source<R>,
    header: &Header,
    codebook: &Codebook,
    body: &[u8],
) -> Result<Forms, TableFileError> {
    let (rows, clusters, start) = (header.rows, codebook.clusters().len(), HEADER_LEN);
    let packed = source.take(rows.div_ceil(8))?;
    let names = source.take(if clusters > 1 { rows } else { 0 })?;
    let (stored, computed) = (source.word()?, checksum(&[body, &packed, &names]));
    if stored != computed {
        return Err(TableFileError::Checksum {
            section: "codebook and rows",
            offset: start as u64,
            stored,
            computed,
        });
    }
    if let Some(&last) = packed.last()
        && !rows.is_multiple_of(8)
        && last >> (rows % 8) != 0
    {
        return Err(TableFileError::UnusedBits { rows, got: last });
    }
    for (row, &cluster) in names.iter().enumerate() {
        let is_packed = packed[row / 8] >> (row % 8) & 1 == 1;
        let most = if is_packed { clusters - 1 } else { 0 };
        if usize::from(cluster) > most {
            return Err(TableFileError::Cluster { row: row as u64, cluster, most });
        }
    }
    Ok(Forms::from_parts(packed, names))
}

/// Whether the file has as many bytes of rows as these take at the least.
fn check_stored(header: &Header, forms: &Forms, packer: &Packer) -> Result<(), TableFileError> {
    let row_len = packer.codebook().tensor_len();
    let packed: u128 = forms.packed_mask().iter().map(|byte| u128::from(byte.count_ones())).sum();
    let raw = u128::from(header.rows) - packed;
    let least = packed * packer.min_stored_len() as u128 + raw * row_len as u128;
    if least > u128::from(header.stored_bytes) {
        return Err(TableFileError::TooFew { least, got: header.stored_bytes });
    }
    Ok(())
}

/// Puts each row into its place.
fn read_rows<R: Read>(
    source: &mut Source<R>,
    header: &Header,
    forms: &Forms,
    packer: &Packer,
    memory: &mut [u8],
) -> Result<(), TableFileError> {
    let row_len = packer.codebook().tensor_len();
    let rows = block_rows(row_len);
    let (mut stored_bytes, mut unpacked) = (0, vec![0; row_len]);
    for (number, slots) in memory.chunks_mut(rows * row_len).enumerate() {
        let block = read_block(source, slots.len())?;
        stored_bytes += block.len() as u64;
        let mut rest = &block[..];
        for (row, slot) in (number * rows..).zip(slots.chunks_exact_mut(row_len)) {
            // No further than its place reaches.
            let stored = &rest[..rest.len().min(row_len)];
            let len = packer
                .unpack(forms.form(row), stored, &mut unpacked)
                .map_err(|source| TableFileError::Row { row: row as u64, source })?;
            slot[..len].copy_from_slice(&stored[..len]);
            rest = &rest[len..];
        }
        if !rest.is_empty() {
            return Err(TableFileError::Leftover { block: number as u64, bytes: rest.len() });
        }
    }
    if stored_bytes == header.stored_bytes {
        Ok(())
    } else {
        Err(TableFileError::StoredBytes { header: header.stored_bytes, rows: stored_bytes })
    }
}

/// The stored bytes of the rows of a block, which are `raw_len` bytes unpacked.
fn read_block<R: Read>(source: &mut Source<R>, raw_len: usize) -> Result<Vec<u8>, TableFileError> {
    let offset = source.offset;
    let len = source.word()?;
    if len as usize > raw_len {
        return Err(TableFileError::BlockLen { offset, got: len, most: raw_len });
    }
    let block = source.take(u64::from(len))?;
    let (stored, computed) = (source.word()?, checksum(&[&len.to_le_bytes(), &block]));
    if stored == computed {
        Ok(block)
    } else {
        Err(TableFileError::Checksum { section: "block of rows", offset, stored, computed })
    }
}

/// The bytes of a file, one part after the other.
struct Source<R> {
    from: R,
    /// How many are read.
    offset: u64,
    file_len: u64,
}

impl<R: Read> Source<R> {
    /// The next `len` bytes, for which no memory is taken unless the file says that it has them.
    fn take(&mut self, len: u64) -> Result<Vec<u8>, TableFileError> {
        let left = self.file_len.saturating_sub(self.offset);
        if len > left {
            let Self { offset, file_len, .. } = *self;
            return Err(TableFileError::Truncated {
                offset,
                needed: len,
                got: file_len.saturating_sub(offset),
            });
        }
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(len as usize).map_err(|_| TableFileError::Memory { bytes: len as usize })?;
        bytes.resize(len as usize, 0);
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn word(&mut self) -> Result<u32, TableFileError> {
        let mut bytes = [0; WORD_LEN];
        self.fill(&mut bytes)?;
        Ok(word(&bytes))
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), TableFileError> {
        let (offset, needed) = (self.offset, bytes.len() as u64);
        self.from.read_exact(bytes).map_err(|error| match error.kind() {
            io::ErrorKind::UnexpectedEof => {
                TableFileError::Truncated { offset, needed, got: self.file_len.saturating_sub(offset) }
            }
            _ => TableFileError::Io(error),
        })?;
        self.offset += needed;
        Ok(())
    }
}

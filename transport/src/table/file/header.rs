//! The first bytes of a file.

use mgcomp_codecs::ibp::{Codebook, MAX_CODEBOOK_LEN};

use super::checksum;
use super::error::TableFileError;

pub(super) const HEADER_LEN: usize = 32;
/// Of a checksum, and of the length of a block.
pub(super) const WORD_LEN: usize = 4;

const MAGIC: [u8; 4] = *b"MGTB";
const VERSION: u8 = 1;
const CHECKED_LEN: usize = HEADER_LEN - WORD_LEN;
/// Raw bytes of a block, unless a row has more.
const BLOCK_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) rows: u64,
    /// Bytes of all rows as they are stored.
    pub(super) stored_bytes: u64,
    pub(super) codebook_len: usize,
}

impl Header {
    pub(super) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[..4].copy_from_slice(&MAGIC);
        bytes[4] = VERSION;
        bytes[8..16].copy_from_slice(&self.rows.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.stored_bytes.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.codebook_len as u32).to_le_bytes());
        let checksum = checksum(&[&bytes[..CHECKED_LEN]]);
        bytes[CHECKED_LEN..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn parse(bytes: &[u8; HEADER_LEN]) -> Result<Self, TableFileError> {
        let (checked, stored) = bytes.split_at(CHECKED_LEN);
        let magic = [bytes[0], bytes[1], bytes[2], bytes[3]];
        if magic != MAGIC {
            return Err(TableFileError::Magic { got: magic });
        }
        // Another version may have its checksum elsewhere.
        if bytes[4] != VERSION {
            return Err(TableFileError::Version { got: bytes[4] });
        }
        let (stored, computed) = (word(stored), checksum(&[checked]));
        if stored != computed {
            return Err(TableFileError::Checksum { section: "header", offset: 0, stored, computed });
        }
        if let Some(i) = bytes[5..8].iter().position(|&byte| byte != 0) {
            return Err(TableFileError::Reserved { offset: 5 + i, got: bytes[5 + i] });
        }
        let long = |at: usize| u64::from_le_bytes(std::array::from_fn(|i| bytes[at + i]));
        let codebook_len = word(&bytes[24..28]) as usize;
        if codebook_len > MAX_CODEBOOK_LEN {
            return Err(TableFileError::CodebookLen { got: codebook_len });
        }
        Ok(Self { rows: long(8), stored_bytes: long(16), codebook_len })
    }

    /// How long the whole file is.
    pub(super) fn file_len(&self, codebook: &Codebook) -> u128 {
        let rows = u128::from(self.rows);
        let clusters = if codebook.clusters().len() > 1 { rows } else { 0 };
        let front = HEADER_LEN + self.codebook_len + WORD_LEN;
        let blocks = rows.div_ceil(block_rows(codebook.tensor_len()) as u128);
        let rows_len = u128::from(self.stored_bytes) + blocks * 2 * WORD_LEN as u128;
        front as u128 + rows.div_ceil(8) + clusters + rows_len
    }
}

/// Rows of a block.
pub(super) fn block_rows(row_len: usize) -> usize {
    (BLOCK_BYTES / row_len).max(1)
}

/// The number in the first four bytes.
pub(super) fn word(bytes: &[u8]) -> u32 {
    u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]])
}

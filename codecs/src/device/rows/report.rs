//! What a gather of rows leaves in device memory.

use std::fmt;

use super::super::Status;
use super::super::launch::ROWS_REPORT_WORDS;

/// What a gather found, whose words it leaves in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowReport {
    /// The first thing that was wrong; its chunk is the position among the indices.
    pub status: Status,
    /// Rows that were read from the table.
    pub rows: u64,
    /// How many of them were packed.
    pub packed_rows: u64,
    /// Their stored bytes.
    pub stored_bytes: u64,
    /// The bytes of the aligned pieces that these lie in, which came over the link.
    pub link_bytes: u64,
    /// Rows that were cached.
    pub hits: u64,
}

impl RowReport {
    /// Its length in bytes.
    pub const LEN: u64 = 8 * ROWS_REPORT_WORDS as u64;

    /// The report in these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN as usize]) -> Self {
        let words: [u64; ROWS_REPORT_WORDS] =
            std::array::from_fn(|i| bytes.as_chunks().0.get(i).copied().map_or(0, u64::from_le_bytes));
        let [status, rows, packed_rows, stored_bytes, link_bytes, hits] = words;
        Self { status: Status::from_word(status), rows, packed_rows, stored_bytes, link_bytes, hits }
    }

    /// An error unless all rows are there.
    ///
    /// # Errors
    /// [`RowsRefused`], with what is wrong with the first row that is not.
    pub const fn check(&self) -> Result<(), RowsRefused> {
        if self.status.code == 0 { Ok(()) } else { Err(RowsRefused(self.status)) }
    }
}

/// Rows of which a kernel could not give all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsRefused(pub Status);

impl fmt::Display for RowsRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, chunk } = self.0;
        match self.0.text() {
            Some(text) => write!(f, "the row at position {chunk}: {text} (status {code})"),
            None => write!(f, "the row at position {chunk}: status {code}"),
        }
    }
}

impl std::error::Error for RowsRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let mut bytes = [0; 48];
        for (word, number) in bytes.as_chunks_mut().0.iter_mut().zip([5 << 8 | 26, 1, 2, 3, 4, 5_u64]) {
            *word = number.to_le_bytes();
        }
        let report = RowReport::from_bytes(&bytes);
        let status = Status { code: 26, chunk: 5 };
        assert_eq!(
            report,
            RowReport { status, rows: 1, packed_rows: 2, stored_bytes: 3, link_bytes: 4, hits: 5 }
        );
        let text = "the row at position 5: No row of the table has this index (status 26)";
        assert_eq!(report.check().unwrap_err().to_string(), text);
        assert!(RowReport { status: Status::GOOD, ..report }.check().is_ok());
    }
}

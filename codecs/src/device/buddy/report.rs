//! What a launch over buddy memory leaves in device memory.

use std::fmt;

use super::super::Status;
use super::super::launch::BUDDY_COUNTS;

/// What a read or write of entries in buddy memory found, whose words it leaves in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryReport {
    /// The first thing that was wrong; its chunk is the number of the entry.
    pub status: Status,
    /// What it has done.
    pub counts: EntryCounts,
}

/// Accesses to entries in buddy memory. An entry that is written in part is read, too.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// Entries read.
    pub reads: u64,
    /// Of these, entries of which a part was in buddy memory.
    pub buddy_reads: u64,
    /// Entries written.
    pub writes: u64,
    /// Of these, entries of which a part went to buddy memory.
    pub buddy_writes: u64,
    /// By how many entries more than before do not fit their slots; below zero if they are fewer.
    pub overflowing: i64,
}

impl EntryCounts {
    /// Its length in bytes.
    pub const LEN: u64 = 8 * BUDDY_COUNTS as u64;

    /// The counts in these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN as usize]) -> Self {
        let words: [u64; BUDDY_COUNTS] =
            std::array::from_fn(|i| bytes.as_chunks().0.get(i).copied().map_or(0, u64::from_le_bytes));
        let [reads, buddy_reads, writes, buddy_writes, overflowing] = words;
        Self { reads, buddy_reads, writes, buddy_writes, overflowing: overflowing.cast_signed() }
    }
}

impl EntryReport {
    /// Its length in bytes.
    pub const LEN: u64 = 8 + EntryCounts::LEN;

    /// The report in these bytes.
    #[must_use]
    pub fn from_bytes(bytes: &[u8; Self::LEN as usize]) -> Self {
        let (status, counts) = bytes.split_first_chunk().map_or(([0; 8], &[][..]), |(s, c)| (*s, c));
        let counts = counts.try_into().map_or_else(|_| EntryCounts::default(), EntryCounts::from_bytes);
        Self { status: Status::from_word(u64::from_le_bytes(status)), counts }
    }

    /// An error unless all entries were good.
    ///
    /// # Errors
    /// [`EntriesRefused`], with what is wrong with the first that was not.
    pub const fn check(&self) -> Result<(), EntriesRefused> {
        if self.status.code == 0 { Ok(()) } else { Err(EntriesRefused(self.status)) }
    }
}

/// Entries that a kernel found wrong. All others are dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntriesRefused(pub Status);

impl fmt::Display for EntriesRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Status { code, chunk } = self.0;
        match self.0.text() {
            Some(text) => write!(f, "entry {chunk}: {text} (status {code})"),
            None => write!(f, "entry {chunk}: status {code}"),
        }
    }
}

impl std::error::Error for EntriesRefused {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_told_apart() {
        let mut bytes = [0; 48];
        for (word, number) in bytes.as_chunks_mut().0.iter_mut().zip([9 << 8 | 27, 1, 2, 3, 4, u64::MAX]) {
            *word = number.to_le_bytes();
        }
        let report = EntryReport::from_bytes(&bytes);
        let counts = EntryCounts { reads: 1, buddy_reads: 2, writes: 3, buddy_writes: 4, overflowing: -1 };
        assert_eq!(report, EntryReport { status: Status { code: 27, chunk: 9 }, counts });
        let text = "entry 9: Metadata of an entry has no meaning (status 27)";
        assert_eq!(report.check().unwrap_err().to_string(), text);
        assert!(EntryReport { status: Status::GOOD, ..report }.check().is_ok());
    }
}

//! Tables by byte of a tensor, for vectors that start at any place in it.

use std::ops::Index;

/// How far a table goes on behind its end.
const OVERHANG: usize = 64;

/// Tables of one length, each of which goes on from its start behind its end, and starts on a cache line: a vector
/// across two lines takes twice as long to read.
#[derive(Debug, Default)]
pub(super) struct Lines {
    bytes: Vec<u8>,
    /// Where the first table starts.
    start: usize,
    /// From one table to the next, in bytes.
    stride: usize,
    /// How many tables there are.
    tables: usize,
}

impl Lines {
    pub(super) fn new<'a>(tables: impl Iterator<Item = &'a [u8]> + Clone) -> Self {
        let len = tables.clone().next().map_or(0, <[u8]>::len);
        let stride = if len == 0 { 0 } else { (len + OVERHANG).next_multiple_of(OVERHANG) };
        let count = tables.clone().count();
        let mut bytes: Vec<u8> = Vec::with_capacity(OVERHANG + count * stride);
        let start = bytes.as_ptr().align_offset(OVERHANG).min(OVERHANG);
        bytes.resize(start, 0);
        for table in tables {
            assert_eq!(table.len(), len, "tables of one length");
            let end = bytes.len() + stride;
            while bytes.len() < end {
                bytes.extend_from_slice(&table[..table.len().min(end - bytes.len())]);
            }
        }
        Self { bytes, start, stride, tables: count }
    }

    /// Where the first table starts, and how far the others do from it. From every place in one of
    /// [`tables`](Self::tables) on there are 64 bytes.
    #[inline]
    pub(super) fn first(&self) -> (*const u8, usize) {
        (self.bytes[self.start..].as_ptr(), self.stride)
    }

    /// How many tables there are.
    #[inline]
    pub(super) fn tables(&self) -> usize {
        self.tables
    }
}

impl Index<usize> for Lines {
    type Output = [u8];

    #[inline]
    fn index(&self, index: usize) -> &[u8] {
        assert!(index < self.tables, "table {index} of {}", self.tables);
        &self.bytes[self.start + index * self.stride..][..self.stride]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_go_on_from_their_start() {
        let long: Vec<u8> = (0..100).collect();
        let lines = Lines::new([&long[..], &[7; 100]].into_iter());
        assert_eq!(lines[0].len(), 192);
        assert_eq!(lines[0][..100], long);
        assert_eq!(lines[0][100..164], long[..64]);
        assert!(lines[1].iter().all(|&byte| byte == 7));
        let short = Lines::new([&[1, 2, 3][..]].into_iter());
        assert_eq!(short[0][..7], [1, 2, 3, 1, 2, 3, 1]);
        assert_eq!(Lines::new([&[][..], &[]].into_iter())[1], []);
    }
}

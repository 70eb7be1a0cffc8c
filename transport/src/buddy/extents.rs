//! Which parts of a memory are free.

use std::collections::BTreeMap;

use super::form::SECTOR_LEN;

/// The free parts of a memory, by their start; no two of them touch.
#[derive(Debug)]
pub(super) struct Extents {
    free: BTreeMap<u64, u64>,
}

impl Extents {
    /// All whole sectors of a memory of `size` bytes.
    pub(super) fn new(size: u64) -> Self {
        let size = size - size % SECTOR_LEN as u64;
        Self { free: if size > 0 { BTreeMap::from([(0, size)]) } else { BTreeMap::new() } }
    }

    /// Takes `len` bytes, whole sectors, from the first part that has them. Nothing is somewhere too.
    pub(super) fn take(&mut self, len: u64) -> Option<u64> {
        if len == 0 {
            return Some(0);
        }
        let (&start, &found) = self.free.iter().find(|&(_, &found)| found >= len)?;
        self.free.remove(&start);
        if found > len {
            self.free.insert(start + len, found - len);
        }
        Some(start)
    }

    /// Gives back what [`take`](Self::take) gave.
    pub(super) fn give(&mut self, start: u64, len: u64) {
        if len == 0 {
            return;
        }
        let (mut start, mut end) = (start, start + len);
        if let Some(behind) = self.free.remove(&end) {
            end += behind;
        }
        if let Some((&before, &found)) = self.free.range(..start).next_back()
            && before + found == start
        {
            start = before;
        }
        self.free.insert(start, end - start);
    }

    /// Free bytes, and how many of them lie together at most.
    pub(super) fn left(&self) -> (u64, u64) {
        (self.free.values().sum(), self.free.values().copied().max().unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_part_that_fits_is_taken_and_neighbours_grow_together() {
        let mut extents = Extents::new(330); // ten sectors and a rest that nobody gets
        let at: Vec<_> = [96, 32, 64, 128].map(|len| extents.take(len)).to_vec();
        assert_eq!(at, [Some(0), Some(96), Some(128), Some(192)]);
        assert_eq!((extents.take(32), extents.take(0)), (None, Some(0)));
        extents.give(0, 96);
        extents.give(128, 64);
        assert_eq!(extents.left(), (160, 96));
        assert_eq!(extents.take(128), None);
        extents.give(96, 32); // between the two
        assert_eq!(extents.left(), (192, 192));
        assert_eq!(extents.take(160), Some(0));
        extents.give(192, 128);
        assert_eq!(extents.left(), (160, 160));
    }
}

//! A model of the metadata cache: how often metadata would have to be fetched from device memory.

use super::form::SECTOR_LEN;

/// Sectors that one set of the cache holds.
const WAYS: usize = 4;

/// Size of the cache where nobody says: 64 KiB, 4-way, in sectors of 32 bytes. One sector is the metadata of 64
/// entries of 128 bytes, so a miss brings in that of 63 neighbours.
pub const METADATA_CACHE_BYTES: usize = 64 << 10;

/// A set-associative cache that drops the sector not used for longest. Only numbers of sectors are in it.
#[derive(Debug)]
pub(super) struct MetadataCache {
    /// Of each set the sectors that it holds, that used last in front.
    sets: Vec<[Option<u64>; WAYS]>,
}

impl MetadataCache {
    /// A cache of `bytes`, rounded down to whole sets.
    pub(super) fn new(bytes: usize) -> Self {
        Self { sets: vec![[None; WAYS]; bytes / (SECTOR_LEN * WAYS)] }
    }

    /// Looks up the sector at byte `at` of device memory and returns whether it was there. It is there afterwards.
    pub(super) fn look_up(&mut self, at: u64) -> bool {
        let sector = at / SECTOR_LEN as u64;
        if self.sets.is_empty() {
            return false;
        }
        let index = (sector % self.sets.len() as u64) as usize;
        let set = &mut self.sets[index];
        let found = set.iter().position(|&way| way == Some(sector));
        set[..=found.unwrap_or(WAYS - 1)].rotate_right(1);
        set[0] = Some(sector);
        found.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sector_not_used_for_longest_goes() {
        // Two sets: sectors 0, 2, 4, ... share the first.
        let mut cache = MetadataCache::new(2 * 4 * 32);
        let mut look_up = |sector: u64| cache.look_up(sector * 32 + 31);
        assert_eq!([0, 2, 4, 6].map(&mut look_up), [false; 4]);
        assert_eq!([1, 0, 0].map(&mut look_up), [false, true, true]);
        assert!(!look_up(8)); // in the place of 2
        assert_eq!([4, 6, 0, 8, 1].map(&mut look_up), [true; 5]);
        assert!(!look_up(2));
        assert!(!MetadataCache::new(100).look_up(0));
    }
}

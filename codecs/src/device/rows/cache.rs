//! Rows of a table that are kept in device memory.

use super::super::launch::{MAX_SLABS, PIECE_LEN, WORD};
use super::super::{Buffer, Device, DeviceError, Stream};

/// An entry of a pair that no row was ever put into, and of one whose row is there no more.
const FREE: u64 = u64::MAX;
const GONE: u64 = u64::MAX - 1;
/// Bytes of a pair of a row and its entry.
const PAIR_LEN: u64 = 16;
/// A warp looks at so many pairs at a time, so no map has fewer.
const MIN_MAP_LOG2: u32 = 5;
/// Multiplies an index; the top bits of the product are its hash.
const ROW_HASH: u64 = 0x9e37_79b9_7f4a_7c15;

/// Some rows of a table in slabs of device memory, one packed behind the other, and a map in device memory that says where
/// each of them is and how it is stored, in one word:
///
/// ```text
/// bit  0 .. 39   40 .. 42   43       44 .. 51                52 .. 63
///      offset    slab       packed   cluster, 0 if not packed   0
/// ```
#[derive(Debug)]
pub struct RowCache {
    slabs: Vec<(Buffer, u64)>,
    map: Buffer,
    /// Hits and misses.
    totals: Buffer,
    /// What the map holds.
    pairs: Vec<(u64, u64)>,
}

impl Device {
    /// Brings rows to the device, and waits until they are there: the bytes of each slab, and for each row its index and
    /// where it is. At most half of the pairs of the map are in use, so that a look-up takes one step, nearly always.
    ///
    /// # Errors
    /// [`DeviceError::TooLong`] if there are more than 8 slabs, and whatever the driver says.
    ///
    /// # Panics
    /// If an entry is none, or an index is there twice.
    pub fn row_cache(
        &self,
        stream: &Stream,
        slabs: &[&[u8]],
        entries: impl ExactSizeIterator<Item = (u64, u64)>,
    ) -> Result<RowCache, DeviceError> {
        if slabs.len() > MAX_SLABS {
            let (limit, got) = (MAX_SLABS as u64, slabs.len() as u64);
            return Err(DeviceError::TooLong { what: "the list of slabs", limit, got });
        }
        let pairs = fill(entries);
        let map = self.alloc(PAIR_LEN * pairs.len() as u64)?;
        stream.upload(&bytes_of(&pairs), map.region())?;
        let bring = |slab: &&[u8]| {
            let len = slab.len() as u64;
            // Whole pieces, so that the kernel can read whole words at the end.
            let buffer = self.alloc(len.next_multiple_of(PIECE_LEN))?;
            stream.upload(slab, buffer.region())?;
            Ok((buffer, len))
        };
        let slabs = slabs.iter().map(bring).collect::<Result<_, DeviceError>>()?;
        let totals = self.alloc(2 * WORD)?;
        stream.zero(totals.region())?;
        stream.wait()?;
        Ok(RowCache { slabs, map, totals, pairs })
    }
}

impl RowCache {
    /// Lets a row be read from the table again, in all work that comes later on `stream`; its bytes of the slab are not
    /// used again. Waits until that is done. Returns whether it was here.
    ///
    /// # Errors
    /// Whatever the driver says; then the row is still here.
    pub fn remove(&mut self, stream: &Stream, index: u64) -> Result<bool, DeviceError> {
        let Some(at) = find(&self.pairs, index) else { return Ok(false) };
        let start = PAIR_LEN * at as u64;
        stream.upload(&bytes_of(&[(index, GONE)]), self.map.slice(start..start + PAIR_LEN))?;
        self.pairs[at].1 = GONE;
        Ok(true)
    }

    /// Rows that gathers on the device have found here since it was made, and rows that they have read from the table, when
    /// all work on `stream` so far has ended, which is waited for. Gathers of graphs count each time.
    ///
    /// # Errors
    /// Whatever the driver says.
    pub fn totals(&self, stream: &Stream) -> Result<(u64, u64), DeviceError> {
        let mut bytes = [0; 2 * WORD as usize];
        stream.download(self.totals.region(), &mut bytes)?;
        let word = |at: usize| bytes[at..].first_chunk().map_or(0, |word| u64::from_le_bytes(*word));
        Ok((word(0), word(WORD as usize)))
    }

    /// Bytes of device memory that it takes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.map.region().len() + self.slabs.iter().map(|(buffer, _)| buffer.region().len()).sum::<u64>()
    }

    /// As the kernel sees it.
    pub(super) fn places(&self) -> Places {
        let slab = |i: usize| self.slabs.get(i);
        let addresses = std::array::from_fn(|i| slab(i).map_or(0, |(buffer, _)| buffer.region().address()));
        let lens = std::array::from_fn(|i| slab(i).map_or(0, |(_, len)| *len));
        Places {
            map_log2: self.pairs.len().ilog2(),
            map: self.map.region().address(),
            totals: self.totals.region().address(),
            slabs: addresses,
            slab_lens: lens,
        }
    }
}

/// Addresses for the kernel; zeros stand for no cache.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Places {
    pub(super) map_log2: u32,
    pub(super) map: u64,
    pub(super) totals: u64,
    pub(super) slabs: [u64; MAX_SLABS],
    pub(super) slab_lens: [u64; MAX_SLABS],
}

/// A map of these rows.
fn fill(entries: impl ExactSizeIterator<Item = (u64, u64)>) -> Vec<(u64, u64)> {
    let log2 = (2 * entries.len()).next_power_of_two().ilog2().max(MIN_MAP_LOG2);
    let mut pairs = vec![(0, FREE); 1 << log2];
    for (index, entry) in entries {
        assert!(entry < GONE, "entry {entry:#x}");
        let free = probe(pairs.len(), index).find(|&at| {
            assert!(pairs[at].1 == FREE || pairs[at].0 != index, "row {index} is there twice");
            pairs[at].1 == FREE
        });
        // Half of them are.
        if let Some(at) = free {
            pairs[at] = (index, entry);
        }
    }
    pairs
}

/// Where the pair of a row is.
fn find(pairs: &[(u64, u64)], index: u64) -> Option<usize> {
    let mut seen = probe(pairs.len(), index).take_while(|&at| pairs[at].1 != FREE);
    seen.find(|&at| pairs[at].0 == index && pairs[at].1 != GONE)
}

/// Places in a map of `len` pairs, in the order in which a row is looked for there.
fn probe(len: usize, index: u64) -> impl Iterator<Item = usize> {
    let hash = (index.wrapping_mul(ROW_HASH) >> (64 - len.ilog2())) as usize;
    (0..len).map(move |probed| (hash + probed) % len)
}

fn bytes_of(pairs: &[(u64, u64)]) -> Vec<u8> {
    pairs.iter().flat_map(|(index, entry)| [*index, *entry]).flat_map(u64::to_le_bytes).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_its_pair() {
        for (count, step) in [(0_u64, 1), (1, 1), (16, 1), (17, 1 << 40), (1000, 64), (4097, 1)] {
            let pairs = fill((0..count as usize).map(|i| (i as u64 * step, 7 * i as u64)));
            assert_eq!(pairs.len(), (2 * count as usize).next_power_of_two().max(32));
            for i in 0..count {
                let at = find(&pairs, i * step).unwrap();
                assert_eq!(pairs[at], (i * step, 7 * i));
            }
            assert_eq!(find(&pairs, count * step), None);
        }
    }

    #[test]
    #[should_panic(expected = "row 3 is there twice")]
    fn a_row_is_there_once() {
        fill([(3, 0), (4, 0), (3, 1)].into_iter());
    }
}

//! Where a cached row is.

use std::hash::{BuildHasherDefault, Hasher};

use mgcomp_codecs::ibp::Form;

/// The most slabs: what three bits tell apart.
pub const MAX_SLABS: usize = 1 << SLAB_BITS;

const OFFSET_BITS: u32 = 40;
const SLAB_BITS: u32 = 3;
const PACKED_BIT: u32 = OFFSET_BITS + SLAB_BITS;
const CLUSTER_BIT: u32 = PACKED_BIT + 1;
/// The most bytes of a slab.
pub(super) const MAX_SLAB_BYTES: u64 = 1 << OFFSET_BITS;

/// Place and form of a cached row in one word, as a device looks it up.
///
/// ```text
/// bit  0 .. 39   40 .. 42   43       44 .. 51                52 .. 63
///      offset    slab       packed   cluster, 0 if not packed   0
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlabEntry(u64);

impl SlabEntry {
    pub(super) fn new(slab: usize, offset: u64, form: Form) -> Self {
        debug_assert!(slab < MAX_SLABS && offset < MAX_SLAB_BYTES, "slab {slab}, offset {offset}");
        let form = match form {
            Form::Raw => 0,
            Form::Packed { cluster } => 1 << PACKED_BIT | u64::from(cluster) << CLUSTER_BIT,
        };
        Self(offset | (slab as u64) << OFFSET_BITS | form)
    }

    /// The word.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Index of the slab.
    #[must_use]
    pub fn slab(self) -> usize {
        (self.0 >> OFFSET_BITS) as usize % MAX_SLABS
    }

    /// Where in the slab the row starts, in bytes.
    #[must_use]
    pub fn offset(self) -> u64 {
        self.0 % MAX_SLAB_BYTES
    }

    /// How it is stored.
    #[must_use]
    pub fn form(self) -> Form {
        match self.0 >> PACKED_BIT & 1 {
            0 => Form::Raw,
            _ => Form::Packed { cluster: (self.0 >> CLUSTER_BIT) as u8 },
        }
    }
}

/// Hashes indices of rows: one multiplication, since nobody outside chooses which rows are cached.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct IndexHasher(u64);

/// Makes them.
pub(super) type IndexHash = BuildHasherDefault<IndexHasher>;

impl Hasher for IndexHasher {
    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|&byte| self.write_u64(u64::from(byte)));
    }

    #[inline]
    fn write_u64(&mut self, index: u64) {
        let product = u128::from(self.0 ^ index) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }

    #[inline]
    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_laid_out_as_drawn() {
        let entry = SlabEntry::new(5, 0x12_3456_789a, Form::Packed { cluster: 0xab });
        assert_eq!(entry.bits(), 0x000a_bd12_3456_789a);
        assert_eq!((entry.slab(), entry.offset()), (5, 0x12_3456_789a));
        assert_eq!(entry.form(), Form::Packed { cluster: 0xab });
        let raw = SlabEntry::new(7, MAX_SLAB_BYTES - 1, Form::Raw);
        assert_eq!((raw.bits(), raw.slab(), raw.form()), (0x0000_07ff_ffff_ffff, 7, Form::Raw));
    }

    #[test]
    fn indices_spread() {
        let hash = |index: u64| {
            let mut hasher = IndexHasher::default();
            hasher.write_u64(index);
            hasher.finish()
        };
        for step in [1, 64, 4096, 1 << 32] {
            let low: std::collections::HashSet<u64> = (0..4096).map(|i| hash(i * step) % 4096).collect();
            let top: std::collections::HashSet<u64> = (0..4096).map(|i| hash(i * step) >> 57).collect();
            assert!(low.len() > 1500 && top.len() > 100, "{step}: {} {}", low.len(), top.len());
        }
    }
}

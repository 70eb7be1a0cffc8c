//! How entries are coded, and what room they take.

use std::fmt;

use mgcomp_codecs::{Element, bpc};

use super::Target;

/// Bytes of a sector, the piece in which memory is read. Whatever a pool hands out is made of whole ones.
pub const SECTOR_LEN: usize = 32;

/// Raw bytes of an entry of [`Form::Xp`]; the last one of an allocation may be shorter.
///
/// Maps of different channels have different numbers of zeros: the more of them share an entry, the more alike are
/// entries, and the fewer of them overflow. The longer it is, the more costs a byte that is written alone.
pub const XP_ENTRY_LEN: usize = 32 << 10;

/// How the entries of an allocation are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Form {
    /// Bit-plane compression of entries of 128 bytes, as in the paper.
    Bpc,
    /// XP, for floats of this element, in entries of [`XP_ENTRY_LEN`] bytes.
    Xp(Element),
}

impl Form {
    /// The one spelling used in flags, tables and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Bpc => "bpc",
            Self::Xp(_) => "xp",
        }
    }

    /// Raw bytes of an entry.
    #[must_use]
    pub const fn entry_len(self) -> usize {
        match self {
            Self::Bpc => bpc::ENTRY_LEN,
            Self::Xp(_) => XP_ENTRY_LEN,
        }
    }

    /// The targets that there are, the smallest ratio first.
    #[must_use]
    pub const fn targets(self) -> &'static [Target] {
        match self {
            Self::Bpc => &[Target::One, Target::FourThirds, Target::Two, Target::Four, Target::Sixteen],
            Self::Xp(_) => &Target::ALL,
        }
    }

    /// What an allocation of `len` bytes takes; at most `u64::MAX` of each.
    #[must_use]
    pub fn footprint(self, len: u64, target: Target) -> Footprint {
        let entry_len = self.entry_len() as u64;
        let raw = padded_len(len);
        let (whole, last) = (raw / entry_len, (raw % entry_len) as usize);
        let (slot, spill) = (slot_len(self.entry_len(), target), spill_len(self.entry_len(), target));
        let metadata = match self {
            Self::Bpc => raw.div_ceil(entry_len).div_ceil(2),
            Self::Xp(_) => raw.div_ceil(entry_len).saturating_mul(2),
        };
        let bytes = |each: usize, last: usize| sectors(whole.saturating_mul(each as u64), last as u64);
        Footprint {
            device_bytes: bytes(slot, slot_len(last, target)),
            metadata_bytes: sectors(metadata, 0),
            buddy_bytes: bytes(spill, spill_len(last, target)),
        }
    }
}

impl fmt::Display for Form {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The memory that an allocation takes, used or not. It never changes while the allocation lives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Footprint {
    /// Slots in device memory.
    pub device_bytes: u64,
    /// Metadata, in device memory too.
    pub metadata_bytes: u64,
    /// Places in buddy memory.
    pub buddy_bytes: u64,
}

/// `len` and the zeros that fill up its last 128 bytes.
pub(super) const fn padded_len(len: u64) -> u64 {
    (len / bpc::ENTRY_LEN as u64)
        .saturating_add((!len.is_multiple_of(bpc::ENTRY_LEN as u64)) as u64)
        .saturating_mul(bpc::ENTRY_LEN as u64)
}

/// The place in device memory of an entry of `raw_len` bytes.
pub(super) const fn slot_len(raw_len: usize, target: Target) -> usize {
    raw_len * target.device_sixteenths() / 16
}

/// The place in buddy memory of an entry of `raw_len` bytes: whatever does not fit its slot, in whole sectors.
pub(super) const fn spill_len(raw_len: usize, target: Target) -> usize {
    (raw_len - slot_len(raw_len, target)).next_multiple_of(SECTOR_LEN)
}

/// The bytes of whole sectors for `bytes` and `more`.
fn sectors(bytes: u64, more: u64) -> u64 {
    bytes.saturating_add(more).div_ceil(SECTOR_LEN as u64).saturating_mul(SECTOR_LEN as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_allocation_takes_what_its_target_says() {
        // 8 entries of 128 bytes: 2 of 4 sectors each; 8 nibbles of metadata, which take a sector.
        let two = Form::Bpc.footprint(1000, Target::Two);
        assert_eq!(two, Footprint { device_bytes: 512, metadata_bytes: 32, buddy_bytes: 512 });
        // 8 bytes of each entry; the other 120 are rounded up to whole sectors.
        let zero = Form::Bpc.footprint(1024, Target::Sixteen);
        assert_eq!(zero, Footprint { device_bytes: 64, metadata_bytes: 32, buddy_bytes: 1024 });
        let one = Form::Bpc.footprint(129, Target::One);
        assert_eq!(one, Footprint { device_bytes: 256, metadata_bytes: 32, buddy_bytes: 0 });
        // An entry of 32 KiB and one of 256 bytes.
        let xp = Form::Xp(Element::F32).footprint((32 << 10) + 130, Target::EightThirds);
        assert_eq!(
            xp,
            Footprint { device_bytes: 12_288 + 96, metadata_bytes: 32, buddy_bytes: 20_480 + 160 }
        );
    }

    #[test]
    fn absurd_lengths_do_not_wrap_around() {
        let most = Form::Bpc.footprint(u64::MAX, Target::One);
        assert!(most.device_bytes > u64::MAX - 256 && most.metadata_bytes > 1 << 55, "{most:?}");
    }
}

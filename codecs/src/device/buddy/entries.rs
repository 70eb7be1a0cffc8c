//! Entries of an allocation, and what is wanted of them.

use std::ops::Range;

use super::super::launch::{BUDDY_ENTRY_LEN, BUDDY_XP_ENTRY_LEN, WORD};
use super::super::{DeviceError, Region};
use super::{EntryCounts, EntryReport};
use crate::{Algorithm, Element};

/// What slots, states and places lie on multiples of.
const SECTOR_LEN: u64 = 32;

/// How entries are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EntryForm {
    /// By BPC, 128 bytes each.
    Bpc,
    /// By XP, 32 KiB each.
    Xp,
}

impl EntryForm {
    /// Every form.
    pub const ALL: [Self; 2] = [Self::Bpc, Self::Xp];

    /// The codec whose it is.
    #[must_use]
    pub const fn algorithm(self) -> Algorithm {
        match self {
            Self::Bpc => Algorithm::Bpc,
            Self::Xp => Algorithm::Xp,
        }
    }

    /// Raw bytes of an entry. The last one of an allocation may have fewer, a multiple of 128.
    #[must_use]
    pub const fn entry_bytes(self) -> u64 {
        match self {
            Self::Bpc => BUDDY_ENTRY_LEN,
            Self::Xp => BUDDY_XP_ENTRY_LEN,
        }
    }

    /// Bytes of the states of so many entries.
    const fn states_len(self, entries: u64) -> u64 {
        match self {
            Self::Bpc => entries.div_ceil(2),
            Self::Xp => entries.saturating_mul(2),
        }
    }
}

/// The part of an entry that has room in device memory. The rest has a place in buddy memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SlotShare {
    /// 1/16.
    Sixteenth = 1,
    /// 1/4.
    Quarter = 4,
    /// 3/8; pools have it for XP alone, and so 5/8, because these are no whole sectors of an entry of BPC.
    ThreeEighths = 6,
    /// 1/2.
    Half = 8,
    /// 5/8.
    FiveEighths = 10,
    /// 3/4.
    ThreeQuarters = 12,
    /// All: nothing goes to buddy memory.
    Whole = 16,
}

impl SlotShare {
    /// Bytes of the slot of an entry of `raw_len` bytes, a multiple of 128.
    #[must_use]
    pub const fn slot_bytes(self, raw_len: u64) -> u64 {
        raw_len / 16 * self as u64
    }

    /// Bytes of its place in buddy memory: the rest of it, in whole sectors.
    #[must_use]
    pub const fn spill_bytes(self, raw_len: u64) -> u64 {
        (raw_len - self.slot_bytes(raw_len)).next_multiple_of(SECTOR_LEN)
    }
}

/// Where the entries of an allocation lie, each kind on a multiple of 32; `FORMAT.md` says how.
#[derive(Clone, Copy, Debug)]
pub struct BuddyEntries<'a> {
    /// The slots, in device memory.
    pub slots: Region<'a>,
    /// The states, in device memory.
    pub states: Region<'a>,
    /// The places in buddy memory, which is page-locked memory of the host, or memory of a device that this one
    /// [reaches](super::Device::reach).
    pub spills: Region<'a>,
    /// Bytes of the allocation, at least 1.
    pub len: u64,
    /// What they are; BPC has no use for it.
    pub element: Element,
    /// What an entry has in device memory.
    pub slot_share: SlotShare,
    /// Where counts are added up: [`EntryCounts::LEN`] bytes on a multiple of 8, if anywhere.
    pub totals: Option<Region<'a>>,
}

impl BuddyEntries<'_> {
    pub(super) fn check(&self, form: EntryForm) -> Result<(), DeviceError> {
        let Self { slots, states, spills, len, slot_share, totals, .. } = self;
        if *len == 0 {
            return Err(DeviceError::TooShort { what: "an allocation", needed: 1, got: 0 });
        }
        let entry_len = form.entry_bytes();
        let raw_len = len.div_ceil(BUDDY_ENTRY_LEN).saturating_mul(BUDDY_ENTRY_LEN);
        let (whole, last) = (raw_len / entry_len, raw_len % entry_len);
        let all = |of: fn(SlotShare, u64) -> u64| {
            whole.saturating_mul(of(*slot_share, entry_len)).saturating_add(of(*slot_share, last))
        };
        slots.check_align("the slots of entries", SECTOR_LEN)?;
        slots.check_len("the slots of entries", all(SlotShare::slot_bytes))?;
        states.check_align("the states of entries", SECTOR_LEN)?;
        states.check_len("the states of entries", form.states_len(raw_len.div_ceil(entry_len)))?;
        spills.check_align("the places of entries", SECTOR_LEN)?;
        spills.check_len("the places of entries", all(SlotShare::spill_bytes))?;
        let Some(totals) = totals else { return Ok(()) };
        totals.check_align("the counts of entries", WORD)?;
        totals.check_len("the counts of entries", EntryCounts::LEN)
    }
}

/// What a call is about.
#[derive(Clone, Debug)]
pub struct MoveEntries<'a> {
    /// Bytes of the allocation. An entry that is written in part is read before.
    pub range: Range<u64>,
    /// What they are, or where they go: as many bytes at any address; fastest where the allocation would start on a
    /// multiple of 16. Of entries that are refused nothing is written.
    pub data: Region<'a>,
    /// Where the [`EntryReport`] goes: [`EntryReport::LEN`] bytes on a multiple of 8.
    pub report: Region<'a>,
}

impl MoveEntries<'_> {
    pub(super) fn check(&self, len: u64) -> Result<(), DeviceError> {
        let Self { range: Range { start, end }, data, report } = self;
        if *end > len {
            return Err(DeviceError::TooShort { what: "an allocation", needed: *end, got: len });
        }
        let needed = end.checked_sub(*start);
        let Some(needed) = needed else {
            return Err(DeviceError::TooShort { what: "the end of a range", needed: *start, got: *end });
        };
        data.check_len("the bytes of a range", needed)?;
        if data.len() > needed {
            return Err(DeviceError::TooLong {
                what: "the bytes of a range",
                limit: needed,
                got: data.len(),
            });
        }
        report.check_align("the report on entries", WORD)?;
        report.check_len("the report on entries", EntryReport::LEN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_whole_sectors_or_an_eighth_of_a_line() {
        let of = |share: SlotShare, len| (share.slot_bytes(len), share.spill_bytes(len));
        assert_eq!(of(SlotShare::Sixteenth, 128), (8, 128));
        assert_eq!(of(SlotShare::ThreeQuarters, 128), (96, 32));
        assert_eq!(of(SlotShare::Whole, 128), (128, 0));
        assert_eq!(of(SlotShare::ThreeEighths, 32 << 10), (12_288, 20_480));
        assert_eq!(of(SlotShare::FiveEighths, 384), (240, 160));
    }
}

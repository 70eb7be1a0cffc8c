//! Entries of BPC in device memory and buddy memory, written and read by a device.
#![allow(unsafe_code)] // launches kernels

mod report;

use std::ops::Range;
use std::sync::Arc;

use super::launch::{
    BLOCK_THREADS, BUDDY_ENTRY_LEN, BUDDY_TILE, Entries, WORD, WORKSPACE_WORDS, buddy_shared_len,
};
use super::module::Prepared;
use super::{Device, DeviceError, KernelSource, Region, Shared, Stream, Workspace};
use crate::Algorithm;

pub use report::{EntriesRefused, EntryCounts, EntryReport};

/// What slots, states and places lie on multiples of.
const SECTOR_LEN: u64 = 32;
/// Bytes of an allocation that a block works on at a time.
const BLOCK_LEN: u64 = BUDDY_ENTRY_LEN * BUDDY_TILE * (BLOCK_THREADS as u64 / 32);

/// Writes and reads entries in buddy memory, in the form of BPC.
///
/// A call enqueues one launch and returns; it allocates nothing and waits for nothing, so it can be recorded in a graph. A
/// warp codes 32 entries at a time and moves what is stored of them to and from device memory, and only what does not fit
/// there to and from buddy memory. What is wrong with the arguments is an error of the call, and then nothing is enqueued;
/// what is wrong with entries is in the [`EntryReport`].
#[derive(Clone, Debug)]
pub struct EntryMover {
    shared: Arc<Shared>,
    read: Prepared,
    write: Prepared,
    sm_limit: u32,
}

/// What an entry of 128 bytes has in device memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlotLen {
    /// 8 bytes.
    Eight = 8,
    /// A sector of 32 bytes.
    One = 32,
    /// Two sectors.
    Two = 64,
    /// Three sectors.
    Three = 96,
    /// All four: nothing goes to buddy memory.
    Four = 128,
}

impl SlotLen {
    /// The number of bytes.
    #[must_use]
    pub const fn bytes(self) -> u64 {
        self as u64
    }

    /// Bytes of an entry's place in buddy memory: the rest of it, in whole sectors.
    #[must_use]
    pub const fn spill_bytes(self) -> u64 {
        (BUDDY_ENTRY_LEN - self.bytes()).next_multiple_of(SECTOR_LEN)
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
    /// [reaches](Device::reach).
    pub spills: Region<'a>,
    /// Bytes of the allocation, at least 1.
    pub len: u64,
    /// What an entry has in device memory.
    pub slot_len: SlotLen,
    /// Where counts are added up: [`EntryCounts::LEN`] bytes on a multiple of 8, if anywhere.
    pub totals: Option<Region<'a>>,
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

impl Device {
    /// What writes and reads entries in buddy memory.
    ///
    /// The first time this loads the kernels of BPC, as [`coder`](Self::coder) does.
    ///
    /// # Errors
    /// As [`coder`](Self::coder).
    pub fn entry_mover(&self) -> Result<EntryMover, DeviceError> {
        let source = KernelSource::of(Algorithm::Bpc).ok_or(DeviceError::NoKernels(Algorithm::Bpc))?;
        self.shared.with_module(source, |module| {
            let entered = self.shared.context.enter()?;
            let prepare = |name| {
                module.prepare_named(&entered, name, buddy_shared_len(), self.shared.info.shared_bytes)
            };
            let (read, write) = (prepare("buddy_read")?, prepare("buddy_write")?);
            Ok(EntryMover { shared: Arc::clone(&self.shared), read, write, sm_limit: u32::MAX })
        })
    }
}

impl EntryMover {
    /// Keeps each launch to as many blocks as `count` multiprocessors can run at a time, at least 1.
    #[must_use]
    pub fn limit_sms(mut self, count: u32) -> Self {
        self.sm_limit = count.max(1);
        self
    }

    /// Enqueues a read of entries. A workspace of [`workspace_len`](super::workspace_len) of no buffers is enough.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn read(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        entries: &BuddyEntries<'_>,
        wanted: &MoveEntries<'_>,
    ) -> Result<(), DeviceError> {
        self.enqueue(self.read, stream, workspace, entries, wanted)
    }

    /// Enqueues a write of entries, as [`read`](Self::read) does a read.
    ///
    /// # Errors
    /// What is wrong with the regions, and whatever the driver says.
    pub fn write(
        &self,
        stream: &Stream,
        workspace: &mut Workspace<'_>,
        entries: &BuddyEntries<'_>,
        wanted: &MoveEntries<'_>,
    ) -> Result<(), DeviceError> {
        self.enqueue(self.write, stream, workspace, entries, wanted)
    }

    fn enqueue(
        &self,
        kernel: Prepared,
        stream: &Stream,
        workspace: &Workspace<'_>,
        entries: &BuddyEntries<'_>,
        wanted: &MoveEntries<'_>,
    ) -> Result<(), DeviceError> {
        entries.check()?;
        wanted.check(entries.len)?;
        let workspace = workspace.address_for(stream, WORD * WORKSPACE_WORDS)?;
        let MoveEntries { range: Range { start, end }, data, report } = wanted.clone();
        if start == end {
            return stream.zero(report.slice(0..EntryReport::LEN));
        }
        let parameters = Entries {
            slots: entries.slots.address(),
            states: entries.states.address(),
            spills: entries.spills.address(),
            len: entries.len,
            slot_len: entries.slot_len.bytes() as u32,
            spill_len: entries.slot_len.spill_bytes() as u32,
            totals: entries.totals.map_or(0, |totals| totals.address()),
            start,
            end,
            data: data.address(),
            report: report.address(),
            workspace,
        };
        let most = self.sm_limit.min(self.shared.info.sm_count).saturating_mul(kernel.blocks_per_sm);
        let blocks = (end.div_ceil(BLOCK_LEN) - start / BLOCK_LEN).clamp(1, most.max(1).into()) as u32;
        let entered = self.shared.context.enter()?;
        // SAFETY: the kernel takes `Entries`. All regions were found as it wants them, and are there as long as their work
        // lasts. What states and entries hold may be anything. The rest is as for a coder.
        unsafe { kernel.launch(&entered, stream.handle, blocks, &parameters) }
    }
}

impl BuddyEntries<'_> {
    fn check(&self) -> Result<(), DeviceError> {
        let Self { slots, states, spills, len, slot_len, totals } = self;
        let entries = len.div_ceil(BUDDY_ENTRY_LEN);
        if *len == 0 {
            return Err(DeviceError::TooShort { what: "an allocation", needed: 1, got: 0 });
        }
        slots.check_align("the slots of entries", SECTOR_LEN)?;
        slots.check_len("the slots of entries", entries.saturating_mul(slot_len.bytes()))?;
        states.check_align("the states of entries", SECTOR_LEN)?;
        states.check_len("the states of entries", entries.div_ceil(2))?;
        spills.check_align("the places of entries", SECTOR_LEN)?;
        spills.check_len("the places of entries", entries.saturating_mul(slot_len.spill_bytes()))?;
        let Some(totals) = totals else { return Ok(()) };
        totals.check_align("the counts of entries", WORD)?;
        totals.check_len("the counts of entries", EntryCounts::LEN)
    }
}

impl MoveEntries<'_> {
    fn check(&self, len: u64) -> Result<(), DeviceError> {
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

//! Entries in device memory and buddy memory, written and read by a device.
#![allow(unsafe_code)] // launches kernels

mod entries;
mod report;

use std::ops::Range;
use std::sync::Arc;

use super::launch::{
    BLOCK_THREADS, BUDDY_ENTRY_LEN, BUDDY_TILE, ENTRY_KERNELS, Entries, UNIT, WORD, WORKSPACE_WORDS,
    bpc_buddy_shared_len,
};
use super::module::{Prepared, SmLimit};
use super::{Device, DeviceError, KernelSource, Shared, Stream, Workspace};

pub use entries::{BuddyEntries, EntryForm, MoveEntries, SlotShare};
pub use report::{EntriesRefused, EntryCounts, EntryReport};

/// Writes and reads entries in buddy memory, in one of the forms.
///
/// A call enqueues one launch and returns; it allocates nothing and waits for nothing, so it can be recorded in a graph. A
/// warp codes 32 entries of BPC at a time, a block one of XP, and moves what is stored of them to and from device memory,
/// and only what does not fit there to and from buddy memory. What is wrong with the arguments is an error of the call, and
/// then nothing is enqueued; what is wrong with entries is in the [`EntryReport`].
#[derive(Clone, Debug)]
pub struct EntryMover {
    shared: Arc<Shared>,
    form: EntryForm,
    read: Prepared,
    /// With room in shared memory for an entry that is not decoded to where it goes.
    read_with_room: Prepared,
    write: Prepared,
    sm_limit: SmLimit,
}

impl Device {
    /// What writes and reads entries of this form in buddy memory.
    ///
    /// The first time this loads the form's kernels, as [`coder`](Self::coder) does an algorithm's.
    ///
    /// # Errors
    /// As [`coder`](Self::coder).
    pub fn entry_mover(&self, form: EntryForm) -> Result<EntryMover, DeviceError> {
        let algorithm = form.algorithm();
        let codec = KernelSource::of(algorithm).ok_or(DeviceError::NoKernels(algorithm))?;
        self.shared.with_module(KernelSource::of_entries(form), |module| {
            let entered = self.shared.context.enter()?;
            let prepare = |name, shared_len| {
                module.prepare_named(&entered, name, shared_len, self.shared.info.shared_bytes)
            };
            let [read, with_room, write] = shared_lens(form, codec);
            let [reads, writes] = ENTRY_KERNELS;
            Ok(EntryMover {
                shared: Arc::clone(&self.shared),
                form,
                read: prepare(reads, read)?,
                read_with_room: prepare(reads, with_room)?,
                write: prepare(writes, write)?,
                sm_limit: SmLimit::NONE,
            })
        })
    }
}

/// Dynamic shared memory of a read, of one with room, and of a write; `codec` is that of the frames.
fn shared_lens(form: EntryForm, codec: &KernelSource) -> [u32; 3] {
    match form {
        EntryForm::Bpc => [bpc_buddy_shared_len(); 3],
        EntryForm::Xp => codec.xp_buddy_shared_lens(),
    }
}

impl EntryMover {
    /// Keeps each launch to as many blocks as `count` multiprocessors can run at a time, at least 1.
    #[must_use]
    pub fn limit_sms(mut self, count: u32) -> Self {
        self.sm_limit = SmLimit::of(count);
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
        let kernel = if self.needs_room(entries, wanted) { self.read_with_room } else { self.read };
        self.enqueue(kernel, stream, workspace, entries, wanted)
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
        entries.check(self.form)?;
        wanted.check(entries.len)?;
        let workspace = workspace.address_for(stream, WORD * WORKSPACE_WORDS)?;
        let MoveEntries { range: Range { start, end }, data, report } = wanted.clone();
        if start == end {
            return stream.zero(report.slice(0..EntryReport::LEN));
        }
        let entry_len = self.form.entry_bytes();
        let parameters = Entries {
            slots: entries.slots.address(),
            states: entries.states.address(),
            spills: entries.spills.address(),
            len: entries.len,
            slot_len: entries.slot_share.slot_bytes(entry_len) as u32,
            spill_len: entries.slot_share.spill_bytes(entry_len) as u32,
            totals: entries.totals.map_or(0, |totals| totals.address()),
            start,
            end,
            data: data.address(),
            report: report.address(),
            workspace,
            element: entries.element.number().into(),
            gap: 0,
        };
        let block_len = self.block_len();
        let wanted = end.div_ceil(block_len) - start / block_len;
        let blocks = kernel.blocks(wanted, self.sm_limit, &self.shared.info);
        let entered = self.shared.context.enter()?;
        // SAFETY: the kernel takes `Entries`. All regions were found as it wants them, and are there as long as their work
        // lasts. What states and entries hold may be anything. The rest is as for a coder.
        unsafe { kernel.launch(&entered, stream.handle, blocks, &parameters) }
    }

    /// Bytes of an allocation that a block works on at a time.
    const fn block_len(&self) -> u64 {
        match self.form {
            EntryForm::Bpc => BUDDY_ENTRY_LEN * BUDDY_TILE * (BLOCK_THREADS as u64 / 32),
            EntryForm::Xp => self.form.entry_bytes(),
        }
    }

    /// Whether an entry may have to be decoded elsewhere first: `xp_buddy_needs_room` of `buddy/allocation.cuh`.
    fn needs_room(&self, entries: &BuddyEntries<'_>, wanted: &MoveEntries<'_>) -> bool {
        let entry_len = self.form.entry_bytes();
        let Range { start, end } = wanted.range;
        let ends_well =
            end.is_multiple_of(entry_len) || (end == entries.len && end.is_multiple_of(BUDDY_ENTRY_LEN));
        !start.is_multiple_of(entry_len) || !ends_well || !wanted.data.address().is_multiple_of(UNIT)
    }
}

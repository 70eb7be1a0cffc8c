//! Entries in buddy memory: the struct of `codecs/kernels/buddy/allocation.cuh`, and memory for it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mgcomp_transport::buddy::{Allocation, BuddyPool, Form, Memory, MemoryError, Target};

use super::{Launch, Shim, Status, launch};
use crate::data::Random;
use crate::guarded::Guarded;

const ENTRY_LEN: u64 = 128;
const COUNTS: usize = launch::BUDDY_COUNTS as usize;

/// `MgcBuddy`.
#[repr(C)]
#[derive(Debug)]
pub(super) struct RawBuddy {
    slots: *mut u8,
    states: *mut u8,
    spills: *mut u8,
    len: u64,
    slot_len: u32,
    spill_len: u32,
    totals: *mut u64,
    start: u64,
    end: u64,
    data: *mut u8,
    report: *mut u64,
    workspace: *mut u64,
}

const _: () = assert!(size_of::<RawBuddy>() == 88);

/// Memory of a pool that others look at, too.
#[derive(Clone, Debug)]
pub struct SharedMemory(Arc<Mutex<Vec<u8>>>);

impl SharedMemory {
    /// Memory that holds `bytes`.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Self {
        Self(Arc::new(Mutex::new(bytes)))
    }

    /// What it holds.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        self.with(|bytes| bytes.clone())
    }

    fn with<T>(&self, use_bytes: impl FnOnce(&mut Vec<u8>) -> T) -> T {
        use_bytes(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Memory for SharedMemory {
    fn size(&self) -> u64 {
        self.with(|bytes| bytes.len() as u64)
    }

    fn load(&self, at: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        self.with(|bytes| to.copy_from_slice(&bytes[at as usize..][..to.len()]));
        Ok(())
    }

    fn store(&mut self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.with(|bytes| bytes[at as usize..][..from.len()].copy_from_slice(from));
        Ok(())
    }
}

/// A portable pool with one allocation, whose memories can be looked at and written.
#[derive(Debug)]
pub struct PortableEntries {
    /// The pool.
    pub pool: BuddyPool<SharedMemory, SharedMemory>,
    /// Its allocation.
    pub allocation: Allocation,
    /// Its device memory: slots, then states.
    pub device: SharedMemory,
    /// Its buddy memory.
    pub buddy: SharedMemory,
    target: Target,
    len: u64,
}

impl PortableEntries {
    /// An allocation of `len` bytes in entries of BPC, in memory that is not zero.
    ///
    /// # Panics
    /// If there is no such allocation.
    #[must_use]
    pub fn new(len: u64, target: Target) -> Self {
        let footprint = Form::Bpc.footprint(len, target);
        let memory = |len| SharedMemory::new(vec![0x96; len as usize]);
        let device = memory(footprint.device_bytes + footprint.metadata_bytes);
        let buddy = memory(footprint.buddy_bytes);
        let mut pool = BuddyPool::over(device.clone(), buddy.clone());
        let allocation = pool.alloc(len, target).expect("room");
        Self { pool, allocation, device, buddy, target, len }
    }

    /// The same entries, for a kernel.
    #[must_use]
    pub fn copy(&self) -> Entries {
        let [slot_len, spill_len] = lens(self.target);
        let entries = self.len.div_ceil(ENTRY_LEN) as usize;
        let (device, buddy) = (self.device.bytes(), self.buddy.bytes());
        let states_at = Form::Bpc.footprint(self.len, self.target).device_bytes as usize;
        Entries {
            slots: Guarded::new(&device[..entries * slot_len as usize], 0),
            states: Guarded::new(&device[states_at..][..entries.div_ceil(2)], 0),
            spills: Guarded::new(&buddy[..entries * spill_len as usize], 0),
            len: self.len,
            slot_len,
            spill_len,
        }
    }

    /// Damages what is stored: byte `at` of slots, states and places, one behind the other, gets some bits flipped.
    pub fn damage(&mut self, at: usize, bits: u8) {
        let [slot_len, spill_len] = lens(self.target).map(|len| len as usize);
        let entries = self.len.div_ceil(ENTRY_LEN) as usize;
        let (slots, states) = (entries * slot_len, entries.div_ceil(2));
        let states_at = Form::Bpc.footprint(self.len, self.target).device_bytes as usize;
        let at = at % (slots + states + entries * spill_len);
        match at {
            _ if at < slots => self.device.with(|bytes| bytes[at] ^= bits),
            _ if at < slots + states => self.device.with(|bytes| bytes[states_at + at - slots] ^= bits),
            _ => self.buddy.with(|bytes| bytes[at - slots - states] ^= bits),
        }
    }

    /// The state of entry `entry`.
    #[must_use]
    pub fn state(&self, entry: usize) -> u8 {
        let at = Form::Bpc.footprint(self.len, self.target).device_bytes as usize + entry / 2;
        self.device.with(|bytes| bytes[at] >> (entry % 2 * 4) & 15)
    }

    /// Gives entry `entry` a state.
    pub fn set_state(&mut self, entry: usize, state: u8) {
        let at = Form::Bpc.footprint(self.len, self.target).device_bytes as usize + entry / 2;
        let shift = entry % 2 * 4;
        self.device.with(|bytes| bytes[at] = bytes[at] & !(15 << shift) | state << shift);
    }
}

/// `len` bytes of entries whose codes have all lengths: words that differ by so many bits, some more than others.
#[must_use]
pub fn entries_of_all_states(random: &mut Random, len: usize) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(len + ENTRY_LEN as usize);
    while bytes.len() < len {
        let (width, rare) = (random.below(33), random.below(30));
        let (mut word, step) = (random.bits() as u32 & ((1_u64 << width) - 1) as u32, random.below(3) as u32);
        let is_zero = random.percent(5);
        for i in 0..32 {
            let noise = (random.bits() & ((1 << width) - 1)) as u32;
            word = word.wrapping_add(step).wrapping_add(if i < rare { noise } else { 0 });
            bytes.extend(if is_zero { 0 } else { word }.to_le_bytes());
        }
    }
    bytes.truncate(len);
    bytes
}

/// What a slot and a place of an entry take.
fn lens(target: Target) -> [u32; 2] {
    let slot = ENTRY_LEN as u32 * target.device_sixteenths() as u32 / 16;
    [slot, (ENTRY_LEN as u32 - slot).next_multiple_of(32)]
}

/// Entries as a kernel finds them, each kind of memory between guards.
#[derive(Debug)]
pub struct Entries {
    slots: Guarded,
    states: Guarded,
    spills: Guarded,
    len: u64,
    slot_len: u32,
    spill_len: u32,
}

impl Entries {
    /// Slots, states and places.
    #[must_use]
    pub fn bytes(&self) -> [&[u8]; 3] {
        [self.slots.content(), self.states.content(), self.spills.content()]
    }

    fn all(&self) -> Vec<u8> {
        self.bytes().concat()
    }

    fn raw(
        &mut self,
        range: &Range<u64>,
        data: &mut [u8],
        words: &mut Words,
        workspace: &mut [u8],
    ) -> RawBuddy {
        RawBuddy {
            slots: self.slots.content_mut().as_mut_ptr(),
            states: self.states.content_mut().as_mut_ptr(),
            spills: self.spills.content_mut().as_mut_ptr(),
            len: self.len,
            slot_len: self.slot_len,
            spill_len: self.spill_len,
            totals: words.totals.as_mut_ptr(),
            start: range.start,
            end: range.end,
            data: data.as_mut_ptr(),
            report: words.report.as_mut_ptr(),
            workspace: workspace.as_mut_ptr().cast(),
        }
    }
}

/// Words that a launch writes.
struct Words {
    report: [u64; 1 + COUNTS],
    totals: [u64; COUNTS],
}

/// What a launch over buddy memory reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// The first error, with the entry as its chunk.
    pub status: Status,
    /// Entries read; of these, with a part in buddy memory; written; of these, with a part there; by how many more than
    /// before do not fit.
    pub counts: [u64; COUNTS],
}

impl Shim {
    /// Writes `data` to `range` of the entries, which is not empty.
    ///
    /// # Panics
    /// If the kernel wrote outside of the entries, or left the workspace other than zero.
    #[must_use]
    pub fn write_entries(
        self,
        entries: &mut Entries,
        range: Range<u64>,
        data: &[u8],
        launch: Launch,
    ) -> Moved {
        let mut source = Guarded::new(data, launch.dst_offset);
        let moved = move_entries(true, entries, &range, &mut source, launch);
        assert!(source.content() == data, "{launch:?}: the data were written to");
        moved
    }

    /// Reads `range` of the entries, which is not empty. What is not read is 0x5a.
    ///
    /// # Panics
    /// As [`write_entries`](Self::write_entries), or if it wrote to the entries.
    #[must_use]
    pub fn read_entries(self, entries: &mut Entries, range: Range<u64>, launch: Launch) -> (Moved, Vec<u8>) {
        let before = entries.all();
        let mut out = Guarded::new(&vec![0x5a; (range.end - range.start) as usize], launch.dst_offset);
        let moved = move_entries(false, entries, &range, &mut out, launch);
        assert!(entries.all() == before, "{launch:?}: a read has written to the entries");
        (moved, out.content().to_vec())
    }
}

fn move_entries(
    writes: bool,
    entries: &mut Entries,
    range: &Range<u64>,
    data: &mut Guarded,
    launch: Launch,
) -> Moved {
    let mut workspace = Guarded::new(&[0; 8 * launch::WORKSPACE_WORDS as usize], 0);
    let mut words = Words { report: [77; 1 + COUNTS], totals: [1000; COUNTS] };
    let raw = entries.raw(range, data.content_mut(), &mut words, workspace.content_mut());
    run(writes, &raw, launch);
    [&*data, &workspace, &entries.slots, &entries.states, &entries.spills]
        .into_iter()
        .for_each(Guarded::check);
    assert!(workspace.content().iter().all(|&byte| byte == 0), "{launch:?}: the workspace is not zero");
    let [status, counts @ ..] = words.report;
    assert_eq!(words.totals, counts.map(|count| count.wrapping_add(1000)), "{launch:?}: the counts of all");
    Moved { status: Status::from_word(status), counts }
}

/// Appends the record of a write to `file`, for `replay_buddy.cpp`, and leaves it done; `None` as data is a read. The
/// expected answer is that of this build's kernel, which other tests compare with portable code.
pub fn push(
    file: &mut Vec<u8>,
    shim: Shim,
    entries: &mut Entries,
    range: Range<u64>,
    data: Option<&[u8]>,
    launch: Launch,
) {
    let numbers = [
        u32::from(data.is_some()),
        launch.blocks,
        launch.order.number(),
        launch.os_threads,
        entries.slot_len,
        entries.spill_len,
        launch.dst_offset as u32,
        0,
    ];
    let before = entries.all();
    let source = data.map_or_else(|| vec![0x5a; (range.end - range.start) as usize], <[u8]>::to_vec);
    let (moved, result) = match data {
        Some(data) => (shim.write_entries(entries, range.clone(), data, launch), data.to_vec()),
        None => shim.read_entries(entries, range.clone(), launch),
    };
    let status = moved.status.chunk << launch::STATUS_CODE_BITS | u64::from(moved.status.code);
    let words = [entries.len, range.start, range.end, status].into_iter().chain(moved.counts);
    file.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
    file.extend(words.flat_map(u64::to_le_bytes));
    [before, source, entries.all(), result].iter().for_each(|bytes| file.extend_from_slice(bytes));
}

#[cfg(mgcomp_shim)]
fn run(writes: bool, buddy: &RawBuddy, launch: Launch) {
    unsafe extern "C" {
        fn mgc_shim_buddy(
            writes: u32,
            blocks: u32,
            order: u32,
            seed: u64,
            os_threads: u32,
            buddy: *const RawBuddy,
        ) -> i32;
    }
    let seed = if let super::LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    let (writes, order) = (u32::from(writes), launch.order.number());
    // SAFETY: pointers and lengths are those of live memory that nobody else uses meanwhile. That the kernel stays inside
    // whatever states and entries hold is what the tests check, with guard bytes and under a sanitizer.
    let refused = unsafe { mgc_shim_buddy(writes, launch.blocks, order, seed, launch.os_threads, buddy) };
    assert_eq!(refused, 0, "no such order");
}

#[cfg(not(mgcomp_shim))]
fn run(_: bool, _: &RawBuddy, _: Launch) {
    unreachable!("a Shim exists only where the kernels were built")
}

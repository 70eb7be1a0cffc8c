//! Entries in buddy memory: the struct of `codecs/kernels/buddy/allocation.cuh`, and memory for it.

use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::buddy::{Allocation, BuddyPool, Form, Memory, MemoryError, Target, XP_ENTRY_LEN};

use super::{Launch, Shim, Status, launch};
use crate::data::Random;
use crate::guarded::Guarded;

/// Raw bytes of an entry of BPC; those of XP are whole numbers of that.
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
    element: u32,
    gap: u32,
}

const _: () = assert!(size_of::<RawBuddy>() == 96);

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
    shape: Shape,
}

impl PortableEntries {
    /// An allocation of `len` bytes, in memory that is not zero.
    ///
    /// # Panics
    /// If there is no such allocation.
    #[must_use]
    pub fn new(len: u64, form: Form, target: Target) -> Self {
        let footprint = form.footprint(len, target);
        let memory = |len| SharedMemory::new(vec![0x96; len as usize]);
        let device = memory(footprint.device_bytes + footprint.metadata_bytes);
        let buddy = memory(footprint.buddy_bytes);
        let mut pool = BuddyPool::over(device.clone(), buddy.clone());
        let allocation = pool.alloc_as(len, form, target).expect("room");
        Self { pool, allocation, device, buddy, shape: Shape { form, target, len } }
    }

    /// The same entries, for a kernel.
    #[must_use]
    pub fn copy(&self) -> Entries {
        let (shape, states_at) = (self.shape, self.states_at());
        let [slot_len, spill_len] = shape.entry_lens();
        let [slots, states, spills] = shape.lens();
        let (device, buddy) = (self.device.bytes(), self.buddy.bytes());
        Entries {
            slots: Guarded::new(&device[..slots], 0),
            states: Guarded::new(&device[states_at..][..states], 0),
            spills: Guarded::new(&buddy[..spills], 0),
            shape,
            slot_len,
            spill_len,
        }
    }

    /// Damages what is stored: byte `at` of slots, states and places, one behind the other, gets some bits flipped.
    pub fn damage(&mut self, at: usize, bits: u8) {
        let [slots, states, spills] = self.shape.lens();
        let states_at = self.states_at();
        let at = at % (slots + states + spills);
        match at {
            _ if at < slots => self.device.with(|bytes| bytes[at] ^= bits),
            _ if at < slots + states => self.device.with(|bytes| bytes[states_at + at - slots] ^= bits),
            _ => self.buddy.with(|bytes| bytes[at - slots - states] ^= bits),
        }
    }

    /// Damages what is stored of entry `entry` alone: byte `at` of it.
    pub fn damage_entry(&mut self, entry: usize, at: usize, bits: u8) {
        let [slot_len, spill_len] = self.shape.entry_lens().map(|len| len as usize);
        let own = self.shape.raw_len(entry as u64) as usize;
        let slot = own / 16 * self.shape.target.device_sixteenths();
        let at = at % own;
        if at < slot {
            self.device.with(|bytes| bytes[entry * slot_len + at] ^= bits);
        } else {
            self.buddy.with(|bytes| bytes[entry * spill_len + at - slot] ^= bits);
        }
    }

    /// The state of entry `entry`.
    #[must_use]
    pub fn state(&self, entry: usize) -> u16 {
        let at = self.states_at();
        self.device.with(|bytes| match self.shape.form {
            Form::Bpc => u16::from(bytes[at + entry / 2] >> (entry % 2 * 4) & 15),
            _ => u16::from_le_bytes([bytes[at + 2 * entry], bytes[at + 2 * entry + 1]]),
        })
    }

    /// Gives entry `entry` a state.
    pub fn set_state(&mut self, entry: usize, state: u16) {
        let at = self.states_at();
        self.device.with(|bytes| match self.shape.form {
            Form::Bpc => {
                let (both, shift) = (&mut bytes[at + entry / 2], entry % 2 * 4);
                *both = *both & !(15 << shift) | (state as u8) << shift;
            }
            _ => bytes[at + 2 * entry..][..2].copy_from_slice(&state.to_le_bytes()),
        });
    }

    fn states_at(&self) -> usize {
        self.shape.form.footprint(self.shape.len, self.shape.target).device_bytes as usize
    }
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
struct Shape {
    form: Form,
    target: Target,
    len: u64,
}

impl Shape {
    /// Its entries.
    fn entries(self) -> u64 {
        self.len.div_ceil(self.form.entry_len() as u64)
    }

    /// Raw bytes of entry `entry`.
    fn raw_len(self, entry: u64) -> u64 {
        let entry_len = self.form.entry_len() as u64;
        (self.len.next_multiple_of(ENTRY_LEN) - entry * entry_len).min(entry_len)
    }

    /// What a slot and a place of a whole entry take.
    fn entry_lens(self) -> [u32; 2] {
        self.lens_of(self.form.entry_len() as u64).map(|len| len as u32)
    }

    fn lens_of(self, raw_len: u64) -> [u64; 2] {
        let slot = raw_len * self.target.device_sixteenths() as u64 / 16;
        [slot, (raw_len - slot).next_multiple_of(32)]
    }

    /// What all slots, states and places take.
    fn lens(self) -> [usize; 3] {
        let lens = (0..self.entries()).map(|entry| self.lens_of(self.raw_len(entry)));
        let [slots, spills] = lens.fold([0; 2], |[a, b], [slot, spill]| [a + slot, b + spill]);
        let states = match self.form {
            Form::Bpc => self.entries().div_ceil(2),
            _ => 2 * self.entries(),
        };
        [slots, states, spills].map(|len| len as usize)
    }

    /// The codec of its entries.
    fn algorithm(self) -> Algorithm {
        match self.form {
            Form::Bpc => Algorithm::Bpc,
            _ => Algorithm::Xp,
        }
    }

    fn element(self) -> Element {
        match self.form {
            Form::Xp(element) => element,
            _ => Element::U8,
        }
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

/// `len` bytes of values of `element` of which XP makes entries of all kinds: all zero; with zeros, repeats, few or many
/// exponents, and signs that go with them or not; of noise, in which there may be some zeros.
#[must_use]
pub fn floats_of_all_kinds(random: &mut Random, element: Element, len: usize) -> Vec<u8> {
    let width = element.width_bytes();
    let exponent_at = 63 - [4, 8, 8, 11][width.ilog2() as usize];
    let mut bytes = Vec::with_capacity(len + XP_ENTRY_LEN);
    while bytes.len() < len {
        let part_len = if random.percent(60) { XP_ENTRY_LEN } else { 1 + random.below(XP_ENTRY_LEN) };
        let mut share = || if random.percent(50) { 0 } else { random.below(101) };
        let (repeats, rare) = (share(), share() / 4);
        let is_noise = random.percent(25);
        let zeros = if is_noise { [0, 4][random.below(2)] } else { [0, 3, 40, 100][random.below(4)] };
        let (exponents, has_sign) = (1 + random.below(40), random.percent(50));
        let mut value = 0;
        for _ in 0..part_len.div_ceil(width) {
            let noise = random.bits();
            if is_noise || random.percent(rare) {
                value = noise;
            } else if !random.percent(repeats) {
                let sign = u64::from(has_sign) & noise;
                value = sign << 63
                    ^ (random.below(exponents) as u64) << exponent_at
                    ^ noise >> (64 - exponent_at);
                value = value.rotate_left(8 * width as u32);
            }
            let stored = if random.percent(zeros) { 0 } else { value };
            bytes.extend_from_slice(&stored.to_le_bytes()[..width]);
        }
    }
    bytes.truncate(len);
    bytes
}

/// `len` bytes for an allocation of this form, whose entries are of all kinds.
#[must_use]
pub fn bytes_of_all_kinds(random: &mut Random, form: Form, len: usize) -> Vec<u8> {
    match form {
        Form::Xp(element) => floats_of_all_kinds(random, element, len),
        _ => entries_of_all_states(random, len),
    }
}

/// Entries as a kernel finds them, each kind of memory between guards.
#[derive(Debug)]
pub struct Entries {
    slots: Guarded,
    states: Guarded,
    spills: Guarded,
    shape: Shape,
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
            len: self.shape.len,
            slot_len: self.slot_len,
            spill_len: self.spill_len,
            totals: words.totals.as_mut_ptr(),
            start: range.start,
            end: range.end,
            data: data.as_mut_ptr(),
            report: words.report.as_mut_ptr(),
            workspace: workspace.as_mut_ptr().cast(),
            element: self.shape.element().number().into(),
            gap: 0,
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
    run(entries.shape.algorithm(), writes, &raw, launch);
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
        entries.shape.element().number().into(),
    ];
    let before = entries.all();
    let source = data.map_or_else(|| vec![0x5a; (range.end - range.start) as usize], <[u8]>::to_vec);
    let (moved, result) = match data {
        Some(data) => (shim.write_entries(entries, range.clone(), data, launch), data.to_vec()),
        None => shim.read_entries(entries, range.clone(), launch),
    };
    let status = moved.status.chunk << launch::STATUS_CODE_BITS | u64::from(moved.status.code);
    let words = [entries.shape.len, range.start, range.end, status].into_iter().chain(moved.counts);
    file.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
    file.extend(words.flat_map(u64::to_le_bytes));
    [before, source, entries.all(), result].iter().for_each(|bytes| file.extend_from_slice(bytes));
}

#[cfg(mgcomp_shim)]
fn run(algorithm: Algorithm, writes: bool, buddy: &RawBuddy, launch: Launch) {
    unsafe extern "C" {
        fn mgc_shim_buddy(
            algorithm: u32,
            writes: u32,
            blocks: u32,
            order: u32,
            seed: u64,
            os_threads: u32,
            buddy: *const RawBuddy,
        ) -> i32;
    }
    let seed = if let super::LaneOrder::Random(seed) = launch.order { seed } else { 0 };
    let (algorithm, writes, order) = (algorithm.number().into(), u32::from(writes), launch.order.number());
    // SAFETY: pointers and lengths are those of live memory that nobody else uses meanwhile. That the kernel stays inside
    // whatever states and entries hold is what the tests check, with guard bytes and under a sanitizer.
    let refused =
        unsafe { mgc_shim_buddy(algorithm, writes, launch.blocks, order, seed, launch.os_threads, buddy) };
    assert_eq!(refused, 0, "no such order");
}

#[cfg(not(mgcomp_shim))]
fn run(_: Algorithm, _: bool, _: &RawBuddy, _: Launch) {
    unreachable!("a Shim exists only where the kernels were built")
}

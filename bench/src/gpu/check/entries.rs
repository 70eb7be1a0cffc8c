//! Entries in buddy memory: states, slots and places as a pool of the host leaves them, bit for bit. Damaged entries are refused
//! exactly where the CPU refuses them, and nothing outside is touched either way.

use std::cell::RefCell;
use std::ops::Range;
use std::rc::Rc;

use mgcomp_codecs::device::{
    BuddyEntries, Device, EntryForm, EntryMover, EntryReport, MoveEntries, SlotShare, Stream, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_transport::buddy::{Allocation, BuddyPool, Form, Memory, MemoryError, Target};

use super::case;
use super::error::{CheckError, compare, expect_len};
use super::guarded::{Guarded, POISON};
use super::rig::Scratch;
use super::{Extent, Lab};
use crate::data::Random;

/// Bytes of an allocation, at the most.
const MAX_LEN: usize = 100_000;
/// Writes to each allocation.
const WRITES: usize = 4;

/// The targets, and what each gives an entry.
const TARGETS: [(Target, SlotShare); 7] = [
    (Target::One, SlotShare::Whole),
    (Target::FourThirds, SlotShare::ThreeQuarters),
    (Target::Two, SlotShare::Half),
    (Target::Four, SlotShare::Quarter),
    (Target::Sixteen, SlotShare::Sixteenth),
    // Not of BPC.
    (Target::EightFifths, SlotShare::FiveEighths),
    (Target::EightThirds, SlotShare::ThreeEighths),
];

pub(super) fn check(lab: &Lab<'_>, algorithm: Algorithm) -> Result<Extent, CheckError> {
    let Lab { device, stream, effort } = lab;
    let mut random = Random::new(effort.seed.rotate_left(37) ^ u64::from(algorithm.number()));
    let scratch = Scratch::of_len(device, stream, workspace_len(ChunkSize::SMALL, &[]))?;
    let form = if algorithm == Algorithm::Bpc { EntryForm::Bpc } else { EntryForm::Xp };
    let rig = Rig { device, stream, scratch, mover: device.entry_mover(form)? };
    let mut extent = Extent::default();
    for number in 0..effort.cases {
        let mut host = Host::random(form, number, &mut random);
        let there = There::new(&rig, &host)?;
        for _ in 0..WRITES {
            let range = host.range(&mut random);
            let data = case::bytes(range.len(), random.pick(&Element::ALL), &mut random);
            extent.add(1, data.len() as u64);
            host.write(&rig, &there, range, &data, &mut random)?;
        }
        host.read(&rig, &there, &mut random)?;
        host.damage(&mut random);
        host.read(&rig, &There::new(&rig, &host)?, &mut random)?;
        extent.add(2, 2 * host.len as u64);
        rig.scratch.check(stream, &host.case)?;
    }
    Ok(extent)
}

/// Where bytes outside lie, modulo 16: every other time as they should.
fn offset(random: &mut Random) -> u64 {
    if random.percent(50) { 0 } else { random.below(16) as u64 }
}

/// What all allocations share.
struct Rig<'a> {
    device: &'a Device,
    stream: &'a Stream,
    scratch: Scratch,
    mover: EntryMover,
}

/// Memory of a pool that can be looked at and damaged.
#[derive(Clone, Debug)]
struct Kept(Rc<RefCell<Vec<u8>>>);

impl Memory for Kept {
    fn size(&self) -> u64 {
        self.0.borrow().len() as u64
    }

    fn load(&self, at: u64, to: &mut [u8]) -> Result<(), MemoryError> {
        to.copy_from_slice(&self.0.borrow()[at as usize..][..to.len()]);
        Ok(())
    }

    fn store(&mut self, at: u64, from: &[u8]) -> Result<(), MemoryError> {
        self.0.borrow_mut()[at as usize..][..from.len()].copy_from_slice(from);
        Ok(())
    }
}

/// An allocation of the host, alone in its pool.
struct Host {
    case: String,
    len: usize,
    form: Form,
    slot_share: SlotShare,
    pool: BuddyPool<Kept, Kept>,
    allocation: Allocation,
    near: Kept,
    far: Kept,
    states_at: usize,
}

/// The same on the device.
struct There {
    slots: Guarded,
    states: Guarded,
    spills: Guarded,
}

impl There {
    fn new(rig: &Rig<'_>, host: &Host) -> Result<Self, CheckError> {
        let guarded = |what, content: &[u8]| Guarded::new(rig.device, rig.stream, what, content, 0);
        let [slots, states, spills] = host.stored();
        Ok(Self {
            slots: guarded("the slots", &slots)?,
            states: guarded("the states", &states)?,
            spills: guarded("the places", &spills)?,
        })
    }
}

impl Host {
    fn random(form: EntryForm, number: usize, random: &mut Random) -> Self {
        let form = match form {
            EntryForm::Bpc => Form::Bpc,
            _ => Form::Xp(random.pick(&Element::ALL)),
        };
        let (target, slot_share) = random.pick(&TARGETS[..form.targets().len()]);
        let most = if random.percent(50) { 2000 } else { MAX_LEN };
        let len = 1 + random.below(most);
        // Entries that are whole and lie as they should go straight where they belong.
        let len = if random.percent(40) { len.next_multiple_of(128) } else { len };
        let footprint = form.footprint(len as u64, target);
        let memory = |len: u64| Kept(Rc::new(RefCell::new(vec![0; len as usize])));
        let near = memory(footprint.device_bytes + footprint.metadata_bytes);
        let far = memory(footprint.buddy_bytes);
        let mut pool = BuddyPool::over(near.clone(), far.clone());
        let allocation = pool.alloc_as(len as u64, form, target).expect("as much memory as it takes");
        let case = format!("allocation {number} ({len} bytes, {form:?}, target {target})");
        let states_at = footprint.device_bytes as usize;
        Self { case, len, form, slot_share, pool, allocation, near, far, states_at }
    }

    /// Bytes of the states, whole ones.
    fn states_len(&self) -> usize {
        let entries = self.len.div_ceil(self.form.entry_len());
        if self.form == Form::Bpc { entries.div_ceil(2) } else { 2 * entries }
    }

    /// Slots, states and places; what fills the first and the last up to 32 bytes stays as it is, too.
    fn stored(&self) -> [Vec<u8>; 3] {
        let (near, far) = (self.near.0.borrow(), self.far.0.borrow());
        let (slots, states) = near.split_at(self.states_at);
        [slots.to_vec(), states[..self.states_len()].to_vec(), far.to_vec()]
    }

    /// Some of its bytes, at least one.
    fn range(&self, random: &mut Random) -> Range<usize> {
        let start = if random.percent(30) { 0 } else { random.below(self.len) };
        let end = if random.percent(30) { self.len } else { start + 1 + random.below(self.len - start) };
        start..end
    }

    fn there<'a>(&self, there: &'a There) -> BuddyEntries<'a> {
        BuddyEntries {
            slots: there.slots.region(),
            states: there.states.region(),
            spills: there.spills.region(),
            len: self.len as u64,
            element: if let Form::Xp(element) = self.form { element } else { Element::U8 },
            slot_share: self.slot_share,
            totals: None,
        }
    }

    /// Writes on both sides, which are alike afterwards.
    fn write(
        &mut self,
        rig: &Rig<'_>,
        there: &There,
        range: Range<usize>,
        bytes: &[u8],
        random: &mut Random,
    ) -> Result<(), CheckError> {
        let Rig { device, stream, scratch, mover } = rig;
        let (case, before) = (&self.case, self.pool.stats().accesses);
        let data = Guarded::new(device, stream, "the source", bytes, offset(random))?;
        let report = Guarded::poisoned(device, stream, "the report", EntryReport::LEN, 0)?;
        let range = range.start as u64..range.end as u64;
        let wanted = MoveEntries { range: range.clone(), data: data.region(), report: report.region() };
        mover.write(stream, &mut scratch.workspace(), &self.there(there), &wanted)?;
        self.pool.write(self.allocation, range, bytes).expect("a range of it, and good entries");

        let report = report_of(&report.read(stream, case)?);
        if report.check().is_err() {
            return Err(CheckError::Refused { case: case.clone(), got: report.status });
        }
        let (counts, now) = (report.counts, self.pool.stats().accesses);
        expect_len(case, "all that was written", counts.writes, (now.writes - before.writes) as usize)?;
        let overflow = (now.buddy_writes - before.buddy_writes) as usize;
        expect_len(case, "what does not fit", counts.buddy_writes, overflow)?;
        let [slots, states, spills] = self.stored();
        compare(case, "the slots", &there.slots.read(stream, case)?, &slots)?;
        compare(case, "the states", &there.states.read(stream, case)?, &states)?;
        compare(case, "the places", &there.spills.read(stream, case)?, &spills)?;
        compare(case, "the source", &data.read(stream, case)?, bytes)
    }

    /// Reads all of it on both sides, entry by entry on the host.
    fn read(&self, rig: &Rig<'_>, there: &There, random: &mut Random) -> Result<(), CheckError> {
        let Rig { device, stream, scratch, mover } = rig;
        let case = &self.case;
        let out = Guarded::poisoned(device, stream, "the bytes", self.len as u64, offset(random))?;
        let report = Guarded::poisoned(device, stream, "the report", EntryReport::LEN, 0)?;
        let wanted = MoveEntries { range: 0..self.len as u64, data: out.region(), report: report.region() };
        mover.read(stream, &mut scratch.workspace(), &self.there(there), &wanted)?;
        let got = report_of(&report.read(stream, case)?).status;
        let mut first_wrong = None;
        for (entry, out) in out.read(stream, case)?.chunks(self.form.entry_len()).enumerate() {
            let (start, mut bytes) = ((entry * self.form.entry_len()) as u64, vec![0; out.len()]);
            match self.pool.read(self.allocation, start..start + out.len() as u64, &mut bytes) {
                Ok(()) => compare(&format_args!("{case}, entry {entry}"), "the bytes", out, &bytes)?,
                Err(_) => {
                    // Of what is refused nothing is handed out.
                    compare(
                        &format_args!("{case}, refused entry {entry}"),
                        "the bytes",
                        out,
                        &vec![POISON; out.len()],
                    )?;
                    first_wrong = first_wrong.or(Some(entry));
                }
            }
        }
        match first_wrong {
            None if got.code != 0 => Err(CheckError::Refused { case: case.clone(), got }),
            Some(_) if got.code == 0 => Err(CheckError::Accepted { case: case.clone() }),
            Some(entry) => expect_len(case, "the way to the first wrong entry", got.chunk, entry),
            None => Ok(()),
        }
    }

    /// Changes some of what is stored.
    fn damage(&self, random: &mut Random) {
        for _ in 0..1 + random.below(6) {
            let (mut near, mut far) = (self.near.0.borrow_mut(), self.far.0.borrow_mut());
            let bit = 1 << random.below(8);
            match random.below(3) {
                0 => near[random.below(self.states_at)] ^= bit,
                1 if !far.is_empty() => {
                    let at = random.below(far.len());
                    far[at] ^= bit;
                }
                _ => near[self.states_at + random.below(self.states_len())] ^= bit,
            }
        }
    }
}

fn report_of(bytes: &[u8]) -> EntryReport {
    EntryReport::from_bytes(bytes.first_chunk().expect("as long as it was made"))
}

//! Entries in buddy memory, written and read by the device.
#![allow(unsafe_code)] // launches a graph, and lends a workspace

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{
    BuddyEntries, Buffer, Device, DeviceError, EntryCounts, EntryForm, EntryMover, EntryReport, MoveEntries,
    Pinned, SlotShare, Status, Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_tests::data::Random;
use mgcomp_tests::shim::buddy::{entries_of_all_states, floats_of_all_kinds};
use mgcomp_tests::stub::{Libraries, with_stub};

use crate::rig::{self, download, upload};

const BAD_STATE: u32 = 27;
const ELEMENT: Element = Element::Bf16;
const SHARE: SlotShare = SlotShare::Half;

/// Bytes of an allocation: the last entry is filled up.
const fn len_of(form: EntryForm) -> u64 {
    match form {
        EntryForm::Bpc => 40 * 128 + 9,
        _ => 2 * (32 << 10) + 9,
    }
}

/// Bytes of its slots, which are half of it, of its places in buddy memory, and of its states.
const fn lens(form: EntryForm) -> [u64; 3] {
    match form {
        EntryForm::Bpc => [41 * 64, 41 * 64, 21],
        _ => [2 * (16 << 10) + 64, 2 * (16 << 10) + 64, 6],
    }
}

const fn entries_of(form: EntryForm) -> u64 {
    match form {
        EntryForm::Bpc => 41,
        _ => 3,
    }
}

/// An allocation on a device, all of it zero.
struct Rig {
    form: EntryForm,
    mover: EntryMover,
    slots: Buffer,
    states: Buffer,
    spills: Pinned,
    totals: Buffer,
    workspace: Buffer,
    report: Buffer,
}

impl Rig {
    fn new(device: &Device, stream: &Stream, form: EntryForm) -> Result<Self, DeviceError> {
        let [slots, spills, states] = lens(form);
        let rig = Self {
            form,
            mover: device.entry_mover(form)?,
            slots: device.alloc(slots)?,
            states: device.alloc(states)?,
            spills: device.alloc_pinned(spills)?,
            totals: device.alloc(EntryCounts::LEN)?,
            workspace: device.alloc(workspace_len(ChunkSize::SMALL, &[]))?,
            report: device.alloc(EntryReport::LEN)?,
        };
        stream.zero(rig.workspace.region())?;
        stream.zero(rig.states.region())?;
        stream.zero(rig.totals.region())?;
        Ok(rig)
    }

    fn entries(&self) -> BuddyEntries<'_> {
        BuddyEntries {
            slots: self.slots.region(),
            states: self.states.region(),
            spills: self.spills.region(),
            len: len_of(self.form),
            element: ELEMENT,
            slot_share: SHARE,
            totals: Some(self.totals.region()),
        }
    }

    fn write(&self, stream: &Stream, start: u64, data: &Buffer) -> Result<(), DeviceError> {
        let (mut workspace, wanted) = (self.workspace(), self.wanted(start, data));
        self.mover.write(stream, &mut workspace, &self.entries(), &wanted)
    }

    fn read(&self, stream: &Stream, start: u64, out: &Buffer) -> Result<(), DeviceError> {
        let (mut workspace, wanted) = (self.workspace(), self.wanted(start, out));
        self.mover.read(stream, &mut workspace, &self.entries(), &wanted)
    }

    fn wanted<'a>(&'a self, start: u64, data: &'a Buffer) -> MoveEntries<'a> {
        let data = data.region();
        MoveEntries { range: start..start + data.len(), data, report: self.report.region() }
    }

    fn workspace(&self) -> Workspace<'_> {
        // SAFETY: it is zero, and calls with it are on one stream.
        unsafe { Workspace::from_region(self.workspace.region()) }
    }

    fn report(&self, stream: &Stream) -> Result<EntryReport, DeviceError> {
        let report = download(stream, self.report.region())?;
        Ok(EntryReport::from_bytes(&report.try_into().unwrap()))
    }
}

fn some_bytes(form: EntryForm, len: u64) -> Vec<u8> {
    let (mut random, len) = (Random::new(len), len as usize);
    match form {
        EntryForm::Bpc => entries_of_all_states(&mut random, len),
        _ => floats_of_all_kinds(&mut random, ELEMENT, len),
    }
}

#[test]
fn entries_come_when_somebody_waits() {
    with_stub("buddy::entries_come_when_somebody_waits", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        for form in EntryForm::ALL {
            let rig = Rig::new(&device, &stream, form).unwrap();
            let all = len_of(form);
            let mut plain = vec![0; all as usize];
            let out = device.alloc(all).unwrap();
            for (start, len) in [(0, all), (5, 1), (127, 300), (all - 1, 1), (77, 0), (0, 129)] {
                let raw = some_bytes(form, len);
                let data = upload(&device, &stream, &raw).unwrap();
                let launches = stub.count("launches");
                rig.write(&stream, start, &data).unwrap();
                rig.read(&stream, 0, &out).unwrap();
                assert_eq!(stub.count("launches"), launches, "somebody waited");
                plain[start as usize..][..len as usize].copy_from_slice(&raw);
                assert!(
                    download(&stream, out.region()).unwrap() == plain,
                    "{form:?}: {len} bytes at {start}"
                );
                let report = rig.report(&stream).unwrap();
                assert_eq!((report.status, report.counts.reads), (Status::GOOD, entries_of(form)));
                assert_eq!(stub.count("launches"), launches + 1 + u64::from(len > 0));
            }
        }
    });
}

#[test]
fn whole_entries_are_read_without_room_for_others() {
    with_stub("buddy::whole_entries_are_read_without_room_for_others", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream, EntryForm::Xp).unwrap();
        let raw = some_bytes(EntryForm::Xp, len_of(EntryForm::Xp));
        rig.write(&stream, 0, &upload(&device, &stream, &raw).unwrap()).unwrap();
        // The stub refuses a launch whose shared memory is not what the kernel says.
        let entry = 32 << 10;
        for (start, len) in
            [(0, 2 * entry), (entry, entry), (entry, entry + 9), (0, entry + 1), (16, entry - 16)]
        {
            let out = device.alloc(len).unwrap();
            rig.read(&stream, start, &out).unwrap();
            let wanted = &raw[start as usize..][..len as usize];
            assert!(download(&stream, out.region()).unwrap() == wanted, "{len} bytes at {start}");
        }
    });
}

#[test]
fn writes_and_reads_can_be_recorded() {
    with_stub("buddy::writes_and_reads_can_be_recorded", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        for form in EntryForm::ALL {
            let rig = Rig::new(&device, &stream, form).unwrap();
            let all = len_of(form);
            let (data, out) = (device.alloc(all).unwrap(), device.alloc(all).unwrap());
            let graph = stream
                .capture(|| rig.write(&stream, 0, &data).and_then(|()| rig.read(&stream, 0, &out)))
                .unwrap();
            for seed in 0..3 {
                let mut raw = entries_of_all_states(&mut Random::new(seed), all as usize);
                raw[..2000].fill(7);
                stream.upload(&raw, data.region()).unwrap();
                // SAFETY: rig and buffers outlive the work, which is waited for.
                unsafe { graph.launch(&stream).unwrap() };
                assert!(download(&stream, out.region()).unwrap() == raw);
            }
            let totals = download(&stream, rig.totals.region()).unwrap();
            let totals = EntryCounts::from_bytes(&totals.try_into().unwrap());
            let accesses = 3 * entries_of(form);
            assert_eq!((totals.writes, totals.reads), (accesses, accesses));
            assert!(totals.buddy_writes > 0 && totals.buddy_writes == totals.buddy_reads);
        }
    });
}

#[test]
fn states_without_a_meaning_are_told() {
    with_stub("buddy::states_without_a_meaning_are_told", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        // Of entries of BPC number 5 and 7, and of those of XP number 1, one more than raw bytes / 16.
        let bad: [(_, _, &[u8], u64, &[u64]); 2] =
            [(EntryForm::Bpc, 2, &[0xf0; 3], 8, &[5, 7]), (EntryForm::Xp, 2, &[0x01, 0x08], 3, &[1])];
        for (form, at, states, count, wrong) in bad {
            let rig = Rig::new(&device, &stream, form).unwrap();
            let all = len_of(form);
            stream.upload(states, rig.states.slice(at..at + states.len() as u64)).unwrap();
            let len = all.min(count * form.entry_bytes());
            let out = upload(&device, &stream, &vec![7; len as usize]).unwrap();
            rig.read(&stream, 0, &out).unwrap();
            let report = rig.report(&stream).unwrap();
            assert_eq!(report.status, Status { code: BAD_STATE, chunk: wrong[0] });
            let text = format!("entry {}: Metadata of an entry has no meaning (status 27)", wrong[0]);
            assert_eq!(report.check().unwrap_err().to_string(), text);
            let wanted: Vec<u8> =
                (0..len).map(|i| if wrong.contains(&(i / form.entry_bytes())) { 7 } else { 0 }).collect();
            assert!(download(&stream, out.region()).unwrap() == wanted);
            // Whole entries may be written over them, and the next call knows nothing of what was wrong.
            let data = upload(&device, &stream, &some_bytes(form, all)).unwrap();
            rig.write(&stream, 0, &data).unwrap();
            assert_eq!(rig.report(&stream).unwrap().status, Status::GOOD);
        }
    });
}

#[test]
fn regions_must_fit() {
    with_stub("buddy::regions_must_fit", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream, EntryForm::Bpc).unwrap();
        const LEN: u64 = len_of(EntryForm::Bpc);
        let data = device.alloc(200).unwrap();
        let mut workspace = device.workspace(&stream, workspace_len(ChunkSize::SMALL, &[])).unwrap();
        let entries = rig.entries();
        let wanted = MoveEntries { range: 100..300, data: data.region(), report: rig.report.region() };
        let mut refused = |entries: BuddyEntries<'_>, wanted: MoveEntries<'_>| {
            rig.mover.write(&stream, &mut workspace, &entries, &wanted).unwrap_err()
        };
        let short = |what, needed, got| DeviceError::TooShort { what, needed, got };
        let slots = entries.slots.slice(0..41 * 64 - 1);
        let what = "the slots of entries";
        assert_eq!(refused(BuddyEntries { slots, ..entries }, wanted.clone()), short(what, 2624, 2623));
        let states = entries.states.slice(0..20);
        let what = "the states of entries";
        assert_eq!(refused(BuddyEntries { states, ..entries }, wanted.clone()), short(what, 21, 20));
        let spills = entries.spills.slice(0..2560);
        let what = "the places of entries";
        assert_eq!(refused(BuddyEntries { spills, ..entries }, wanted.clone()), short(what, 2624, 2560));
        let none = BuddyEntries { len: 0, ..entries };
        assert_eq!(refused(none, wanted.clone()), short("an allocation", 1, 0));
        let slots = entries.slots.slice(8..2624);
        let misaligned = refused(BuddyEntries { slots, ..entries }, wanted.clone());
        assert!(matches!(misaligned, DeviceError::Misaligned { align: 32, .. }), "{misaligned}");
        let totals = Some(entries.totals.unwrap().slice(0..32));
        let what = "the counts of entries";
        assert_eq!(refused(BuddyEntries { totals, ..entries }, wanted.clone()), short(what, 40, 32));

        let behind = MoveEntries { range: LEN - 199..LEN + 1, ..wanted.clone() };
        assert_eq!(refused(entries, behind), short("an allocation", LEN + 1, LEN));
        let backwards = MoveEntries { range: std::ops::Range { start: 9, end: 8 }, ..wanted.clone() };
        assert_eq!(refused(entries, backwards), short("the end of a range", 9, 8));
        let longer = MoveEntries { range: 100..301, ..wanted.clone() };
        assert_eq!(refused(entries, longer), short("the bytes of a range", 201, 200));
        let shorter = MoveEntries { range: 100..299, ..wanted.clone() };
        let long = DeviceError::TooLong { what: "the bytes of a range", limit: 199, got: 200 };
        assert_eq!(refused(entries, shorter), long);
        let report = wanted.report.slice(0..40);
        assert_eq!(
            refused(entries, MoveEntries { report, ..wanted.clone() }),
            short("the report on entries", 48, 40)
        );
        // Of XP the last entry takes what is left: of 9 bytes that are filled up to 128 a slot of 64.
        let xp = Rig::new(&device, &stream, EntryForm::Xp).unwrap();
        let entries_of_xp = xp.entries();
        let slots = entries_of_xp.slots.slice(0..(32 << 10) + 63);
        let short_slots = BuddyEntries { slots, ..entries_of_xp };
        let error = xp.mover.read(&stream, &mut xp.workspace(), &short_slots, &wanted).unwrap_err();
        assert_eq!(error, short("the slots of entries", (32 << 10) + 64, (32 << 10) + 63));
        let short_states = BuddyEntries { states: entries_of_xp.states.slice(0..5), ..entries_of_xp };
        let error = xp.mover.read(&stream, &mut xp.workspace(), &short_states, &wanted).unwrap_err();
        assert_eq!(error, short("the states of entries", 6, 5));
        let other = device.stream().unwrap();
        let error = rig.mover.read(&other, &mut workspace, &entries, &wanted);
        assert_eq!(error, Err(DeviceError::OtherStream));
        stream.wait().unwrap();
        assert_eq!(stub.count("launches"), 0);
    });
}

#[test]
fn every_call_may_fail() {
    with_stub("buddy::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        for form in EntryForm::ALL {
            let run = || -> Result<bool, DeviceError> {
                let device = Device::open_with(0, mgcomp_codecs::device::Cache::Off)?;
                let stream = device.stream()?;
                let rig = Rig::new(&device, &stream, form)?;
                let raw = some_bytes(form, 1000);
                let data = upload(&device, &stream, &raw)?;
                let out = device.alloc(1000)?;
                rig.write(&stream, 60, &data)?;
                rig.read(&stream, 60, &out)?;
                Ok(download(&stream, out.region())? == raw && rig.report(&stream)?.status == Status::GOOD)
            };
            stub.fail_each_call(run);
        }
    });
}

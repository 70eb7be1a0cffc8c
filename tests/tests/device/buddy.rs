//! Entries in buddy memory, written and read by the device.
#![allow(unsafe_code)] // launches a graph, and lends a workspace

use mgcomp_codecs::device::{
    BuddyEntries, Buffer, Device, DeviceError, EntryCounts, EntryMover, EntryReport, MoveEntries, Pinned,
    SlotLen, Status, Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_tests::data::Random;
use mgcomp_tests::shim::buddy::entries_of_all_states;
use mgcomp_tests::stub::{Libraries, with_stub};

use crate::rig::{self, download, upload};

const BAD_STATE: u32 = 27;
const LEN: u64 = 40 * 128 + 9;

/// An allocation on a device, all of it zero.
struct Rig {
    mover: EntryMover,
    slots: Buffer,
    states: Buffer,
    spills: Pinned,
    totals: Buffer,
    workspace: Buffer,
    report: Buffer,
}

impl Rig {
    fn new(device: &Device, stream: &Stream) -> Result<Self, DeviceError> {
        let rig = Self {
            mover: device.entry_mover()?,
            slots: device.alloc(41 * 64)?,
            states: device.alloc(32)?,
            spills: device.alloc_pinned(41 * 64)?,
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
            len: LEN,
            slot_len: SlotLen::Two,
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

fn some_bytes(len: u64) -> Vec<u8> {
    entries_of_all_states(&mut Random::new(len), len as usize)
}

#[test]
fn entries_come_when_somebody_waits() {
    with_stub("buddy::entries_come_when_somebody_waits", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream).unwrap();
        let mut plain = vec![0; LEN as usize];
        let out = device.alloc(LEN).unwrap();
        for (start, len) in [(0, LEN), (5, 1), (127, 300), (LEN - 1, 1), (77, 0), (0, 129)] {
            let raw = some_bytes(len);
            let data = upload(&device, &stream, &raw).unwrap();
            let launches = stub.count("launches");
            rig.write(&stream, start, &data).unwrap();
            rig.read(&stream, 0, &out).unwrap();
            assert_eq!(stub.count("launches"), launches, "somebody waited");
            plain[start as usize..][..len as usize].copy_from_slice(&raw);
            assert!(download(&stream, out.region()).unwrap() == plain, "{len} bytes at {start}");
            let report = rig.report(&stream).unwrap();
            assert_eq!((report.status, report.counts.reads), (Status::GOOD, 41));
            assert_eq!(stub.count("launches"), launches + 1 + u64::from(len > 0));
        }
    });
}

#[test]
fn writes_and_reads_can_be_recorded() {
    with_stub("buddy::writes_and_reads_can_be_recorded", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream).unwrap();
        let (data, out) = (device.alloc(LEN).unwrap(), device.alloc(LEN).unwrap());
        let graph = stream
            .capture(|| rig.write(&stream, 0, &data).and_then(|()| rig.read(&stream, 0, &out)))
            .unwrap();
        for seed in 0..3 {
            let raw = entries_of_all_states(&mut Random::new(seed), LEN as usize);
            stream.upload(&raw, data.region()).unwrap();
            // SAFETY: rig and buffers outlive the work, which is waited for.
            unsafe { graph.launch(&stream).unwrap() };
            assert!(download(&stream, out.region()).unwrap() == raw);
        }
        let totals = download(&stream, rig.totals.region()).unwrap();
        let totals = EntryCounts::from_bytes(&totals.try_into().unwrap());
        assert_eq!((totals.writes, totals.reads), (3 * 41, 3 * 41));
        assert!(totals.buddy_writes > 0 && totals.buddy_writes == totals.buddy_reads);
    });
}

#[test]
fn states_without_a_meaning_are_told() {
    with_stub("buddy::states_without_a_meaning_are_told", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream).unwrap();
        stream.upload(&[0xf0; 3], rig.states.slice(2..5)).unwrap();
        let out = upload(&device, &stream, &[7; 8 * 128]).unwrap();
        rig.read(&stream, 0, &out).unwrap();
        let report = rig.report(&stream).unwrap();
        assert_eq!(report.status, Status { code: BAD_STATE, chunk: 5 });
        let text = "entry 5: Metadata of an entry has no meaning (status 27)";
        assert_eq!(report.check().unwrap_err().to_string(), text);
        let wanted: Vec<u8> =
            (0..8 * 128).map(|i| if i / 128 == 5 || i / 128 == 7 { 7 } else { 0 }).collect();
        assert!(download(&stream, out.region()).unwrap() == wanted);
        // Whole entries may be written over them, and the next call knows nothing of what was wrong.
        let data = upload(&device, &stream, &some_bytes(LEN)).unwrap();
        rig.write(&stream, 0, &data).unwrap();
        assert_eq!(rig.report(&stream).unwrap().status, Status::GOOD);
    });
}

#[test]
fn regions_must_fit() {
    with_stub("buddy::regions_must_fit", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let rig = Rig::new(&device, &stream).unwrap();
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
        let run = || -> Result<bool, DeviceError> {
            let device = Device::open_with(0, mgcomp_codecs::device::Cache::Off)?;
            let stream = device.stream()?;
            let rig = Rig::new(&device, &stream)?;
            let raw = some_bytes(1000);
            let data = upload(&device, &stream, &raw)?;
            let out = device.alloc(1000)?;
            rig.write(&stream, 60, &data)?;
            rig.read(&stream, 60, &out)?;
            Ok(download(&stream, out.region())? == raw && rig.report(&stream)?.status == Status::GOOD)
        };
        stub.fail_each_call(run);
    });
}

//! Pools in the memory of a device, which codes entries by itself.
#![allow(unsafe_code)] // launches a graph

use std::ops::Range;

use mgcomp_codecs::Element;
use mgcomp_codecs::device::{
    Buffer, Device, DeviceError, EntryReport, Region, Stream, Workspace, workspace_len,
};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_tests::data::Random;
use mgcomp_tests::foreign::Foreign;
use mgcomp_tests::shim::buddy::{SharedMemory, bytes_of_all_kinds, entries_of_all_states};
use mgcomp_tests::stub::{Libraries, OUT_OF_MEMORY, with_stub};
use mgcomp_transport::buddy::{
    Accesses, Allocation, BuddyError, BuddyPool, DeviceBuddyError, DeviceBuddyPool, Form, Memory, Place,
    STAGE_LEN, Stats, Target, XP_ENTRY_LEN,
};

use crate::rig::{open, open_on, with_threads};

const DEVICE_LEN: u64 = 400_000;
const BUDDY_LEN: u64 = 500_000;

fn some_range(random: &mut Random, len: usize) -> Range<usize> {
    let start = random.below(len + 1);
    let left = len - start;
    let most = if random.percent(25) { left } else { left.min(700) };
    start..start + random.below(most + 1)
}

const fn wide(range: &Range<usize>) -> Range<u64> {
    range.start as u64..range.end as u64
}

/// What pools have in common: the metadata cache is modelled on the host alone.
fn common(stats: Stats) -> Stats {
    let accesses = Accesses { metadata_hits: 0, metadata_misses: 0, ..stats.accesses };
    Stats { accesses, ..stats }
}

/// A pool on a device and one of the host, to which the same is done, and what they must hold.
struct Twins {
    device: DeviceBuddyPool,
    host: BuddyPool<SharedMemory, SharedMemory>,
    /// The memories of the host's.
    memories: [SharedMemory; 2],
    allocations: Vec<Twin>,
}

/// An allocation of both, and what it must hold.
struct Twin {
    form: Form,
    device: Allocation,
    host: Allocation,
    plain: Vec<u8>,
}

impl Twins {
    fn new(stream: &Stream, device: DeviceBuddyPool) -> Self {
        let [near, far] = [device.memories().0, device.memories().1].map(|memory| {
            stream.zero(memory).unwrap();
            SharedMemory::new(vec![0; memory.len() as usize])
        });
        stream.wait().unwrap();
        let host = BuddyPool::over(near.clone(), far.clone());
        Self { device, host, memories: [near, far], allocations: Vec::new() }
    }

    fn alloc(&mut self, stream: &Stream, len: u64, form: Form, target: Target) {
        let device = self.device.alloc_as(stream, len, form, target).unwrap();
        let host = self.host.alloc_as(len, form, target).unwrap();
        self.allocations.push(Twin { form, device, host, plain: vec![0; len as usize] });
    }

    fn write(&mut self, stream: &Stream, index: usize, range: Range<usize>, data: &[u8]) {
        let Twin { device, host, plain, .. } = &mut self.allocations[index];
        self.device.write(stream, *device, wide(&range), data).unwrap();
        self.host.write(*host, wide(&range), data).unwrap();
        plain[range].copy_from_slice(data);
    }

    fn read(&self, stream: &Stream, index: usize, range: Range<usize>) {
        let Twin { device, host, plain, .. } = &self.allocations[index];
        let mut out = vec![0; range.len()];
        self.device.read(stream, *device, wide(&range), &mut out).unwrap();
        assert!(out == plain[range.clone()], "device, {range:?} of {index}");
        self.host.read(*host, wide(&range), &mut out).unwrap();
        assert!(out == plain[range.clone()], "host, {range:?} of {index}");
    }

    /// The two are alike, in every byte of their memories and in all that they have counted.
    fn check(&self, stream: &Stream) {
        assert_eq!(self.device.stats(stream).unwrap(), common(self.host.stats()));
        for Twin { device, host, .. } in &self.allocations {
            let stats = self.device.allocation_stats(stream, *device).unwrap();
            assert_eq!(stats, common(self.host.allocation_stats(*host).unwrap()));
        }
        let (near, far) = self.device.memories();
        assert!(download(stream, near) == self.memories[0].bytes(), "device memory");
        assert!(download(stream, far) == self.memories[1].bytes(), "buddy memory");
    }
}

fn download(stream: &Stream, region: Region<'_>) -> Vec<u8> {
    let mut bytes = vec![0; region.len() as usize];
    stream.download(region, &mut bytes).unwrap();
    bytes
}

/// Writes and reads by chance in allocations of both forms and all targets, some of which are freed meanwhile.
fn whatever_is_done(stream: &Stream, pool: DeviceBuddyPool) {
    let (mut random, mut twins) = (Random::new(5), Twins::new(stream, pool));
    for (&target, len) in Form::Bpc.targets().iter().zip([20_001, 128, 9000, 16_384, 30_000]) {
        twins.alloc(stream, len, Form::Bpc, target);
    }
    let floats = [(Element::Bf16, 70_001, Target::EightThirds), (Element::F64, 200, Target::Sixteen)];
    for (element, len, target) in floats {
        twins.alloc(stream, len, Form::Xp(element), target);
    }
    for turn in 0..60 {
        let index = random.below(twins.allocations.len());
        let range = some_range(&mut random, twins.allocations[index].plain.len());
        let data = bytes_of_all_kinds(&mut random, twins.allocations[index].form, range.len());
        twins.write(stream, index, range, &data);
        let index = random.below(twins.allocations.len());
        twins.read(stream, index, some_range(&mut random, twins.allocations[index].plain.len()));
        if turn % 20 == 19 {
            let Twin { form, device, host, plain } = twins.allocations.swap_remove([1, 6, 1][turn / 20]);
            twins.device.free(stream, device).unwrap();
            twins.host.free(host).unwrap();
            // States of its room are zero, whatever they were.
            twins.alloc(stream, plain.len() as u64 / 2 + 1, form, Target::Two);
            twins.read(stream, twins.allocations.len() - 1, 0..plain.len() / 2 + 1);
            twins.check(stream);
        }
    }
    for index in 0..twins.allocations.len() {
        twins.read(stream, index, 0..twins.allocations[index].plain.len());
    }
    twins.check(stream);
}

#[test]
fn a_pool_on_a_device_is_one_of_the_host() {
    with_threads("buddy::a_pool_on_a_device_is_one_of_the_host", 3, |_| {
        let (device, stream) = open();
        whatever_is_done(&stream, DeviceBuddyPool::new(&device, DEVICE_LEN, BUDDY_LEN).unwrap());
    });
}

#[test]
fn another_device_may_have_what_does_not_fit() {
    with_threads("buddy::another_device_may_have_what_does_not_fit", 4, |stub| {
        stub.set("devices", 2);
        let ((device, stream), (peer, _)) = (open_on(0), open_on(1));
        let pool = DeviceBuddyPool::with_peer(&device, DEVICE_LEN, &peer, BUDDY_LEN).unwrap();
        whatever_is_done(&stream, pool);
    });
}

#[test]
fn a_device_that_is_not_reached_is_told() {
    with_threads("buddy::a_device_that_is_not_reached_is_told", 5, |stub| {
        stub.set("devices", 2);
        stub.set("no_peers", 1);
        let ((device, _), (peer, _)) = (open_on(0), open_on(1));
        let error = DeviceBuddyPool::with_peer(&device, 1000, &peer, 1000).unwrap_err();
        assert_eq!(error, DeviceBuddyError::OutOfReach);
    });
}

/// Buffers on a device for one call at a time.
struct Room {
    data: Buffer,
    report: Buffer,
    workspace: Workspace<'static>,
}

impl Room {
    fn new(device: &Device, stream: &Stream, bytes: &[u8]) -> Result<Self, DeviceError> {
        let room = Self {
            data: device.alloc(bytes.len() as u64)?,
            report: device.alloc(EntryReport::LEN)?,
            workspace: device.workspace(stream, workspace_len(ChunkSize::SMALL, &[]))?,
        };
        stream.upload(bytes, room.data.region())?;
        Ok(room)
    }
}

#[test]
fn data_on_the_device_come_late_and_in_order() {
    with_threads("buddy::data_on_the_device_come_late_and_in_order", 6, |_| {
        let (device, stream) = open();
        let mut pool = DeviceBuddyPool::new(&device, DEVICE_LEN, BUDDY_LEN).unwrap();
        let allocation = pool.alloc(&stream, 50_000, Target::Two).unwrap();
        let raw = entries_of_all_states(&mut Random::new(3), 50_000);
        let mut from = Room::new(&device, &stream, &raw).unwrap();
        let mut to = Room::new(&device, &stream, &vec![0; 49_000]).unwrap();
        let (data, report) = (from.data.region(), from.report.region());
        pool.enqueue_write(&stream, &mut from.workspace, allocation, 0, data, report).unwrap();
        let (out, read_report) = (to.data.region(), to.report.region());
        pool.enqueue_read(&stream, &mut to.workspace, allocation, 77, out, read_report).unwrap();
        // The same bytes through memory of the host.
        let mut out = vec![0; 1000];
        pool.read(&stream, allocation, 49_000..50_000, &mut out).unwrap();
        assert!(out == raw[49_000..]);
        assert!(download(&stream, to.data.region()) == raw[77..49_077]);
        assert_eq!(pool.moved(&stream, report).unwrap().writes, 391);
        assert_eq!(pool.moved(&stream, read_report).unwrap().reads, 384);

        let graph = stream
            .capture(|| {
                let (data, report) = (from.data.slice(0..900), from.report.region());
                pool.enqueue_write(&stream, &mut from.workspace, allocation, 100, data, report)
            })
            .unwrap();
        for byte in [1_u8, 2] {
            stream.upload(&[byte; 900], from.data.region()).unwrap();
            // SAFETY: all that it uses is there until the stream is waited for.
            unsafe { graph.launch(&stream).unwrap() };
            let mut out = vec![0; 1000];
            pool.read(&stream, allocation, 50..1050, &mut out).unwrap();
            assert!(
                out[..50] == raw[50..100] && out[50..950] == [byte; 900] && out[950..] == raw[1000..1050]
            );
        }
        assert_eq!(pool.allocation_stats(&stream, allocation).unwrap().accesses.writes, 391 + 2 * 8);
        drop(graph);
    });
}

#[test]
fn what_is_stored_goes_from_pool_to_pool() {
    with_threads("buddy::what_is_stored_goes_from_pool_to_pool", 7, |_| {
        let (device, stream) = open();
        let forms = [Form::Bpc, Form::Xp(Element::F32)];
        for (form, target) in
            forms.into_iter().flat_map(|form| form.targets().iter().map(move |&t| (form, t)))
        {
            let raw = bytes_of_all_kinds(&mut Random::new(4), form, 40_000);
            let mut twins =
                Twins::new(&stream, DeviceBuddyPool::new(&device, DEVICE_LEN, BUDDY_LEN).unwrap());
            twins.alloc(&stream, 40_000, form, target);
            let Twin { device: on_device, host: on_host, .. } = twins.allocations[0];
            // The host reads what the device has written.
            twins.device.write(&stream, on_device, 0..40_000, &raw).unwrap();
            let (near, far) = twins.device.memories();
            for (region, memory) in [near, far].into_iter().zip(&mut twins.memories) {
                memory.store(0, &download(&stream, region)).unwrap();
            }
            let mut out = vec![0; 40_000];
            twins.host.read(on_host, 0..40_000, &mut out).unwrap();
            assert!(out == raw, "{form} {target}: from device to host");
            // And the other way.
            let reversed: Vec<u8> = raw.iter().rev().copied().collect();
            twins.host.write(on_host, 0..40_000, &reversed).unwrap();
            stream.upload(&twins.memories[0].bytes(), near).unwrap();
            stream.upload(&twins.memories[1].bytes(), far).unwrap();
            twins.device.read(&stream, on_device, 0..40_000, &mut out).unwrap();
            assert!(out == reversed, "{form} {target}: from host to device");
        }
    });
}

#[test]
fn long_ranges_go_in_pieces() {
    with_threads("buddy::long_ranges_go_in_pieces", 8, |_| {
        let (device, stream) = open();
        let len = STAGE_LEN + 70_000;
        let mut pool = DeviceBuddyPool::new(&device, len / 8, len + 128).unwrap();
        let allocation = pool.alloc(&stream, len, Target::Sixteen).unwrap();
        let raw = entries_of_all_states(&mut Random::new(9), 60_000);
        let range = STAGE_LEN - 30_000..STAGE_LEN + 30_000;
        pool.write(&stream, allocation, range.clone(), &raw).unwrap();
        let mut out = vec![1; len as usize];
        pool.read(&stream, allocation, 0..len, &mut out).unwrap();
        let range = range.start as usize..range.end as usize;
        assert!(out[range.clone()] == raw && out[..range.start].iter().all(|&byte| byte == 0));
        // No entry is dealt with twice where pieces meet.
        let accesses = pool.stats(&stream).unwrap().accesses;
        let entries = (range.end.div_ceil(128) - range.start / 128) as u64;
        assert_eq!((accesses.writes, accesses.reads), (entries, len.div_ceil(128) + 2));
    });
}

#[test]
fn what_is_wrong_is_told_with_its_numbers() {
    with_threads("buddy::what_is_wrong_is_told_with_its_numbers", 9, |_| {
        let (device, stream) = open();
        let mut pool = DeviceBuddyPool::new(&device, 4096, 2048).unwrap();
        let allocation = pool.alloc(&stream, 1000, Target::Two).unwrap();
        let is = |error: DeviceBuddyError, expected: BuddyError| {
            assert_eq!(error, DeviceBuddyError::Pool(expected));
        };

        let backwards = Range { start: 9, end: 8 };
        for range in [0..1001, 1001..1001, u64::MAX..u64::MAX, backwards] {
            let len = range.end.saturating_sub(range.start) as usize;
            let error = pool.read(&stream, allocation, range.clone(), &mut vec![0; len]).unwrap_err();
            is(error, BuddyError::Outside { range: range.clone(), len: 1000 });
            let error = pool.write(&stream, allocation, range.clone(), &vec![0; len]).unwrap_err();
            is(error, BuddyError::Outside { range, len: 1000 });
        }
        let error = pool.read(&stream, allocation, 0..10, &mut [0; 9]).unwrap_err();
        is(error, BuddyError::Lengths { range: 10, buffer: 9 });
        let mut room = Room::new(&device, &stream, &[0; 100]).unwrap();
        let (data, report) = (room.data.region(), room.report.region());
        let error =
            pool.enqueue_write(&stream, &mut room.workspace, allocation, 901, data, report).unwrap_err();
        is(error, BuddyError::Outside { range: 901..1001, len: 1000 });
        let short = report.slice(0..40);
        let error = pool.enqueue_read(&stream, &mut room.workspace, allocation, 0, data, short).unwrap_err();
        assert!(
            matches!(error, DeviceBuddyError::Device(DeviceError::TooShort { needed: 48, got: 40, .. })),
            "{error}"
        );

        is(pool.alloc(&stream, 0, Target::Two).unwrap_err(), BuddyError::NoBytes);
        let error = pool.alloc(&stream, 1000, Target::EightThirds).unwrap_err();
        is(error, BuddyError::TargetOfForm { target: Target::EightThirds, form: Form::Bpc });
        // 544 bytes of device memory and 512 of buddy memory are taken.
        let error = pool.alloc(&stream, 3600, Target::One).unwrap_err();
        is(error, BuddyError::Exhausted { place: Place::Device, needed: 3744, free: 3552, largest: 3552 });
        let error = pool.alloc(&stream, 2049, Target::Four).unwrap_err();
        is(error, BuddyError::Exhausted { place: Place::Buddy, needed: 1632, free: 1536, largest: 1536 });
    });
}

#[test]
fn damaged_entries_are_told() {
    with_threads("buddy::damaged_entries_are_told", 10, |_| {
        let (device, stream) = open();
        let mut pool = DeviceBuddyPool::new(&device, 1 << 20, 1 << 20).unwrap();
        let allocation = pool.alloc(&stream, 1000, Target::Two).unwrap();
        pool.write(&stream, allocation, 0..1000, &[5; 1000]).unwrap();
        // Slots have 512 bytes; the state of entry 3 becomes 15.
        stream.upload(&[0xf8], pool.memories().0.slice(513..514)).unwrap();
        let mut out = [0; 1000];
        let error = pool.read(&stream, allocation, 0..1000, &mut out).unwrap_err();
        let text = "entry 3: Metadata of an entry has no meaning (status 27) (0 bytes of the range are done)";
        assert_eq!(error.to_string(), text);
        pool.read(&stream, allocation, 512..1000, &mut out[512..]).unwrap();
        let error = pool.write(&stream, allocation, 500..600, &[6; 100]).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Refused { done: 0, .. }), "{error}");
        // The rest of the write is done, and a whole entry makes it good.
        pool.write(&stream, allocation, 384..512, &[5; 128]).unwrap();
        pool.read(&stream, allocation, 0..1000, &mut out).unwrap();
        let wanted: Vec<u8> = (0..1000).map(|i| if (512..600).contains(&i) { 6 } else { 5 }).collect();
        assert!(out[..] == wanted);

        // Of XP, whose second entry has 1024 raw bytes, slots have 16,384 and 512 bytes; its state becomes 65.
        let len = XP_ENTRY_LEN as u64 + 1000;
        let floats = pool.alloc_as(&stream, len, Form::Xp(Element::F16), Target::Two).unwrap();
        let raw = vec![5; len as usize];
        pool.write(&stream, floats, 0..len, &raw).unwrap();
        // Behind 544 bytes of the allocation above.
        let states_at = 544 + 16_384 + 512;
        stream.upload(&[65, 0], pool.memories().0.slice(states_at + 2..states_at + 4)).unwrap();
        let mut out = vec![0; len as usize];
        let error = pool.read(&stream, floats, 0..len, &mut out).unwrap_err();
        let text = "entry 1: Metadata of an entry has no meaning (status 27) (0 bytes of the range are done)";
        assert_eq!(error.to_string(), text);
        let error = pool.write(&stream, floats, 32_000..33_000, &[6; 1000]).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Refused { done: 0, .. }), "{error}");
        // The first entry is written, and the second, as a whole, makes it good.
        pool.write(&stream, floats, XP_ENTRY_LEN as u64..len, &[5; 1000]).unwrap();
        pool.read(&stream, floats, 0..len, &mut out).unwrap();
        let wanted: Vec<u8> = (0..len).map(|i| if (32_000..32_768).contains(&i) { 6 } else { 5 }).collect();
        assert!(out == wanted);
    });
}

#[test]
fn handles_are_of_use_to_their_pool_alone() {
    with_threads("buddy::handles_are_of_use_to_their_pool_alone", 11, |_| {
        let (device, stream) = open();
        let mut pool = DeviceBuddyPool::new(&device, 4096, 4096).unwrap();
        let other = DeviceBuddyPool::new(&device, 4096, 4096).unwrap();
        let allocation = pool.alloc(&stream, 100, Target::Two).unwrap();
        let error = other.read(&stream, allocation, 0..1, &mut [0]).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Pool(BuddyError::OtherPool { .. })), "{error}");
        pool.free(&stream, allocation).unwrap();
        let error = pool.free(&stream, allocation).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Pool(BuddyError::Freed { index: 0, .. })), "{error}");
        let error = pool.write(&stream, allocation, 0..1, &[0]).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Pool(BuddyError::Freed { .. })), "{error}");
    });
}

#[test]
fn pools_are_used_beside_a_recording() {
    with_threads("buddy::pools_are_used_beside_a_recording", 12, |stub| {
        let (device, stream) = open();
        let library = Foreign::on(&device);
        let mut pool = DeviceBuddyPool::new(&device, DEVICE_LEN, BUDDY_LEN).unwrap();
        let raw = entries_of_all_states(&mut Random::new(3), 9000);
        pool.alloc(&stream, 300, Target::Four).unwrap();
        for form in [Form::Bpc, Form::Xp(Element::F32)] {
            let mut out = vec![0; 9000];
            assert!(library.stream().records(|| {
                let allocation = pool.alloc_as(&stream, 9000, form, Target::Two).unwrap();
                pool.write(&stream, allocation, 0..9000, &raw).unwrap();
                pool.read(&stream, allocation, 0..9000, &mut out).unwrap();
                pool.free(&stream, allocation).unwrap();
            }));
            assert!(out == raw, "{form}");
        }
        assert!(library.stream().records(|| drop(pool)));
        assert!(!stub.left().contains("allocations"), "{}", stub.left());
    });
}

#[test]
fn room_that_may_be_cleared_later_is_not_given_again() {
    with_threads("buddy::room_that_may_be_cleared_later_is_not_given_again", 13, |stub| {
        let (device, stream) = open();
        // Room for one allocation of 1000 bytes.
        let mut pool = DeviceBuddyPool::new(&device, 544, 512).unwrap();
        // Nothing was enqueued, or only recorded, and that was spoiled.
        stub.fail(Some("cuMemAlloc_v2"), 1, OUT_OF_MEMORY);
        pool.alloc(&stream, 1000, Target::Two).unwrap_err();
        stream.capture(|| pool.alloc(&stream, 1000, Target::Two).map(drop)).unwrap_err();
        let allocation = pool.alloc(&stream, 1000, Target::Two).unwrap();
        pool.free(&stream, allocation).unwrap();

        stub.fail(Some("cuStreamSynchronize"), 1, 900);
        let error = pool.alloc(&stream, 1000, Target::Two).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Device(DeviceError::Driver { code: 900, .. })), "{error}");
        let error = pool.alloc(&stream, 1000, Target::Two).unwrap_err();
        assert!(matches!(error, DeviceBuddyError::Pool(BuddyError::Exhausted { .. })), "{error}");
        stream.wait().unwrap();
    });
}

#[test]
fn every_call_may_fail() {
    with_stub("buddy::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        for form in [Form::Bpc, Form::Xp(Element::Bf16)] {
            let raw = bytes_of_all_kinds(&mut Random::new(1), form, 3000);
            let entries = if form == Form::Bpc { 24 } else { 1 };
            let run = || -> Result<bool, DeviceBuddyError> {
                let device = Device::open_with(0, mgcomp_codecs::device::Cache::Off)?;
                let stream = device.stream()?;
                let mut pool = DeviceBuddyPool::new(&device, 9000, 9000)?;
                let gone = pool.alloc(&stream, 300, Target::Four)?;
                let kept = pool.alloc_as(&stream, 3000, form, Target::Four)?;
                pool.write(&stream, kept, 0..3000, &raw)?;
                pool.free(&stream, gone)?;
                let mut room = Room::new(&device, &stream, &[0; 2900])?;
                let (out, report) = (room.data.region(), room.report.region());
                pool.enqueue_read(&stream, &mut room.workspace, kept, 50, out, report)?;
                let counts = pool.moved(&stream, report)?;
                let mut out = vec![0; 2900];
                stream.download(room.data.region(), &mut out)?;
                let accesses = pool.stats(&stream)?.accesses;
                Ok(out == raw[50..2950] && [accesses.writes, counts.reads] == [entries; 2])
            };
            stub.fail_each_call(|| {
                run().map_err(|error| match error {
                    DeviceBuddyError::Device(error) => error,
                    error => panic!("{error}"),
                })
            });
        }
    });
}

//! The executor by itself: what it makes, what it refuses, what it estimates.

use std::sync::{Arc, mpsc};

use bytes::Bytes;
use mgcomp_codecs::device::{Device, Stream};
use mgcomp_codecs::frame::Frame;
use mgcomp_codecs::{Algorithm, AlgorithmSet, Element};
use mgcomp_selector::SampleSize;
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::OUT_OF_MEMORY;
use mgcomp_transport::executor::{self, Executor, Outlet, Output, Ticket, Work};
use mgcomp_transport::memory::DeviceBuffer;
use mgcomp_transport::message::Status;
use mgcomp_transport::payload::{MemoryKind, Payload};

use crate::rig::{Busy, HANGS, bytes_of, on_device, open, with_threads};

struct Rig {
    executor: Box<dyn Executor>,
    reports: mpsc::Receiver<executor::Done>,
}

impl Rig {
    fn new() -> Self {
        Self::on(Outlet::Host)
    }

    /// For a link that takes payloads from there.
    fn on(outlet: Outlet) -> Self {
        let (report, reports) = mpsc::channel();
        let report = std::sync::Mutex::new(report);
        let sink = Arc::new(move |done| report.lock().unwrap().send(done).unwrap()) as _;
        Self { executor: executor::start_for(outlet, 1, 1, true, &sink).unwrap(), reports }
    }

    fn run(&mut self, work: Work) -> Result<Output, Status> {
        let late = || self.reports.recv_timeout(HANGS).expect("hangs: work does not end");
        self.executor.submit(Ticket(7), work).unwrap_or_else(late).result
    }

    fn encode(&mut self, source: &DeviceBuffer, algorithm: Algorithm) -> (Algorithm, Payload) {
        let source = Payload::from_memory(source.all());
        match self.run(Work::Encode { source, element: Element::U32, algorithm, lent: true, shelf: None }) {
            Ok(Output::Encoded(algorithm, payload)) => (algorithm, payload),
            other => panic!("{other:?}"),
        }
    }

    fn decode(
        &mut self,
        bytes: &[u8],
        algorithm: Algorithm,
        destination: &DeviceBuffer,
        all_or_nothing: bool,
    ) -> Result<(), Status> {
        let payload = Payload::from_bytes(Bytes::copy_from_slice(bytes));
        let destination = Payload::from_memory(destination.all());
        self.run(Work::Decode { payload, algorithm, destination, all_or_nothing }).map(drop)
    }
}

/// Whoever holds memory may wait for other work of the device.
#[test]
fn memory_in_use_holds_up_no_other_work() {
    with_threads("executor::memory_in_use_holds_up_no_other_work", 8, |_| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        let (old, new) = (data::bytes(Kind::Sparse, 40_000, 1), data::bytes(Kind::Deltas, 40_000, 2));
        let (shared, other) = (on_device(&device, &stream, &old), on_device(&device, &stream, &old));
        let busy = Busy::on(0);
        // It holds the memory, and a lane, until the program's work has ended.
        let source = Payload::from_memory(shared.all().after(&busy.working).unwrap());
        let reading = Work::Encode {
            source,
            element: Element::U32,
            algorithm: Algorithm::Bdi,
            lent: true,
            shelf: None,
        };
        assert!(rig.executor.submit(Ticket(1), reading).is_none());
        // One more than there are lanes.
        let part = |at: usize| Payload::from_memory(shared.all().part(10_000 * at, 10_000).unwrap());
        for (at, bytes) in new.chunks(10_000).enumerate() {
            let payload = Payload::from_bytes(Bytes::copy_from_slice(bytes));
            let algorithm = Algorithm::None;
            let writing = Work::Decode { payload, algorithm, destination: part(at), all_or_nothing: true };
            assert!(rig.executor.submit(Ticket(2 + at as u64), writing).is_none());
        }
        for algorithm in [Algorithm::None, Algorithm::Bdi] {
            let (by, payload) = rig.encode(&other, algorithm);
            assert_eq!(by, algorithm);
            let into = DeviceBuffer::alloc(&device, old.len()).unwrap();
            assert_eq!(rig.decode(payload.bytes().unwrap(), by, &into, true), Ok(()));
            assert!(bytes_of(&stream, &into.all()) == old);
        }
        busy.end();
        let mut ends: Vec<_> = (0..5).map(|_| rig.reports.recv_timeout(HANGS).expect("hangs")).collect();
        ends.sort_by_key(|done| done.ticket.0);
        let frame = match &ends[0].result {
            Ok(Output::Encoded(Algorithm::Bdi, payload)) => payload.bytes().unwrap().clone(),
            other => panic!("{other:?}"),
        };
        let mut read = vec![0; old.len()];
        Frame::parse(&frame).unwrap().decode_into(&mut read).unwrap();
        assert!(read == old, "read before it was written");
        assert!(ends[1..].iter().all(|done| matches!(done.result, Ok(Output::Decoded))));
        assert!(bytes_of(&stream, &shared.all()) == new);
    });
}

/// What waits for memory is dropped with the executor, as what is queued is.
#[test]
fn nothing_waits_at_the_end_for_memory_in_use() {
    with_threads("executor::nothing_waits_at_the_end_for_memory_in_use", 9, |_| {
        let ((device, stream), mut first, mut second) = (open(), Rig::new(), Rig::new());
        let shared = on_device(&device, &stream, &[7; 40_000]);
        let busy = Busy::on(0);
        let source = Payload::from_memory(shared.all().after(&busy.working).unwrap());
        let (element, algorithm) = (Element::U32, Algorithm::None);
        let reading = Work::Encode { source, element, algorithm, lent: true, shelf: None };
        assert!(first.executor.submit(Ticket(1), reading).is_none());
        // The memory is held once another work of the same device is done.
        first.encode(&on_device(&device, &stream, &[1; 100]), algorithm);
        let payload = Payload::from_bytes(Bytes::from(vec![8; 40_000]));
        let destination = Payload::from_memory(shared.all());
        let writing = Work::Decode { payload, algorithm, destination, all_or_nothing: true };
        assert!(second.executor.submit(Ticket(2), writing).is_none());
        second.encode(&on_device(&device, &stream, &[1; 100]), algorithm);
        let Rig { executor, reports } = second;
        let (ended, end) = mpsc::channel();
        let ending = std::thread::spawn(move || {
            drop(executor);
            ended.send(()).unwrap();
        });
        assert_eq!(end.recv_timeout(HANGS), Ok(()), "hangs: the executor waits for memory");
        ending.join().unwrap();
        assert!(reports.try_recv().is_err());
        busy.end();
        assert!(first.reports.recv_timeout(HANGS).expect("hangs").result.is_ok());
        assert!(bytes_of(&stream, &shared.all()) == [7; 40_000]);
    });
}

#[test]
fn frames_of_a_device_are_those_of_the_host() {
    with_threads("executor::frames_of_a_device_are_those_of_the_host", 1, |_| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        let raw = data::bytes(Kind::Deltas, 40_000, 1);
        let source = on_device(&device, &stream, &raw);
        assert_eq!(Payload::from_memory(source.all()).memory_kind(), MemoryKind::Device(0));
        let (algorithm, payload) = rig.encode(&source, Algorithm::Bdi);
        assert_eq!((algorithm, payload.memory_kind()), (Algorithm::Bdi, MemoryKind::Pinned));
        let bytes = payload.bytes().unwrap().clone();
        assert_eq!(payload.capacity(), bytes.len() as u64);
        let mut back = vec![0; raw.len()];
        Frame::parse(&bytes).unwrap().decode_into(&mut back).unwrap();
        assert!(back == raw);
        for all_or_nothing in [false, true] {
            let into = DeviceBuffer::alloc(&device, raw.len()).unwrap();
            assert_eq!(rig.decode(&bytes, algorithm, &into, all_or_nothing), Ok(()));
            assert!(bytes_of(&stream, &into.all()) == raw);
        }
        // What is short takes no page-locked memory with it.
        let short = on_device(&device, &stream, &raw[..4096]);
        let (algorithm, payload) = rig.encode(&short, Algorithm::None);
        assert_eq!((algorithm, payload.memory_kind()), (Algorithm::None, MemoryKind::Host));
        assert!(payload.bytes().unwrap() == &raw[..4096]);
        // What does not shrink goes raw; of nothing, nothing.
        let noise = data::bytes(Kind::Dense, 5000, 1);
        let source = on_device(&device, &stream, &noise);
        let (algorithm, payload) = rig.encode(&source, Algorithm::Bdi);
        assert_eq!((algorithm, payload.bytes().unwrap().to_vec()), (Algorithm::None, noise));
        let nothing = DeviceBuffer::alloc(&device, 0).unwrap();
        let (algorithm, payload) = rig.encode(&nothing, Algorithm::Bdi);
        assert_eq!((algorithm, payload.capacity()), (Algorithm::None, 0));
        assert_eq!(rig.decode(&[], Algorithm::None, &nothing, false), Ok(()));
        // A payload that outlives its executor.
        let (_, payload) = rig.encode(&source, Algorithm::None);
        drop(rig);
        assert_eq!(payload.capacity(), 5000);
    });
}

/// Up to 1 MiB, kernels store frames in page-locked memory and read them there. What is longer, or raw, is copied once.
#[test]
fn short_frames_are_not_copied() {
    with_threads("executor::short_frames_are_not_copied", 4, |stub| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        for (len, algorithm, copies) in
            [(1 << 20, Algorithm::Zvc, 0), (1 << 20, Algorithm::None, 1), (3 << 20, Algorithm::Zvc, 1)]
        {
            // Every other word is zero, so the frame is a little more than half as long.
            let word = |at: u32| if at.is_multiple_of(2) { 0 } else { at.wrapping_mul(0x9e37_79b9) | 1 };
            let raw: Vec<u8> = (0..len / 4).flat_map(|at| word(at).to_le_bytes()).collect();
            let (source, into) = (on_device(&device, &stream, &raw), DeviceBuffer::alloc(&device, raw.len()));
            let into = into.unwrap();
            stub.fail(Some("cuMemcpyAsync"), 0, 0);
            let (by, payload) = rig.encode(&source, algorithm);
            assert_eq!((by, stub.count("calls")), (algorithm, copies), "{len} bytes out");
            assert_eq!(payload.memory_kind(), MemoryKind::Pinned);
            let destination = Payload::from_memory(into.all());
            stub.fail(Some("cuMemcpyAsync"), 0, 0);
            let work = Work::Decode { payload, algorithm, destination, all_or_nothing: false };
            assert!(matches!(rig.run(work), Ok(Output::Decoded)));
            assert_eq!(stub.count("calls"), copies, "{len} bytes back by {algorithm:?}");
            assert!(bytes_of(&stream, &into.all()) == raw);
        }
    });
}

/// Whoever asks for pieces of many lengths has no more page-locked memory kept than for one.
#[test]
fn pieces_of_many_lengths_share_rooms() {
    with_threads("executor::pieces_of_many_lengths_share_rooms", 7, |stub| {
        let (end, mut rig) = (open(), Rig::new());
        // A lane may be free a moment after its report has come: then the next piece takes another one.
        warm_up(&mut rig, &end);
        let ((device, stream), mut allocations) = (end, Vec::new());
        for len in [128 << 10, 80_000, 100_000, 120_000, 131_068] {
            let source = on_device(&device, &stream, &data::bytes(Kind::Zero, len, 1));
            stub.fail(Some("cuMemHostAlloc"), 0, 0);
            assert_eq!(rig.encode(&source, Algorithm::Zvc).0, Algorithm::Zvc);
            allocations.push(stub.count("calls"));
        }
        assert!(allocations[0] >= 1, "the first one has nothing to share");
        assert_eq!(allocations[1..], [0; 4]);
    });
}

/// What the kernel has stored, or still stores, gives way to the raw bytes.
#[test]
fn raw_bytes_take_the_room_of_a_frame_that_comes_to_nothing() {
    with_threads("executor::raw_bytes_take_the_room_of_a_frame_that_comes_to_nothing", 6, |stub| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        // It does not shrink.
        let noise = data::bytes(Kind::Dense, 1 << 20, 1);
        let source = on_device(&device, &stream, &noise);
        let (algorithm, payload) = rig.encode(&source, Algorithm::Zvc);
        assert_eq!(algorithm, Algorithm::None);
        assert!(payload.bytes().unwrap() == &noise);
        // Nobody would hear when the kernel has ended.
        let raw = data::bytes(Kind::Zero, 1 << 20, 1);
        let source = on_device(&device, &stream, &raw);
        stub.fail(Some("cuEventRecord"), 1, OUT_OF_MEMORY);
        let (algorithm, payload) = rig.encode(&source, Algorithm::Zvc);
        assert_eq!(stub.failed().as_deref(), Some("cuEventRecord"));
        assert_eq!(algorithm, Algorithm::None);
        assert!(payload.bytes().unwrap() == &raw);
        stub.fail(None, 0, 0);
        let (algorithm, payload) = rig.encode(&source, Algorithm::Zvc);
        assert_eq!(algorithm, Algorithm::Zvc);
        assert!(payload.capacity() < 1 << 19);
    });
}

#[test]
fn bad_payloads_leave_the_destination_alone() {
    with_threads("executor::bad_payloads_leave_the_destination_alone", 2, |_| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        let raw = data::bytes(Kind::Sparse, 30_000, 1);
        let source = on_device(&device, &stream, &raw);
        let (algorithm, payload) = rig.encode(&source, Algorithm::Bdi);
        let good = payload.bytes().unwrap().to_vec();
        let mut damaged = good.clone();
        let tag = 16 + 4 * raw.len().div_ceil(4096).next_multiple_of(4);
        damaged[tag] = 0xff; // the first tag of the first chunk
        let cases = [
            (damaged, algorithm),
            (good[..good.len() - 16].to_vec(), algorithm),
            (good.clone(), Algorithm::Zvc),
            (good.clone(), Algorithm::None),
            (Vec::new(), algorithm),
            (Vec::new(), Algorithm::None),
        ];
        let into = on_device(&device, &stream, &[0xee; 30_000]);
        for (case, (bytes, algorithm)) in cases.into_iter().enumerate() {
            assert_eq!(rig.decode(&bytes, algorithm, &into, true), Err(Status::BadPayload), "case {case}");
            assert_eq!(bytes_of(&stream, &into.all()), [0xee; 30_000], "case {case}");
        }
        assert_eq!(rig.decode(&good, algorithm, &into, true), Ok(()));
        assert!(bytes_of(&stream, &into.all()) == raw);
    });
}

#[test]
fn estimates_are_those_of_frames() {
    with_threads("executor::estimates_are_those_of_frames", 3, |_| {
        let ((device, stream), mut rig) = (open(), Rig::new());
        let raw = data::bytes(Kind::Deltas, 200_000, 1);
        let source = on_device(&device, &stream, &raw);
        let (_, payload) = rig.encode(&source, Algorithm::Bdi);
        let frame_len = payload.capacity();
        let algorithms = AlgorithmSet::from_iter([Algorithm::None, Algorithm::Bdi, Algorithm::Deflate]);
        let mut estimate = |sample| {
            let source = Payload::from_memory(source.all());
            match rig.run(Work::Estimate { source, element: Element::U32, algorithms, sample }) {
                Ok(Output::Estimates(found)) => {
                    found.into_iter().map(|e| (e.algorithm, e.bits)).collect::<Vec<_>>()
                }
                other => panic!("{other:?}"),
            }
        };
        let whole = [(Algorithm::None, 8 * 200_000), (Algorithm::Bdi, 8 * frame_len)];
        assert_eq!(estimate(SampleSize::Whole), whole);
        let sampled = estimate(SampleSize::Bytes(100_000));
        let [(Algorithm::Bdi, bits)] = sampled[..] else { panic!("{sampled:?}") };
        let ratio = bits as f64 / (8 * frame_len) as f64;
        assert!((0.8..1.25).contains(&ratio), "{ratio}");
    });
}

/// The driver would wait for all that the device does, and that may wait for what comes next here, as a kernel of NCCL's does
/// for a peer.
#[test]
fn nothing_is_freed_while_the_device_is_busy() {
    with_threads("executor::nothing_is_freed_while_the_device_is_busy", 4, |stub| {
        // Whoever frees memory waits.
        stub.set("strict_free", 0);
        for free in ["cuMemFree_v2", "cuMemFreeHost"] {
            let ((device, stream), mut rig) = (open(), Rig::new());
            // Each needs more scratch than the one before.
            let raws = [50_000, 1_200_000, 3_000_000].map(|len| data::bytes(Kind::Sparse, len, 1));
            let sources = raws.each_ref().map(|raw| on_device(&device, &stream, raw));
            let into = raws.each_ref().map(|raw| DeviceBuffer::alloc(&device, raw.len()).unwrap());
            // And these are more page-locked memory than is needed again.
            let large = [40 << 20, 20 << 20, 10 << 20].map(|len| DeviceBuffer::alloc(&device, len).unwrap());
            let busy = Busy::on(0);
            stub.fail(Some(free), 0, 0);
            for large in &large {
                let (_, payload) = rig.encode(large, Algorithm::None);
                assert_eq!(payload.capacity(), large.len() as u64);
            }
            for (source, into) in sources.iter().zip(&into) {
                let (algorithm, payload) = rig.encode(source, Algorithm::Zvc);
                let bytes = payload.bytes().unwrap();
                assert_eq!(rig.decode(bytes, algorithm, into, true), Ok(()));
            }
            assert_eq!(stub.count("calls"), 0, "{free}");
            stub.fail(None, 0, 0);
            busy.end();
            for (raw, into) in raws.iter().zip(&into) {
                assert!(bytes_of(&stream, &into.all()) == *raw);
            }
        }
    });
}

/// What is kept for later payloads makes room for one that there is none for otherwise.
#[test]
fn rooms_are_freed_where_there_is_no_memory_left() {
    with_threads("executor::rooms_are_freed_where_there_is_no_memory_left", 5, |stub| {
        let ((device, _), mut rig) = (open(), Rig::new());
        let sources = [3 << 20, 5 << 20].map(|len| DeviceBuffer::alloc(&device, len).unwrap());
        // Enough for the sources and one of two rooms, of 4 and 8 MiB.
        stub.set("memory_len", 18 << 20);
        drop(rig.encode(&sources[0], Algorithm::None));
        let (_, payload) = rig.encode(&sources[1], Algorithm::None);
        assert_eq!(payload.capacity(), 5 << 20);
        // There is nothing left to free while that payload is there.
        let source = Payload::from_memory(sources[0].all());
        let work = Work::Encode {
            source,
            element: Element::U32,
            algorithm: Algorithm::None,
            lent: true,
            shelf: None,
        };
        assert_eq!(rig.run(work).map(drop), Err(Status::Internal));
    });
}

/// As much work at once as a device has lanes for, so that each has what it needs beside the room for a payload.
fn warm_up(rig: &mut Rig, (device, stream): &(Device, Stream)) {
    const LANES: u64 = 3;
    let (busy, source) = (Busy::on(0), on_device(device, stream, &data::bytes(Kind::Sparse, 40_000, 1)));
    for ticket in 0..LANES {
        let source = Payload::from_memory(source.all().after(&busy.working).unwrap());
        let (element, algorithm) = (Element::U32, Algorithm::Zvc);
        let work = Work::Encode { source, element, algorithm, lent: true, shelf: None };
        assert!(rig.executor.submit(Ticket(ticket), work).is_none());
    }
    busy.end();
    for _ in 0..LANES {
        rig.reports.recv_timeout(HANGS).expect("hangs: work does not end").result.unwrap();
    }
}

/// Where a link takes payloads from a device, and that is full, they lie on the host as for any other link.
#[test]
fn what_a_full_device_cannot_keep_is_left_on_the_host() {
    with_threads("executor::what_a_full_device_cannot_keep_is_left_on_the_host", 8, |stub| {
        let (end, mut rig) = (open(), Rig::on(Outlet::Anywhere));
        let (device, stream) = &end;
        warm_up(&mut rig, &end);
        // Too long for what is kept; the last one would need more memory of the device to be compressed.
        for (len, wanted, is_coded) in [
            (100_000, Algorithm::None, false),
            (100_000, Algorithm::Zvc, true),
            (3 << 20, Algorithm::None, false),
            (3 << 20, Algorithm::Zvc, false),
        ] {
            let raw = data::bytes(Kind::Sparse, len, 2);
            let source = on_device(device, stream, &raw);
            stub.set("full", 1);
            let (algorithm, payload) = rig.encode(&source, wanted);
            stub.set("full", 0);
            let expected = if is_coded { wanted } else { Algorithm::None };
            assert_eq!(
                (algorithm, payload.memory_kind()),
                (expected, MemoryKind::Pinned),
                "{len} bytes by {wanted:?}"
            );
            let bytes = payload.bytes().unwrap();
            let mut back = vec![0; raw.len()];
            match algorithm {
                Algorithm::None => back.copy_from_slice(bytes),
                _ => Frame::parse(bytes).unwrap().decode_into(&mut back).unwrap(),
            }
            assert!(back == raw, "{len} bytes by {wanted:?}");
        }
        // When there is memory again, it is used.
        let source = on_device(device, stream, &[1; 100_000]);
        assert_eq!(rig.encode(&source, Algorithm::None).1.memory_kind(), MemoryKind::Device(0));
    });
}

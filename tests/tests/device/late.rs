//! Calls enqueue and return: what they do happens later, in the order of the stream, as often as it is launched.

#![allow(unsafe_code)] // streams of nobody

use std::panic::{AssertUnwindSafe, catch_unwind};

use mgcomp_codecs::device::{Buffer, Coder, Device, DeviceError, Stream, Workspace};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::foreign::Foreign;
use mgcomp_tests::stub::{Libraries, with_stub, with_stub_that_keeps};

use crate::rig::{self, Room};

/// What a word holds that no kernel has written yet.
const UNWRITTEN: u64 = 0xeeee_eeee_eeee_eeee;

fn ready(device: &Device, stream: &Stream, raw: &[u8]) -> (Coder, Room, Workspace<'static>) {
    let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
    let room = Room::new(device, stream, &coder, Element::U32, raw).unwrap();
    let workspace = rig::workspace(device, stream, ChunkSize::SMALL, &[raw.len() as u64]).unwrap();
    (coder, room, workspace)
}

#[test]
fn nothing_runs_before_somebody_waits() {
    with_stub("late::nothing_runs_before_somebody_waits", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let raw = data::bytes(Kind::Sparse, 10_000, 3);
        let (coder, room, mut workspace) = ready(&device, &stream, &raw);
        stream.wait().unwrap();
        assert!(stream.is_idle().unwrap());
        stub.fail(None, 0, 0);
        coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap();
        coder.decompress(&stream, &mut workspace, &[room.decompress()]).unwrap();
        // Each call: the context in, the launch, the context out.
        assert_eq!(stub.count("calls"), 2 * 3);
        assert_eq!(stub.count("launches"), 0);
        while !stream.is_idle().unwrap() {}
        assert_eq!(stub.count("launches"), 2);
        assert!(room.bytes_back(&stream).unwrap() == raw);
    });
}

#[test]
fn a_stream_that_follows_sees_what_was_done() {
    with_stub("late::a_stream_that_follows_sees_what_was_done", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let raw = data::bytes(Kind::Sparse, 10_000, 3);
        let (coder, room, mut workspace) = ready(&device, &first, &raw);
        coder.compress(&first, &mut workspace, &[room.compress()]).unwrap();
        // Nobody has said that the streams have to do with each other.
        assert_eq!(second.read(room.compress().len).unwrap(), UNWRITTEN);

        second.follow(&first).unwrap();
        let mut own_workspace = rig::workspace(&device, &second, ChunkSize::SMALL, &[]).unwrap();
        coder.decompress(&second, &mut own_workspace, &[room.decompress()]).unwrap();
        assert!(room.bytes_back(&second).unwrap() == raw);
    });
}

#[test]
fn a_stream_may_go_before_its_work() {
    with_stub("late::a_stream_may_go_before_its_work", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let raw = data::bytes(Kind::Mixed, 10_000, 3);
        let (coder, room, mut workspace) = ready(&device, &first, &raw);
        coder.compress(&first, &mut workspace, &[room.compress()]).unwrap();
        second.follow(&first).unwrap();
        drop(first);
        assert_eq!(second.read(room.compress().status).unwrap(), 0);
    });
}

#[test]
fn threads_use_one_device() {
    with_stub("late::threads_use_one_device", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        std::thread::scope(|scope| {
            for seed in 0..4 {
                let device = device.clone();
                scope.spawn(move || {
                    let stream = device.stream().unwrap();
                    let raw = data::bytes(Kind::Mixed, 9000 + seed as usize, seed);
                    let (coder, room, mut workspace) = ready(&device, &stream, &raw);
                    for _ in 0..3 {
                        coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap();
                        coder.decompress(&stream, &mut workspace, &[room.decompress()]).unwrap();
                        assert!(room.bytes_back(&stream).unwrap() == raw);
                    }
                });
            }
        });
    });
}

#[test]
fn a_graph_repeats_its_work() {
    with_stub("late::a_graph_repeats_its_work", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let raw = data::bytes(Kind::Sparse, 20_000, 3);
        let (coder, room, mut workspace) = ready(&device, &stream, &raw);
        let graph = stream
            .capture(|| {
                coder.estimate(&stream, &mut workspace, &[room.estimate()])?;
                coder.compress(&stream, &mut workspace, &[room.compress()])?;
                coder.decompress(&stream, &mut workspace, &[room.decompress()])
            })
            .unwrap();
        stream.wait().unwrap();
        assert_eq!(stub.count("launches"), 0, "recorded work has run");
        // The graph knows all that the launches need.
        drop(coder);
        for seed in 0..4 {
            let raw = data::bytes(Kind::ALL[seed as usize % Kind::ALL.len()], raw.len(), seed);
            stream.upload(&raw, room.raw.region()).unwrap();
            launch(&graph, &stream, &room.back);
            assert!(room.bytes_back(&stream).unwrap() == raw);
            let frame_len = room.frame(&stream).unwrap().len() as u64;
            assert_eq!(room.estimated_len(&stream).unwrap(), frame_len);
        }
        assert_eq!(stub.count("launches"), 4 * 3);
    });
}

#[allow(unsafe_code)] // a graph's memory must be there
fn launch(graph: &mgcomp_codecs::device::Graph, stream: &Stream, _: &Buffer) {
    // SAFETY: the callers hold the buffers until they have waited.
    unsafe { graph.launch(stream) }.unwrap();
}

#[test]
fn a_graph_outlives_the_device_that_made_it() {
    with_stub("late::a_graph_outlives_the_device_that_made_it", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let raw = data::bytes(Kind::Sparse, 5000, 3);
        let (coder, room, mut workspace) = ready(&device, &stream, &raw);
        let compress = || coder.compress(&stream, &mut workspace, &[room.compress()]);
        let graph = stream.capture(compress).unwrap();
        drop((device, coder));
        launch(&graph, &stream, &room.coded);
        room.frame(&stream).unwrap();
    });
}

#[test]
fn what_waits_spoils_a_recording() {
    with_stub("late::what_waits_spoils_a_recording", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let raw = data::bytes(Kind::Sparse, 5000, 3);
        let (coder, room, mut workspace) = ready(&device, &stream, &raw);
        for spoil in [|s: &Stream, _: &Device| s.wait(), |_: &Stream, d: &Device| d.alloc(10).map(drop)] {
            let error = stream.capture(|| spoil(&stream, &device)).unwrap_err();
            assert!(matches!(error, DeviceError::Driver { code: 900, .. }), "{error}");
            let error = stream
                .capture(|| {
                    let _ = spoil(&stream, &device);
                    Ok::<(), DeviceError>(())
                })
                .unwrap_err();
            let invalid = DeviceError::Driver {
                call: "cuStreamEndCapture",
                code: 901,
                name: "CUDA_ERROR_STREAM_CAPTURE_INVALIDATED",
            };
            assert_eq!(error, invalid);
        }
        // Nor may another stream be asked or waited for, but where the thread has relaxed the rules.
        let aside = device.stream().unwrap();
        let ask = || aside.is_idle().and_then(|_| aside.wait()).and_then(|()| device.alloc(10).map(drop));
        let error = stream.capture(ask).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { code: 900, .. }), "{error}");
        // What is relaxed within ends there.
        stream.capture(|| device.relaxed(|| device.relaxed(ask).and_then(|()| ask()))).unwrap();
        stream.capture(ask).unwrap_err();
        device.relaxed(|| stream.capture(|| stream.is_idle().map(drop)).unwrap_err());
        // The stream is as good as before.
        coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap();
        room.frame(&stream).unwrap();
    });
}

#[test]
fn modules_and_graphs_come_and_go_beside_a_recording() {
    let test = "late::modules_and_graphs_come_and_go_beside_a_recording";
    with_stub(test, Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let library = Foreign::on(&device);
        let stream = device.stream().unwrap();
        let capture = || stream.capture(|| Ok::<(), DeviceError>(())).unwrap();
        let graph = capture();
        // It has kernels of its own.
        let other = rig::open();
        let coder = other.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let library_stream = library.stream();
        assert!(library_stream.records(|| drop(capture())));
        assert!(library_stream.records(|| drop(graph)));
        assert!(library_stream.records(|| drop((coder, other))));
    });
}

#[test]
fn memory_is_freed_beside_a_recording() {
    with_stub("late::memory_is_freed_beside_a_recording", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let library = Foreign::on(&device);
        let memory = (device.alloc(100).unwrap(), device.alloc_pinned(100).unwrap());
        assert!(library.stream().records(|| drop(memory)));
        assert!(!stub.left().contains("allocations"), "{}", stub.left());
    });
}

/// What is freed by strict rules must be found: this is the test of that check.
#[test]
fn memory_is_not_freed_by_strict_rules_beside_a_recording() {
    let test = "late::memory_is_not_freed_by_strict_rules_beside_a_recording";
    with_stub_that_keeps(test, Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let library = Foreign::on(&device);
        let block = library.block(100);
        let free = || catch_unwind(AssertUnwindSafe(|| drop(block))).expect_err("the library is refused");
        assert!(!library.stream().records(|| drop(free())), "the recording is spoiled");
        assert!(stub.left().contains("1 allocations"), "{}", stub.left());
    });
}

/// What the driver still copies from or to memory of the host, its borrower must not have back: to wait is allowed, whoever records.
#[test]
fn copies_of_host_memory_are_waited_for_beside_a_recording() {
    let test = "late::copies_of_host_memory_are_waited_for_beside_a_recording";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        stub.set("threads", 5);
        let device = rig::open();
        let (library, stream) = (Foreign::on(&device), device.stream().unwrap());
        let buffer = device.alloc(9000).unwrap();
        let there_and_back = |raw: &[u8]| {
            let mut back = vec![0; raw.len()];
            stream.upload(raw, buffer.region()).unwrap();
            stream.download(buffer.region(), &mut back).unwrap();
            assert!(back == raw);
        };
        let recording = library.stream();
        assert!(recording.records(|| there_and_back(&[7; 9000])));
        let beside = || {
            std::thread::scope(|scope| scope.spawn(|| there_and_back(&[8; 9000])).join().unwrap());
        };
        assert!(recording.records(beside), "by another thread than the one that records");
        // The stream that records is refused, and its copy never runs.
        let mut back = [0; 9000];
        let error = stream.capture(|| stream.upload(&[9; 9000], buffer.region())).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { code: 900, .. }), "{error}");
        let error = stream.capture(|| stream.download(buffer.region(), &mut back)).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { code: 900, .. }), "{error}");
        stream.download(buffer.region(), &mut back).unwrap();
        assert!(back == [8; 9000]);
        // The default stream is not waited for itself, which another thread's recording could refuse once the copy is under way.
        // SAFETY: null is the default stream.
        let default = unsafe { device.adopt_stream(std::ptr::null_mut()) };
        stub.fail(Some("cuEventRecord"), 1, 906);
        let error = default.upload(&[1; 9000], buffer.region()).unwrap_err();
        assert!(matches!(error, DeviceError::Driver { code: 906, .. }), "{error}");
        default.download(buffer.region(), &mut back).unwrap();
        assert!(back == [8; 9000], "nothing was copied");
        default.upload(&[2; 9000], buffer.region()).unwrap();
        default.download(buffer.region(), &mut back).unwrap();
        assert!(back == [2; 9000]);
    });
}

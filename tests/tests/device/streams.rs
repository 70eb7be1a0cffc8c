//! Streams with threads of their own: only what somebody has asked for is in order.

use std::time::Duration;

use mgcomp_codecs::device::{Cache, Device, DeviceError, Stream};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, ends, with_stub};

use crate::rig::{self, Room, download, upload};

#[test]
fn an_event_orders_streams() {
    with_stub("streams::an_event_orders_streams", Libraries::DriverAndCompiler, |stub| {
        for seed in 1..20 {
            stub.set("threads", seed);
            let device = rig::open();
            let raw = data::bytes(Kind::Mixed, 5000, seed);
            let streams: Vec<Stream> = (0..3).map(|_| device.stream().unwrap()).collect();
            let buffers: Vec<_> = (0..4).map(|_| device.alloc(raw.len() as u64).unwrap()).collect();
            streams[0].upload(&raw, buffers[0].region()).unwrap();
            // From stream to stream, and nobody waits before the end.
            let events: Vec<_> = streams.iter().map(|_| device.milestone().unwrap()).collect();
            for (i, stream) in streams.iter().enumerate() {
                if i > 0 {
                    stream.follow_event(&events[i - 1]).unwrap();
                }
                stream.copy(buffers[i].region(), buffers[i + 1].region()).unwrap();
                stream.record(&events[i]).unwrap();
            }
            events[2].wait().unwrap();
            assert!(download(&streams[2], buffers[3].region()).unwrap() == raw, "seed {seed}");
        }
    });
}

#[test]
fn nobody_waits_to_know_how_long_something_took() {
    let test = "streams::nobody_waits_to_know_how_long_something_took";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        stub.set("link_ns_per_kib", 1000);
        let (device, apart) = (rig::open(), Device::open_apart(0, Cache::Off).unwrap());
        let [stream, other, of_apart] = [&device, &device, &apart].map(|device| device.stream().unwrap());
        let (from, to) = (device.alloc(64 << 10).unwrap(), device.alloc(64 << 10).unwrap());
        let [start, end] = [(), ()].map(|()| stream.event().unwrap());
        assert!(start.is_of(&stream) && start.is_of(&other) && !start.is_of(&of_apart));
        assert!(end.since_if_over(&start).is_err(), "neither was recorded");
        stream.record(&start).unwrap();
        stream.copy(from.region(), to.region()).unwrap();
        stream.record(&end).unwrap();
        assert_eq!(end.since_if_over(&start), Ok(None));
        stream.wait().unwrap();
        let took = Ok(Some(Duration::from_micros(64)));
        assert_eq!(end.since_if_over(&start), took);
        // While another stream records it is asked by relaxed rules.
        let record = || {
            assert_eq!(device.relaxed(|| end.since_if_over(&start)), took);
            other.copy(from.region(), to.region())
        };
        other.capture(record).unwrap();
        let record = || end.since_if_over(&start).map(drop);
        assert!(other.capture(record).is_err(), "by strict ones that spoils the recording");
    });
}

#[test]
fn kernels_of_several_streams_run_at_once() {
    with_stub("streams::kernels_of_several_streams_run_at_once", Libraries::DriverAndCompiler, |stub| {
        stub.set("threads", 5);
        stub.set("strict_free", 1);
        let device = rig::open();
        let coder = device.coder(Algorithm::Bdi, ChunkSize::SMALL).unwrap();
        let start = |seed: u64| -> Result<_, DeviceError> {
            let stream = device.stream()?;
            let raw = data::bytes(Kind::Sparse, 9000, seed);
            let room = Room::new(&device, &stream, &coder, Element::U32, &raw)?;
            let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &[raw.len() as u64])?;
            coder.compress(&stream, &mut workspace, &[room.compress()])?;
            coder.decompress(&stream, &mut workspace, &[room.decompress()])?;
            Ok((stream, raw, room, workspace))
        };
        let started: Vec<_> = (0..4).map(|seed| start(seed).unwrap()).collect();
        for (stream, raw, room, _) in &started {
            assert!(room.bytes_back(stream).unwrap() == *raw);
        }
    });
}

#[test]
fn a_fault_ends_every_wait() {
    with_stub("streams::a_fault_ends_every_wait", Libraries::DriverAndCompiler, |stub| {
        stub.set("threads", 3);
        stub.set("faulty_launch", 1);
        let device = rig::open();
        let (first, second) = (device.stream().unwrap(), device.stream().unwrap());
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let room = Room::new(&device, &first, &coder, Element::U32, &[7; 100]).unwrap();
        let mut workspace = rig::workspace(&device, &first, ChunkSize::SMALL, &[100]).unwrap();
        let event = device.milestone().unwrap();
        // The fault may come before the next call or after it.
        let told = [
            coder.compress(&first, &mut workspace, &[room.compress()]),
            first.record(&event),
            second.follow_event(&event),
        ];
        assert!(told.iter().all(|told| told.as_ref().err().is_none_or(DeviceError::is_sticky)), "{told:?}");
        assert!(second.wait().unwrap_err().is_sticky());
        assert!(event.wait().unwrap_err().is_sticky());
        drop((room, workspace, event, second, first));
    });
}

/// What is freed too early must be found: this is the test of that check.
#[test]
fn memory_that_work_uses_is_not_freed_unnoticed() {
    const TEST: &str = "streams::memory_that_work_uses_is_not_freed_unnoticed";
    ends(TEST, "memory is freed that queued work uses", |stub| {
        stub.set("strict_free", 1);
        let device: Device = rig::open();
        let stream = device.stream().unwrap();
        let buffer = upload(&device, &stream, &[1; 100]).unwrap();
        stream.zero(buffer.region()).unwrap();
        drop(buffer);
    });
}

#[test]
#[allow(unsafe_code)] // borrows streams
fn streams_and_recordings_are_told_apart() {
    with_stub("streams::streams_and_recordings_are_told_apart", Libraries::DriverAndCompiler, |stub| {
        stub.set("devices", 2);
        let [first, second] = [0, 1].map(|ordinal| Device::open_with(ordinal, Cache::Off).unwrap());
        let again = first.clone();
        let streams = [&first, &first, &second].map(|device| device.stream().unwrap());
        let mut found: Vec<_> = streams.iter().map(|stream| stream.identity().unwrap()).collect();
        assert_eq!(streams[0].identity(), Some(found[0]));
        // One that is gone is no other one, whatever handle that gets.
        found.extend((0..20).map(|_| again.stream().unwrap().identity().unwrap()));
        let adopt = |device: &Device, handle: usize| {
            // SAFETY: the first two are always there, and the others outlive what is made of them.
            unsafe { device.adopt_stream(std::ptr::without_provenance_mut(handle)) }
        };
        // The legacy default stream, by both of its handles.
        assert_eq!(adopt(&first, 0).identity(), adopt(&again, 1).identity());
        found.extend([&first, &second].map(|device| adopt(device, 0).identity().unwrap()));
        assert_eq!(found.iter().collect::<std::collections::HashSet<_>>().len(), found.len());
        for unknown in [2, streams[0].as_raw().addr()] {
            assert_eq!(adopt(&first, unknown).identity(), None, "{unknown}");
        }
        assert!(streams[0].is_beside(&streams[1]) && !streams[0].is_beside(&streams[2]));

        let mut recordings = Vec::new();
        for _ in 0..2 {
            let record = || {
                streams[2].follow(&streams[0])?;
                assert_eq!(streams[2].recording()?, streams[0].recording()?);
                recordings.extend(streams[0].recording()?);
                assert_eq!(streams[1].recording()?, None);
                streams[0].follow(&streams[2])
            };
            streams[0].capture(record).unwrap();
            assert_eq!(streams[0].recording(), Ok(None));
        }
        assert!(recordings.len() == 2 && recordings[0] != recordings[1]);
        // One that is spoiled is one still.
        let spoil = || streams[0].wait().unwrap_err();
        let record = || {
            spoil();
            assert!(streams[0].recording()?.is_some());
            Ok::<(), DeviceError>(())
        };
        streams[0].capture(record).unwrap_err();
    });
}

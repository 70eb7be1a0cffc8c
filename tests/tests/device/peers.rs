//! Several devices of one process, and several contexts of one device.

use mgcomp_codecs::device::{Buffer, Cache, Device, DeviceError, Region, Stream, devices, holder};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, Stub, in_process, with_stub};

use crate::rig::{self, Room, download, upload};

/// Two devices, each with a stream.
fn two(stub: &Stub) -> [(Device, Stream); 2] {
    stub.set("devices", 2);
    [0, 1].map(|ordinal| {
        let device = Device::open_with(ordinal, Cache::Off).unwrap();
        let stream = device.stream().unwrap();
        (device, stream)
    })
}

fn code_of(error: &DeviceError) -> u32 {
    match error {
        DeviceError::Driver { code, .. } => *code,
        error => panic!("{error}"),
    }
}

#[test]
fn devices_are_told_apart() {
    with_stub("peers::devices_are_told_apart", Libraries::DriverAndCompiler, |stub| {
        let [(first, _), (second, _)] = two(stub);
        assert_eq!(devices().unwrap().iter().map(|info| info.ordinal).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(Device::open(2).unwrap_err(), DeviceError::NoDevice { ordinal: 2, count: 2 });
        let again = Device::open_with(0, Cache::Off).unwrap();
        let apart = Device::open_apart(0, Cache::Off).unwrap();
        assert!(first.is_same(&again) && first.context_id() == again.context_id());
        assert!(!first.is_same(&second) && !first.is_same(&apart));
        assert!(first.reach(&again).unwrap());
        // As a driver says of a device and itself.
        assert!(!first.reach(&apart).unwrap());
        for _ in 0..2 {
            assert!(first.reach(&second).unwrap() && second.reach(&first).unwrap());
        }
        stub.set("no_peers", 1);
        assert!(!first.reach(&second).unwrap());
    });
}

/// By its address alone: which device, and which of its contexts.
#[test]
fn whose_memory_it_is_is_known() {
    with_stub("peers::whose_memory_it_is_is_known", Libraries::DriverAndCompiler, |stub| {
        let boxed = Box::new(7u8);
        let on_host = std::ptr::from_ref(&*boxed) as u64;
        let [(first, _), (second, _)] = two(stub);
        let apart = Device::open_apart(1, Cache::Off).unwrap();
        let all = [&first, &second, &apart];
        let held_by = |region: Region<'_>| {
            let inside = holder(region.address() + region.len() - 1).unwrap();
            assert_eq!(inside, holder(region.address()).unwrap());
            inside.map(|holder| (holder.ordinal, all.map(|device| holder.is(device))))
        };
        let buffers = all.map(|device| device.alloc(1000).unwrap());
        assert_eq!(held_by(buffers[0].region()), Some((0, [true, false, false])));
        assert_eq!(held_by(buffers[1].region()), Some((1, [false, true, false])));
        assert_eq!(held_by(buffers[2].region()), Some((1, [false, false, true])));
        // What is mapped is of no context.
        #[cfg(target_os = "linux")]
        assert_eq!(
            held_by(second.alloc_shareable(1000).unwrap().region()),
            Some((1, [false, true, true])),
            "shareable memory"
        );
        let pinned = first.alloc_pinned(1000).unwrap();
        assert_eq!(holder(pinned.as_ptr() as u64), Ok(None));
        assert_eq!((holder(on_host), holder(0), holder(u64::MAX)), (Ok(None), Ok(None), Ok(None)));
        // Where the driver does not say, what the host can read is its own.
        for (code, address) in [(700, 0), (201, u64::MAX), (1, 8)] {
            stub.fail(Some("cuPointerGetAttributes"), 1, code);
            assert_eq!(holder(on_host), Ok(None));
            stub.fail(Some("cuPointerGetAttributes"), 1, code);
            let error = holder(address).unwrap_err();
            assert!(error.to_string().starts_with("cuPointerGetAttributes failed"), "{error}");
        }
    });
}

/// Nobody loads the driver to ask it.
#[test]
fn a_driver_that_is_loaded_late_is_asked() {
    in_process("peers::a_driver_that_is_loaded_late_is_asked", Libraries::DriverAndCompiler, || {
        let boxed = Box::new(7u8);
        let on_host = std::ptr::from_ref(&*boxed) as u64;
        for _ in 0..2 {
            assert_eq!(holder(on_host), Ok(None));
        }
        let maps = || std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
        assert!(!maps().contains("libcuda"));
        let device = Device::open_with(0, Cache::Off).unwrap();
        let buffer = device.alloc(1000).unwrap();
        assert!(holder(buffer.region().address()).unwrap().is_some_and(|holder| holder.is(&device)));
        assert_eq!(holder(on_host), Ok(None));
    });
}

#[test]
fn bytes_go_from_device_to_device() {
    with_stub("peers::bytes_go_from_device_to_device", Libraries::DriverAndCompiler, |stub| {
        // With peers and without, and between contexts of one device.
        for no_peers in [0, 1] {
            let [(first, stream), (second, there)] = two(stub);
            stub.set("no_peers", no_peers);
            let apart = Device::open_apart(1, Cache::Off).unwrap();
            let raw = data::bytes(Kind::Mixed, 9000, 1);
            let from = upload(&first, &stream, &raw).unwrap();
            let to = second.alloc(9000).unwrap();
            let last = apart.alloc(9000).unwrap();
            stream.copy_between((&first, from.region()), (&second, to.region())).unwrap();
            there.follow(&stream).unwrap();
            there.copy_between((&second, to.region()), (&apart, last.region())).unwrap();
            assert!(download(&there, last.region()).unwrap() == raw);
            let wrong = stream.copy_between((&second, from.region()), (&first, to.region())).unwrap_err();
            assert_eq!(code_of(&wrong), 1, "{wrong}");
            let short = stream.copy_between((&first, from.region()), (&second, to.slice(0..8999)));
            let what = "the destination of a copy";
            assert_eq!(short, Err(DeviceError::TooShort { what, needed: 9000, got: 8999 }));
        }
    });
}

/// The driver does not record its call for copies between devices, nor does the stub.
#[test]
#[allow(unsafe_code)] // launches a graph
fn copies_from_device_to_device_are_recorded() {
    with_stub("peers::copies_from_device_to_device_are_recorded", Libraries::DriverAndCompiler, |stub| {
        let [(first, stream), (second, _)] = two(stub);
        let [from, beside] = [9000, 9000].map(|len| first.alloc(len).unwrap());
        let to = second.alloc(9000).unwrap();
        let graph = stream
            .capture(|| {
                stream.copy_between((&first, from.region()), (&first, beside.region()))?;
                stream.copy_between((&first, beside.region()), (&second, to.region()))
            })
            .unwrap();
        for seed in 0..3 {
            let raw = data::bytes(Kind::Mixed, 9000, seed);
            stream.upload(&raw, from.region()).unwrap();
            // SAFETY: the buffers outlive the work, which is waited for.
            unsafe { graph.launch(&stream).unwrap() };
            assert!(download(&stream, to.region()).unwrap() == raw);
        }
    });
}

#[test]
fn what_belongs_to_another_device_is_refused() {
    with_stub("peers::what_belongs_to_another_device_is_refused", Libraries::DriverAndCompiler, |stub| {
        let [(first, stream), (second, there)] = two(stub);
        let coder = first.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let room = Room::new(&first, &stream, &coder, Element::U32, &[7; 5000]).unwrap();
        let mut workspace = rig::workspace(&first, &there, ChunkSize::SMALL, &[5000]).unwrap();
        let error = coder.compress(&there, &mut workspace, &[room.compress()]).unwrap_err();
        assert_eq!(code_of(&error), 400, "{error}");
        let error = stream.record(&second.milestone().unwrap()).unwrap_err();
        assert_eq!(code_of(&error), 400, "{error}");
    });
}

/// A coder of the first device that is to write into the memory of the second.
fn encode_into_peer(first: &Device, stream: &Stream, coded: &Buffer) -> Result<(), DeviceError> {
    let coder = first.coder(Algorithm::Zvc, ChunkSize::SMALL)?;
    let room = Room::new(first, stream, &coder, Element::U32, &[7; 5000])?;
    let mut workspace = rig::workspace(first, stream, ChunkSize::SMALL, &[5000])?;
    let mut job = room.compress();
    job.dst = coded.region();
    coder.compress(stream, &mut workspace, &[job])?;
    stream.wait()
}

#[test]
fn kernels_use_the_memory_of_peers_they_reach_and_no_other() {
    let test = "peers::kernels_use_the_memory_of_peers_they_reach_and_no_other";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let [(first, stream), (second, _)] = two(stub);
        let coded = second.alloc(6000).unwrap();
        assert!(first.reach(&second).unwrap());
        encode_into_peer(&first, &stream, &coded).unwrap();
        let apart = Device::open_apart(1, Cache::Off).unwrap();
        let coded = apart.alloc(6000).unwrap();
        let error = encode_into_peer(&first, &stream, &coded).unwrap_err();
        assert_eq!(code_of(&error), 700, "{error}");
    });
}

/// Copies `steps[0]` to `steps[1]` on one stream and on to `steps[2]` on another.
fn relay(streams: [&Stream; 2], steps: &[Buffer; 3], ordered: bool) -> Result<(), DeviceError> {
    streams[1].follow(streams[0])?; // recorded too from here on
    streams[0].copy(steps[0].region(), steps[1].region())?;
    if ordered {
        streams[1].follow(streams[0])?;
    }
    streams[1].copy(steps[1].region(), steps[2].region())?;
    streams[0].follow(streams[1])
}

#[test]
#[allow(unsafe_code)] // launches graphs
fn streams_of_several_devices_are_recorded_together() {
    let test = "peers::streams_of_several_devices_are_recorded_together";
    with_stub(test, Libraries::DriverAndCompiler, |stub| {
        let [(first, stream), (second, there)] = two(stub);
        for ordered in [true, false] {
            let steps = [0, 1, 2].map(|_| second.alloc(100).unwrap());
            let graph = stream.capture(|| relay([&stream, &there], &steps, ordered)).unwrap();
            let mut wrong = 0;
            for round in 0..50 {
                stream.upload(&[round; 100], steps[0].region()).unwrap();
                // SAFETY: the buffers live until the end, and the stream is waited for.
                unsafe { graph.launch(&stream) }.unwrap();
                let got = download(&stream, steps[2].region()).unwrap();
                wrong += u32::from(got != [round; 100]);
            }
            assert_eq!(wrong == 0, ordered, "{wrong} of 50 launches went wrong");
        }
        drop(first);
    });
}

#[test]
fn recordings_that_are_not_whole_are_refused() {
    with_stub("peers::recordings_that_are_not_whole_are_refused", Libraries::DriverAndCompiler, |stub| {
        let [(first, stream), (second, there)] = two(stub);
        let buffer = second.alloc(100).unwrap();
        // The other stream goes its own way.
        let error = stream
            .capture(|| {
                there.follow(&stream)?;
                there.zero(buffer.region())
            })
            .unwrap_err();
        assert_eq!(code_of(&error), 904, "{error}");
        // What is recorded would wait for what is not.
        let before = first.milestone().unwrap();
        stream.record(&before).unwrap();
        let error = stream.capture(|| stream.follow_event(&before)).unwrap_err();
        assert_eq!(code_of(&error), 905, "{error}");
        // Somebody else's recording.
        let error = stream.capture(|| there.capture(|| there.follow(&stream)).map(drop)).unwrap_err();
        assert_eq!(code_of(&error), 902, "{error}");
        // The streams are as good as before.
        there.zero(buffer.region()).unwrap();
        stream.follow(&there).unwrap();
        assert_eq!(download(&stream, buffer.region()).unwrap(), [0; 100]);
    });
}

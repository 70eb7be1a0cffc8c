//! Every call of the driver can fail, and then there is an error that names it, and nothing is left behind.

use mgcomp_codecs::device::{Cache, Device, DeviceError, Origin, Region, Stream, devices};
use mgcomp_codecs::frame::ChunkSize;
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, with_stub};

use crate::rig::{self, OUT_OF_MEMORY, Room};

/// Whether a call gives something back, or may be there to give something back. Such errors have nobody to go to.
fn is_release(call: &str) -> bool {
    // The mode of a thread is exchanged for that; where it cannot be, all is as it was.
    [
        "Release",
        "Push",
        "Pop",
        "Free",
        "Unload",
        "Unmap",
        "CtxSynchronize",
        "Destroy",
        "Close",
        "ExchangeStreamCaptureMode",
    ]
    .iter()
    .any(|part| call.contains(part))
}

/// What the host can do with two devices.
#[allow(unsafe_code)] // opens what is no handle
fn everything_between(device: &Device, stream: &Stream, from: Region<'_>) -> Result<(), DeviceError> {
    let apart = Device::open_apart(0, Cache::Off)?;
    let other = Device::open_with(1, Cache::Off)?;
    assert!(other.reach(device)? && !apart.reach(device)?);
    let (there, to) = (other.stream()?, other.alloc(from.len())?);
    stream.copy_between((device, from), (&other, to.region()))?;
    there.follow(stream)?;
    let words = other.alloc(8)?;
    there.post(words.region().word(0), 1)?;
    there.wait_for(words.region().word(0), 1)?;
    there.wait()?;
    let (memory, event) = (to.export()?, other.shared_milestone()?.export()?);
    #[cfg(target_os = "linux")]
    {
        let shareable = other.alloc_shareable(from.len())?;
        let mapped = device.map_shareable(shareable.export()?, from.len())?;
        stream.copy(from, mapped.region())?;
        stream.wait()?;
    }
    // SAFETY: it cannot be opened here.
    refused(unsafe { device.import(&memory, 1) })?;
    refused(device.import_event(&event))
}

/// A handle of this process's own, which it cannot open.
fn refused<T>(result: Result<T, DeviceError>) -> Result<(), DeviceError> {
    match result {
        Err(DeviceError::Driver { code: 201, .. }) => Ok(()),
        Err(error) => Err(error),
        Ok(_) => panic!("opened"),
    }
}

/// Everything that the host can do with a device.
#[allow(unsafe_code)] // launches a graph
fn everything(raw: &[u8]) -> Result<Vec<u8>, DeviceError> {
    let count = devices()?.len();
    let device = Device::open_with(count as u32 - 2, Cache::Off)?;
    let (stream, second) = (device.stream()?, device.stream()?);
    let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL)?;
    let room = Room::new(&device, &stream, &coder, Element::U32, raw)?;
    let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &[raw.len() as u64])?;
    let graph = stream.capture(|| {
        assert!(stream.recording()?.is_some());
        coder.compress(&stream, &mut workspace, &[room.compress()])
    })?;
    // SAFETY: the buffers live until the end, which waits.
    unsafe { graph.launch(&stream)? };
    while !stream.is_idle()? {}
    coder.estimate(&stream, &mut workspace, &[room.estimate()])?;
    coder.decompress(&stream, &mut workspace, &[room.decompress()])?;
    second.follow(&stream)?;
    let copy = device.alloc(raw.len() as u64)?;
    let pinned = device.alloc_pinned(raw.len() as u64)?;
    let (start, end) = (device.event()?, device.event()?);
    second.record(&start)?;
    second.copy(room.back.region(), pinned.region())?;
    second.copy(pinned.region(), copy.region())?;
    second.record(&end)?;
    let milestone = device.milestone()?;
    second.record(&milestone)?;
    milestone.wait()?;
    let copied = rig::download(&second, copy.region())?;
    end.since(&start)?;
    everything_between(&device, &second, copy.region())?;
    Ok(copied)
}

#[test]
fn every_call_may_fail() {
    with_stub("failures::every_call_may_fail", Libraries::DriverAndCompiler, |stub| {
        stub.set("devices", 2);
        let raw = data::bytes(Kind::Sparse, 5000, 5);
        let mut called = std::collections::BTreeSet::new();
        for at in 1.. {
            stub.fail(None, at, OUT_OF_MEMORY);
            let result = everything(&raw);
            let failed = stub.failed();
            stub.fail(None, 0, 0);
            assert_eq!(stub.left(), "", "after call {at}, {failed:?}");
            let Some(failed) = failed else {
                assert!(result.unwrap() == raw);
                break;
            };
            match result {
                Ok(back) => assert!(is_release(&failed) && back == raw, "call {at}, {failed}"),
                Err(error) => {
                    let name = "CUDA_ERROR_OUT_OF_MEMORY";
                    let DeviceError::Driver { call, code, name: got } = error else { panic!("{error}") };
                    assert_eq!((call, code, got), (failed.as_str(), OUT_OF_MEMORY, name), "call {at}");
                }
            }
            called.insert(failed);
        }
        // All that the host ever calls, but for the names of errors and what is for memory of other processes.
        assert_eq!(called.len(), 66, "{called:?}");
    });
}

#[test]
fn memory_runs_out() {
    with_stub("failures::memory_runs_out", Libraries::DriverAndCompiler, |stub| {
        stub.set("memory_len", 100_000);
        let device = rig::open();
        let first = device.alloc(60_000).unwrap();
        let error = device.alloc(60_000).unwrap_err();
        assert!(error.is_out_of_memory() && !error.is_sticky(), "{error}");
        let text = "cuMemAlloc_v2 failed: CUDA error 2 (CUDA_ERROR_OUT_OF_MEMORY)";
        assert_eq!(error.to_string(), text);
        assert!(device.alloc(u64::MAX).unwrap_err().is_out_of_memory());
        drop(first);
        device.alloc(60_000).unwrap();
    });
}

#[test]
fn a_fault_of_a_kernel_loses_the_context() {
    with_stub("failures::a_fault_of_a_kernel_loses_the_context", Libraries::DriverAndCompiler, |stub| {
        stub.set("faulty_launch", 2);
        let raw = data::bytes(Kind::Sparse, 5000, 5);
        let device = rig::open();
        let stream = device.stream().unwrap();
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let room = Room::new(&device, &stream, &coder, Element::U32, &raw).unwrap();
        let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &[raw.len() as u64]).unwrap();
        coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap();
        coder.decompress(&stream, &mut workspace, &[room.decompress()]).unwrap();
        let error = stream.wait().unwrap_err();
        assert!(error.is_sticky(), "{error}");
        let text = "cuStreamSynchronize failed: CUDA error 700 (CUDA_ERROR_ILLEGAL_ADDRESS)";
        assert_eq!(error.to_string(), text);
        for error in [
            stream.is_idle().map(drop).unwrap_err(),
            device.alloc(1).map(drop).unwrap_err(),
            device.stream().map(drop).unwrap_err(),
            device.coder(Algorithm::Zvc, ChunkSize::LARGE).map(drop).unwrap_err(),
            coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap_err(),
            Device::open(0).map(drop).unwrap_err(),
        ] {
            assert!(error.is_sticky(), "{error}");
        }
        // What is given back now is gone with the context; the stub's count is of this process.
        drop((room, workspace, coder, stream, device));
    });
}

#[test]
fn what_the_driver_does_not_name_has_its_number() {
    with_stub(
        "failures::what_the_driver_does_not_name_has_its_number",
        Libraries::DriverAndCompiler,
        |stub| {
            let device = rig::open();
            assert_eq!(device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap().origin(), Origin::Compiled);
            stub.fail(Some("cuStreamCreate"), 1, 4242);
            let error = device.stream().unwrap_err();
            assert_eq!(error, DeviceError::Driver { call: "cuStreamCreate", code: 4242, name: "unknown" });
        },
    );
}

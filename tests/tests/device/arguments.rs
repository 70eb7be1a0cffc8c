//! What is wrong with the regions of a call is an error of the call, and nothing is enqueued.
#![allow(unsafe_code)] // regions that nobody has

use mgcomp_codecs::device::{Cache, Device, DeviceError, Region, Workspace, workspace_len};
use mgcomp_codecs::frame::{ChunkSize, MAX_RAW_LEN};
use mgcomp_codecs::{Algorithm, Element};
use mgcomp_tests::stub::{Libraries, with_stub};

use crate::rig::{self, Room};

/// A region at an address where nothing is.
fn nowhere(address: u64, len: u64) -> Region<'static> {
    // SAFETY: calls with it fail before anything is enqueued, as the tests show.
    unsafe { Region::from_raw(address, len) }
}

#[test]
fn regions_must_fit() {
    with_stub("arguments::regions_must_fit", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let raw = vec![7; 5000];
        let good = Room::new(&device, &stream, &coder, Element::U32, &raw).unwrap();
        let lens = [raw.len() as u64];
        let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &lens).unwrap();
        stream.wait().unwrap();

        // Header, table entries of two chunks, raw bytes.
        let needed = 16 + 16 + 5008;
        let (at, dst_len) = (good.coded.region().address(), good.coded.region().len());
        assert_eq!((coder.max_frame_len(5000), dst_len), (needed, needed));
        let too_long = DeviceError::TooLong { what: "the source", limit: MAX_RAW_LEN, got: MAX_RAW_LEN + 1 };

        let mut job = good.compress();
        job.dst = good.coded.slice(0..needed - 1);
        let short = DeviceError::TooShort { what: "the destination of a frame", needed, got: needed - 1 };
        // The good one before it is not enqueued either.
        let jobs = [good.compress(), job];
        assert_eq!(coder.compress(&stream, &mut workspace, &jobs), Err(short));
        job.dst = nowhere(at + 8, needed);
        let misaligned =
            DeviceError::Misaligned { what: "the destination of a frame", address: at + 8, align: 16 };
        assert_eq!(coder.compress(&stream, &mut workspace, &[job]), Err(misaligned));
        job.src = nowhere(at, MAX_RAW_LEN + 1);
        assert_eq!(coder.compress(&stream, &mut workspace, &[job]), Err(too_long.clone()));

        let mut job = good.decompress();
        job.src = nowhere(at + 1, 100);
        let misaligned = DeviceError::Misaligned { what: "a frame", address: at + 1, align: 16 };
        assert_eq!(coder.decompress(&stream, &mut workspace, &[job]), Err(misaligned));

        let mut job = good.estimate();
        job.src = nowhere(at, MAX_RAW_LEN + 1);
        assert_eq!(coder.estimate(&stream, &mut workspace, &[job]), Err(too_long));
        job = good.estimate();
        job.len = nowhere(at, 100).word(4);
        let misaligned = DeviceError::Misaligned { what: "the length", address: at + 4, align: 8 };
        assert_eq!(coder.estimate(&stream, &mut workspace, &[job]), Err(misaligned));

        assert!(stream.is_idle().unwrap());
        assert_eq!(stub.count("launches"), 0);
    });
}

#[test]
fn a_workspace_must_fit() {
    with_stub("arguments::a_workspace_must_fit", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let (stream, other) = (device.stream().unwrap(), device.stream().unwrap());
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let room = Room::new(&device, &stream, &coder, Element::U32, &[7; 5000]).unwrap();

        let needed = workspace_len(ChunkSize::SMALL, &[5000]);
        // One word for each of two chunks.
        assert_eq!(needed, workspace_len(ChunkSize::SMALL, &[]) + 16);
        let mut short = device.workspace(&stream, needed - 1).unwrap();
        let error = DeviceError::TooShort { what: "the workspace", needed, got: needed - 1 };
        assert_eq!(coder.compress(&stream, &mut short, &[room.compress()]), Err(error));
        // It is long enough for what does not look back.
        coder.estimate(&stream, &mut short, &[room.estimate()]).unwrap();

        let mut foreign = device.workspace(&other, needed).unwrap();
        let result = coder.compress(&stream, &mut foreign, &[room.compress()]);
        assert_eq!(result, Err(DeviceError::OtherStream));

        // SAFETY: calls with it fail before anything is enqueued.
        let mut odd = unsafe { Workspace::from_region(nowhere(12, needed)) };
        let error = DeviceError::Misaligned { what: "the workspace", address: 12, align: 8 };
        assert_eq!(coder.compress(&stream, &mut odd, &[room.compress()]), Err(error));

        // Somebody else's memory.
        let memory = device.alloc(needed).unwrap();
        stream.zero(memory.region()).unwrap();
        // SAFETY: the memory is zero when the stream's next work runs, and nobody else writes to it.
        let mut own = unsafe { Workspace::from_region(memory.region()) };
        coder.compress(&stream, &mut own, &[room.compress()]).unwrap();
        room.frame(&stream).unwrap();
        let left = rig::download(&stream, memory.region()).unwrap();
        assert!(left.iter().all(|&byte| byte == 0), "the workspace is not zero again");
    });
}

/// The default streams of all contexts have one handle, and work on them at once.
#[test]
fn a_workspace_is_of_one_context() {
    with_stub("arguments::a_workspace_is_of_one_context", Libraries::DriverAndCompiler, |_| {
        let [first, second] = [rig::open(), Device::open_apart(0, Cache::Off).unwrap()];
        // SAFETY: default streams are always there.
        let adopt = |device: &Device| unsafe { device.adopt_stream(std::ptr::null_mut()) };
        let (there, stream) = (adopt(&first), adopt(&second));
        let coder = second.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let room = Room::new(&second, &stream, &coder, Element::U32, &[7; 5000]).unwrap();
        let needed = workspace_len(ChunkSize::SMALL, &[5000]);

        let mut foreign = first.workspace(&there, needed).unwrap();
        let result = coder.compress(&stream, &mut foreign, &[room.compress()]);
        assert_eq!(result, Err(DeviceError::OtherStream));
        there.wait().unwrap();

        let mut own = second.workspace(&stream, needed).unwrap();
        coder.compress(&adopt(&second), &mut own, &[room.compress()]).unwrap();
        room.frame(&stream).unwrap();
    });
}

#[test]
fn copies_must_fit() {
    with_stub("arguments::copies_must_fit", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let buffer = device.alloc(10).unwrap();
        let short = |what| Err(DeviceError::TooShort { what, needed: 11, got: 10 });
        assert_eq!(stream.upload(&[0; 11], buffer.region()), short("the destination of an upload"));
        assert_eq!(stream.download(buffer.region(), &mut [0; 11]), short("the source of a download"));
        let longer = device.alloc(11).unwrap();
        assert_eq!(stream.copy(longer.region(), buffer.region()), short("the destination of a copy"));
        let copied = buffer.region().slice(4..10);
        stream.upload(b"abcdef", copied).unwrap();
        assert_eq!(rig::download(&stream, copied).unwrap(), b"abcdef");
        for (start, end) in [(4, 11), (5, 4)] {
            assert!(std::panic::catch_unwind(|| buffer.slice(start..end)).is_err());
        }
    });
}

//! Buffers go through the device and come back; frames are those of the portable codecs.

use mgcomp_codecs::device::{Device, Status, Stream};
use mgcomp_codecs::frame::{self, ChunkSize, Options};
use mgcomp_codecs::{Algorithm, Cpu, Element, codec_on};
use mgcomp_tests::data::{self, Kind};
use mgcomp_tests::stub::{Libraries, Stub, with_stub};

use crate::rig::{self, Room};

fn portable_frame(algorithm: Algorithm, element: Element, raw: &[u8], chunk_size: ChunkSize) -> Vec<u8> {
    let codec = codec_on(Cpu::Portable, algorithm).unwrap();
    frame::encode(codec, element, raw, Options { chunk_size, checksum: false }).unwrap()
}

/// Compresses, decompresses and estimates `buffers`, each in one call.
fn round_trip(
    device: &Device,
    stream: &Stream,
    algorithm: Algorithm,
    chunk_size: ChunkSize,
    buffers: &[(Element, Vec<u8>)],
) {
    let coder = device.coder(algorithm, chunk_size).unwrap();
    let raw_lens: Vec<u64> = buffers.iter().map(|(_, raw)| raw.len() as u64).collect();
    let mut workspace = rig::workspace(device, stream, chunk_size, &raw_lens).unwrap();
    let rooms: Vec<Room> = buffers
        .iter()
        .map(|(element, raw)| Room::new(device, stream, &coder, *element, raw).unwrap())
        .collect();

    let compress: Vec<_> = rooms.iter().map(Room::compress).collect();
    let decompress: Vec<_> = rooms.iter().map(Room::decompress).collect();
    let estimate: Vec<_> = rooms.iter().map(Room::estimate).collect();
    coder.compress(stream, &mut workspace, &compress).unwrap();
    coder.decompress(stream, &mut workspace, &decompress).unwrap();
    coder.estimate(stream, &mut workspace, &estimate).unwrap();

    for (room, (element, raw)) in rooms.iter().zip(buffers) {
        let what = format!("{algorithm} {element} {} bytes", raw.len());
        let expected = portable_frame(algorithm, *element, raw, chunk_size);
        assert!(room.frame(stream).unwrap() == expected, "{what}: another frame");
        assert!(room.bytes_back(stream).unwrap() == *raw, "{what}: other bytes");
        assert_eq!(room.estimated_len(stream).unwrap(), expected.len() as u64, "{what}");
    }
}

#[test]
fn every_algorithm_and_element() {
    with_stub("round_trips::every_algorithm_and_element", Libraries::DriverAndCompiler, |stub: &Stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        for (n, algorithm) in rig::algorithms().into_iter().enumerate() {
            stub.set("lane_order", n as u64 % 3);
            let buffers: Vec<_> = Element::ALL
                .into_iter()
                .zip(Kind::ALL.into_iter().cycle())
                .zip([0, 1, 4095, 4096, 4097, 12_345, 40_000].into_iter().cycle())
                .map(|((element, kind), len)| (element, data::bytes(kind, len, len as u64)))
                .collect();
            for chunk_size in [ChunkSize::SMALL, ChunkSize::DEFAULT, ChunkSize::LARGE] {
                round_trip(&device, &stream, algorithm, chunk_size, &buffers);
            }
        }
    });
}

#[test]
fn more_buffers_than_a_launch_takes() {
    with_stub("round_trips::more_buffers_than_a_launch_takes", Libraries::DriverAndCompiler, |stub| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let buffers: Vec<_> = (0..130)
            .map(|n| (Element::U16, data::bytes(Kind::ALL[n % Kind::ALL.len()], 97 * n % 5000, n as u64)))
            .collect();
        round_trip(&device, &stream, Algorithm::Zvc, ChunkSize::SMALL, &buffers);
        assert_eq!(stub.count("launches"), 3 * 3);
        round_trip(&device, &stream, Algorithm::Zvc, ChunkSize::SMALL, &[]);
        assert_eq!(stub.count("launches"), 3 * 3);
    });
}

#[test]
fn frames_that_are_none_give_a_status() {
    with_stub("round_trips::frames_that_are_none_give_a_status", Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let stream = device.stream().unwrap();
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &[]).unwrap();
        let raw = data::bytes(Kind::Sparse, 9000, 1);
        let good = portable_frame(Algorithm::Zvc, Element::U32, &raw, ChunkSize::SMALL);
        let mut bad_magic = good.clone();
        bad_magic[0] ^= 1;
        let mut bad_table = good.clone();
        bad_table[16 + 4] = 0;
        let cases = [
            (&good[..], "all is well"),
            (&bad_magic[..], "chunk 0: The first two bytes are not `MG` (status 4)"),
            (&bad_table[..], "chunk 1: A table entry not behind the one before it, "),
            (&good[..good.len() - 16], "chunk 2: The frame ends before its header, "),
        ];
        for (frame, expected) in cases {
            let room = Room::new(&device, &stream, &coder, Element::U32, &raw).unwrap();
            let frame = rig::upload(&device, &stream, frame).unwrap();
            let mut job = room.decompress();
            job.src = frame.region();
            job.src_len = None;
            coder.decompress(&stream, &mut workspace, &[job]).unwrap();
            let status = Status::from_word(stream.read(job.status).unwrap());
            let text = status.check().map_or_else(|refused| refused.to_string(), |()| "all is well".into());
            assert!(text.starts_with(expected), "{text:?}, not {expected:?}");
        }
    });
}

#[test]
fn the_grid_stays_within_its_share() {
    with_stub("round_trips::the_grid_stays_within_its_share", Libraries::DriverAndCompiler, |stub| {
        stub.set("sm_count", 10);
        // Room for four blocks on each multiprocessor: two buffers of 4 KiB, 512 bytes of scratch, 1 KiB of its own.
        stub.set("shared_len", 4 * (8192 + 512 + 1024));
        let device = rig::open();
        let stream = device.stream().unwrap();
        let coder = device.coder(Algorithm::Zvc, ChunkSize::SMALL).unwrap();
        let raw = data::bytes(Kind::Mixed, 50 * 4096, 7);
        let room = Room::new(&device, &stream, &coder, Element::U8, &raw).unwrap();
        let mut workspace = rig::workspace(&device, &stream, ChunkSize::SMALL, &[raw.len() as u64]).unwrap();
        for (limit, blocks) in [(None, 40), (Some(20), 40), (Some(3), 12), (Some(1), 4), (Some(0), 4)] {
            let coder = limit.map_or(coder.clone(), |limit| coder.clone().limit_sms(limit));
            coder.compress(&stream, &mut workspace, &[room.compress()]).unwrap();
            let frame = room.frame(&stream).unwrap();
            assert_eq!(stub.count("grid"), blocks, "{limit:?}");
            assert!(
                frame == portable_frame(Algorithm::Zvc, Element::U8, &raw, ChunkSize::SMALL),
                "{limit:?}"
            );
        }
        // Fewer chunks than blocks.
        let mut few = room.compress();
        few.src = room.raw.slice(0..5000);
        coder.compress(&stream, &mut workspace, &[few]).unwrap();
        stream.wait().unwrap();
        assert_eq!(stub.count("grid"), 2);
    });
}

#[test]
#[allow(unsafe_code)] // a stream of somebody else
fn streams_of_others_are_used_and_left_alone() {
    let test = "round_trips::streams_of_others_are_used_and_left_alone";
    with_stub(test, Libraries::DriverAndCompiler, |_| {
        let device = rig::open();
        let theirs = device.stream().unwrap();
        let buffers = [(Element::F32, data::bytes(Kind::Sparse, 9000, 4))];
        // SAFETY: a stream of the device that outlives this one.
        let adopted = unsafe { device.adopt_stream(theirs.as_raw()) };
        assert_eq!(adopted.as_raw(), theirs.as_raw());
        round_trip(&device, &adopted, Algorithm::Zvc, ChunkSize::SMALL, &buffers);
        drop(adopted);
        // Whoever adopts a stream does not destroy it.
        round_trip(&device, &theirs, Algorithm::Zvc, ChunkSize::SMALL, &buffers);
    });
}

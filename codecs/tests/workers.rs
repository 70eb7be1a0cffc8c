//! Several threads on one frame: the same bytes, the same errors, whatever the number of threads.

mod common;

use std::sync::Mutex;

use common::{Random, codec_of, data};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, FrameError, MAX_THREADS, Options, Workers, WorkersError};
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Element, codecs};

const THREADS: [usize; 4] = [1, 2, 3, 8];

fn mixed(len: usize) -> Vec<u8> {
    let (_, mixed) = data::KINDS[data::KINDS.len() - 1];
    mixed(&mut Random(30), len)
}

#[test]
fn frames_are_the_same_for_any_number_of_threads() {
    // The last is written past the caches.
    for len in [0, 1, 4096, 32_768, 32_769, 300_001, (8 << 20) + 777] {
        let raw = mixed(len);
        let options = Options { chunk_size: ChunkSize::for_len(len), checksum: true };
        let algorithms =
            if len < 1 << 20 { codecs().map(Codec::algorithm).collect() } else { vec![Algorithm::Zvc] };
        for codec in algorithms.into_iter().map(codec_of) {
            let expected = frame::encode(codec, Element::F32, &raw, options).unwrap();
            let parsed = Frame::parse(&expected).unwrap();
            for workers in THREADS.map(|threads| Workers::new(threads).unwrap()) {
                let mut room = vec![0xaa; frame::max_frame_len(len, options)];
                let len = workers.encode_to(codec, Element::F32, &raw, options, &mut room, &|_| {}).unwrap();
                assert!(room[..len] == expected, "{} {} threads", codec.algorithm(), workers.threads());
                let mut decoded = vec![0x55; raw.len()];
                workers.decode_into(&parsed, &mut decoded).unwrap();
                assert!(decoded == raw, "{} {} threads", codec.algorithm(), workers.threads());
            }
        }
    }
}

#[test]
fn every_raw_byte_is_reported_once() {
    let raw = mixed(1 << 20);
    let options = Options::for_len(raw.len());
    let workers = Workers::new(3).unwrap();
    let reported = Mutex::new(Vec::new());
    let mut room = vec![0; frame::max_frame_len(raw.len(), options)];
    let progress = |done| reported.lock().unwrap().push(done);
    workers.encode_to(codec_of(Algorithm::Bdi), Element::U8, &raw, options, &mut room, &progress).unwrap();
    let mut reported = reported.into_inner().unwrap();
    let reports = reported.len();
    reported.sort_unstable();
    reported.dedup();
    assert_eq!(reported.len(), reports);
    // One for each batch; the longest has 256 KiB.
    assert!((4..=64).contains(&reported.len()), "{reported:?}");
    assert_eq!(reported.last(), Some(&(1 << 20)));
}

#[test]
fn the_first_damaged_chunk_is_named_by_any_number_of_threads() {
    let raw = mixed(600_000);
    let options = Options::for_len(raw.len());
    let mut bytes = frame::encode(codec_of(Algorithm::Zvc), Element::U32, &raw, options).unwrap();
    let entry = |chunk: usize| 16 + 8 * chunk + 4;
    for chunk in [30, 9, 22] {
        bytes[entry(chunk)] ^= 1; // its checksum
    }
    let parsed = Frame::parse(&bytes).unwrap();
    for threads in THREADS {
        let workers = Workers::new(threads).unwrap();
        for _ in 0..20 {
            let error = workers.decode_into(&parsed, &mut vec![0; raw.len()]).unwrap_err();
            assert!(matches!(error, FrameError::Checksum { chunk: 9, .. }), "{threads} threads: {error}");
        }
    }
}

#[test]
fn a_buffer_that_is_too_short_is_refused() {
    let raw = mixed(10_000);
    let options = Options::for_len(raw.len());
    let needed = frame::max_frame_len(raw.len(), options);
    let workers = Workers::new(2).unwrap();
    let codec = codec_of(Algorithm::Fpc);
    let error =
        workers.encode_to(codec, Element::U8, &raw, options, &mut vec![0; needed - 1], &|_| {}).unwrap_err();
    assert_eq!(error, FrameError::Room { needed: needed as u64, got: needed as u64 - 1 });
    let bytes = frame::encode(codec, Element::U8, &raw, options).unwrap();
    let error = workers.decode_into(&Frame::parse(&bytes).unwrap(), &mut [0; 9_999]).unwrap_err();
    assert_eq!(error, FrameError::Destination { raw_len: 10_000, destination: 9_999 });
}

#[test]
fn no_thread_and_too_many_are_refused() {
    for threads in [0, MAX_THREADS + 1, usize::MAX] {
        let error = Workers::new(threads).unwrap_err();
        assert!(matches!(error, WorkersError::Number { threads: named } if named == threads), "{error}");
    }
}

#[test]
fn damaged_raw_chunks_of_large_frames_are_named() {
    let mut random = Random(31);
    // Four chunks of zeros, raw ones, and a last one of 1000 bytes with 8 of padding behind it.
    let mut raw = vec![0; 64 << 10];
    raw.extend((0..(8 << 20) / 8 + 125).flat_map(|_| random.next().to_le_bytes()));
    let options = Options { chunk_size: ChunkSize::for_len(raw.len()), checksum: true };
    let frame = frame::encode(codec_of(Algorithm::Zvc), Element::U8, &raw, options).unwrap();
    let parsed = Frame::parse(&frame).unwrap();
    let last = parsed.header().chunks() - 1;
    assert_eq!(parsed.chunk(last).raw_len, 1000);
    for chunk in [4, 77, last].map(|index| parsed.chunk(index)) {
        assert!(chunk.is_raw(), "chunk {}", chunk.index);
        let mut damaged = frame.clone();
        damaged[chunk.offset + 999] ^= 1;
        let error = Frame::parse(&damaged).unwrap().decode_into(&mut raw.clone()).unwrap_err();
        assert!(
            matches!(error, FrameError::Checksum { chunk: index, offset, .. }
                if index == chunk.index && offset == chunk.offset as u64),
            "{error}"
        );
    }
    let mut damaged = frame.clone();
    *damaged.last_mut().unwrap() = 7;
    let error = Frame::parse(&damaged).unwrap().decode_into(&mut raw.clone()).unwrap_err();
    assert_eq!(error, FrameError::Reserved { offset: frame.len() as u64 - 1, got: 7 });
}

/// Panics at the chunk that starts with a certain byte.
struct Fragile;

impl Codec for Fragile {
    fn algorithm(&self) -> Algorithm {
        Algorithm::Zvc
    }

    fn max_chunk_len(&self, element: Element, raw_len: usize) -> usize {
        codec_of(Algorithm::Zvc).max_chunk_len(element, raw_len)
    }

    fn encode_chunk(&self, element: Element, raw: &[u8], coded: &mut [u8]) -> usize {
        assert_ne!(raw[0], 0xbd, "the chunk that breaks");
        codec_of(Algorithm::Zvc).encode_chunk(element, raw, coded)
    }

    fn chunk_len(&self, element: Element, raw: &[u8]) -> usize {
        codec_of(Algorithm::Zvc).chunk_len(element, raw)
    }

    fn decode_chunk(&self, element: Element, coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
        codec_of(Algorithm::Zvc).decode_chunk(element, coded, raw)
    }
}

#[test]
fn a_codec_that_panics_leaves_no_thread_waiting() {
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    for broken in [0, 100, 255] {
        let mut raw = vec![1; 1 << 20];
        raw[broken * 4096] = 0xbd;
        for threads in THREADS {
            let caught = std::panic::catch_unwind(|| {
                let mut room = vec![0; frame::max_frame_len(raw.len(), options)];
                let workers = Workers::new(threads).unwrap();
                workers.encode_to(&Fragile, Element::U8, &raw, options, &mut room, &|_| {})
            });
            assert!(caught.is_err(), "{threads} threads, chunk {broken}");
        }
    }
}

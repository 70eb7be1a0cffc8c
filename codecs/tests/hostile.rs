//! Frames from somebody who wants to do harm: an error or the right bytes, never a panic.

mod common;

use common::damage::{KINDS_OF_DAMAGE, damage};
use common::{ELEMENTS, Random, all_codecs, codec_of, data, decode_chunk, encode_chunk};
use mgcomp_codecs::frame::{self, ChunkSize, Frame, FrameError, Options};
use mgcomp_codecs::{Algorithm, Element, codecs};

const LIMIT: u64 = 1 << 20;

/// Three chunks, the last one short: lines of every kind, mostly zeros, and lines again.
fn sample() -> Vec<u8> {
    let (_, mixed) = data::KINDS[data::KINDS.len() - 1];
    let mut raw = mixed(&mut Random(10), 2 * 4096 + 333);
    raw[4096..2 * 4096 - 256].fill(0);
    raw
}

fn options(checksum: bool) -> Options {
    Options { chunk_size: ChunkSize::SMALL, checksum }
}

fn sample_frames(checksum: bool) -> Vec<(Algorithm, Vec<u8>)> {
    let raw = sample();
    codecs()
        .map(|codec| {
            let algorithm = codec.algorithm();
            let element = if algorithm.number() % 2 == 0 { Element::U32 } else { Element::Bf16 };
            let frame = frame::encode(codec, element, &raw, options(checksum)).unwrap();
            let coded = Frame::parse(&frame).unwrap().chunks().any(|chunk| !chunk.is_raw());
            assert!(coded, "{algorithm}: nothing is coded");
            (algorithm, frame)
        })
        .collect()
}

fn decode(frame: &[u8]) -> Result<Vec<u8>, FrameError> {
    Frame::parse(frame)?.decode_to_vec(LIMIT)
}

#[test]
fn every_prefix_is_an_error() {
    for checksum in [false, true] {
        for (algorithm, frame) in sample_frames(checksum) {
            for len in 0..frame.len() {
                let error = Frame::parse(&frame[..len]).unwrap_err();
                assert!(
                    matches!(error, FrameError::Truncated { offset, needed, got, .. }
                        if got < needed && offset + got == len as u64),
                    "{algorithm} {len}: {error}"
                );
            }
        }
    }
}

#[test]
fn every_longer_frame_is_an_error() {
    for (algorithm, frame) in sample_frames(true) {
        for extra in [1, 2, 15, 16, 17, 4096] {
            for fill in [0, 0xff] {
                let mut longer = frame.clone();
                longer.resize(frame.len() + extra, fill);
                let expected = FrameError::Trailing { end: frame.len() as u64, got: longer.len() as u64 };
                assert_eq!(Frame::parse(&longer).unwrap_err(), expected, "{algorithm}");
            }
        }
    }
}

#[test]
fn a_damaged_frame_with_checksums_is_an_error_or_decodes_to_the_same_bytes() {
    let raw = sample();
    for (algorithm, frame) in sample_frames(true) {
        let (mut random, mut errors) = (Random(11), 0);
        for round in 0..4_000 {
            let damaged = damage(&mut random, &frame, KINDS_OF_DAMAGE[round % KINDS_OF_DAMAGE.len()]);
            match decode(&damaged) {
                Err(_) => errors += 1,
                Ok(decoded) => {
                    // A shorter raw length may leave whole chunks with right checksums only if the table
                    // and the chunks shrink as well, which damage by chance does not do.
                    assert!(decoded == raw, "{algorithm} {round}: other bytes without an error");
                }
            }
        }
        // Damage that changes nothing, or bytes that carry no data, is rare.
        assert!(errors > 3_500, "{algorithm}: only {errors} errors");
    }
}

#[test]
fn a_damaged_frame_without_checksums_is_an_error_or_has_its_raw_length() {
    for (algorithm, frame) in sample_frames(false) {
        let mut random = Random(12);
        for round in 0..4_000 {
            let damaged = damage(&mut random, &frame, KINDS_OF_DAMAGE[round % KINDS_OF_DAMAGE.len()]);
            if let Ok(parsed) = Frame::parse(&damaged)
                && let Ok(decoded) = parsed.decode_to_vec(LIMIT)
            {
                assert_eq!(decoded.len() as u64, parsed.header().raw_len, "{algorithm} {round}");
            }
        }
    }
}

#[test]
fn every_single_bit_flip_under_checksums_is_noticed_or_harmless() {
    let raw = sample();
    for (algorithm, frame) in sample_frames(true) {
        let table_end = Frame::parse(&frame).unwrap().header().table_end();
        for bit in 0..8 * frame.len() {
            let mut damaged = frame.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let result = decode(&damaged);
            if let Ok(decoded) = &result {
                assert!(decoded == &raw, "{algorithm} bit {bit}: other bytes without an error");
            }
            // The element is a hint: some codecs decode the same without it. Everything else
            // in header and table is noticed.
            if bit / 8 < table_end && bit / 8 != 4 {
                assert!(result.is_err(), "{algorithm} bit {bit} of header or table");
            }
        }
    }
}

#[test]
fn random_bytes_are_no_frame() {
    let mut random = Random(13);
    for round in 0..3_000 {
        let len = random.below(600);
        let mut bytes = random.bytes(len);
        assert!(Frame::parse(&bytes).is_err());
        // The same behind a header that is well-formed.
        if len > 16 {
            let header = frame::Header {
                algorithm: codecs().nth(round % codecs().count()).unwrap().algorithm(),
                element: ELEMENTS[round / 4 % 4],
                checksum: round % 3 == 0,
                codebook: round % 5 == 0,
                chunk_size: ChunkSize::SMALL,
                raw_len: random.below(9_000) as u64,
            };
            bytes[..16].copy_from_slice(&header.to_bytes());
            if let Ok(parsed) = Frame::parse(&bytes) {
                let _ = parsed.decode_to_vec(LIMIT);
            }
        }
    }
}

#[test]
fn a_chunk_of_another_raw_length_never_panics() {
    let raw = sample();
    for (isa, codec) in all_codecs() {
        for element in ELEMENTS {
            let coded = encode_chunk(codec, element, &raw[..1024]);
            for raw_len in 0..=2048 {
                let result = decode_chunk(codec, element, &coded, raw_len);
                if raw_len == 1024 {
                    assert_eq!(result.as_deref(), Ok(&raw[..1024]));
                }
            }
            for len in 0..coded.len() {
                let result = decode_chunk(codec, element, &coded[..len], 1024);
                let label = format!("{} {isa} {element}", codec.algorithm());
                assert!(result.is_err(), "{label}: {len} of {}", coded.len());
            }
        }
    }
}

#[test]
fn an_enormous_raw_length_is_refused_before_anything_is_allocated() {
    // A header that promises 64 GiB, with as much table as fits into a page.
    let mut frame = vec![0; 4096];
    for raw_len in [u64::MAX, u64::MAX - 15, 1 << 63, frame::MAX_RAW_LEN, frame::MAX_RAW_LEN + 1, 1 << 32] {
        let bytes = frame::encode(codec_of(Algorithm::Zvc), Element::U8, &[], options(true)).unwrap();
        frame[..16].copy_from_slice(&bytes);
        frame[8..16].copy_from_slice(&raw_len.to_le_bytes());
        let error = Frame::parse(&frame).unwrap_err();
        if raw_len > frame::MAX_RAW_LEN {
            assert_eq!(error, FrameError::RawLength { got: raw_len, limit: frame::MAX_RAW_LEN });
        } else {
            assert!(matches!(error, FrameError::Truncated { part: "chunk table", .. }), "{error}");
        }
    }
}

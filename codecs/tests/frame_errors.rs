//! Each way in which a frame can be wrong gets its own error, with the right numbers in it.

mod common;

use common::codec_of;
use mgcomp_codecs::frame::{self, ChunkSize, Frame, FrameError, MAX_RAW_LEN, Options};
use mgcomp_codecs::{Algorithm, ChunkError, Element, UnknownAlgorithm, UnknownElement};

/// Two chunks of zeros, one of incompressible bytes that ends within a unit. The table has three entries of
/// 8 bytes and 8 bytes of padding: chunks start at byte 48 and take 8, 8 and 2 units.
fn sample() -> Vec<u8> {
    let mut raw = vec![0; 8192];
    raw.extend(1..=30);
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
    let frame = frame::encode(codec_of(Algorithm::Zvc), Element::U32, &raw, options).unwrap();
    assert_eq!(frame.len(), 48 + 8 * 16 + 8 * 16 + 2 * 16);
    frame
}

/// The error that `change` makes of the sample frame.
fn error_of(change: impl FnOnce(&mut Vec<u8>)) -> FrameError {
    let mut frame = sample();
    change(&mut frame);
    match Frame::parse(&frame) {
        Ok(frame) => frame.decode_to_vec(1 << 20).unwrap_err(),
        Err(error) => error,
    }
}

fn set(offset: usize, bytes: &[u8]) -> impl FnOnce(&mut Vec<u8>) + '_ {
    move |frame| frame[offset..offset + bytes.len()].copy_from_slice(bytes)
}

fn truncated(part: &'static str, offset: u64, needed: u64, got: u64) -> FrameError {
    FrameError::Truncated { part, offset, needed, got }
}

#[test]
fn truncated_header_table_and_chunks() {
    assert_eq!(error_of(|frame| frame.truncate(15)), truncated("header", 0, 16, 15));
    assert_eq!(error_of(Vec::clear), truncated("header", 0, 16, 0));
    assert_eq!(error_of(|frame| frame.truncate(16)), truncated("chunk table", 16, 32, 0));
    assert_eq!(error_of(|frame| frame.truncate(47)), truncated("chunk table", 16, 32, 31));
    assert_eq!(error_of(|frame| frame.truncate(48)), truncated("chunks", 48, 288, 0));
    assert_eq!(error_of(|frame| frame.truncate(335)), truncated("chunks", 48, 288, 287));
}

#[test]
fn trailing_bytes() {
    assert_eq!(error_of(|frame| frame.push(0)), FrameError::Trailing { end: 336, got: 337 });
}

#[test]
fn header_bytes_0_to_7() {
    assert_eq!(error_of(set(0, b"m")), FrameError::Magic(*b"mG"));
    assert_eq!(error_of(set(1, b"g")), FrameError::Magic(*b"Mg"));
    assert_eq!(error_of(set(2, &[0])), FrameError::Version(0));
    assert_eq!(error_of(set(2, &[2])), FrameError::Version(2));
    assert_eq!(error_of(set(4, &[10])), FrameError::UnknownElement(UnknownElement("10".into())));
    assert_eq!(error_of(set(5, &[0b11])), FrameError::Flags(3));
    assert_eq!(error_of(set(5, &[0x80])), FrameError::Flags(0x80));
    for log2 in [0, 11, 17, 255] {
        assert_eq!(error_of(set(6, &[log2])), FrameError::ChunkSize(log2));
    }
    assert_eq!(error_of(set(7, &[0x40])), FrameError::Reserved { offset: 7, got: 0x40 });
}

#[test]
fn algorithms_without_a_name_or_a_frame() {
    for number in [11, 15, 16, 255] {
        let expected = FrameError::UnknownAlgorithm(UnknownAlgorithm(number.to_string()));
        assert_eq!(error_of(set(3, &[number])), expected);
    }
    // "none" has no frames.
    for algorithm in Algorithm::ALL {
        if mgcomp_codecs::codec(algorithm).is_none() {
            assert_eq!(error_of(set(3, &[algorithm.number()])), FrameError::Unsupported(algorithm));
        }
    }
}

#[test]
fn raw_length_over_the_limits() {
    for raw_len in [MAX_RAW_LEN + 1, u64::MAX] {
        let expected = FrameError::RawLength { got: raw_len, limit: MAX_RAW_LEN };
        assert_eq!(error_of(set(8, &raw_len.to_le_bytes())), expected);
    }
    // 2^24 chunks of 4 KiB, 8 bytes each, are a table of 128 MiB, of which 320 bytes are there.
    let expected = truncated("chunk table", 16, 1 << 27, 320);
    assert_eq!(error_of(set(8, &MAX_RAW_LEN.to_le_bytes())), expected);

    let frame = sample();
    let parsed = Frame::parse(&frame).unwrap();
    assert_eq!(parsed.decode_to_vec(8221), Err(FrameError::RawLength { got: 8222, limit: 8221 }));
    assert_eq!(parsed.decode_to_vec(8222).unwrap().len(), 8222);
}

#[test]
fn destination_of_another_length() {
    let frame = sample();
    let parsed = Frame::parse(&frame).unwrap();
    for len in [0, 8221, 8223] {
        let expected = FrameError::Destination { raw_len: 8222, destination: len as u64 };
        assert_eq!(parsed.decode_into(&mut vec![0; len]), Err(expected));
    }
}

#[test]
#[should_panic(expected = "destination of chunk 2")]
fn destination_of_a_chunk_of_another_length() {
    let frame = sample();
    let parsed = Frame::parse(&frame).unwrap();
    let _ = parsed.decode_chunk(&parsed.chunk(2), &mut [0; 31]);
}

#[test]
#[should_panic(expected = "chunk 3 of 3")]
fn a_chunk_that_is_not_there() {
    let _ = Frame::parse(&sample()).unwrap().chunk(3);
}

#[test]
fn tables_that_lie() {
    let table = |offset, chunk, start, end, limit| FrameError::Table { offset, chunk, start, end, limit };
    // Entries stand at bytes 16, 24 and 32 and hold 8, 16 and 18; a raw chunk of 4096 bytes takes 256
    // units, the last one 2.
    assert_eq!(error_of(set(16, &0u32.to_le_bytes())), table(16, 0, 0, 0, 256));
    assert_eq!(error_of(set(16, &257u32.to_le_bytes())), table(16, 0, 0, 257, 256));
    assert_eq!(error_of(set(16, &u32::MAX.to_le_bytes())), table(16, 0, 0, u32::MAX, 256));
    assert_eq!(error_of(set(24, &8u32.to_le_bytes())), table(24, 1, 8, 8, 256));
    assert_eq!(error_of(set(24, &7u32.to_le_bytes())), table(24, 1, 8, 7, 256));
    assert_eq!(error_of(set(16, &17u32.to_le_bytes())), table(24, 1, 17, 16, 256));
    assert_eq!(error_of(set(32, &19u32.to_le_bytes())), table(32, 2, 16, 19, 2));
    // One unit less at the end: nothing is wrong with the entry, but 16 bytes are left over.
    assert_eq!(error_of(set(32, &17u32.to_le_bytes())), FrameError::Trailing { end: 320, got: 336 });
}

#[test]
fn table_without_checksums_is_checked_too() {
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: false };
    let mut frame = frame::encode(codec_of(Algorithm::Zvc), Element::U32, &[0; 8193], options).unwrap();
    assert_eq!(frame.len(), 16 + 16 + 8 * 16 + 8 * 16 + 16);
    frame[20] = 8;
    let expected = FrameError::Table { offset: 20, chunk: 1, start: 8, end: 8, limit: 256 };
    assert_eq!(Frame::parse(&frame).unwrap_err(), expected);
    frame[20] = 16;
    frame[28] = 1;
    assert_eq!(Frame::parse(&frame).unwrap_err(), FrameError::Reserved { offset: 28, got: 1 });
}

#[test]
fn padding_that_is_not_zero() {
    assert_eq!(error_of(set(40, &[7])), FrameError::Reserved { offset: 40, got: 7 });
    assert_eq!(error_of(set(47, &[8])), FrameError::Reserved { offset: 47, got: 8 });
    // The raw chunk starts at byte 304 and holds 30 bytes.
    assert_eq!(error_of(set(334, &[9])), FrameError::Reserved { offset: 334, got: 9 });
    assert_eq!(error_of(set(335, &[1])), FrameError::Reserved { offset: 335, got: 1 });
}

#[test]
fn a_chunk_that_is_no_code() {
    // A mask bit of the second chunk without an element behind the masks.
    let source = ChunkError::Truncated { offset: 128, needed: 4, got: 0 };
    assert_eq!(error_of(set(176, &[1])), FrameError::Chunk { chunk: 1, offset: 176, source });
}

#[test]
fn a_checksum_that_differs() {
    let stored = u32::from_le_bytes(sample()[36..40].try_into().unwrap());
    // In the table: byte 36 is the checksum of the raw chunk.
    let expected = FrameError::Checksum { chunk: 2, offset: 304, stored: stored ^ 1, computed: stored };
    assert_eq!(error_of(|frame| frame[36] ^= 1), expected);
    // In the bytes.
    let mut bytes: Vec<u8> = (1..=30).collect();
    bytes[4] = 0;
    let expected = FrameError::Checksum { chunk: 2, offset: 304, stored, computed: crc32c::crc32c(&bytes) };
    assert_eq!(error_of(set(304 + 4, &[0])), expected);
}

#[test]
fn the_checksum_is_crc32c() {
    // The check value that the catalogues give for this polynomial.
    let options = Options { chunk_size: ChunkSize::SMALL, checksum: true };
    let frame = frame::encode(codec_of(Algorithm::Fpc), Element::U8, b"123456789", options).unwrap();
    assert_eq!(frame[20..24], 0xe306_9283u32.to_le_bytes());
}

#[test]
fn messages_name_the_place() {
    let text = error_of(set(24, &7u32.to_le_bytes())).to_string();
    assert_eq!(text, "byte 24: chunk 1 runs from unit 8 to 7; it must take 1 to 256 units of 16 bytes");
    let text = error_of(set(176, &[1])).to_string();
    assert_eq!(text, "chunk 1 at byte 176: truncated at byte 128: a section needs 4 bytes, 0 are left");
    let text = error_of(set(3, &[0])).to_string();
    assert_eq!(text, "byte 3: this version cannot decode a frame of algorithm none");
}

//! Each way in which a chunk can be wrong, codec by codec, on chunks made by hand.

mod common;

use common::{codec_of, decode_chunk};
use mgcomp_codecs::{Algorithm, ChunkError, Element};

#[track_caller]
fn assert_error(algorithm: Algorithm, coded: &[u8], raw_len: usize, expected: ChunkError) {
    let result = decode_chunk(codec_of(algorithm), Element::U32, coded, raw_len);
    assert_eq!(result, Err(expected), "{algorithm} {coded:02x?}");
}

const fn truncated(offset: usize, needed: usize, got: usize) -> ChunkError {
    ChunkError::Truncated { offset, needed, got }
}

const fn padding(offset: usize) -> ChunkError {
    ChunkError::Padding { offset }
}

#[test]
fn bdi() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::Bdi, coded, raw_len, expected);
    // Three lines: two bytes of forms.
    check(&[], 192, truncated(0, 2, 0));
    check(&[0], 192, truncated(0, 2, 1));
    // The second form of one line, whose form is 0.
    check(&[0x10, 0, 0, 0], 64, padding(1));
    check(&[0x0f, 0, 0, 0], 64, ChunkError::Tag { line: 0, tag: 15 });
    // Form 7 has four bytes of mask; then padding from 5 to 8; then 34 bytes.
    check(&[0x07, 0, 0, 0], 64, truncated(1, 4, 3));
    check(&[0x07, 0, 0, 0, 0, 0, 0], 64, truncated(5, 3, 2));
    check(&[0x07, 0, 0, 0, 0, 0, 1, 0], 64, padding(8));
    check(&[0x07, 0, 0, 0, 0, 0, 0, 0, 1], 64, truncated(8, 34, 1));
    // Form 1, with and without its word, with too much or the wrong padding behind it.
    check(&[0x01, 0, 0, 0], 64, truncated(4, 8, 0));
    check(&[1, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 0, 9], 64, padding(14));
    let mut long = [0; 28];
    long[0] = 1;
    check(&long, 64, ChunkError::Trailing { offset: 12, extra: 16 });
}

#[test]
fn fpc() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::Fpc, coded, raw_len, expected);
    // Nine lines: two bytes say which are coded.
    check(&[0], 9 * 64, truncated(0, 2, 1));
    check(&[0, 0b10], 9 * 64, padding(2));
    // None is: two bytes say which are raw.
    check(&[0, 0, 0], 9 * 64, truncated(2, 2, 1));
    check(&[0, 0, 0, 0b10], 9 * 64, padding(4));
    // One raw line of one: its 64 bytes start at byte 4.
    check(&[0, 1, 0], 64, truncated(2, 2, 1));
    check(&[0, 1, 0, 5], 64, padding(4));
    check(&[0, 1, 0, 0, 9, 9], 64, truncated(4, 64, 2));
    // One coded line: six bytes of prefixes at byte 2, behind one of padding.
    check(&[1], 64, truncated(1, 1, 0));
    check(&[1, 3, 0, 0, 0, 0, 0, 0], 64, padding(2));
    check(&[1, 0, 0, 0, 0, 0, 0], 64, truncated(2, 6, 5));
    // Two coded lines: prefixes end at byte 14, padding at 16.
    let mut two = [0; 17];
    two[0] = 3;
    two[15] = 1;
    check(&two, 128, padding(16));
}

/// The prefix planes of a coded line whose first word has `prefix`, the others 1.
fn fpc_line(prefix: u8) -> Vec<u8> {
    let bit = |p: u8| prefix >> p & 1;
    vec![1, 0, 0xfe | bit(0), 0xff, bit(1), 0, bit(2), 0]
}

#[test]
fn fpc_data_sections() {
    for (prefix, needed) in [(0, 4), (2, 1), (3, 1), (4, 1), (5, 2), (6, 2), (7, 2)] {
        let mut coded = fpc_line(prefix);
        assert_error(Algorithm::Fpc, &coded, 64, truncated(8, needed, 0));
        coded.resize(8 + needed, 0);
        assert!(decode_chunk(codec_of(Algorithm::Fpc), Element::U32, &coded, 64).is_ok(), "prefix {prefix}");
        coded.push(1);
        assert_error(Algorithm::Fpc, &coded, 64, padding(8 + needed + 1));
    }
    // One 4-bit field, and something in the other half of its byte.
    let mut coded = fpc_line(3);
    coded.push(0x1f);
    assert_error(Algorithm::Fpc, &coded, 64, padding(9));
    let mut coded = fpc_line(1);
    coded.resize(8 + 16, 0);
    assert_error(Algorithm::Fpc, &coded, 64, ChunkError::Trailing { offset: 8, extra: 16 });
}

/// The code planes of one coded line, from its sixteen codes.
fn cpackz_line(codes: [u8; 16]) -> Vec<u8> {
    let plane =
        |p: u8| codes.iter().enumerate().fold(0u16, |plane, (i, code)| plane | u16::from(code >> p & 1) << i);
    let mut coded = vec![1, 0];
    coded.extend_from_slice(&plane(0).to_le_bytes());
    coded.extend_from_slice(&plane(1).to_le_bytes());
    coded
}

/// Codes of a line of zero words that starts with these.
fn codes(front: &[u8]) -> [u8; 16] {
    let mut codes = [1; 16];
    codes[..front.len()].copy_from_slice(front);
    codes
}

#[test]
fn cpackz_tags() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::CpackZ, coded, raw_len, expected);
    check(&[], 64, truncated(0, 1, 0));
    check(&[2, 0], 64, padding(1));
    check(&[0], 64, truncated(1, 1, 0));
    check(&[0, 2], 64, padding(2));
    check(&[1, 9], 64, padding(2));
    check(&[1, 0, 0xff, 0xff, 0], 64, truncated(2, 4, 3));
    // Code 0 has no meaning. The planes end at byte 6, padding at 8.
    let mut coded = cpackz_line(codes(&[1, 0]));
    coded.extend_from_slice(&[0, 0]);
    check(&coded, 64, ChunkError::Tag { line: 0, tag: 0 });
    // One sub-code, in a byte whose other six bits are not zero.
    let mut coded = cpackz_line(codes(&[3]));
    check(&coded, 64, truncated(6, 1, 0));
    coded.extend_from_slice(&[0b1000, 0]);
    check(&coded, 64, padding(7));
    // Padding between sub-codes and words.
    let mut coded = cpackz_line(codes(&[3]));
    coded.extend_from_slice(&[2, 5, 0]);
    check(&coded, 64, padding(8));
}

#[test]
fn cpackz_data_sections() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::CpackZ, coded, raw_len, expected);
    let mut new = cpackz_line(codes(&[2]));
    new.extend_from_slice(&[0, 0, 1, 2, 3]);
    check(&new, 64, truncated(8, 4, 3));
    // A new word, then one word of each sub-code: a byte of sub-codes, padding to 8, the word at 8.
    let with = |subcode, data: &[u8]| {
        let mut coded = cpackz_line(codes(&[2, 3]));
        coded.extend_from_slice(&[subcode, 0, 4, 3, 2, 1]);
        coded.extend_from_slice(data);
        coded
    };
    check(&with(0, &[]), 64, truncated(12, 1, 0)); // its index
    check(&with(1, &[7]), 64, truncated(12, 2, 1)); // its halfword
    check(&with(1, &[7, 7]), 64, truncated(14, 1, 0)); // its index
    check(&with(2, &[]), 64, truncated(12, 1, 0)); // its byte
    check(&with(3, &[7]), 64, truncated(13, 1, 0)); // its index
    check(&with(0, &[0x10]), 64, padding(13)); // behind its index
    check(&with(0, &[0; 17]), 64, ChunkError::Trailing { offset: 13, extra: 16 });
    assert!(decode_chunk(codec_of(Algorithm::CpackZ), Element::U32, &with(0, &[0]), 64).is_ok());
}

#[test]
fn cpackz_indices() {
    // Words: new, then an index. Entry 0 is there, entry 1 is not.
    for (subcode, data) in [(0, vec![]), (1, vec![7, 7]), (3, vec![7])] {
        let mut coded = cpackz_line(codes(&[2, 3]));
        coded.extend_from_slice(&[subcode, 0, 4, 3, 2, 1]);
        coded.extend_from_slice(&data);
        coded.push(1);
        assert_error(Algorithm::CpackZ, &coded, 64, ChunkError::Index { line: 0, index: 1, words: 1 });
    }
    // A word cannot refer to one that comes after it, nor to itself.
    let mut coded = cpackz_line(codes(&[3, 2]));
    coded.extend_from_slice(&[0, 0, 4, 3, 2, 1, 0]);
    assert_error(Algorithm::CpackZ, &coded, 64, ChunkError::Index { line: 0, index: 0, words: 0 });
    // Nor to words of the line before, here a raw one: line 1 is coded, line 0 is not, but raw.
    let mut coded = cpackz_line(codes(&[3]));
    coded[0] = 0b10;
    coded[1] = 0b1;
    coded.extend_from_slice(&[0, 0]);
    coded.extend_from_slice(&[0x5a; 64]);
    coded.push(15);
    assert_error(Algorithm::CpackZ, &coded, 128, ChunkError::Index { line: 1, index: 15, words: 0 });
}

#[test]
fn zvc() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::Zvc, coded, raw_len, expected);
    // Nine bytes: two 4-byte elements and a tail of one. One mask, padding to 8, elements, tail.
    check(&[0, 0, 0], 9, truncated(0, 4, 3));
    check(&[0b100, 0, 0, 0], 9, padding(4));
    check(&[0, 0, 0, 0x80], 9, padding(4));
    check(&[0, 0, 0, 0, 0], 9, truncated(4, 4, 1));
    check(&[0, 0, 0, 0, 0, 0, 3, 0], 9, padding(8));
    check(&[0b11, 0, 0, 0, 0, 0, 0, 0, 1, 2, 3], 9, truncated(8, 8, 3));
    check(&[0, 0, 0, 0, 0, 0, 0, 0], 9, truncated(8, 1, 0));
    check(&[0, 0, 0, 0, 0, 0, 0, 0, 5, 6], 9, padding(10));
    check(&[0; 25], 9, ChunkError::Trailing { offset: 9, extra: 16 });
    // 32 elements fill the mask: no bit of it is unused, and no element is there for the set ones.
    check(&[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0], 128, truncated(8, 128, 0));
    // The second mask of 33 elements has one bit; with 64, all.
    check(&[0, 0, 0, 0, 2, 0, 0, 0], 132, padding(8));
    check(&[0, 0, 0, 0, 2, 0, 0, 0], 256, truncated(8, 4, 0));
}

const fn field(offset: usize, value: u32, most: u32) -> ChunkError {
    ChunkError::Field { offset, value, most }
}

/// An INT chunk of 4-byte words: fields, lags and base, then what follows the header.
fn int_chunk(fields: [u8; 4], rest: &[u8]) -> Vec<u8> {
    [&fields[..], &[0; 8], rest].concat()
}

#[test]
fn int_headers() {
    let check = |coded: &[u8], raw_len, expected| assert_error(Algorithm::Int, coded, raw_len, expected);
    check(&[0; 11], 0, truncated(0, 12, 11));
    check(&int_chunk([3, 0, 0, 0], &[]), 0, field(0, 3, 2));
    check(&int_chunk([0, 32, 0, 0], &[]), 0, field(1, 32, 31));
    check(&int_chunk([0, 0, 32, 0], &[]), 0, field(2, 32, 31));
    check(&int_chunk([0, 0, 0, 1], &[]), 0, field(3, 1, 0));
    check(&int_chunk([2, 31, 31, 0], &[0; 16]), 0, ChunkError::Trailing { offset: 12, extra: 16 });
    assert_eq!(decode_chunk(codec_of(Algorithm::Int), Element::U32, &[0; 12], 0), Ok(vec![]));
}

#[test]
fn int_codes_and_planes() {
    let check = |rest: &[u8], raw_len, expected| {
        assert_error(Algorithm::Int, &int_chunk([0, 0, 0, 0], rest), raw_len, expected);
    };
    // 33 words are two blocks; codes from byte 12, planes from 16.
    check(&[0], 132, truncated(12, 2, 1));
    check(&[0, 37, 0, 0], 132, field(13, 37, 36));
    check(&[0, 0, 0], 132, truncated(14, 2, 1));
    check(&[0, 0, 0, 1], 132, padding(16));
    check(&[1, 2, 0, 0, 0, 0, 0, 0], 132, truncated(16, 12, 4));
    // The second block has one word: bit 0 of its planes.
    check(&[1, 1, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 1], 132, padding(24));
    check(&[1, 1, 0, 0, 0, 0, 0, 0x80, 1, 0, 0, 0, 7], 132, padding(25));
    // Three bytes of a tail.
    check(&[1, 0, 0, 0, 0, 0, 0, 0x80, 5], 131, truncated(20, 3, 1));
    check(&[1, 0, 0, 0, 0, 0, 0, 0x80, 5], 127, padding(20));
    check(&[1, 0, 0, 0, 0, 0, 0, 0x40, 5], 127, truncated(20, 3, 1));
    // Half a byte too many: one block of bytes.
    let bytes = |rest: &[u8]| {
        let coded = [&[0; 9][..], rest].concat();
        decode_chunk(codec_of(Algorithm::Int), Element::U8, &coded, 9)
    };
    assert_eq!(bytes(&[0x10, 0, 0]), Err(padding(10)));
    assert_eq!(bytes(&[0x0a, 0, 0]), Err(field(9, 10, 9)));
    assert_eq!(bytes(&[0x00, 0, 0]), Ok(vec![0; 9]));
}

#[test]
fn int_patches() {
    let check = |rest: &[u8], expected| {
        assert_error(Algorithm::Int, &int_chunk([0, 0, 1, 0], rest), 12, expected);
    };
    // One low bit, so two planes a block; patches of 2 bytes for marked words, from byte 24.
    check(&[34, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 9, 9], truncated(24, 4, 3));
    check(&[34, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0], padding(24));
    check(&[34, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0, 9, 9, 9, 9, 1], padding(29));
    check(&[&[34, 0, 0, 0][..], &[0; 24]].concat(), ChunkError::Trailing { offset: 24, extra: 16 });
}

#[test]
fn messages_name_the_place() {
    let text = |error: ChunkError| error.to_string();
    assert_eq!(text(padding(9)), "padding before byte 9 is not zero");
    assert_eq!(text(field(13, 37, 36)), "the field at byte 13 is 37, at most 36 may be");
    assert_eq!(text(ChunkError::Tag { line: 4, tag: 12 }), "line 4: tag 12 has no meaning");
    assert_eq!(
        text(ChunkError::Index { line: 1, index: 15, words: 2 }),
        "line 1: dictionary index 15, but only 2 words are there"
    );
    assert_eq!(
        text(ChunkError::Trailing { offset: 9, extra: 16 }),
        "16 bytes after the last section, which ends at byte 9; at most 15 may be"
    );
}

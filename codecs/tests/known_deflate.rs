//! DEFLATE: streams by hand and from another implementation (zlib 1.3), and what the encoder promises.

mod common;

use common::{Random, codec_of, decode_chunk, encode_chunk};
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Element};

fn deflate() -> &'static dyn Codec {
    codec_of(Algorithm::Deflate)
}

/// Four bytes five times, forty zeros, a 9.
fn raw() -> Vec<u8> {
    let mut raw = [1, 2, 3, 4].repeat(5);
    raw.resize(60, 0);
    raw.push(9);
    raw
}

/// `raw` in one block of fixed codes, by zlib.
const FIXED: [u8; 18] = [
    0x78, 0x01, 0x63, 0x64, 0x62, 0x66, 0x61, 0x44, 0xc3, 0x0c, 0x44, 0x02, 0x4e, 0x00, 0x0a, 0x3c, 0x00,
    0x3c,
];

/// 200 bytes in one block of dynamic codes, by zlib.
const DYNAMIC: [u8; 107] = [
    0x78, 0xda, 0xad, 0xcd, 0x81, 0x01, 0x40, 0x40, 0x08, 0x00, 0xc0, 0x08, 0x21, 0x0a, 0x8f, 0x8f, 0xa7,
    0xf6, 0xdf, 0xd2, 0x12, 0x6e, 0x81, 0x03, 0x40, 0x92, 0x23, 0x46, 0xeb, 0xf2, 0xe0, 0x89, 0x1b, 0x78,
    0x4a, 0xf1, 0x8a, 0xc4, 0x6a, 0x7d, 0x25, 0x52, 0x0f, 0x96, 0x54, 0x66, 0xdd, 0xcc, 0x69, 0x75, 0x2e,
    0x13, 0xec, 0x8c, 0x7e, 0xe5, 0xd3, 0xee, 0x68, 0x25, 0xe3, 0x02, 0x0b, 0x66, 0x69, 0xe3, 0xb6, 0x33,
    0x5f, 0x8e, 0xbc, 0xc3, 0x54, 0xd8, 0x57, 0x72, 0xdb, 0x74, 0x16, 0x4d, 0x06, 0x7d, 0x0a, 0x79, 0xb5,
    0x36, 0xa1, 0xca, 0x4b, 0x79, 0xa0, 0xe1, 0xe4, 0x43, 0xee, 0x6c, 0x8c, 0x43, 0x08, 0x01, 0x7e, 0xfa,
    0x3f, 0xf0, 0x58, 0x0c, 0xa7,
];

/// `raw` in one stored block, by hand: final, 61, its complement, the bytes, their Adler-32.
fn stored() -> Vec<u8> {
    let mut stored = vec![0x78, 0x01, 1, 61, 0, 0xff - 61, 0xff];
    stored.extend_from_slice(&raw());
    stored.extend_from_slice(&FIXED[14..]);
    stored
}

fn decode(coded: &[u8], raw_len: usize) -> Result<Vec<u8>, ChunkError> {
    decode_chunk(deflate(), Element::U8, coded, raw_len)
}

#[test]
fn streams_of_other_encoders_decode() {
    assert_eq!(decode(&stored(), 61), Ok(raw()));
    assert_eq!(decode(&FIXED, 61), Ok(raw()));
    let squares: Vec<u8> = (0..200u32).map(|i| ((i * i * 7) >> 3) as u8 & 0x1f).collect();
    assert_eq!(decode(&DYNAMIC, 200), Ok(squares));
}

#[test]
fn the_stream_of_nothing_is_eight_bytes() {
    // A final block of fixed codes, whose first code is the end; Adler-32 of nothing is 1.
    assert_eq!(encode_chunk(deflate(), Element::U8, &[]), [0x78, 0x01, 0x03, 0, 0, 0, 0, 1]);
    assert_eq!(decode(&[0x78, 0x01, 0x03, 0, 0, 0, 0, 1], 0), Ok(vec![]));
}

#[test]
fn what_does_not_compress_is_in_stored_blocks() {
    let raw = Random(30).bytes(65_536);
    let coded = encode_chunk(deflate(), Element::U8, &raw);
    assert!(coded.len() <= 2 + 5 + 65_535 + 5 + 1 + 4);
    assert_eq!(encode_chunk(deflate(), Element::U8, &raw[..1]).len(), 2 + 3 + 4);
}

#[test]
fn the_codec_carries_nothing_from_chunk_to_chunk() {
    let (numbers, noise) = ([1, 2, 3, 0].repeat(999), Random(31).bytes(9_999));
    let first = encode_chunk(deflate(), Element::U8, &numbers);
    encode_chunk(deflate(), Element::U8, &noise);
    assert_eq!(encode_chunk(deflate(), Element::U8, &numbers), first);
    let elsewhere = std::thread::spawn(move || encode_chunk(deflate(), Element::F64, &numbers));
    assert_eq!(elsewhere.join().unwrap(), first);
}

#[test]
fn every_prefix_and_every_other_length_is_an_error() {
    for coded in [&stored()[..], &FIXED] {
        for len in 0..coded.len() {
            let error = decode(&coded[..len], 61).unwrap_err();
            assert!(
                matches!(error, ChunkError::Stream { offset, needed: 61, .. } if offset <= len),
                "{error}"
            );
        }
        for raw_len in (0..61).chain(62..130) {
            assert!(matches!(decode(coded, raw_len), Err(ChunkError::Stream { .. })), "{raw_len}");
        }
    }
}

#[test]
fn at_most_15_zero_bytes_may_follow() {
    let mut coded = FIXED.to_vec();
    coded.resize(FIXED.len() + 15, 0);
    assert_eq!(decode(&coded, 61), Ok(raw()));
    coded.push(0);
    assert_eq!(decode(&coded, 61), Err(ChunkError::Trailing { offset: 18, extra: 16 }));
    coded.truncate(FIXED.len() + 2);
    coded[19] = 1;
    assert_eq!(decode(&coded, 61), Err(ChunkError::Padding { offset: 20 }));
}

#[test]
fn a_wrong_header_checksum_or_dictionary_is_an_error() {
    // Bytes and bits of them: compression method, check bits, preset dictionary, block type 3, Adler-32.
    for (at, bits) in [(0, 0x07), (1, 0x01), (1, 0x20), (2, 0x04), (17, 0x80)] {
        let mut coded = FIXED;
        coded[at] ^= bits;
        assert!(matches!(decode(&coded, 61), Err(ChunkError::Stream { .. })), "{at} {bits:#x}");
    }
    // A dictionary, with check bits that fit.
    let dictionary = [&[0x78, 0x20][..], &[0, 0, 0, 1], &FIXED[2..]].concat();
    assert!(u16::from_be_bytes([dictionary[0], dictionary[1]]) % 31 == 0);
    assert!(matches!(decode(&dictionary, 61), Err(ChunkError::Stream { .. })));
}

#[test]
fn a_stream_that_promises_more_than_the_chunk_stops_at_its_end() {
    // A megabyte of zeros in a kilobyte; the buffer has room for 100.
    let zeros = encode_chunk(deflate(), Element::U8, &[0; 1 << 20]);
    assert!(zeros.len() < 6_000);
    assert!(matches!(decode(&zeros, 100), Err(ChunkError::Stream { needed: 100, got: 100, .. })));
}

//! RLE, worked out by hand from the rule: a byte per run of up to 128 elements, then the literals.

mod common;

use common::{assert_chunk, codec_of, decode_chunk, encode_chunk};
use mgcomp_codecs::{Algorithm, ChunkError, Element};

fn check(element: Element, raw: &[u8], stored: &[u8]) {
    assert_chunk(Algorithm::Rle, element, raw, stored);
}

#[test]
fn four_byte_elements_and_a_tail() {
    // 0.0, 0.0, 5.0, -0.0 (whose sign bit is a bit), 0.0, and one byte more.
    let raw = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xa0, 0x40, 0, 0, 0, 0x80, 0, 0, 0, 0, 0x63];
    let stored = [3, 0, 0, 0, 0x01, 0x81, 0x00, 0, 0, 0, 0xa0, 0x40, 0, 0, 0, 0x80, 0x63];
    check(Element::F32, &raw, &stored);
}

#[test]
fn a_zero_among_bytes_pays_from_three_up() {
    check(Element::U8, &[7, 0, 8], &[1, 0, 0, 0, 0x82, 7, 0, 8]);
    check(Element::U8, &[7, 0, 0, 8], &[1, 0, 0, 0, 0x83, 7, 0, 0, 8]);
    check(Element::U8, &[7, 0, 0, 0, 8], &[3, 0, 0, 0, 0x80, 0x02, 0x80, 7, 8]);
    // At either end as well: the rule does not look at what is next to it.
    check(Element::U8, &[0, 0, 8], &[1, 0, 0, 0, 0x82, 0, 0, 8]);
    check(Element::U8, &[8, 0, 0], &[1, 0, 0, 0, 0x82, 8, 0, 0]);
    check(Element::U8, &[0, 0, 0, 8], &[2, 0, 0, 0, 0x02, 0x80, 8]);
    check(Element::U8, &[8, 0, 0, 0], &[2, 0, 0, 0, 0x80, 0x02, 8]);
    check(Element::U8, &[0, 0], &[1, 0, 0, 0, 0x81, 0, 0]);
}

#[test]
fn a_zero_among_halfwords_pays_from_two_up() {
    check(Element::Bf16, &[7, 0, 0, 0, 0, 8], &[1, 0, 0, 0, 0x82, 0, 7, 0, 0, 0, 0, 8]);
    check(Element::Bf16, &[7, 0, 0, 0, 0, 0, 0, 8], &[3, 0, 0, 0, 0x80, 0x01, 0x80, 0, 7, 0, 0, 8]);
}

#[test]
fn any_zero_among_words_pays() {
    let mut raw = [0; 24];
    raw[0] = 1;
    raw[16] = 2;
    let mut stored = vec![3, 0, 0, 0, 0x80, 0x00, 0x80, 0];
    stored.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    check(Element::F64, &raw, &stored);
    let mut stored = vec![4, 0, 0, 0, 0x80, 0x02, 0x80, 0x00];
    stored.extend_from_slice(&[1, 0, 0, 0, 2, 0, 0, 0]);
    check(Element::U32, &raw, &stored);
}

#[test]
fn runs_have_at_most_128_elements() {
    check(Element::U16, &[0; 256], &[1, 0, 0, 0, 0x7f, 0]);
    check(Element::U16, &[0; 258], &[2, 0, 0, 0, 0x7f, 0x00]);
    // One zero is left of the stretch; it does not join the literal behind it.
    let mut raw = vec![0; 129];
    raw.push(5);
    check(Element::U8, &raw, &[3, 0, 0, 0, 0x7f, 0x00, 0x80, 5]);
    // 300 literals: 128, 128, 44.
    let raw = [9; 300];
    check(Element::U8, &raw, &[&[3, 0, 0, 0, 0xff, 0xff, 0xab], &raw[..]].concat());
}

#[test]
fn less_than_an_element_is_all_tail() {
    check(Element::U64, &[1, 0, 3], &[0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 3]);
    check(Element::U16, &[0], &[0, 0, 0, 0, 0]);
    check(Element::U8, &[], &[0, 0, 0, 0]);
}

#[test]
fn a_chunk_of_zeros_is_512_times_smaller_and_a_full_one_hardly_longer() {
    let codec = codec_of(Algorithm::Rle);
    assert_eq!(encode_chunk(codec, Element::F32, &[0; 65_536]).len(), 4 + 65_536 / 512);
    assert_eq!(encode_chunk(codec, Element::F32, &[1; 65_536]).len(), 4 + 65_536 / 512 + 65_536);
}

#[test]
fn a_decoder_takes_runs_that_no_encoder_writes() {
    // Two runs of zeros, two of literals, of which one is zero.
    let stored = [4, 0, 0, 0, 0x00, 0x01, 0x80, 0x80, 5, 0];
    let codec = codec_of(Algorithm::Rle);
    assert_eq!(decode_chunk(codec, Element::U8, &stored, 5), Ok(vec![0, 0, 0, 5, 0]));
}

#[test]
fn each_way_in_which_a_chunk_can_be_wrong() {
    let error = |element, stored: &[u8], raw_len| {
        decode_chunk(codec_of(Algorithm::Rle), element, stored, raw_len).unwrap_err()
    };
    let truncated = |offset, needed, got| ChunkError::Truncated { offset, needed, got };
    assert_eq!(error(Element::U8, &[1, 0, 0], 1), truncated(0, 4, 3));
    assert_eq!(error(Element::U8, &[2, 0, 0, 0, 0], 1), truncated(4, 2, 1));
    assert_eq!(error(Element::U8, &[0xff, 0xff, 0xff, 0xff, 0], 1), truncated(4, 0xffff_ffff, 1));
    assert_eq!(error(Element::U16, &[1, 0, 0, 0, 2], 4), ChunkError::Runs { needed: 2, got: 3 });
    assert_eq!(error(Element::U16, &[1, 0, 0, 0, 2], 8), ChunkError::Runs { needed: 4, got: 3 });
    assert_eq!(error(Element::U16, &[0, 0, 0, 0], 2), ChunkError::Runs { needed: 1, got: 0 });
    assert_eq!(error(Element::F32, &[1, 0, 0, 0, 0x80, 0, 0], 4), truncated(5, 3, 2));
    assert_eq!(error(Element::F32, &[1, 0, 0, 0, 0x80, 0, 1, 0], 4), ChunkError::Padding { offset: 8 });
    assert_eq!(error(Element::F32, &[1, 0, 0, 0, 0x81, 0, 0, 0, 1, 2, 3, 4, 5], 8), truncated(8, 8, 5));
    assert_eq!(error(Element::F32, &[1, 0, 0, 0, 0, 0, 0, 0, 1], 6), truncated(8, 2, 1));
    assert_eq!(error(Element::U8, &[1, 0, 0, 0, 4, 0, 1], 5), ChunkError::Padding { offset: 7 });
    let mut long = [0; 21];
    long[0] = 1;
    assert_eq!(error(Element::U8, &long, 1), ChunkError::Trailing { offset: 5, extra: 16 });
    assert_eq!(ChunkError::Runs { needed: 4, got: 3 }.to_string(), "the runs have 3 elements, the chunk 4");
}

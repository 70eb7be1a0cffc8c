//! FPC, every row of Table II and every edge of it, worked out by hand.

mod common;

use common::{assert_chunk, line_of};
use mgcomp_codecs::{Algorithm, Element, fpc};

/// Size of a line of this word and fifteen zero words, without the 15 × 3 bits of those.
fn bits_of(word: u32) -> u32 {
    fpc::line_bits(&line_of(&[word])) - 15 * 3
}

/// A word of no pattern.
const NO_PATTERN: u32 = 0x1234_5678;

#[test]
fn prefix_000_zero_line_or_unmatched_word() {
    assert_eq!(fpc::line_bits(&[0; 64]), 3);
    // 0x00800001: the upper halfword, 128, is no signed byte. 0x8000 and -32769 have 17 bits with their sign.
    for word in [NO_PATTERN, 0x0080_0001, 0x0001_0080, 0x0000_8000, 0xffff_7fff, 0x5a5a_5a5b, 0x0001_8000] {
        assert_eq!(bits_of(word), 3 + 32, "{word:#x}");
    }
}

#[test]
fn prefix_001_zero_word() {
    // 15 zero words beside one of 35 bits.
    assert_eq!(fpc::line_bits(&line_of(&[NO_PATTERN])), 15 * 3 + 35);
}

#[test]
fn prefix_010_four_equal_bytes() {
    for byte in [0x08, 0x5a, 0x7f, 0x80, 0xfe] {
        assert_eq!(bits_of(byte * 0x0101_0101), 3 + 8, "{byte:#x}");
    }
    // 0xffffffff is four equal bytes and -1; the 4-bit value has fewer data bits.
    assert_eq!(bits_of(0xffff_ffff), 3 + 4);
}

#[test]
fn prefixes_011_to_101_signed_values() {
    let size = |values: &[i32], bits: u32| {
        for &value in values {
            assert_eq!(bits_of(value as u32), 3 + bits, "{value}");
        }
    };
    size(&[1, 7, -1, -8], 4);
    size(&[8, -9, 127, -128], 8);
    size(&[128, -129, 254, 32767, -32768], 16);
}

#[test]
fn prefix_110_low_halfword_zero() {
    for word in [0x1234_0000, 0x0001_0000, 0x8000_0000, 0xffff_0000] {
        assert_eq!(bits_of(word), 3 + 16, "{word:#x}");
    }
}

#[test]
fn prefix_111_two_signed_bytes() {
    for word in [0x0005_0003, 0xff80_007f, 0x007f_ff80, 0x0000_ff80, 0x0001_ffff, 0xffff_0001] {
        assert_eq!(bits_of(word), 3 + 16, "{word:#x}");
    }
}

#[test]
fn a_line_that_would_reach_512_bits_goes_raw() {
    assert_eq!(fpc::line_bits(&line_of(&[NO_PATTERN; 16])), 512); // 16 × 35 = 560
    let ending = |a, b| {
        let mut words = [NO_PATTERN; 16]; // 14 × 35 = 490 remain
        (words[14], words[15]) = (a, b);
        fpc::line_bits(&line_of(&words))
    };
    assert_eq!(ending(0, 0), 496);
    assert_eq!(ending(5, 0x5a), 490 + 7 + 11); // 508: coded
    assert_eq!(ending(0x5a5a_5a5a, 0x5a), 512); // 490 + 11 + 11 is 512: raw, by the rule
    assert_eq!(ending(0, 0x1234), 490 + 3 + 19); // 512 again
    assert_eq!(ending(5, 0x1234), 512); // 516
}

#[test]
fn a_line_of_exactly_512_bits_is_stored_raw() {
    let mut words = [NO_PATTERN; 16];
    (words[14], words[15]) = (0, 0x1234);
    let line = line_of(&words);
    let mut stored = vec![0, 1, 0, 0]; // not coded, raw, padding
    stored.extend_from_slice(&line);
    assert_chunk(Algorithm::Fpc, Element::U32, &line, &stored);
}

/// Each prefix twice: upwards, then downwards.
const ALL_PREFIXES: [u32; 16] = [
    0x1234_5678, // 0
    0x0000_0000, // 1
    0x5a5a_5a5a, // 2: 5a
    0xffff_fff9, // 3: -7, 9 in four bits
    0xffff_ff85, // 4: 85
    0x0000_1234, // 5: 1234
    0xabcd_0000, // 6: abcd
    0x0005_fffe, // 7: 5 and -2: fe 05
    0xff80_007f, // 7: -128 and 127: 7f 80
    0x0001_0000, // 6: 0001; also two signed bytes, but a tie goes to the lower number
    0xffff_8000, // 5: 8000
    0x0000_007f, // 4: 7f
    0x0000_0007, // 3: 7
    0x8080_8080, // 2: 80
    0x0000_0000, // 1
    0xdead_beef, // 0
];

#[rustfmt::skip]
const ALL_PREFIXES_DATA: [u8; 25] = [
    0x78, 0x56, 0x34, 0x12,  0xef, 0xbe, 0xad, 0xde,
    0x34, 0x12,  0xcd, 0xab,  0xfe, 0x05,  0x7f, 0x80,  0x01, 0x00,  0x00, 0x80,
    0x5a, 0x85, 0x7f, 0x80,
    0x79, // 4-bit fields 9 and 7
];

/// Bit p of the prefixes 0 1 2 3 4 5 6 7 7 6 5 4 3 2 1 0, word 0 in the lowest bit.
const ALL_PREFIXES_PLANES: [u8; 6] = [0xaa, 0x55, 0xcc, 0x33, 0xf0, 0x0f];

#[test]
fn every_prefix_stored() {
    let line = line_of(&ALL_PREFIXES);
    // 16 prefixes, and twice 32 + 0 + 8 + 4 + 8 + 16 + 16 + 16 data bits.
    assert_eq!(fpc::line_bits(&line), 48 + 200);
    let mut stored = vec![
        0x01, // the line is coded; no line is left for the second bit string
        0x00, // padding to a multiple of 2
    ];
    stored.extend_from_slice(&ALL_PREFIXES_PLANES); // ends at byte 8, a multiple of 4
    stored.extend_from_slice(&ALL_PREFIXES_DATA);
    assert_chunk(Algorithm::Fpc, Element::U32, &line, &stored);
}

#[test]
fn ties_go_to_the_lower_pattern() {
    // Patterns 7 and 8 in one word: its upper halfword is stored, not two bytes.
    let stored = |word: u32| {
        let coded = common::encode_chunk(common::codec_of(Algorithm::Fpc), Element::U32, &line_of(&[word]));
        let planes = [coded[2], coded[4], coded[6]].map(|plane| plane & 1);
        (planes[0] | planes[1] << 1 | planes[2] << 2, coded[8..].to_vec())
    };
    assert_eq!(stored(0xffff_0000), (6, vec![0xff, 0xff]));
    assert_eq!(stored(0x007f_0000), (6, vec![0x7f, 0x00]));
    // Not ties: a zero upper halfword over a negative signed byte is pattern 8 alone.
    assert_eq!(stored(0x0000_ff80), (7, vec![0x80, 0x00]));
    // Fewest data bits first: four equal bytes before two signed bytes.
    assert_eq!(stored(0x0808_0808), (2, vec![0x08]));
}

#[test]
fn sections_of_several_lines() {
    let raw_line = line_of(&[NO_PATTERN; 16]);
    let mut raw = Vec::new();
    raw.extend_from_slice(&[0; 64]); // line 0: zero
    raw.extend_from_slice(&raw_line); // line 1: raw
    raw.extend_from_slice(&line_of(&ALL_PREFIXES)); // line 2: coded
    raw.extend_from_slice(&[0; 6 * 64]); // lines 3 to 8: zero
    raw.extend_from_slice(&[0xf8, 0xff, 0xff, 0xff, 0x03]); // line 9: -8, 3, and fourteen zeros
    #[rustfmt::skip]
    let mut stored = vec![
        0b0000_0100, 0b0000_0010, // lines 2 and 9 are coded
        0b0000_0010,              // of the other eight, the second is raw
        0,                        // padding from byte 3 to 4
        0xaa, 0x55, 0xcc, 0x33, 0xf0, 0x0f, // line 2
        0xff, 0xff, 0x03, 0x00, 0x00, 0x00, // line 9: prefixes 3 3 1 1 ... 1
    ];
    stored.extend_from_slice(&raw_line); // words, of byte 16 on: line 1, then line 2
    stored.extend_from_slice(&ALL_PREFIXES_DATA[..24]); // words, halfwords and bytes of line 2
    stored.extend_from_slice(&[0x79, 0x38]); // 4-bit fields 9 7 8 3
    assert_chunk(Algorithm::Fpc, Element::U32, &raw, &stored);
}

#[test]
fn zero_lines_cost_two_bits() {
    // 16 lines: no coded bit set in two bytes, no raw bit set in two more; no planes, no data.
    assert_chunk(Algorithm::Fpc, Element::U32, &[0; 1024], &[0, 0, 0, 0]);
    // 17 lines: 3 + 3 bytes, padded to 8.
    assert_chunk(Algorithm::Fpc, Element::U32, &[0; 1025], &[0; 8]);
}

#[test]
fn a_decoder_takes_prefixes_that_an_encoder_would_not_choose() {
    // 7 as an unmatched word, as 16 bits, as 8 bits and as two signed bytes; a line of zeros that is coded.
    let seven = line_of(&[7, 7, 7, 7]);
    #[rustfmt::skip]
    let stored = [
        0b11, 0,
        0b1111_1010, 0xff, 0b0000_1000, 0x00, 0b0000_1110, 0x00, // prefixes 0 5 4 7 1 ... 1
        0xff, 0xff, 0, 0, 0, 0,                                  // prefixes 1 ... 1
        0, 0,
        7, 0, 0, 0,
        7, 0,  7, 0,
        7,
    ];
    let mut raw = seven.to_vec();
    raw.extend_from_slice(&[0; 64]);
    let codec = common::codec_of(Algorithm::Fpc);
    assert_eq!(common::decode_chunk(codec, Element::U32, &stored, 128).as_deref(), Ok(&raw[..]));
}

#[test]
fn bytes_past_the_end_of_the_last_line_are_dropped() {
    // A raw line of 0xaa, of which the chunk has 3 bytes.
    let mut stored = vec![0, 1, 0, 0];
    stored.extend_from_slice(&[0xaa; 64]);
    let codec = common::codec_of(Algorithm::Fpc);
    assert_eq!(common::decode_chunk(codec, Element::U32, &stored, 3), Ok(vec![0xaa; 3]));
}

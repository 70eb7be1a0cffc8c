//! C-Pack+Z, every row of Table II and every edge of it, worked out by hand.

mod common;

use common::{assert_chunk, line_of};
use mgcomp_codecs::{Algorithm, Element, cpackz};

/// Size of a line that starts with these words, without the 2 bits of each of its zero words.
fn bits_of(front: &[u32]) -> u32 {
    cpackz::line_bits(&line_of(front)) - 2 * (16 - front.len() as u32)
}

const NEW: u32 = 2 + 32;
const EQUAL: u32 = 4 + 4;
const UPPER_HALF: u32 = 4 + 4 + 16;
const LOW_BYTE: u32 = 4 + 8;
const UPPER_BYTES: u32 = 4 + 4 + 8;

#[test]
fn patterns_1_to_3() {
    assert_eq!(cpackz::line_bits(&[0; 64]), 2);
    assert_eq!(cpackz::line_bits(&line_of(&[0x1234_5678])), NEW + 15 * 2);
    assert_eq!(bits_of(&[0x1234_5678, 0x8765_4321]), NEW + NEW);
}

#[test]
fn patterns_4_to_7() {
    assert_eq!(bits_of(&[0x1122_3344, 0x1122_3344]), NEW + EQUAL);
    assert_eq!(bits_of(&[0x1122_3344, 0x1122_4344]), NEW + UPPER_HALF);
    assert_eq!(bits_of(&[0x1122_3344, 0x1122_3345]), NEW + UPPER_BYTES);
    assert_eq!(bits_of(&[0xff, 1]), LOW_BYTE + LOW_BYTE);
    // A difference in the upper halfword is no match at all.
    assert_eq!(bits_of(&[0x1122_3344, 0x1123_3344]), NEW + NEW);
}

#[test]
fn the_cheapest_match_is_tried_first() {
    // 4 before 7 and 5: a word equal to one entry that also shares bytes with it.
    assert_eq!(bits_of(&[0x0000_0100, 0x0000_0100]), NEW + EQUAL);
    // 6 before 7: the upper three bytes are zero; entry 0x00000100 shares only two of them.
    assert_eq!(bits_of(&[0x0000_0100, 0x0000_0001]), NEW + LOW_BYTE);
    // 7 before 5: the upper three bytes match, so the upper halfword does too.
    assert_eq!(bits_of(&[0x0000_0100, 0x0000_01ff]), NEW + UPPER_BYTES);
    // 5 before 3: the upper halfword of 0x00000100 is zero, as is that of 0xffff.
    assert_eq!(bits_of(&[0x0000_0100, 0x0000_ffff]), NEW + UPPER_HALF);
}

#[test]
fn only_new_words_join_the_dictionary() {
    // After a halfword match the same word again is a halfword match again, not an equal word.
    assert_eq!(bits_of(&[0x1122_3344, 0x1122_aabb, 0x1122_aabb]), NEW + UPPER_HALF + UPPER_HALF);
    // After a three-byte match likewise.
    assert_eq!(bits_of(&[0x1122_3344, 0x1122_3355, 0x1122_3355]), NEW + UPPER_BYTES + UPPER_BYTES);
    // A low byte does not join: 0xff is a low byte again, and 0x1ff, whose upper halfword is zero like that
    // of 0xff and of the zero words, is new.
    assert_eq!(bits_of(&[0xff, 0xff, 0x1ff]), LOW_BYTE + LOW_BYTE + NEW);
    assert_eq!(bits_of(&[0, 0x1ff]), 2 + NEW);
}

#[test]
fn the_dictionary_starts_empty_in_each_line() {
    let mut raw = Vec::new();
    raw.extend_from_slice(&line_of(&[0x1122_3344]));
    raw.extend_from_slice(&line_of(&[0x1122_3344]));
    assert_eq!(mgcomp_codecs::paper_bits(Algorithm::CpackZ, &raw), Some(2 * u64::from(NEW + 15 * 2)));
}

#[test]
fn a_line_that_would_reach_512_bits_goes_raw() {
    // Words that share no upper halfword.
    let distinct: [u32; 16] = std::array::from_fn(|i| (i as u32 + 1) << 16 | 0xbeef);
    assert_eq!(cpackz::line_bits(&line_of(&distinct)), 512); // 16 × 34 = 544
    assert_eq!(cpackz::line_bits(&line_of(&distinct[..15])), 512); // 15 × 34 + 2 is 512: raw, by the rule
    let ending = |a, b| {
        let mut words = distinct; // 14 × 34 = 476 remain
        (words[14], words[15]) = (a, b);
        cpackz::line_bits(&line_of(&words))
    };
    assert_eq!(ending(0, 0), 480);
    assert_eq!(ending(0x000e_0000, 0x000e_beef), 476 + UPPER_HALF + EQUAL); // 508, coded: index 13
    assert_eq!(ending(0x000e_0000, 0x55), 512); // 476 + 24 + 12 is 512
    assert_eq!(ending(0x000e_0000, 0x000e_be00), 512); // 516
}

#[test]
fn a_line_of_exactly_512_bits_is_stored_raw() {
    let words: [u32; 15] = std::array::from_fn(|i| (i as u32 + 1) << 16);
    let line = line_of(&words);
    let mut stored = vec![0, 1, 0, 0]; // not coded, raw, padding
    stored.extend_from_slice(&line);
    assert_chunk(Algorithm::CpackZ, Element::U32, &line, &stored);
}

/// One line that shows every pattern, and words that must not have joined the dictionary.
const ALL_PATTERNS: [u32; 16] = [
    0x1122_3344, // new: entry 0
    0x1122_3344, // equals entry 0
    0x1122_3355, // upper three bytes of entry 0
    0x1122_aabb, // upper halfword of entry 0
    0x1122_aabb, // again, since it did not join
    0x0000_00ff, // low byte
    0x0000_0000, // zero
    0x9988_7766, // new: entry 1
    0x9988_7700, // upper three bytes of entry 1
    0x9988_0000, // upper halfword of entry 1
    0x0000_0101, // new: entry 2
    0x0000_0102, // upper three bytes of entry 2
    0x0000_0001, // low byte
    0x0000_f000, // upper halfword of entry 2
    0x1122_0101, // upper halfword of entry 0
    0x0000_00ff, // low byte
];

/// Codes 2 3 3 3 3 3 1 2 3 3 2 3 3 3 3 3 as two planes, word 0 in the lowest bit.
const ALL_PATTERNS_PLANES: [u8; 4] = [0b0111_1110, 0b1111_1011, 0b1011_1111, 0b1111_1111];

/// Sub-codes 0 3 1 1, 2 3 1 3, 2 1 1 2, the first in the lowest bits.
const ALL_PATTERNS_SUBCODES: [u8; 3] = [0b01_01_11_00, 0b11_01_11_10, 0b10_01_01_10];

#[test]
fn every_pattern_stored() {
    let line = line_of(&ALL_PATTERNS);
    // 3 new, 1 equal, 3 upper three bytes, 5 upper halfword, 3 low byte, 1 zero.
    assert_eq!(cpackz::line_bits(&line), 3 * 34 + 8 + 3 * 16 + 5 * 24 + 3 * 12 + 2);
    assert_eq!(cpackz::line_bits(&line), 316);
    let mut stored = vec![
        0x01, // the line is coded; no line is left for the second bit string
        0x00, // padding to a multiple of 2
    ];
    stored.extend_from_slice(&ALL_PATTERNS_PLANES);
    stored.extend_from_slice(&ALL_PATTERNS_SUBCODES);
    #[rustfmt::skip]
    stored.extend_from_slice(&[
        0, 0, 0,                                                         // padding from byte 9 to 12
        0x44, 0x33, 0x22, 0x11,  0x66, 0x77, 0x88, 0x99,  0x01, 0x01, 0x00, 0x00,
        0xbb, 0xaa,  0xbb, 0xaa,  0x00, 0x00,  0x00, 0xf0,  0x01, 0x01,  // words 3, 4, 9, 13, 14
        0x55, 0xff, 0x00, 0x02, 0x01, 0xff,                              // words 2, 5, 8, 11, 12, 15
        0x00, 0x00, 0x11, 0x22, 0x00, // indices 0 0 0 0 1 1 2 2 0 of words 1 2 3 4 8 9 11 13 14
    ]);
    assert_chunk(Algorithm::CpackZ, Element::U32, &line, &stored);
}

#[test]
fn sections_of_several_lines() {
    let distinct: [u32; 16] = std::array::from_fn(|i| (i as u32 + 1) << 16 | 0xbeef);
    let mut raw = Vec::new();
    raw.extend_from_slice(&line_of(&[0xaabb_ccdd, 0xaabb_ccdd, 0x77])); // line 0: coded
    raw.extend_from_slice(&line_of(&distinct)); // line 1: raw
    raw.extend_from_slice(&[0; 64]); // line 2: zero
    raw.extend_from_slice(&[1, 2, 3, 4, 1, 2, 3, 4, 5, 2, 3, 4, 1, 1, 3]); // line 3: coded, one byte short
    #[rustfmt::skip]
    let mut stored = vec![
        0b0000_1001, // lines 0 and 3 are coded
        0b0000_0001, // of lines 1 and 2 the first is raw; at byte 2 no padding is needed
        // Line 0, codes 2 3 3 1 1 ... 1.
        0b1111_1110, 0xff, 0b0000_0111, 0x00,
        // Line 3: words 04030201 04030201 04030205 00030101: codes 2 3 3 2 1 ... 1. The last one starts with
        // another halfword than entry 0 and is not short, so it is new.
        0b1111_0110, 0xff, 0b0000_1111, 0x00,
        0b11_00_10_00, // sub-codes 0 2 of line 0, 0 3 of line 3
        0,             // padding from byte 11 to 12
        0xdd, 0xcc, 0xbb, 0xaa,
    ];
    stored.extend_from_slice(&line_of(&distinct)); // line 1 takes part in no dictionary
    #[rustfmt::skip]
    stored.extend_from_slice(&[
        0x01, 0x02, 0x03, 0x04,  0x01, 0x01, 0x03, 0x00,
        0x77, 0x05, // no halfwords; low bytes of lines 0 and 3
        0x00, 0x00, // indices 0 of line 0, 0 0 of line 3, and half a byte unused
    ]);
    assert_chunk(Algorithm::CpackZ, Element::U32, &raw, &stored);
}

#[test]
fn a_decoder_takes_dictionaries_that_an_encoder_would_not_make() {
    // Words join only if no entry has their upper halfword, so an encoder never has two matches to choose
    // from. A decoder must take 11223344 11223344 11223355 all the same, and an index to either of them.
    let line = line_of(&[0x1122_3344, 0x1122_3344, 0x1122_3355, 0x1122_3344]);
    let codec = common::codec_of(Algorithm::CpackZ);
    for index in [0, 1] {
        #[rustfmt::skip]
        let stored = [
            1, 0,
            0b1111_1000, 0xff, 0b0000_1111, 0x00, // codes 2 2 2 3 1 ... 1
            0, 0,                                 // sub-code 0, padding
            0x44, 0x33, 0x22, 0x11,  0x44, 0x33, 0x22, 0x11,  0x55, 0x33, 0x22, 0x11,
            index,
        ];
        assert_eq!(common::decode_chunk(codec, Element::U32, &stored, 64).as_deref(), Ok(&line[..]));
    }
    // Nor need new words be worth it: fifteen of them, small and even zero, and an index to the last.
    let mut stored = vec![1, 0, 0x00, 0x80, 0xff, 0xff, 0, 0]; // codes 2 2 ... 2 3
    stored.extend((0..15u32).flat_map(u32::to_le_bytes));
    stored.push(14);
    let line = line_of(&[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 14]);
    assert_eq!(common::decode_chunk(codec, Element::U32, &stored, 64).as_deref(), Ok(&line[..]));
}

#[test]
fn zero_lines_cost_two_bits() {
    // 64 lines: eight bytes say "not coded", eight more "not raw".
    assert_chunk(Algorithm::CpackZ, Element::U8, &[0; 4096], &[0; 16]);
}

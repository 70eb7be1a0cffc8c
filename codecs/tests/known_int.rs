//! INT, worked out by hand from the rules of `FORMAT.md`, on every instruction set of this machine.

mod common;

use common::{decode_chunk, encode_chunk, hex};
use mgcomp_codecs::int::Int;
use mgcomp_codecs::{Codec, Cpu, Element};

/// Checks that `raw` is stored as exactly `stored`, and that `stored` decodes to `raw`.
#[track_caller]
fn assert_chunk(element: Element, raw: &[u8], stored: &[u8]) {
    for cpu in Cpu::available() {
        let codec = Int::on(cpu);
        assert_eq!(hex(&encode_chunk(&codec, element, raw)), hex(stored), "{cpu:?}");
        assert_eq!(codec.chunk_len(element, raw), stored.len(), "{cpu:?}");
    }
    assert_decodes(element, stored, raw);
}

#[track_caller]
fn assert_decodes(element: Element, stored: &[u8], raw: &[u8]) {
    for cpu in Cpu::available() {
        assert_eq!(decode_chunk(&Int::on(cpu), element, stored, raw.len()).as_deref(), Ok(raw), "{cpu:?}");
    }
}

fn words32(words: impl IntoIterator<Item = u32>) -> Vec<u8> {
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

#[test]
fn a_few_words_are_offsets_from_the_smallest() {
    // Offsets 0 1 2: two planes. For three words, planes cost 6 bits; c = 0: 3 + 2 · 8, c = 1: 6 + 8.
    #[rustfmt::skip]
    let stored = [
        0, 0, 2, 0, 0, 0, 0, 0,  5, 0, 0, 0,   // identity, c = 2, base 5
        2, 0, 0, 0,                             // two planes, padding
        0b010, 0, 0, 0,  0b100, 0, 0, 0,
        9, 9,                                   // tail
    ];
    assert_chunk(Element::U32, &[5, 0, 0, 0, 6, 0, 0, 0, 7, 0, 0, 0, 9, 9], &stored);
}

#[test]
fn bytes_have_codes_of_half_a_byte() {
    // 33 bytes, 0x10 but for the last, 0x13. All are multiples of 1 above the base: 0 and 3, no rotation.
    // Of 33 words one has two bits: c = 0 costs 33 + 8, planes 66. Its own block is cheaper in marks and a
    // patch, too, 4 + 1 bytes against 8: code 8 + 1, in the high half byte.
    let mut raw = [0x10; 33];
    raw[32] = 0x13;
    #[rustfmt::skip]
    let stored = [
        0, 0, 0, 0, 0, 0, 0, 0,  0x10,
        0x90, 0, 0,
        1, 0, 0, 0,
        3,
    ];
    assert_chunk(Element::U8, &raw, &stored);
}

#[test]
fn low_zeros_are_rotated_away() {
    // Offsets 0, 0x1000, 0x3000: 12 low zeros, then 0, 1, 3.
    #[rustfmt::skip]
    let stored = [
        0, 12, 2, 0, 0, 0, 0, 0,  0x34, 0x12,
        2, 0,
        0b110, 0, 0, 0,  0b100, 0, 0, 0,
    ];
    assert_chunk(Element::U16, &[0x34, 0x12, 0x34, 0x22, 0x34, 0x42], &stored);
}

#[test]
fn a_word_that_stands_out_becomes_a_patch() {
    // 32 words: ones and threes above the base 0, which is there, and one of 0x1_0000_0001 (33 bits).
    // c = 0: 32 + 8 · 31 · 5; c = 1: 64 + 8 · n · 4, n = 16 threes and the large one; c = 2: 96 + 8 · 4.
    let word = |i: u64| match i {
        0 => 0,
        20 => 0x1_0000_0001,
        _ => 1 + 2 * (i % 2),
    };
    let raw: Vec<u8> = (0..32).flat_map(|i| word(i).to_le_bytes()).collect();
    #[rustfmt::skip]
    let stored = [
        0, 0, 2, 0, 0, 0, 0, 0,  0, 0, 0, 0, 0, 0, 0, 0,
        64 + 4, 0, 0, 0,
        0xfe, 0xff, 0xff, 0xff,                 // bit 0: all but word 0
        0xaa, 0xaa, 0xaa, 0xaa,                 // bit 1: odd words
        0, 0, 0x10, 0,                          // word 20 is longer
        0, 0, 0, 0x40,                          // its bits from 2 on
    ];
    assert_chunk(Element::F64, &raw, &stored);
}

#[test]
fn a_ramp_is_zero_after_two_differences() {
    // x[i] = 7 + i. Differences to the word before are 1, zigzag 2: 128 · 2 bits. Differences of those: 0 bits in
    // the sample, from word 64 on. So c = 0. Word 1 is predicted as 7 + 7 - 7: one residual, 2, of 2 bits;
    // its mark and patch take 4 + 1 bytes, planes 8.
    let raw = words32((0..1024).map(|i| 7 + i));
    let mut stored = vec![1, 0, 0, 0, 1, 0, 1, 0, 7, 0, 0, 0];
    stored.push(32 + 1);
    stored.extend_from_slice(&[0; 31]);
    stored.extend_from_slice(&[2, 0, 0, 0]);
    stored.push(2);
    assert_chunk(Element::U32, &raw, &stored);
}

#[test]
fn a_record_of_five_bytes_is_found() {
    // 1000 bytes that repeat every five: lag 5 leaves nothing, and nothing beats it by more than 32 bits. The
    // first five are predicted as the first byte: residuals zigzag(0 100 -56 3 1), modulo 256.
    let raw: Vec<u8> = (0..1000).map(|i| [9, 109, 209, 12, 10][i % 5]).collect();
    // Residuals 0, 200, 111, 6, 2: eight planes of 32 bytes cost 32, marks and four patches 4 + 4.
    let mut stored = vec![1, 0, 0, 0, 5, 0, 0, 0, 9, 9];
    stored.resize(9 + 16, 0); // 32 blocks, the first patched
    stored.resize(28, 0);
    stored.extend_from_slice(&[0b1_1110, 0, 0, 0, 200, 111, 6, 2]);
    assert_chunk(Element::U8, &raw, &stored);
}

#[test]
fn decoders_take_any_lags_and_maps() {
    // Differences 1 1 1 … in one plane, lags 0 and 3, base 10: 11 11 11 12 12 12 13.
    let header = |map: u8, lags: [u8; 2]| vec![map, 0, 0, 0, lags[0], 0, lags[1], 0, 10, 0];
    let chunk =
        |map, lags, planes: &[u8]| [&header(map, lags), &[planes.len() as u8 / 4, 0][..], planes].concat();
    let words16 = |words: &[u16]| words.iter().flat_map(|w| w.to_le_bytes()).collect::<Vec<u8>>();
    let ones = [0x7f, 0, 0, 0];
    let expected = words16(&[11, 11, 11, 12, 12, 12, 13]);
    assert_decodes(Element::Bf16, &chunk(0, [0, 3], &ones), &expected);
    assert_decodes(Element::Bf16, &chunk(0, [3, 0], &ones), &expected);
    // Lags 2 and 1, larger one first: d[i] = x[i] - x[i-1] - x[i-2] + x[i-3].
    let expected = words16(&[11, 12, 14, 16, 19, 22, 26]);
    assert_decodes(Element::U16, &chunk(0, [2, 1], &ones), &expected);
    // Zigzag without lags: 1 is -1. Reversed: 1 is the top bit.
    assert_decodes(Element::U16, &chunk(1, [0, 0], &ones), &words16(&[9; 7]));
    assert_decodes(Element::U16, &chunk(2, [0, 0], &ones), &words16(&[0x800a; 7]));
    // Reversed with a lag: the top bit goes in and out.
    let expected = words16(&[0x800a, 10, 0x800a, 10, 0x800a, 10, 0x800a]);
    assert_decodes(Element::U16, &chunk(2, [1, 0], &ones), &expected);
    // A lag longer than the chunk: all words are predicted as the base.
    assert_decodes(Element::U16, &chunk(0, [200, 0], &ones), &words16(&[11; 7]));
    assert_decodes(Element::U16, &chunk(0, [200, 100], &ones), &words16(&[11; 7]));
}

#[test]
fn patches_may_be_zero_or_too_long() {
    // c = 12: twelve empty planes, marks for words 0 and 1, patches of two bytes: zero, and 0xfff1 of which
    // four bits fit.
    let mut stored = vec![0, 0, 12, 0, 0, 0, 0, 0, 0, 0, 16 + 2, 0];
    stored.extend_from_slice(&[0; 48]);
    stored.extend_from_slice(&[0b11, 0, 0, 0, 0, 0, 0xf1, 0xff]);
    assert_decodes(Element::U16, &stored, &[0, 0, 0, 0x10, 0, 0]);
}

#[test]
fn floats_that_hold_small_integers_are_reversed() {
    // Counts 1.0 to 8.0 in no order: 3 bits of exponent and 3 of fraction at most, 20 zeros below.
    let counts: Vec<f32> = (0..1024u32).map(|i| (i.wrapping_mul(0x9e37_79b9) >> 29) as f32 + 1.0).collect();
    let raw: Vec<u8> = counts.iter().flat_map(|c| c.to_le_bytes()).collect();
    let coded = encode_chunk(&Int::on(Cpu::Portable), Element::F32, &raw);
    assert_eq!(coded[0], 2);
    assert!(coded.len() * 5 < raw.len(), "{} bytes", coded.len());
}

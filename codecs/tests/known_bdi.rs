//! BDI, every row of Table II and every edge of it, worked out by hand.

mod common;

use common::{assert_chunk, decode_chunk, hex, line_of};
use mgcomp_codecs::line::Line;
use mgcomp_codecs::{Algorithm, ChunkError, Element, bdi, codec};

/// Checks size and stored bytes of a chunk that is this one line.
#[track_caller]
fn assert_line(line: &Line, bits: u32, stored: &[u8]) {
    assert_eq!(bdi::line_bits(line), bits);
    assert_chunk(Algorithm::Bdi, Element::U8, line, stored);
}

/// The line of eight 64-bit elements.
fn longs(elements: [u64; 8]) -> Line {
    elements.map(u64::to_le_bytes).concat().try_into().unwrap()
}

/// The line of 32 halfwords: these, then zeros.
fn halves(front: &[u16]) -> Line {
    let mut line = [0; 64];
    line.iter_mut().zip(front.iter().flat_map(|half| half.to_le_bytes())).for_each(|(out, byte)| *out = byte);
    line
}

/// `value` as a two's complement number of 64 bits.
const fn signed(value: i64) -> u64 {
    value as u64
}

#[test]
fn form_0_zero_line() {
    // One nibble 0; the other half of the byte is unused. Then padding to 4.
    assert_line(&[0; 64], 4, &[0x00, 0, 0, 0]);
}

#[test]
fn form_1_repeated_word() {
    let line = longs([0x0123_4567_89ab_cdef; 8]);
    assert_line(&line, 68, &[0x01, 0, 0, 0, 0xef, 0xcd, 0xab, 0x89, 0x67, 0x45, 0x23, 0x01]);
    // Eight small words would fit form 2 as well: 68 bits beat 140.
    assert_line(&longs([5; 8]), 68, &[0x01, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0]);
    // The last word differs in its top byte: no longer repeated, and too far off for forms 2 to 7.
    let mut words = [0x0123_4567_89ab_cdef; 8];
    words[7] ^= 1 << 63;
    assert_eq!(bdi::line_bits(&longs(words)), 512);
}

#[test]
fn form_2_base_8_delta_1() {
    const B: u64 = 0x1122_3344_5566_7700;
    let line = longs([B + 7, 127, B + 255, signed(-128), 0, B, signed(-1), B + 1]);
    #[rustfmt::skip]
    let stored = [
        0x02,                                           // form
        0b1010_0101,                                    // elements 0, 2, 5 and 7 lie off the base
        0, 0,                                           // padding
        0x00, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11, // the base is the smallest of them, not the first
        0x07, 0x7f, 0xff, 0x80, 0x00, 0x00, 0xff, 0x01, // 255 is unsigned there, -128 and -1 signed here
    ];
    assert_line(&line, 140, &stored);
}

#[test]
fn form_2_ends_where_a_delta_needs_9_bits() {
    const B: u64 = 0x1122_3344_5566_7700;
    let with = |element| longs([B, element, 0, 0, 0, 0, 0, 0]);
    for element in [B + 255, 127, signed(-128)] {
        assert_eq!(bdi::line_bits(&with(element)), 140, "{element:#x}");
    }
    // 128 and -129 are no signed bytes and far from the base; in form 3 (204 bits) they are short again.
    for element in [B + 256, B - 256, 128, signed(-129)] {
        assert_eq!(bdi::line_bits(&with(element)), 204, "{element:#x}");
    }
}

#[test]
fn form_3_base_8_delta_2() {
    const B: u64 = 0x1122_3344_5566_0001;
    let line = longs([32767, signed(-32768), B + 65535, B, B + 256, 0, 1, signed(-2)]);
    #[rustfmt::skip]
    let stored = [
        0x03, 0b0001_1100, 0, 0,
        0x01, 0x00, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,
        0xff, 0x7f,  0x00, 0x80,  0xff, 0xff,  0x00, 0x00,  0x00, 0x01,  0x00, 0x00,  0x01, 0x00,  0xfe, 0xff,
    ];
    assert_line(&line, 204, &stored);
    for element in [B + 65536, 32768, signed(-32769)] {
        assert_eq!(bdi::line_bits(&longs([B, B + 256, element, 0, 0, 0, 0, 0])), 332, "{element:#x}");
    }
}

#[test]
fn form_4_base_8_delta_4() {
    const B: u64 = 0x9e37_79b9_7f4a_7c15;
    let line =
        longs([B, B + 0xffff_ffff, 0x7fff_ffff, signed(-0x8000_0000), 0, B + 0x0102_0304, 1, signed(-1)]);
    #[rustfmt::skip]
    let stored = [
        0x04, 0b0010_0011, 0, 0,
        0x15, 0x7c, 0x4a, 0x7f, 0xb9, 0x79, 0x37, 0x9e,
        0, 0, 0, 0,              0xff, 0xff, 0xff, 0xff,  0xff, 0xff, 0xff, 0x7f,  0, 0, 0, 0x80,
        0, 0, 0, 0,              0x04, 0x03, 0x02, 0x01,  1, 0, 0, 0,              0xff, 0xff, 0xff, 0xff,
    ];
    assert_line(&line, 332, &stored);
    for element in [B + 0x1_0000_0000, 0x8000_0000, signed(-0x8000_0001)] {
        let line = longs([B, B + 0xffff_0000, element, 0, 0, 0, 0, 0]);
        assert_eq!(bdi::line_bits(&line), 512, "{element:#x}");
    }
}

#[test]
fn form_5_base_4_delta_1() {
    // Sixteen floats that differ in their last bits, but for four short numbers.
    const B: u32 = 0x3f80_0010;
    let line = line_of(&[
        B + 1,
        B,
        127,
        B + 255,
        0,
        0xffff_ffff,
        B + 2,
        B + 3,
        B + 4,
        B + 5,
        0xffff_ff80,
        B + 6,
        B,
        B,
        B,
        B,
    ]);
    #[rustfmt::skip]
    let stored = [
        0x05,
        0b1100_1011, 0b1111_1011, // words 2, 4, 5 and 10 belong to the zero base
        0,
        0x10, 0x00, 0x80, 0x3f,
        0x01, 0x00, 0x7f, 0xff, 0x00, 0xff, 0x02, 0x03, 0x04, 0x05, 0x80, 0x06, 0x00, 0x00, 0x00, 0x00,
    ];
    assert_line(&line, 180, &stored);
    for word in [B + 256, B - 1, 128, 0xffff_ff7f] {
        // 308 bits: form 6 has deltas of two bytes.
        assert_eq!(bdi::line_bits(&line_of(&[B, B + 255, word, B])), 308, "{word:#x}");
    }
}

#[test]
fn form_5_without_an_explicit_element_has_base_0() {
    // As 64-bit elements these are large, as words all are signed bytes.
    let line = line_of(&[1, 2, 3, 4, 5, 6, 7, 47, 9, 10, 11, 12, 13, 14, 15, 0xffff_fff0]);
    #[rustfmt::skip]
    let stored = [
        0x05, 0, 0, 0,
        0, 0, 0, 0,
        1, 2, 3, 4, 5, 6, 7, 47, 9, 10, 11, 12, 13, 14, 15, 0xf0,
    ];
    assert_line(&line, 180, &stored);
}

#[test]
fn form_6_base_4_delta_2() {
    const B: u32 = 0x00ab_0000;
    let line = line_of(&[B + 0x1234, 7, B, B + 0xffff, 0x7fff, 0xffff_8000, 0xffff_fffe, B + 0x0102]);
    #[rustfmt::skip]
    let stored = [
        0x06,
        0b1000_1101, 0b0000_0000,
        0,
        0x00, 0x00, 0xab, 0x00,
        0x34, 0x12,  0x07, 0x00,  0x00, 0x00,  0xff, 0xff,  0xff, 0x7f,  0x00, 0x80,  0xfe, 0xff,  0x02, 0x01,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_line(&line, 308, &stored);
    // 0x4567 and 0x00ab are no neighbours as halfwords, so form 7 does not help.
    const C: u32 = 0x00ab_4567;
    for word in [C + 0x1_0000, C - 1, 0x8000, 0xffff_7fff] {
        assert_eq!(bdi::line_bits(&line_of(&[C, C + 0xffff, C + 5, C])), 308);
        assert_eq!(bdi::line_bits(&line_of(&[C, C + 0xffff, word, C])), 512, "{word:#x}");
    }
}

#[test]
fn form_7_base_2_delta_1() {
    // Halfwords near 0x1000 or short; as words their upper halves differ too much for forms 5 and 6, as
    // 64-bit elements too much for form 4.
    let line = halves(&[0x1005, 0x1000, 0x10ff, 0x1001, 0x007f, 0x10aa, 0xff80, 0x1002, 0xffff]);
    #[rustfmt::skip]
    let stored = [
        0x07,
        0b1010_1111, 0b0000_0000, 0, 0, // 32 mask bits
        0, 0, 0,                        // padding from byte 5 to 8
        0x00, 0x10,
        0x05, 0x00, 0xff, 0x01, 0x7f, 0xaa, 0x80, 0x02, 0xff, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_line(&line, 308, &stored);
    for half in [0x1100, 0x0fff, 0x0080, 0xff7f] {
        let line = halves(&[0x1000, 0x10ff, 0x10ff, 0x1000, half, 0x1000, 0x1001, 0x1002]);
        assert_eq!(bdi::line_bits(&line), 512, "{half:#x}");
    }
}

#[test]
fn of_forms_6_and_7_the_lower_number_wins() {
    // As words: 0x1000 is short for two bytes, 0xff80 is not and becomes the base. As halfwords: 0x1000 is
    // the base, 0xff80 is -128. Both take 308 bits. For form 5 the two are too far apart, and so are the
    // 64-bit elements 0x0000ff80_00001000 and 0x00001000_0000ff80 for form 4.
    let line = line_of(&[0x1000, 0xff80, 0xff80, 0x1000]);
    #[rustfmt::skip]
    let stored = [
        0x06,
        0b0000_0110, 0,
        0,
        0x80, 0xff, 0, 0,
        0x00, 0x10,  0x00, 0x00,  0x00, 0x00,  0x00, 0x10,  0, 0, 0, 0, 0, 0, 0, 0,
        0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_line(&line, 308, &stored);
}

#[test]
fn numbers_on_both_sides_of_zero_do_not_wrap_around_into_one_base() {
    // 200 and -200 are 400 apart if the distance wraps around zero, but unsigned they are at opposite ends.
    assert_eq!(bdi::line_bits(&longs([200, signed(-200), 0, 0, 0, 0, 0, 0])), 204);
    // 128 and -129 are 257 apart that way, one more than a delta of one byte reaches.
    assert_eq!(bdi::line_bits(&longs([128, signed(-129), 0, 0, 0, 0, 0, 0])), 204);
    // The largest unsigned numbers are short negative ones; the ones before them make a base of their own.
    let line = longs([signed(-129), signed(-384), 0, 0, 0, 0, 0, signed(-128)]);
    #[rustfmt::skip]
    let stored = [
        0x02, 0b0000_0011, 0, 0,
        0x80, 0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, // -384
        0xff, 0x00, 0, 0, 0, 0, 0, 0x80,
    ];
    assert_line(&line, 140, &stored);
}

#[test]
fn a_decoder_adds_modulo_the_element() {
    // No encoder writes this, but every decoder must make the same of it: -1 + 2 is 1, at any width.
    let mut eight = [0u8; 20];
    eight[..2].copy_from_slice(&[0x02, 0b1]);
    eight[4..12].fill(0xff);
    eight[12] = 2;
    let mut four = [0u8; 24];
    four[..3].copy_from_slice(&[0x05, 0b1, 0]);
    four[4..8].fill(0xff);
    four[8] = 2;
    // The other elements have no base: their deltas are zero.
    let one = line_of(&[1]);
    let bdi = codec(Algorithm::Bdi).unwrap();
    for stored in [&eight[..], &four] {
        assert_eq!(decode_chunk(bdi, Element::U8, stored, 64).as_deref(), Ok(&one[..]), "{}", hex(stored));
    }
}

#[test]
fn form_8_raw() {
    let line: Line = std::array::from_fn(|i| (i as u8).wrapping_mul(73) ^ 0x5c);
    let mut stored = vec![0x08, 0, 0, 0];
    stored.extend_from_slice(&line);
    assert_line(&line, 512, &stored);
}

#[test]
fn sections_of_several_lines() {
    const B: u64 = 0x0100_0000_0000_0000;
    let mut raw = Vec::new();
    raw.extend_from_slice(&[0; 64]);
    raw.extend_from_slice(&longs([B, B + 1, B + 2, B + 3, 4, 5, 6, 7]));
    raw.extend_from_slice(&line_of(&[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16]));
    raw.extend_from_slice(&[0xc3; 64]);
    raw.extend_from_slice(&[9, 0, 0]); // the line is filled up with zeros, so it is 9 and seven zeros
    #[rustfmt::skip]
    let stored = [
        0x20, 0x15, 0x02,       // forms 0 2, 5 1, 2 -
        0b0000_1111,            // masks: line 1,
        0, 0,                   // line 2,
        0,                      // line 4
        0,                      // padding from byte 7 to 8
        0, 0, 0, 0, 0, 0, 0, 1, // line 1
        0, 1, 2, 3, 4, 5, 6, 7,
        0, 0, 0, 0,             // line 2
        1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16,
        0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, 0xc3, // line 3
        0, 0, 0, 0, 0, 0, 0, 0, // line 4: base 0
        9, 0, 0, 0, 0, 0, 0, 0,
    ];
    assert_chunk(Algorithm::Bdi, Element::F32, &raw, &stored);
}

#[test]
fn forms_9_to_15_have_no_meaning() {
    let bdi = codec(Algorithm::Bdi).unwrap();
    for tag in 9..16 {
        let mut stored = [0; 80];
        stored[0] = tag << 4;
        let error = decode_chunk(bdi, Element::U8, &stored, 128).unwrap_err();
        assert_eq!(error, ChunkError::Tag { line: 1, tag });
    }
}

//! XP, worked out by hand from the rule: a mask where it pays, a table, codes of 2, 2 or 3 and 3 bits, the
//! rest.

mod common;

use common::{Random, assert_chunk, decode_chunk, encode_chunk};
use mgcomp_codecs::xp::Xp;
use mgcomp_codecs::{Algorithm, ChunkError, Codec, Cpu, Element, codec};

fn bytes_of(words: impl IntoIterator<Item = u16>) -> Vec<u8> {
    words.into_iter().flat_map(u16::to_le_bytes).collect()
}

/// Encodes on every instruction set and checks that all write the same.
fn encode(element: Element, raw: &[u8]) -> Vec<u8> {
    let portable = encode_chunk(&Xp::on(Cpu::Portable), element, raw);
    for cpu in Cpu::available() {
        let xp = Xp::on(cpu);
        let coded = encode_chunk(&xp, element, raw);
        let differs = (0..coded.len().min(portable.len())).find(|&i| coded[i] != portable[i]);
        assert!(coded == portable, "{element} on {}: differs first at {differs:?}", cpu.isa());
        assert_eq!(xp.chunk_len(element, raw), portable.len(), "{element} on {}", cpu.isa());
        let decoded = decode_chunk(&xp, element, &portable, raw.len());
        assert!(decoded.as_deref() == Ok(raw), "{element} on {}: {:?}", cpu.isa(), decoded.err());
    }
    portable
}

/// Thirty-two bf16: exponents 7f 7f 7e 7d, again and again, negative where the number is a multiple of 3.
fn weights() -> Vec<u16> {
    let value =
        |i: usize| [0x7f, 0x7f, 0x7e, 0x7d][i % 4] << 7 | u16::from(i.is_multiple_of(3)) << 15 | i as u16;
    (0..32).map(value).collect()
}

#[test]
fn three_exponents_and_the_sign_at_the_bottom() {
    let raw = bytes_of(weights());
    let mut stored =
        vec![0, 0, 0x7f, 0x7d, 0x7e, 0x7c, 0x7b, 0x7a, 0x79, 0x78, 0x77, 0x76, 0x75, 0x74, 0x73, 0];
    // Codes 0 0 2 1: of equally common symbols the lower comes first.
    stored.extend([0x88, 0x88, 0x88, 0x88, 0x44, 0x44, 0x44, 0x44]);
    stored.extend((0..32u8).map(|i| i << 1 | u8::from(i.is_multiple_of(3))));
    assert_chunk(Algorithm::Xp, Element::Bf16, &raw, &stored);
    assert_chunk(Algorithm::Xp, Element::U16, &raw, &stored);
}

/// bf16 of these exponents; fractions count up, and every other value is negative.
fn with_exponents(exponents: impl IntoIterator<Item = u16>) -> Vec<u8> {
    let values = exponents.into_iter().enumerate().map(|(i, e)| ((i & 1) << 15) as u16 | e << 7 | i as u16);
    bytes_of(values)
}

/// The low bytes of [`with_exponents`] when rotated.
fn rests(count: u8) -> impl Iterator<Item = u8> {
    (0..count).map(|i| i << 1 | i & 1)
}

#[test]
fn each_tier_has_what_the_one_before_left() {
    // 27 times exponent 80, 7 times 81 and 82, 5 times 83, 84 and 85, once 86 to 8d.
    let times = [(0x80, 27), (0x81, 7), (0x82, 7), (0x83, 5), (0x84, 5), (0x85, 5)];
    let common = times.into_iter().flat_map(|(e, times)| [e].repeat(times));
    let raw = with_exponents(common.chain(0x86..=0x8d));
    let mut stored =
        vec![0, 0, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0];
    // Tier 1: 27 times 0, 7 times 1, 7 times 2, 23 escapes.
    stored.extend((0x7f_u64 << 27 | 0x7f_ffff << 41).to_le_bytes());
    stored.extend((0x3fff_ffff_u64 << 34).to_le_bytes());
    stored.extend(rests(64));
    // Tier 2: 5 times 0, 1, 2, and 8 escapes.
    stored.extend([0xe0, 0x83, 0x7f, 0x00, 0xfc, 0x7f]);
    // Tier 3: 0 1 2 3 4 5 6 7; and one symbol without a code.
    stored.extend([0xaa, 0xcc, 0xf0, 0x8d]);
    assert_chunk(Algorithm::Xp, Element::Bf16, &raw, &stored);
}

#[test]
fn the_second_tier_is_wide_where_that_is_shorter() {
    // Exponents 80 to 8d, each twice, then 28 more times 80: 90 bits against 108 behind tier 1.
    let raw = with_exponents((0..28).map(|i| 0x80 + i / 2).chain([0x80; 28]));
    let mut stored =
        vec![2, 0, 0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87, 0x88, 0x89, 0x8a, 0x8b, 0x8c, 0x8d];
    stored.extend([0x7f, 0x7e, 0x7d, 0, 0, 0, 0, 0]);
    // Tier 1: 0 0 1 1 2 2, then 22 escapes, then 28 times 0. Seven bytes a plane.
    stored.extend([0xcc, 0xff, 0xff, 0x0f, 0, 0, 0, 0xf0, 0xff, 0xff, 0x0f, 0, 0, 0]);
    stored.extend(rests(56));
    // Tier 2, for 22: 0 0 1 1 2 2 3 3 4 4 5 5 6 6 and 8 escapes.
    stored.extend([0xcc, 0xcc, 0x3f, 0xf0, 0xf0, 0x3f, 0x00, 0xff, 0x3f]);
    // Tier 3, for 8: 0 0 1 1 2 2 3 3.
    stored.extend([0xcc, 0xf0, 0x00]);
    assert_chunk(Algorithm::Xp, Element::Bf16, &raw, &stored);
}

#[test]
fn signs_go_with_exponents_where_they_follow_from_them() {
    // f16, all positive: exponents 15 15 14 13, the fraction counts up in its lowest two bits and its
    // highest.
    let value = |i: u16| ([15, 15, 14, 13][usize::from(i % 4)] << 10) | (i % 4) | (i & 1) << 9;
    let raw = bytes_of((0..64).map(value));
    // Signed; symbols of 6 bits are table bytes, below 15 down to 2.
    let mut stored = vec![1, 0, 15, 13, 14, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 0];
    stored.extend([[0x88; 8], [0x44; 8]].concat());
    // Rests of 10 bits: a byte, then planes of bits 8 and 9.
    stored.extend((0..64).map(|i| i % 4));
    stored.extend([[0; 8], [0xaa; 8]].concat());
    assert_chunk(Algorithm::Xp, Element::F16, &raw, &stored);
}

#[test]
fn a_symbol_of_nine_bits_takes_two_bytes_of_the_table() {
    // bf16: of four values three are near -1, one near 2. Signed exponents are 17f and 80.
    let raw = bytes_of((0..32).map(|i| if i % 4 == 3 { 0x4000 } else { 0xbf80 } | i));
    let symbols = [0x17f, 0x080, 0x17e, 0x17d, 0x17c, 0x17b, 0x17a, 0x179, 0x178, 0x177, 0x176, 0x175, 0x174];
    let mut stored = vec![1, 0];
    stored.extend(bytes_of(symbols));
    stored.resize(32, 0);
    stored.extend([0x88, 0x88, 0x88, 0x88, 0, 0, 0, 0]); // codes 0 0 0 1
    // Rests of 7 bits, i: seven planes of 4 bytes.
    stored.extend([0xaa, 0xaa, 0xaa, 0xaa, 0xcc, 0xcc, 0xcc, 0xcc, 0xf0, 0xf0, 0xf0, 0xf0]);
    stored.extend([0, 0xff, 0, 0xff, 0, 0, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0]);
    // That is 68 bytes, more than the 64 of the chunk; with four times as many values it is less.
    assert_eq!(encode(Element::Bf16, &raw), [&[0x80, 0], &raw[..]].concat());
    let longer = encode(Element::Bf16, &raw.repeat(4));
    assert_eq!((stored.len(), longer.len()), (68, 32 + 32 + 2 * 56));
    assert_eq!(longer[..32], stored[..32]);
    assert_eq!(longer[32..64], [[0x88; 8], [0; 8], [0x88; 8], [0; 8]].concat());
    assert_eq!(longer[64..80], [[0xaa; 8], [0xcc; 8]].concat());
}

#[test]
fn zeros_are_a_mask() {
    // 4096 zeros: three levels of zeros above, of which the topmost byte is stored.
    assert_chunk(Algorithm::Xp, Element::F32, &[0; 4 * 4096], &[4, 3, 0]);
    // 64 elements of 8 bits, only number 9 is not zero: bytes 1 of the mask is kept. The value: 38, rotated
    // 70.
    let mut raw = [0; 64];
    raw[9] = 0x38;
    let mut stored = vec![4, 1, 0b10, 0b10, 7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11];
    stored.resize(24, 0);
    stored.extend([0, 0]); // tier 1
    stored.extend([0, 0, 0, 0]); // rest 0: four planes
    assert_chunk(Algorithm::Xp, Element::F8E4M3, &raw, &stored);
    // Minus zero is not zero.
    raw[9] = 0x80;
    stored[4..17].copy_from_slice(&[0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4]);
    stored[26] = 1;
    assert_chunk(Algorithm::Xp, Element::F8E4M3, &raw, &stored);
}

#[test]
fn repeats_are_a_mask() {
    // 4096 times 1.0: only the first differs from the one before it, which counts as 0.
    let raw = 1f32.to_le_bytes().repeat(4096);
    let mut stored =
        vec![8, 0x30, 1, 1, 1, 1, 127, 126, 125, 124, 123, 122, 121, 120, 119, 118, 117, 116, 115];
    stored.resize(24, 0);
    stored.extend([0, 0, 0, 0, 0]); // tier 1 and a rest of 24 bits
    assert_chunk(Algorithm::Xp, Element::F32, &raw, &stored);
    // Every other one zero: both masks, the first 4096 / 8 bytes 55.
    let raw: Vec<u8> = (0..4096).flat_map(|i| (if i % 2 == 0 { 1f32 } else { 0.0 }).to_le_bytes()).collect();
    let mut both = vec![12, 0x30];
    both.extend([0x55; 512]);
    // 2048 bits are 256 bytes; the levels above have 32, 4 and 1, and each has one bit set.
    both.extend([1, 1, 1, 1]);
    let stored = encode(Element::F32, &raw);
    assert_eq!(stored[..518], both);
    assert_eq!(stored.len(), 536 + 5); // 518 and a table of 13, padded
}

#[test]
fn less_than_an_element_is_raw() {
    assert_chunk(Algorithm::Xp, Element::F64, &[], &[0x80, 0]);
    assert_chunk(Algorithm::Xp, Element::F64, &[1, 0, 3], &[0x80, 0, 1, 0, 3]);
}

#[test]
fn what_samples_show_to_be_hopeless_is_raw() {
    let raw = Random(30).bytes(4096);
    for element in Element::ALL {
        assert_eq!(encode(element, &raw), [&[0x80, 0], &raw[..]].concat(), "{element}");
    }
}

#[test]
fn every_bit_pattern_comes_back() {
    let halves = bytes_of(0..=u16::MAX);
    for element in Element::ALL {
        encode(element, &halves[..65_536]);
        encode(element, &halves[65_536..]);
        // Every byte, sixteen times over; and patterns that have every sign and exponent of wider floats.
        let bytes: Vec<u8> = (0..=255).collect::<Vec<u8>>().repeat(16);
        encode(element, &bytes);
        let mut random = Random(31);
        let tops: Vec<u8> = (0..1u64 << 12)
            .flat_map(|top| (top << 52 | random.next() >> 12 | top & 1).to_le_bytes())
            .collect();
        encode(element, &tops);
    }
}

/// A chunk of zeros and ones of bf16 that has every section, and where its sections start.
fn chunk_with_everything() -> (Vec<u8>, Vec<u8>) {
    let mut random = Random(32);
    let mut value = 0u16;
    let words = (0..2051).map(|_| {
        if random.below(4) > 0 {
            value = (random.next() >> random.below(8) & 0xffff) as u16;
        }
        if random.below(3) == 0 { 0 } else { value }
    });
    let mut raw = bytes_of(words);
    raw.push(7);
    let stored = encode(Element::Bf16, &raw);
    assert_eq!(stored[0] & 12, 12, "no masks");
    (raw, stored)
}

#[test]
fn every_shorter_code_is_refused() {
    let (raw, stored) = chunk_with_everything();
    for cpu in Cpu::available() {
        let mut out = vec![0; raw.len()];
        for len in 0..stored.len() {
            let result = Xp::on(cpu).decode_chunk(Element::Bf16, &stored[..len], &mut out);
            assert!(
                matches!(result, Err(ChunkError::Truncated { .. })),
                "{len} on {}: {result:?}",
                cpu.isa()
            );
        }
        let longer = [&stored[..], &[0; 16]].concat();
        let result = Xp::on(cpu).decode_chunk(Element::Bf16, &longer, &mut out);
        assert_eq!(result, Err(ChunkError::Trailing { offset: stored.len(), extra: 16 }));
    }
}

#[test]
fn every_instruction_set_judges_damage_alike() {
    let (raw, stored) = chunk_with_everything();
    let mut refused = 0;
    for bit in 0..8 * stored.len() {
        let mut damaged = stored.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        let expected = decode_chunk(&Xp::on(Cpu::Portable), Element::Bf16, &damaged, raw.len());
        refused += usize::from(expected.is_err());
        for cpu in Cpu::available() {
            let result = decode_chunk(&Xp::on(cpu), Element::Bf16, &damaged, raw.len());
            assert!(result == expected, "bit {bit} on {}", cpu.isa());
        }
    }
    assert!(refused > 500, "{refused}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let refuse = |element, stored: &[u8], raw_len, expected| {
        for cpu in Cpu::available() {
            let result = decode_chunk(&Xp::on(cpu), element, stored, raw_len);
            assert_eq!(result, Err(expected), "{stored:?} on {}", cpu.isa());
        }
    };
    let mode = |flags, depths| ChunkError::Mode { flags, depths };
    for (flags, depths) in [(0x10, 0), (0x80, 1), (0x84, 0), (0, 1), (4, 0x10), (8, 1), (4, 4), (8, 0x40)] {
        refuse(Element::F32, &[flags, depths, 0, 0, 0], 4, mode(flags, depths));
    }
    // One f16: a table of 13, padding, two planes, a byte and three planes. Rest 5 is fraction 2, negative.
    let one = |at: usize, byte: u8| {
        let mut stored = [0; 22];
        stored[at] = byte;
        stored
    };
    let padding = |offset| ChunkError::Padding { offset };
    assert_eq!(decode_chunk(&Xp::on(Cpu::Portable), Element::F16, &one(18, 5), 2), Ok(vec![0x02, 0x80]));
    refuse(Element::F16, &one(2, 32), 2, padding(15));
    refuse(Element::F16, &one(14, 32), 2, padding(15));
    refuse(Element::F16, &one(15, 1), 2, padding(16));
    refuse(Element::F16, &one(16, 2), 2, padding(17));
    refuse(Element::F16, &one(21, 2), 2, padding(22));
    // Three elements and a mask of them.
    refuse(Element::F16, &[4, 0, 8], 6, padding(3));
    refuse(Element::F16, &[4, 1, 2, 1], 6, padding(3));
    refuse(Element::F16, &[4, 1, 1, 8], 6, padding(4));
    refuse(Element::F16, &[8, 0, 0xf8], 6, padding(3));
}

#[test]
fn a_decoder_takes_what_an_encoder_would_not_write() {
    // A mask deeper than need be, with a stored zero byte: two zeros.
    assert_eq!(decode_chunk(codec(Algorithm::Xp).unwrap(), Element::F16, &[4, 1, 1, 0], 4), Ok(vec![0; 4]));
    // A change mask whose first bit is clear: the value before the first is 0.
    assert_eq!(decode_chunk(codec(Algorithm::Xp).unwrap(), Element::F16, &[8, 0, 0], 4), Ok(vec![0; 4]));
}

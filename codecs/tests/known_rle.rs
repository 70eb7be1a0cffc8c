//! RLE, worked out by hand from the rule: a byte per run of up to 128 elements, then the literals.

mod common;

use common::{ELEMENTS, Random, codec_of, encode_chunk, hex};
use mgcomp_codecs::{Algorithm, ChunkError, Cpu, Element, codec_on};

/// Decodes on every instruction set; all must say the same.
#[track_caller]
fn decode(element: Element, stored: &[u8], raw_len: usize) -> Result<Vec<u8>, ChunkError> {
    let on = |cpu| common::decode_chunk(codec_on(cpu, Algorithm::Rle).unwrap(), element, stored, raw_len);
    let portable = on(Cpu::Portable);
    for cpu in Cpu::available() {
        assert_eq!(on(cpu), portable, "{} {}", cpu.isa(), hex(stored));
    }
    portable
}

/// Checks on every instruction set that `raw` is stored as exactly `stored`, and back.
#[track_caller]
fn check(element: Element, raw: &[u8], stored: &[u8]) {
    for cpu in Cpu::available() {
        let codec = codec_on(cpu, Algorithm::Rle).unwrap();
        assert_eq!(hex(&encode_chunk(codec, element, raw)), hex(stored), "{}", cpu.isa());
        assert_eq!(codec.chunk_len(element, raw), stored.len(), "{}", cpu.isa());
    }
    assert_eq!(decode(element, stored, raw.len()).as_deref(), Ok(raw));
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
    assert_eq!(decode(Element::U8, &stored, 5), Ok(vec![0, 0, 0, 5, 0]));
}

#[test]
fn each_way_in_which_a_chunk_can_be_wrong() {
    let error = |element, stored: &[u8], raw_len| decode(element, stored, raw_len).unwrap_err();
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

/// The code as the rule reads: group equal kinds, drop stretches that are too short, cut into runs.
fn reference(width: usize, raw: &[u8]) -> Vec<u8> {
    let elements: Vec<&[u8]> = raw.chunks_exact(width).collect();
    let is_zero = |element: &&[u8]| element.iter().all(|&byte| byte == 0);
    let mut kinds: Vec<bool> = vec![];
    for group in elements.chunk_by(|a, b| is_zero(a) == is_zero(b)) {
        let stretch = is_zero(&group[0]) && group.len() * width > 2;
        kinds.extend(group.iter().map(|_| stretch));
    }
    let (mut controls, mut literals) = (vec![], vec![]);
    for stretch in kinds.chunk_by(|a, b| a == b) {
        for run in stretch.chunks(128) {
            controls.push((run.len() - 1) as u8 + if run[0] { 0 } else { 128 });
        }
    }
    for (element, _) in elements.iter().zip(&kinds).filter(|(_, zero)| !**zero) {
        literals.extend_from_slice(element);
    }
    let mut stored = (controls.len() as u32).to_le_bytes().to_vec();
    stored.extend_from_slice(&controls);
    stored.resize(stored.len().next_multiple_of(width), 0);
    stored.extend_from_slice(&literals);
    stored.extend_from_slice(&raw[elements.len() * width..]);
    stored
}

/// Elements in runs of up to so many, not zero or zero in turn.
fn runs(random: &mut Random, width: usize, elements: usize, longest: usize) -> Vec<u8> {
    let mut raw = vec![];
    let mut zero = random.below(2) == 0;
    while raw.len() < elements * width {
        let len = 1 + random.below(longest);
        for _ in 0..len {
            let mut element = [0; 8];
            element[random.below(width)] = if zero { 0 } else { 1 + random.below(255) as u8 };
            raw.extend_from_slice(&element[..width]);
        }
        zero = !zero;
    }
    raw.truncate(elements * width);
    raw
}

#[test]
fn runs_of_any_length_equal_the_reference() {
    let mut random = Random(50);
    for element in ELEMENTS {
        let width = element.width_bytes();
        for longest in [1, 2, 3, 5, 17, 64, 65, 130, 300] {
            for elements in (0..200).chain([255, 256, 257, 1000, 4096]) {
                let mut raw = runs(&mut random, width, elements, longest);
                raw.extend(random.bytes(elements % width));
                check(element, &raw, &reference(width, &raw));
            }
        }
    }
}

#[test]
fn wrong_chunks_are_wrong_everywhere() {
    let mut random = Random(51);
    let mut errors = 0;
    for round in 0..20_000 {
        let element = ELEMENTS[round % 4];
        let raw = runs(&mut random, element.width_bytes(), 100, 1 + round % 40);
        let mut stored = encode_chunk(codec_of(Algorithm::Rle), element, &raw);
        let len = stored.len();
        stored[random.below(len)] ^= 1 << random.below(8);
        errors += usize::from(decode(element, &stored, raw.len()).is_err());
    }
    assert!((1_000..20_000).contains(&errors), "{errors} errors");
}

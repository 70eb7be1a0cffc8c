//! FPC and C-Pack+Z on every instruction set, at the edges of their patterns and with codes that no encoder
//! writes: the same bytes, sizes, lines and errors as the definition.

mod common;

use common::{Random, decode_chunk, encode_chunk, line_of};
use mgcomp_codecs::cpackz::{self, CpackZ};
use mgcomp_codecs::fpc::{self, Fpc};
use mgcomp_codecs::line::{LINE_WORDS, Line, lines};
use mgcomp_codecs::{ChunkError, Codec, Cpu, Element};

/// A codec on one instruction set with its size in the paper, of a chunk and of a line.
struct Subject {
    cpu: Cpu,
    codec: Box<dyn Codec>,
    paper_bits: fn(Cpu, &[u8]) -> u64,
    line_bits: fn(&Line) -> u32,
}

fn fpc_on(cpu: Cpu) -> Subject {
    let paper_bits = |cpu, raw: &[u8]| Fpc::on(cpu).paper_bits(raw);
    Subject { cpu, codec: Box::new(Fpc::on(cpu)), paper_bits, line_bits: fpc::line_bits }
}

fn cpackz_on(cpu: Cpu) -> Subject {
    let paper_bits = |cpu, raw: &[u8]| CpackZ::on(cpu).paper_bits(raw);
    Subject { cpu, codec: Box::new(CpackZ::on(cpu)), paper_bits, line_bits: cpackz::line_bits }
}

/// Codes on every instruction set like the definition, which comes first; returns the code.
#[track_caller]
fn assert_same_code(on: fn(Cpu) -> Subject, raw: &[u8]) -> Vec<u8> {
    let portable = on(Cpu::Portable);
    let coded = encode_chunk(&*portable.codec, Element::U32, raw);
    let bits: u64 = lines(raw).map(|line| u64::from((portable.line_bits)(&line))).sum();
    for Subject { cpu, codec, paper_bits, .. } in Cpu::available().map(on) {
        assert!(encode_chunk(&*codec, Element::U32, raw) == coded, "{cpu:?}: other bytes");
        assert_eq!(codec.chunk_len(Element::U32, raw), coded.len(), "{cpu:?}");
        assert_eq!(paper_bits(cpu, raw), bits, "{cpu:?}");
        assert!(decode_chunk(&*codec, Element::U32, &coded, raw.len()).as_deref() == Ok(raw), "{cpu:?}");
    }
    coded
}

/// Decodes `coded` on every instruction set like the definition, to the same bytes or the same error.
#[track_caller]
fn assert_same_decoding(on: fn(Cpu) -> Subject, coded: &[u8], raw_len: usize) -> Result<Vec<u8>, ChunkError> {
    let expected = decode_chunk(&*on(Cpu::Portable).codec, Element::U32, coded, raw_len);
    for Subject { cpu, codec, .. } in Cpu::available().map(on) {
        let decoded = decode_chunk(&*codec, Element::U32, coded, raw_len);
        assert!(decoded == expected, "{cpu:?}: {:?} for {:?}", decoded.err(), expected.err());
    }
    expected
}

/// Every word one step or none from where a pattern begins or ends.
fn edge_words() -> Vec<u32> {
    let halves =
        [0u16, 7, 8, 127, 128, 255, 256, 0x7fff, 0x8000, 0xff7f, 0xff80, 0xfff7, 0xfff8, 0xffff, 0x5a5a];
    let words =
        halves.iter().flat_map(|&upper| halves.map(|lower| u32::from(upper) << 16 | u32::from(lower)));
    words.flat_map(|word| [word.wrapping_sub(1), word, word.wrapping_add(1)]).collect()
}

#[test]
fn edge_words_in_every_place_of_a_line_are_the_same() {
    let words = edge_words();
    for place in 0..LINE_WORDS {
        let raw: Vec<u8> = words
            .iter()
            .flat_map(|&word| {
                let mut line = [0; LINE_WORDS];
                line[place] = word;
                line_of(&line)
            })
            .collect();
        assert_same_code(fpc_on, &raw);
        assert_same_code(cpackz_on, &raw);
    }
}

#[test]
fn lines_of_edge_words_are_the_same_coded_or_raw() {
    let (words, mut random) = (edge_words(), Random(30));
    let mut kinds = [0; 2];
    for round in 0..400 {
        // From hardly any word that matches nothing to hardly any other.
        let mut raw = Vec::new();
        for _ in 0..1 + random.below(100) {
            let line: [u32; LINE_WORDS] = std::array::from_fn(|_| match random.below(8) {
                dice if dice < round % 8 => random.next() as u32,
                _ => words[random.below(words.len())],
            });
            raw.extend_from_slice(&line_of(&line));
        }
        for line in lines(&raw) {
            kinds[usize::from(fpc::line_bits(&line) == 512)] += 1;
        }
        raw.truncate(raw.len() - random.below(64));
        assert_same_code(fpc_on, &raw);
        assert_same_code(cpackz_on, &raw);
    }
    assert!(kinds.iter().all(|&lines| lines > 2000), "{kinds:?}");
}

#[test]
fn words_that_share_upper_halfwords_find_the_first_of_them() {
    let mut random = Random(31);
    for _ in 0..400 {
        let mut raw = Vec::new();
        for _ in 0..1 + random.below(70) {
            // 0 among the upper halfwords: words of up to 8 bits are no part of the dictionary, those of up to
            // 16 bits are.
            let uppers: Vec<u32> = (0..1 + random.below(5)).map(|i| i as u32 * 0x1234_0000).collect();
            let line: [u32; LINE_WORDS] = std::array::from_fn(|_| {
                let lower = [0, 1, 0xff, 0x100, 0x101, 0x1ff, 0xff00, 0xffff][random.below(8)];
                uppers[random.below(uppers.len())] | lower
            });
            raw.extend_from_slice(&line_of(&line));
        }
        assert_same_code(cpackz_on, &raw);
    }
}

/// Kinds of `lines` lines, two in three of them coded; returns the section and how many are coded and raw.
fn any_kinds(random: &mut Random, lines: usize) -> (Vec<u8>, [usize; 2]) {
    let (mut coded, mut others, mut raw) = (vec![0u8; lines.div_ceil(8)], 0, Vec::new());
    for line in 0..lines {
        if random.below(3) > 0 {
            coded[line / 8] |= 1 << (line % 8);
        } else {
            raw.resize(others / 8 + 1, 0);
            raw[others / 8] |= (random.below(2) as u8) << (others % 8);
            others += 1;
        }
    }
    let raw_lines = raw.iter().map(|byte| byte.count_ones() as usize).sum();
    coded.extend_from_slice(&raw);
    coded.resize(coded.len().next_multiple_of(2), 0);
    (coded, [lines - others, raw_lines])
}

/// Appends data sections of random content.
fn put_any_data(random: &mut Random, coded: &mut Vec<u8>, [words, halves, bytes, nibbles]: [usize; 4]) {
    coded.resize(coded.len().next_multiple_of(4), 0);
    coded.extend_from_slice(&random.bytes(4 * words + 2 * halves + bytes + nibbles / 2));
    if nibbles % 2 == 1 {
        coded.push(random.below(16) as u8);
    }
}

#[test]
fn any_fpc_prefixes_and_data_decode_to_the_same_lines() {
    let mut random = Random(32);
    for _ in 0..300 {
        let lines = 1 + random.below(100);
        let (mut coded, [coded_lines, raw_lines]) = any_kinds(&mut random, lines);
        let planes = random.bytes(6 * coded_lines);
        coded.extend_from_slice(&planes);
        let mut counts = [16 * raw_lines, 0, 0, 0];
        for line in planes.chunks(6) {
            for word in 0..16 {
                let bit = |plane: usize| usize::from(line[2 * plane + word / 8] >> (word % 8) & 1);
                match bit(0) | bit(1) << 1 | bit(2) << 2 {
                    0 => counts[0] += 1,
                    1 => {}
                    2 | 4 => counts[2] += 1,
                    3 => counts[3] += 1,
                    _ => counts[1] += 1,
                }
            }
        }
        put_any_data(&mut random, &mut coded, counts);
        let raw_len = 64 * lines - random.below(64);
        assert!(assert_same_decoding(fpc_on, &coded, raw_len).is_ok());
        coded.pop();
        assert!(assert_same_decoding(fpc_on, &coded, raw_len).is_err());
    }
}

#[test]
fn any_cpackz_codes_and_indices_decode_to_the_same_lines_or_errors() {
    let (mut random, mut outcomes) = (Random(33), [0; 3]);
    for round in 0..2000 {
        let lines = 1 + random.below(6);
        let (mut coded, [coded_lines, raw_lines]) = any_kinds(&mut random, lines);
        // The first word is new, so that an index of 0 is right; one round in four has codes without a meaning.
        let (mut new, mut extended) = (0, 0);
        for _ in 0..coded_lines {
            let (low, mut high) = (random.next() as u16 & !1, random.next() as u16 | 1);
            high |= if round % 4 == 0 && random.below(8) == 0 { 0 } else { !low };
            new += (high & !low).count_ones() as usize;
            extended += (high & low).count_ones() as usize;
            coded.extend_from_slice(&[low, high].map(u16::to_le_bytes).concat());
        }
        let mut subcodes = vec![0u8; extended.div_ceil(4)];
        let mut counts = [new + 16 * raw_lines, 0, 0, 0];
        for i in 0..extended {
            let subcode = random.below(4);
            subcodes[i / 4] |= (subcode as u8) << (i % 4 * 2);
            counts[1] += usize::from(subcode == 1);
            counts[2] += usize::from(subcode >= 2);
            counts[3] += usize::from(subcode != 2);
        }
        coded.extend_from_slice(&subcodes);
        put_any_data(&mut random, &mut coded, counts);
        // Small indices, or nearly all would be wrong.
        let indices = coded.len() - counts[3].div_ceil(2);
        let small = [0x00, 0x00, 0x11, 0x01][round % 4];
        coded[indices..].iter_mut().for_each(|pair| *pair &= small);
        outcomes[match assert_same_decoding(cpackz_on, &coded, 64 * lines) {
            Ok(_) => 0,
            Err(ChunkError::Tag { .. }) => 1,
            Err(ChunkError::Index { .. }) => 2,
            Err(error) => panic!("{error}"),
        }] += 1;
    }
    assert!(outcomes.iter().all(|&rounds| rounds > 50), "{outcomes:?}");
}

#[test]
fn an_index_is_refused_from_the_number_of_earlier_new_words_on() {
    // Words 0 to 14 are new, word 15 equals the one with the index: any up to 14 may be named.
    let code = |new: u16, index: u8| {
        let equal = 1u16 << new.trailing_ones();
        let planes = [!new, new | equal].map(u16::to_le_bytes).concat();
        let mut coded = vec![1, 0];
        coded.extend_from_slice(&planes);
        coded.extend_from_slice(&[0, 0]); // one sub-code, 0, and padding
        coded.extend((0..4 * new.count_ones() as u8).map(|byte| byte + 1));
        coded.push(index);
        coded
    };
    for count in 1..16u32 {
        let new = (1u16 << count) - 1;
        for index in 0..16u8 {
            let result = assert_same_decoding(cpackz_on, &code(new, index), 64);
            if u32::from(index) < count {
                let raw = result.unwrap();
                let at = 4 * usize::from(index);
                assert_eq!(raw[4 * count as usize..][..4], raw[at..at + 4]);
            } else {
                assert_eq!(result, Err(ChunkError::Index { line: 0, index, words: count as usize }));
            }
        }
    }
}

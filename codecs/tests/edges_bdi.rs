//! BDI on every instruction set, where its forms begin and end: the same bytes, sizes, lines and errors.

mod common;

use common::{Random, decode_chunk, encode_chunk};
use mgcomp_codecs::bdi::Bdi;
use mgcomp_codecs::line::{LINE_LEN, Line, lines};
use mgcomp_codecs::{ChunkError, Codec, Cpu, Element, bdi};

/// Element and delta widths of forms 2 to 7 in bytes.
const WIDTHS: [(usize, usize); 6] = [(8, 1), (8, 2), (8, 4), (4, 1), (4, 2), (2, 1)];
/// Bytes of masks and data of each form.
const LENS: [(usize, usize); 9] =
    [(0, 0), (0, 8), (1, 16), (1, 24), (1, 40), (2, 20), (2, 36), (4, 34), (0, 64)];

fn vector_codecs() -> impl Iterator<Item = Bdi> {
    Cpu::available().filter(|&cpu| cpu != Cpu::Portable).map(Bdi::on)
}

/// A line of elements of `width` bytes, drawn from `some`.
fn line_of_some(random: &mut Random, width: usize, some: &[u64]) -> Line {
    let mut line = [0; LINE_LEN];
    for element in line.chunks_exact_mut(width) {
        element.copy_from_slice(&some[random.below(some.len())].to_le_bytes()[..width]);
    }
    line
}

/// Lines that just fit a form or just do not: elements at both ends of what is short, and as far from a base
/// as a delta reaches, with bases next to what is short, next to the sign and at the end of all numbers.
fn edge_lines(random: &mut Random) -> Vec<u8> {
    let mut raw = Vec::new();
    for (width, delta) in WIDTHS {
        let (half, reach) = (1u64 << (8 * delta - 1), 1u64 << (8 * delta));
        let sign = 1u64 << (8 * width - 1);
        let bases = [half, sign - reach, sign, sign.wrapping_neg(), half.wrapping_neg(), random.next()];
        for base in bases {
            let base = base.wrapping_add(random.next() % 5).wrapping_sub(2);
            let last = base.wrapping_add(reach);
            let short = [0, 1, u64::MAX, half - 1, half.wrapping_neg()];
            let just_not_short = [half, half.wrapping_neg() - 1];
            for far in [last - 2, last - 1, last, last.wrapping_add(1), base.wrapping_sub(1)] {
                let mut some = vec![base, far];
                raw.extend_from_slice(&line_of_some(random, width, &some));
                some.extend_from_slice(&short);
                raw.extend_from_slice(&line_of_some(random, width, &some));
                some.extend_from_slice(&just_not_short[..1 + random.below(2)]);
                raw.extend_from_slice(&line_of_some(random, width, &some));
            }
            raw.extend_from_slice(&line_of_some(random, width, &short));
        }
    }
    raw
}

#[test]
fn lines_at_the_edge_of_every_form_are_the_same() {
    let mut random = Random(20);
    let portable = Bdi::on(Cpu::Portable);
    let mut forms = [0; 9];
    for _ in 0..200 {
        let mut raw = edge_lines(&mut random);
        raw.truncate(raw.len() - random.below(2 * LINE_LEN));
        let coded = encode_chunk(&portable, Element::U8, &raw);
        let bits = lines(&raw).map(|line| u64::from(bdi::line_bits(&line))).sum();
        assert_eq!(portable.paper_bits(&raw), bits);
        for line in 0..raw.len().div_ceil(LINE_LEN) {
            forms[usize::from(coded[line / 2] >> (4 * (line % 2)) & 0xf)] += 1;
        }
        for codec in vector_codecs() {
            assert_eq!(encode_chunk(&codec, Element::U8, &raw), coded, "{codec:?}");
            assert_eq!(codec.chunk_len(Element::U8, &raw), coded.len(), "{codec:?}");
            assert_eq!(codec.paper_bits(&raw), bits, "{codec:?}");
            assert_eq!(decode_chunk(&codec, Element::U8, &coded, raw.len()).as_deref(), Ok(&raw[..]));
        }
    }
    // Zero and repeated lines come about by chance alone.
    assert!(forms[2..].iter().all(|&lines| lines > 1000), "{forms:?}");
}

/// A chunk of `lines` lines of any form, with any masks and data: most of it no encoder writes.
fn any_code(random: &mut Random, lines: usize) -> Vec<u8> {
    let forms: Vec<u8> = (0..lines).map(|_| random.below(9) as u8).collect();
    let mut coded: Vec<u8> =
        forms.chunks(2).map(|pair| pair[0] | pair.get(1).map_or(0, |form| form << 4)).collect();
    let sum = |len: fn((usize, usize)) -> usize| {
        forms.iter().map(|&form| len(LENS[usize::from(form)])).sum::<usize>()
    };
    let (masks, data) = (sum(|lens| lens.0), sum(|lens| lens.1));
    coded.extend_from_slice(&random.bytes(masks));
    coded.resize(coded.len().next_multiple_of(4), 0);
    coded.extend_from_slice(&random.bytes(data));
    coded
}

#[test]
fn any_masks_and_deltas_decode_to_the_same_lines() {
    let mut random = Random(21);
    for round in 0..600 {
        let lines = 1 + random.below(if round % 10 == 0 { 1024 } else { 80 });
        let raw_len = lines * LINE_LEN - random.below(LINE_LEN);
        let coded = any_code(&mut random, lines);
        let raw = decode_chunk(&Bdi::on(Cpu::Portable), Element::U8, &coded, raw_len).unwrap();
        for codec in vector_codecs() {
            let decoded = decode_chunk(&codec, Element::U8, &coded, raw_len);
            assert!(decoded.as_deref() == Ok(&raw), "{codec:?}: {lines} lines");
        }
    }
}

#[test]
fn the_first_form_without_a_meaning_is_named_wherever_it_is() {
    const LINES: usize = 300;
    let mut random = Random(22);
    for line in 0..LINES {
        let tag = 9 + random.below(7) as u8;
        let mut coded = any_code(&mut random, LINES);
        for bad in [line, LINES - 1] {
            coded[bad / 2] = coded[bad / 2] & (0xf0 >> (4 * (bad % 2))) | tag << (4 * (bad % 2));
        }
        for cpu in Cpu::available() {
            let error = decode_chunk(&Bdi::on(cpu), Element::U8, &coded, LINES * LINE_LEN);
            assert_eq!(error, Err(ChunkError::Tag { line, tag }), "{cpu:?}");
        }
    }
}

//! INT on every instruction set of this machine against the portable definition: the same bytes, the same
//! lengths, the same words, and the same errors.

mod common;

use common::{ELEMENTS, Random, decode_chunk, encode_chunk};
use mgcomp_codecs::int::Int;
use mgcomp_codecs::{Codec, Cpu, Element};

/// The vector back-ends, or word that there is none.
fn vector_codecs() -> Vec<Int> {
    let codecs: Vec<Int> = Cpu::available().filter(|&cpu| cpu != Cpu::Portable).map(Int::on).collect();
    if codecs.is_empty() {
        println!("SKIPPED: this machine has neither AVX2 nor AVX-512");
    }
    codecs
}

/// Words with structure: walks of random step, rows, records, rare jumps, common low zeros, small floats.
fn structured(random: &mut Random, width: usize, len: usize) -> Vec<u8> {
    let bits = 8 * width;
    let step_bits = random.below(bits);
    let low_zeros = if random.below(3) == 0 { random.below(bits) } else { 0 };
    let lag = [0, 0, 1, 1, 2, 3, 5, 17, 31, 32, 64, 100, 128, 256, 512][random.below(15)];
    let jump_every = [1000, 100, 40, 7, 2][random.below(5)];
    let both_signs = random.below(2) == 0;
    let floats = random.below(6) == 0;
    let mut words: Vec<u64> = Vec::new();
    for i in 0..len.div_ceil(width) {
        let mut step = random.next() & ((1 << step_bits) - 1);
        if both_signs && random.below(2) == 0 {
            step = step.wrapping_neg();
        }
        if random.below(jump_every) == 0 {
            step = random.next();
        }
        let before = if lag == 0 || lag > i { 0x1234_5678_9abc_def0 } else { words[i - lag] };
        words.push(match floats {
            true => u64::from(((step & 31) as f32).to_bits()) << (bits.max(32) - 32),
            false => before.wrapping_add(step << low_zeros),
        });
    }
    let bytes = words.iter().flat_map(|word| word.to_le_bytes()[..width].to_vec());
    bytes.take(len).collect()
}

/// Any length; often one next to a boundary of blocks, vectors or samples.
fn length(random: &mut Random) -> usize {
    let near = [0, 16, 32, 64, 128, 256, 511, 512, 1024, 2048, 4096, 8192, 16_384];
    match random.below(4) {
        0 => random.below(40_000),
        1 => random.below(700),
        _ => (near[random.below(near.len())] + random.below(9)).saturating_sub(4),
    }
}

#[test]
fn back_ends_write_the_same_bytes() {
    let (mut random, portable) = (Random(30), Int::on(Cpu::Portable));
    for round in 0..2400 {
        let element = ELEMENTS[round % 4];
        let len = length(&mut random);
        // Any start address.
        let skip = random.below(64);
        let data = structured(&mut random, element.width_bytes(), skip + len);
        let raw = &data[skip..];
        let expected = encode_chunk(&portable, element, raw);
        assert_eq!(portable.chunk_len(element, raw), expected.len(), "{round}: portable length");
        assert!(decode_chunk(&portable, element, &expected, len).as_deref() == Ok(raw), "{round}: portable");
        for codec in vector_codecs() {
            let coded = encode_chunk(&codec, element, raw);
            assert!(coded == expected, "{codec:?} {element} {len} in round {round}: other bytes");
            assert_eq!(codec.chunk_len(element, raw), expected.len(), "{codec:?} {round}: length");
            assert!(decode_chunk(&codec, element, &coded, len).as_deref() == Ok(raw), "{codec:?} {round}");
        }
    }
}

/// A code with other lags, maps and lengths than its encoder chose, or damage anywhere.
fn altered(random: &mut Random, coded: &[u8], width: usize) -> Vec<u8> {
    let mut coded = coded.to_vec();
    let lag = |random: &mut Random| match random.below(3) {
        0 => 0,
        1 => random.below(70) as u16,
        _ => random.below(3000) as u16,
    };
    match random.below(4) {
        0 => coded[random.below(3)] = random.below(8 * width) as u8,
        1 => coded[0] = random.below(3) as u8,
        2 => {
            let at = random.below(coded.len());
            coded[at] ^= 1 << random.below(8);
        }
        _ => {}
    }
    if random.below(3) > 0 {
        let lags = [lag(random), lag(random)];
        coded[4..6].copy_from_slice(&lags[0].to_le_bytes());
        coded[6..8].copy_from_slice(&lags[1].to_le_bytes());
    }
    coded
}

#[test]
fn back_ends_accept_the_same_codes() {
    let (mut random, portable) = (Random(31), Int::on(Cpu::Portable));
    let mut accepted = 0;
    for round in 0..2400 {
        let element = ELEMENTS[round % 4];
        let len = length(&mut random);
        let raw = structured(&mut random, element.width_bytes(), len);
        let coded = altered(&mut random, &encode_chunk(&portable, element, &raw), element.width_bytes());
        let expected = decode_chunk(&portable, element, &coded, len);
        accepted += usize::from(expected.is_ok());
        for codec in vector_codecs() {
            let decoded = decode_chunk(&codec, element, &coded, len);
            assert!(decoded == expected, "{codec:?} {element} {len} in round {round}");
        }
    }
    assert!((1200..2400).contains(&accepted), "{accepted} codes of 2400 accepted");
}

#[test]
fn every_length_of_a_ramp() {
    for len in 0..1200 {
        let raw: Vec<u8> = (0..len).map(|i| ((i / 8 * 3) >> (i % 8)) as u8).collect();
        for element in [Element::F8E4M3, Element::Bf16, Element::F32, Element::F64] {
            let expected = encode_chunk(&Int::on(Cpu::Portable), element, &raw);
            for codec in vector_codecs() {
                assert!(encode_chunk(&codec, element, &raw) == expected, "{codec:?} {element} {len}");
                let decoded = decode_chunk(&codec, element, &expected, len);
                assert!(decoded.as_deref() == Ok(&raw), "{codec:?} {element} {len}");
            }
        }
    }
}

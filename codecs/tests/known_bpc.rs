//! BPC, worked out by hand from the table of symbols, and against a second, slow reading of it.

mod common;

use common::{Random, codec_of, data, encode_chunk, hex};
use mgcomp_codecs::bpc::{Entry, entry_bits};
use mgcomp_codecs::{Algorithm, ChunkError, Cpu, Element, codec_on};
use proptest::prelude::*;

type Words = [u32; 32];

/// Decodes on every instruction set; all must say the same.
#[track_caller]
fn decode(stored: &[u8], raw_len: usize) -> Result<Vec<u8>, ChunkError> {
    let on = |cpu| common::decode_chunk(codec_on(cpu, Algorithm::Bpc).unwrap(), Element::U8, stored, raw_len);
    let portable = on(Cpu::Portable);
    for cpu in Cpu::available() {
        assert_eq!(on(cpu), portable, "{} {}", cpu.isa(), hex(stored));
    }
    portable
}

/// Checks on every instruction set that `raw` is stored as exactly `stored`, and back.
#[track_caller]
fn assert_chunk(raw: &[u8], stored: &[u8]) {
    for cpu in Cpu::available() {
        let codec = codec_on(cpu, Algorithm::Bpc).unwrap();
        assert_eq!(hex(&encode_chunk(codec, Element::U8, raw)), hex(stored), "{}", cpu.isa());
        assert_eq!(codec.chunk_len(Element::U8, raw), stored.len(), "{}", cpu.isa());
    }
    assert_eq!(decode(stored, raw.len()).as_deref(), Ok(raw));
}

fn entry_of(words: &Words) -> Entry {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.try_into().unwrap()
}

/// The words that start at `first` and have these differences, modulo 2³².
fn from_differences(first: u32, mut differences: impl FnMut(usize) -> u32) -> Words {
    let mut word = first;
    std::array::from_fn(|i| {
        let now = word;
        word = word.wrapping_add(differences(i));
        now
    })
}

/// Bits written one by one, first one first; blanks do not count.
fn bytes_of(bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().filter(|b| !b.is_ascii_whitespace()).map(|b| b - b'0').collect();
    bits.chunks(8).map(|byte| byte.iter().rev().fold(0, |value, bit| value << 1 | bit)).collect()
}

/// Checks the codes and planes of one entry, and its size.
#[track_caller]
fn assert_bits(words: &Words, bits: &str) {
    let count = bits.bytes().filter(|b| !b.is_ascii_whitespace()).count();
    let entry = entry_of(words);
    assert_eq!(entry_bits(&entry) as usize, count, "{words:08x?}");
    let string = bytes_of(bits);
    assert_chunk(&entry, &[&[string.len() as u8], &string[..]].concat());
}

#[test]
fn an_entry_of_zeros_takes_its_size_alone() {
    assert_eq!(entry_bits(&[0; 128]), 3 + 7);
    assert_chunk(&[0; 256], &[0, 0]);
    assert_chunk(&[0; 1], &[0]);
    // Its codes would be these, and a decoder takes them as well.
    let stored = [&[2], &bytes_of("000 01 11111")[..]].concat();
    assert_eq!(decode(&stored, 128), Ok(vec![0; 128]));
}

#[test]
fn constant_words_are_a_first_word_and_a_run_of_33() {
    let check = |word: i32, code: &str| assert_bits(&[word as u32; 32], &format!("{code} 01 11111"));
    check(1, "001 1000");
    check(7, "001 1110");
    check(-1, "001 1111");
    check(-8, "001 0001");
    check(8, "010 00010000");
    check(-9, "010 11101111");
    check(127, "010 11111110");
    check(-128, "010 00000001");
    check(128, "011 0000000100000000");
    check(-129, "011 1111111011111111");
    check(32_767, "011 1111111111111110");
    check(-32_768, "011 0000000000000001");
    check(32_768, "1 00000000000000010000000000000000");
    check(-32_769, "1 11111111111111101111111111111111");
    check(i32::MIN, "1 00000000000000000000000000000001");
}

#[test]
fn a_sequence_that_counts_up_changes_once() {
    // Differences 1: DBP 0 is all ones, and so is its DBX; 32 planes above are zero.
    assert_bits(&std::array::from_fn(|i| i as u32), "000 01 01111 00000");
    // Differences 4: the DBP of plane 2 is all ones, and that changes back in plane 1. (That the DBP of plane 1
    // is zero is a later row of the table.)
    assert_bits(&std::array::from_fn(|i| 4 * i as u32), "000 01 00111 00000 00000 001");
    // Differences 2²⁰, from 5.
    let words = std::array::from_fn(|i| 5 + ((i as u32) << 20));
    assert_bits(&words, "001 1010 01 01010 00000 00000 01 10001");
}

#[test]
fn a_sequence_that_counts_down_has_ones_in_the_sign() {
    // Differences -1 are ones in all 33 planes: the DBX of plane 32 is all ones, the others zero.
    assert_bits(&std::array::from_fn(|i| 31 - i as u32), "010 11111000 00000 01 01111");
    // Differences -2: plane 0 changes to zeros.
    assert_bits(&std::array::from_fn(|i| 62 - 2 * i as u32), "010 01111100 00000 01 10111 00000");
}

#[test]
fn words_are_unsigned_and_differences_have_33_bits() {
    // 0 to 2³² - 1 is a difference of 2³² - 1: plane 32 is zero, all others have one bit, at index 0; back to
    // 0 is its negative, of which plane 32 has a bit, and plane 0.
    let mut words = [0; 32];
    words[1] = u32::MAX;
    // DBP 32: index 1. 31 to 1: index 0. 0: both.
    // DBX 32: index 1. 31: indices 0 and 1. 30 to 1: zero. 0: index 1.
    assert_bits(&words, "000 00011 10000 00010 00000 01 00111 00011 10000");
}

#[test]
fn every_symbol_at_every_index() {
    for index in 0..31 {
        let number: String = (0..5).map(|bit| if index >> bit & 1 == 1 { '1' } else { '0' }).collect();
        // One difference of 1: plane 0 has a single one.
        let words = from_differences(0, |i| u32::from(i == index));
        assert_bits(&words, &format!("000 01 01111 00011 {number}"));
        // Two next to each other; at the end of the plane there is no next.
        if index < 30 {
            let words = from_differences(0, |i| u32::from(i == index || i == index + 1));
            assert_bits(&words, &format!("000 01 01111 00010 {number}"));
        }
        // A difference of 3 is a one in planes 1 and 0; DBX 0 is zero.
        let words = from_differences(0, |i| 3 * u32::from(i == index));
        assert_bits(&words, &format!("000 01 10111 00011 {number} 001"));
        // A difference of 2: DBX 0 is not zero but DBP 0 is, which comes before a single one.
        let words = from_differences(0, |i| 2 * u32::from(i == index));
        assert_bits(&words, &format!("000 01 10111 00011 {number} 00001"));
    }
}

#[test]
fn other_planes_stand_behind_the_codes() {
    // Differences of 1 at 0 and 2: two ones, but not next to each other.
    let words = from_differences(0, |i| u32::from(i == 0 || i == 2));
    assert_bits(&words, "000 01 01111 1 1010000000000000000000000000000");
    // Planes 1 and 0: DBP 1 has 0 and 5, DBP 0 has 0 and 7, so DBX 0 has 5 and 7.
    let words = from_differences(3, |i| match i {
        0 => 3,
        5 => 2,
        7 => 1,
        _ => 0,
    });
    assert_bits(
        &words,
        "001 1100 01 10111 1 1 1000010000000000000000000000000 0000010100000000000000000000000",
    );
}

#[test]
fn an_entry_that_would_take_128_bytes_is_raw() {
    let mut random = Random(40);
    let noise: Words = std::array::from_fn(|_| random.next() as u32);
    assert_eq!(entry_bits(&entry_of(&noise)), 1024);
    assert_chunk(&entry_of(&noise), &[&[128], &entry_of(&noise)[..]].concat());
    // Of a plane of 32 bits each and the first word's 33, a run at the top saves enough or not.
    for planes in 0..33 {
        let words =
            from_differences(u32::MAX / 3, |_| ((random.next() >> 32) >> (33 - planes) & 0x7fff_ffff) as u32);
        let bits = entry_bits(&entry_of(&words));
        let stored = encode_chunk(codec_of(Algorithm::Bpc), Element::U8, &entry_of(&words));
        assert_eq!(usize::from(stored[0]), (bits as usize).div_ceil(8), "{planes} planes, {bits} bits");
        assert_eq!(stored.len(), 1 + usize::from(stored[0]));
    }
}

#[test]
fn a_partial_entry_is_filled_up_and_cut_off() {
    // The bytes 1, 0, 0: a word 1, then 31 zeros. One difference of -1: in all planes a one at 0.
    let stored = [&[3], &bytes_of("001 1000 00011 00000 01 01111")[..]].concat();
    assert_chunk(&[1, 0, 0], &stored);
    // A raw entry of which the chunk has 3 bytes: 125 are dropped.
    let mut stored = vec![128];
    stored.extend_from_slice(&[0xaa; 128]);
    assert_eq!(decode(&stored, 3), Ok(vec![0xaa; 3]));
}

#[test]
fn a_decoder_takes_costlier_codes() {
    let decode = |bits: &str| {
        let string = bytes_of(bits);
        decode(&[&[string.len() as u8], &string[..]].concat(), 128)
    };
    let ones = Ok(entry_of(&[1; 32]).to_vec());
    // 1 in 8, 16 and 32 bits.
    assert_eq!(decode("010 10000000 01 11111"), ones);
    assert_eq!(decode("011 1000000000000000 01 11111"), ones);
    assert_eq!(decode("1 10000000000000000000000000000000 01 11111"), ones);
    // Runs of 2, 1 and 30 instead of 33; planes one by one; with a DBP of zero; five verbatim, then a run of 28.
    assert_eq!(decode("001 1000 01 00000 001 01 00111"), ones);
    assert_eq!(decode(&format!("001 1000 {}", "001 ".repeat(33))), ones);
    assert_eq!(decode(&format!("001 1000 {}", "00001 ".repeat(33))), ones);
    assert_eq!(decode(&format!("001 1000 11111 01 01011 {}", "0".repeat(5 * 31))), ones);
}

#[test]
fn each_way_in_which_a_chunk_can_be_wrong() {
    let error = |stored: &[u8], raw_len| decode(stored, raw_len).unwrap_err();
    let coded = |bits: &str| {
        let string = bytes_of(bits);
        error(&[&[string.len() as u8], &string[..]].concat(), 128)
    };
    let truncated = |offset, needed, got| ChunkError::Truncated { offset, needed, got };
    assert_eq!(error(&[0], 129), truncated(0, 2, 1));
    assert_eq!(error(&[0, 129], 129), ChunkError::EntrySize { entry: 1, size: 129 });
    assert_eq!(error(&[5, 3, 0, 0, 0, 0], 129), truncated(2, 8, 4));
    assert_eq!(error(&[0, 9], 1), ChunkError::Padding { offset: 2 });
    assert_eq!(error(&[0; 17], 1), ChunkError::Trailing { offset: 1, extra: 16 });
    // A run of 33 after one plane, and of 3 when one is left.
    assert_eq!(coded("000 001 01 11111"), ChunkError::EntryCode { entry: 0, plane: 31 });
    assert_eq!(coded("000 01 01111 01 10000"), ChunkError::EntryCode { entry: 0, plane: 0 });
    // Indices that a plane of 31 bits does not have.
    assert_eq!(coded("000 00011 11111"), ChunkError::EntryCode { entry: 0, plane: 32 });
    assert_eq!(coded("000 01 01111 00010 01111"), ChunkError::EntryCode { entry: 0, plane: 0 });
    // A byte too many, one too few, and an unused bit.
    assert_eq!(
        coded("000 01 11111 000000 00000000"),
        ChunkError::EntryBits { entry: 0, needed: 10, got: 24 }
    );
    // Behind the end there are zeros: a run of 8, and 25 times all ones.
    assert_eq!(coded("000 01 011"), ChunkError::EntryBits { entry: 0, needed: 10 + 25 * 5, got: 8 });
    assert_eq!(coded("000 01 11111 000001"), ChunkError::Padding { offset: 3 });
    // All planes verbatim need more than any entry has.
    let ones = error(&[&[127], &[0xff; 127][..]].concat(), 128);
    assert_eq!(ones, ChunkError::EntryBits { entry: 0, needed: 33 + 33 * 32, got: 8 * 127 });
    assert_eq!(ones.to_string(), "entry 0: needs 1089 bits, its size says 1016");
}

/// The code of an entry, bit by bit, and its planes: sums of powers of two instead of shifts, lists of bits.
fn reference(words: &Words) -> String {
    let bit = |number: i64, place: u32| number.div_euclid(1 << place).rem_euclid(2) == 1;
    let text = |number: i64, bits: u32| {
        (0..bits).map(|i| if bit(number, i) { '1' } else { '0' }).collect::<String>()
    };
    let first = i64::from(words[0] as i32);
    let mut codes = match first {
        0 => "000".to_owned(),
        -8..=7 => format!("001{}", text(first, 4)),
        -128..=127 => format!("010{}", text(first, 8)),
        -32768..=32767 => format!("011{}", text(first, 16)),
        _ => format!("1{}", text(first, 32)),
    };
    let differences: Vec<i64> =
        words.windows(2).map(|pair| i64::from(pair[1]) - i64::from(pair[0])).collect();
    let dbp: Vec<Vec<bool>> =
        (0..33).rev().map(|plane| differences.iter().map(|&d| bit(d, plane)).collect()).collect();
    let dbx: Vec<Vec<bool>> = (0..33)
        .map(|i| (0..31).map(|k| if i == 0 { dbp[0][k] } else { dbp[i][k] != dbp[i - 1][k] }).collect())
        .collect();
    let (mut planes, mut zeros) = (String::new(), 0);
    for i in 0..33 {
        let ones: Vec<usize> = (0..31).filter(|&k| dbx[i][k]).collect();
        if ones.is_empty() {
            zeros += 1;
            if i == 32 || dbx[i + 1].contains(&true) {
                codes += &if zeros == 1 { "001".to_owned() } else { format!("01{}", text(zeros - 2, 5)) };
                zeros = 0;
            }
            continue;
        }
        codes += &match ones[..] {
            _ if ones.len() == 31 => "00000".to_owned(),
            _ if !dbp[i].contains(&true) => "00001".to_owned(),
            [low, high] if high == low + 1 => format!("00010{}", text(low as i64, 5)),
            [only] => format!("00011{}", text(only as i64, 5)),
            _ => {
                planes.extend(dbx[i].iter().map(|&one| if one { '1' } else { '0' }));
                "1".to_owned()
            }
        };
    }
    codes + &planes
}

#[track_caller]
fn assert_reference(words: &Words) {
    let (entry, bits) = (entry_of(words), reference(words));
    assert_eq!(entry_bits(&entry) as usize, bits.len().min(1024), "{words:08x?}");
    let string = match bytes_of(&bits) {
        _ if words == &[0; 32] => vec![],
        string if string.len() >= 128 => entry.to_vec(),
        string => string,
    };
    assert_chunk(&entry, &[&[string.len() as u8], &string[..]].concat());
}

#[test]
fn buffers_of_every_kind_equal_the_reference() {
    let mut random = Random(41);
    for (_, fill) in data::KINDS {
        let raw = fill(&mut random, 64 * 128);
        for entry in raw.as_chunks::<128>().0 {
            let mut words = [0; 32];
            words.copy_from_slice(
                &entry.as_chunks().0.iter().map(|&bytes| u32::from_le_bytes(bytes)).collect::<Vec<_>>(),
            );
            assert_reference(&words);
        }
    }
}

/// Differences of few kinds, so that planes of every symbol occur.
fn words() -> impl Strategy<Value = Words> {
    let difference = prop_oneof![
        8 => Just(0u32),
        2 => (0u32..32).prop_map(|bit| 1 << bit),
        2 => (0u32..32).prop_map(|bit| (1u32 << bit).wrapping_neg()),
        1 => (0u32..31, 0u32..31).prop_map(|(a, b)| (1 << a) + (1 << b)),
        1 => any::<u32>(),
        1 => any::<i8>().prop_map(|small| small as u32),
    ];
    let first = prop_oneof![
        Just(0u32),
        any::<i8>().prop_map(|b| b as u32),
        any::<i16>().prop_map(|h| h as u32),
        any::<u32>()
    ];
    let few = (first.clone(), any::<u32>(), prop::collection::vec(difference, 31)).prop_map(
        |(first, all, list)| {
            // `all` is in every difference, masked to a few bits, so that planes of ones occur.
            let all = all & all >> 7 & all >> 13;
            from_differences(first, |i| list.get(i).copied().unwrap_or(0).wrapping_add(all))
        },
    );
    let planes =
        (first, prop::collection::vec(any::<u32>(), 31), 0u32..33).prop_map(|(first, list, bits)| {
            from_differences(first, |i| list.get(i).map_or(0, |&d| (u64::from(d) & ((1 << bits) - 1)) as u32))
        });
    prop_oneof![3 => few, 1 => planes]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, ..ProptestConfig::default() })]

    #[test]
    fn any_words_equal_the_reference(words in words()) {
        assert_reference(&words);
    }
}

#[test]
fn chunks_of_any_length_are_the_same_everywhere() {
    let mut random = Random(43);
    let portable = codec_on(Cpu::Portable, Algorithm::Bpc).unwrap();
    for (_, fill) in data::KINDS {
        for len in (0..400).chain([1023, 1024, 1025, 16_384]) {
            let raw = fill(&mut random, len);
            assert_chunk(&raw, &encode_chunk(portable, Element::U8, &raw));
        }
    }
}

/// Strings by chance and damaged ones: every instruction set says the same, which `decode` checks.
#[test]
fn wrong_entries_are_wrong_everywhere() {
    let mut random = Random(42);
    let raw: Vec<u8> = data::KINDS.iter().flat_map(|(_, fill)| fill(&mut random, 512)).collect();
    let coded = encode_chunk(codec_of(Algorithm::Bpc), Element::U8, &raw);
    let mut errors = 0;
    for _ in 0..20_000 {
        let mut damaged = coded.clone();
        for _ in 0..=random.below(3) {
            damaged[random.below(coded.len())] ^= 1 << random.below(8);
        }
        errors += usize::from(decode(&damaged, raw.len()).is_err());
    }
    assert!((1_000..20_000).contains(&errors), "{errors} errors");
    for _ in 0..20_000 {
        let size = 1 + random.below(127);
        let density = 1 + random.below(8);
        let string = (0..size).map(|_| if random.below(density) == 0 { random.next() as u8 } else { 0 });
        let _ = decode(&std::iter::once(size as u8).chain(string).collect::<Vec<_>>(), 128);
    }
}

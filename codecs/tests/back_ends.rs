//! Every instruction set against portable code: the same bytes, the same verdicts, nothing outside of buffers.

mod common;

use common::Random;
use common::back_ends::{BackEnds, Case, MAX_RAW_LEN, OnIsa, Places, on_every_isa};
use common::damage::{KINDS_OF_CHUNK_DAMAGE, damage_chunk};
use common::data::{Kind, kinds};
use common::fence::Place;
use mgcomp_codecs::{Algorithm, Codec, Cpu, Element, Isa, codecs_on};

fn algorithms() -> impl Iterator<Item = Algorithm> {
    codecs_on(Cpu::Portable).map(Codec::algorithm)
}

/// Buffers at the fence two times in three, else at any alignment.
fn places(random: &mut Random) -> Places {
    let place =
        |random: &mut Random| if random.below(3) < 2 { Place::End } else { Place::Start(random.below(64)) };
    Places { raw: place(random), coded: place(random) }
}

/// Calls `check` with every algorithm and element, each with buffers and numbers of its own.
fn for_every_codec(seed: u64, mut check: impl FnMut(Algorithm, Element, &mut BackEnds, &mut Random)) {
    let mut back_ends = BackEnds::new();
    for algorithm in algorithms() {
        for element in Element::ALL {
            check(algorithm, element, &mut back_ends, &mut Random(seed));
        }
    }
}

#[test]
fn every_instruction_set_has_every_codec() {
    let all: Vec<Algorithm> = algorithms().collect();
    for cpu in Cpu::available() {
        assert!(codecs_on(cpu).map(Codec::algorithm).eq(all.iter().copied()), "{}", cpu.isa());
    }
    for isa in Isa::ALL.into_iter().filter(|&isa| Cpu::on(isa).is_none()) {
        println!("SKIPPED: {isa}: this machine lacks it");
    }
}

#[test]
fn equal_on_random_lengths() {
    for_every_codec(20, |algorithm, element, back_ends, random| {
        for kind in kinds() {
            for limit in [40, 300, 1500, 5000] {
                let len = random.below(limit);
                let raw = kind.fill(random, element, len);
                back_ends.round_trip(algorithm, element, &raw, places(random), kind.name);
            }
        }
    });
}

/// Every length next to a boundary of a vector, a line, an entry, a block of values or a chunk: a byte and an
/// element more or less.
fn boundary_lengths(element: Element) -> Vec<usize> {
    let width = element.width_bytes();
    let powers = (0..=16).map(|log2| 1 << log2);
    let boundaries = powers.chain([48, 96, 192, 320, 576, 1536, 3072, 12_288, 24_576, 49_152]);
    let lengths = boundaries.flat_map(|boundary: usize| {
        [boundary.saturating_sub(width), boundary - 1, boundary, boundary + 1, boundary + width]
    });
    let mut lengths: Vec<usize> = lengths.filter(|&len| len <= MAX_RAW_LEN).collect();
    lengths.sort_unstable();
    lengths.dedup();
    lengths
}

/// Every length meets several kinds, the long ones fewer.
#[test]
fn equal_at_every_boundary() {
    for_every_codec(21, |algorithm, element, back_ends, random| {
        let mut turn = kinds().cycle();
        for len in boundary_lengths(element) {
            let several = if len < 5000 { 6 } else { 2 };
            for kind in turn.by_ref().take(several) {
                let raw = kind.fill(random, element, len);
                back_ends.round_trip(algorithm, element, &raw, places(random), kind.name);
            }
        }
    });
}

/// Whole chunks of every kind: where codecs take their samples, and counters grow large.
#[test]
fn equal_on_whole_chunks() {
    for_every_codec(22, |algorithm, element, back_ends, random| {
        for kind in kinds() {
            let raw = kind.fill(random, element, 16_384);
            back_ends.round_trip(algorithm, element, &raw, Places::END, kind.name);
        }
    });
}

/// The largest chunks, each element with another part of the kinds: here 16-bit counts run over.
#[test]
fn equal_on_the_largest_chunks() {
    for_every_codec(28, |algorithm, element, back_ends, random| {
        let skipped = usize::from(element.number()) % 5;
        for kind in kinds().skip(skipped).step_by(5) {
            let raw = kind.fill(random, element, MAX_RAW_LEN);
            back_ends.round_trip(algorithm, element, &raw, Places::END, kind.name);
        }
    });
}

#[test]
fn equal_at_every_alignment() {
    for_every_codec(23, |algorithm, element, back_ends, random| {
        let turn: Vec<Kind> = kinds().collect();
        for offset in 0..64 {
            let kind = turn[random.below(turn.len())];
            let len = 700 + random.below(500);
            let raw = kind.fill(random, element, len);
            let (raw_place, coded_place) = (Place::Start(offset), Place::Start(random.below(64)));
            for places in
                [Places { raw: raw_place, coded: coded_place }, Places { raw: coded_place, coded: raw_place }]
            {
                back_ends.round_trip(algorithm, element, &raw, places, kind.name);
            }
        }
    });
}

/// Codecs that learn from a buffer learn the same everywhere, and code its chunks alike, wherever these start.
#[test]
fn equal_after_learning() {
    let mut learnt = 0;
    for_every_codec(29, |algorithm, element, back_ends, random| {
        for kind in kinds() {
            let len = 2000 + random.below(4000);
            let raw = kind.fill(random, element, len);
            let fitted: Vec<(Isa, Box<dyn Codec>)> = on_every_isa(algorithm)
                .into_iter()
                .filter_map(|(isa, codec)| Some((isa, codec.fitted(element, &raw, usize::MAX)?)))
                .collect();
            if fitted.is_empty() {
                continue;
            }
            assert_eq!(fitted.len(), Cpu::available().count(), "{algorithm} {element} {}", kind.name);
            for (isa, codec) in &fitted {
                assert_eq!(
                    codec.codebook(),
                    fitted[0].1.codebook(),
                    "{algorithm} {isa} {element} {}",
                    kind.name
                );
            }
            let codecs: Vec<OnIsa<'_>> = fitted.iter().map(|(isa, codec)| (*isa, &**codec)).collect();
            for _ in 0..4 {
                // Chunks start at multiples of 8 bytes, and end anywhere.
                let start = 8 * random.below(len / 8);
                let end = start + random.below(len - start + 1);
                let places = places(random);
                let case = Case { element, offset: start as u64, places, what: kind.name };
                let coded = back_ends.round_trip_with(&codecs, case, &raw[start..end]);
                for damage in KINDS_OF_CHUNK_DAMAGE {
                    if !coded.is_empty() {
                        let damaged = damage_chunk(random, &coded, damage);
                        let _ = back_ends.decode_with(&codecs, case, &damaged, end - start);
                    }
                }
            }
            learnt += 1;
        }
    });
    assert!(learnt > 100, "only {learnt} buffers had something to learn");
}

/// A code may be followed by up to 15 zero bytes; a sixteenth, or another byte, is an error for everyone.
#[test]
fn equal_on_what_follows_a_code() {
    for_every_codec(24, |algorithm, element, back_ends, random| {
        for kind in kinds() {
            let len = random.below(1200);
            let raw = kind.fill(random, element, len);
            let mut coded = back_ends.encode(algorithm, element, &raw, Places::END, kind.name);
            let code_len = coded.len();
            for extra in [1, 15, 16, 64] {
                coded.resize(code_len + extra, 0);
                let result = back_ends.decode(algorithm, element, &coded, len, places(random), kind.name);
                assert_eq!(result.is_ok(), extra < 16, "{algorithm} {element} {}: {extra} more", kind.name);
            }
            coded.resize(code_len + 1 + random.below(15), 0);
            *coded.last_mut().unwrap() = 1 + random.below(255) as u8;
            let result = back_ends.decode(algorithm, element, &coded, len, places(random), kind.name);
            assert!(result.is_err(), "{algorithm} {element} {}: padding is not zero", kind.name);
        }
    });
}

#[test]
fn equal_verdicts_on_damaged_codes() {
    for_every_codec(25, |algorithm, element, back_ends, random| {
        let mut errors = 0;
        for (i, kind) in kinds().enumerate() {
            // Now and then a long one, where counts have more bytes and vectors more rounds.
            let (limit, rounds) = if i % 5 == 0 { (20_000, 12) } else { (1500, 30) };
            let len = 1 + random.below(limit);
            let raw = kind.fill(random, element, len);
            let coded = back_ends.encode(algorithm, element, &raw, Places::END, kind.name);
            for round in 0..rounds {
                let damage = KINDS_OF_CHUNK_DAMAGE[round % KINDS_OF_CHUNK_DAMAGE.len()];
                let damaged = damage_chunk(random, &coded, damage);
                let result = back_ends.decode(algorithm, element, &damaged, len, places(random), kind.name);
                errors += usize::from(result.is_err());
            }
        }
        assert!(errors > 100, "{algorithm} {element}: only {errors} errors");
    });
}

#[test]
fn equal_verdicts_on_codes_of_another_length() {
    for_every_codec(26, |algorithm, element, back_ends, random| {
        for kind in kinds() {
            let len = 1 + random.below(900);
            let raw = kind.fill(random, element, len);
            let coded = back_ends.encode(algorithm, element, &raw, Places::END, kind.name);
            for _ in 0..12 {
                let raw_len = random.below(2 * len);
                let _ = back_ends.decode(algorithm, element, &coded, raw_len, places(random), kind.name);
                let cut = &coded[..random.below(coded.len())];
                let result = back_ends.decode(algorithm, element, cut, len, places(random), kind.name);
                assert!(
                    result.is_err(),
                    "{algorithm} {element} {}: {} of {}",
                    kind.name,
                    cut.len(),
                    coded.len()
                );
            }
        }
    });
}

#[test]
fn equal_verdicts_on_random_codes() {
    for_every_codec(27, |algorithm, element, back_ends, random| {
        for round in 0..1500 {
            // Mostly zero bytes: then tags and lengths agree often enough to come far.
            let density = 1 + round % 16;
            let coded_len = random.below(160);
            let byte = |_| if random.below(density) == 0 { random.next() as u8 } else { 0 };
            let coded: Vec<u8> = (0..coded_len).map(byte).collect();
            let raw_len = random.below(700);
            let _ = back_ends.decode(algorithm, element, &coded, raw_len, places(random), "random code");
        }
    });
}

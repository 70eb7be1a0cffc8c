//! Line sizes against a second implementation, and stored sizes against line sizes.

mod common;

use common::back_ends::{BackEnds, Places};
use common::{LINE_ALGORITHMS, Random, codec_of, line_of, reference};
use mgcomp_codecs::line::{self, Line};
use mgcomp_codecs::{Algorithm, Element, frame, line_bits, paper_bits};
use proptest::prelude::*;

/// Words near every edge of the three tables, and near each other.
fn word() -> impl Strategy<Value = u32> {
    let edge = prop::sample::select(vec![4u32, 8, 16, 32]);
    prop_oneof![
        4 => Just(0u32),
        2 => any::<u32>(),
        // Within 2 of ±2^(n-1) or ±2^n.
        3 => (edge, 0u32..2, -2i32..=2, any::<bool>()).prop_map(|(n, whole, distance, negative)| {
            let power = (1u64 << (n - 1 + whole)) as u32;
            let word = power.wrapping_add_signed(distance);
            if negative { word.wrapping_neg() } else { word }
        }),
        2 => any::<u8>().prop_map(|byte| u32::from(byte) * 0x0101_0101),
        2 => any::<u16>().prop_map(|half| u32::from(half) << 16),
        2 => any::<[i8; 2]>().prop_map(|[a, b]| u32::from(a as u16) | u32::from(b as u16) << 16),
        1 => any::<i8>().prop_map(|byte| byte as u32),
    ]
}

/// Words that are all a few steps from a handful of others: dictionary matches of every length.
fn family_line() -> impl Strategy<Value = Line> {
    let mask = prop::sample::select(vec![0u32, 0xff, 0xffff, 0xff_ffff, 0xffff_0000]);
    let member = (any::<prop::sample::Index>(), mask, word());
    (prop::collection::vec(word(), 1..=15), prop::collection::vec(member, 16)).prop_map(
        |(parents, members)| {
            let words: Vec<u32> = members
                .into_iter()
                .map(|(parent, mask, noise)| parent.get(&parents) ^ noise & mask)
                .collect();
            line_of(&words)
        },
    )
}

/// Elements of one width that are short or near one base, with the edges of each delta width among them.
fn base_line() -> impl Strategy<Value = Line> {
    let widths = prop::sample::select(vec![(8usize, 8u32), (8, 16), (8, 32), (4, 8), (4, 16), (2, 8)]);
    (widths, any::<u64>(), prop::collection::vec((any::<u64>(), 0u8..8), 32)).prop_map(
        |((base_len, delta_bits), base, elements)| {
            let span = 1u64 << delta_bits;
            let mut bytes: Vec<u8> = Vec::new();
            for (noise, kind) in elements {
                let element = match kind {
                    0 => 0,
                    1 => (noise % span).wrapping_sub(span / 2),
                    2 => span / 2 - 1,
                    3 => (span / 2).wrapping_neg(),
                    4 => base,
                    5 => base.wrapping_add(span - 1),
                    // One too far, but rarely, or no line would fit.
                    6 if noise % 16 == 0 => base.wrapping_add(span),
                    6 if noise % 16 == 1 => span / 2,
                    _ => base.wrapping_add(noise % span),
                };
                bytes.extend_from_slice(&element.to_le_bytes()[..base_len]);
            }
            bytes[..64].try_into().unwrap()
        },
    )
}

fn any_line() -> impl Strategy<Value = Line> {
    prop_oneof![
        3 => prop::collection::vec(word(), 16).prop_map(|words| line_of(&words)),
        3 => family_line(),
        3 => base_line(),
        1 => Just([0; 64]),
        1 => any::<u64>().prop_map(|word| [word.to_le_bytes(); 8].concat().try_into().unwrap()),
        1 => any::<[[u8; 32]; 2]>().prop_map(|halves| halves.concat().try_into().unwrap()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 20_000, ..ProptestConfig::default() })]

    #[test]
    fn line_bits_equal_the_reference(line in any_line()) {
        for algorithm in LINE_ALGORITHMS {
            let bits = line_bits(algorithm).unwrap()(&line);
            prop_assert_eq!(bits, reference::line_bits(algorithm, &line), "{} {:08x?}", algorithm, line::words(&line));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2_000, ..ProptestConfig::default() })]

    #[test]
    fn chunks_of_any_lines_round_trip(
        lines in prop::collection::vec(any_line(), 1..40),
        short_by in 0usize..64,
        element in prop::sample::select(&Element::ALL[..]),
    ) {
        let mut raw = lines.concat();
        raw.truncate(raw.len() - short_by);
        let mut back_ends = BackEnds::new();
        for codec in mgcomp_codecs::codecs() {
            back_ends.round_trip(codec.algorithm(), element, &raw, Places::END, "any lines");
        }
    }

    #[test]
    fn frames_of_any_lines_keep_the_size_rule(
        lines in prop::collection::vec(any_line(), 1..40),
        pattern in any::<u64>(),
        len in 1usize..9_000,
    ) {
        let mut random = Random(pattern);
        let mut raw = Vec::new();
        while raw.len() < len {
            raw.extend_from_slice(&lines[random.below(lines.len())]);
        }
        raw.truncate(len);
        assert_size_rule(&raw);
    }
}

/// Stored bytes ≤ 1.03 × sum of line sizes + 40 bytes a chunk + the header, for every chunk size.
fn assert_size_rule(raw: &[u8]) {
    for algorithm in LINE_ALGORITHMS {
        let bits =
            line::lines(raw).map(|line| u64::from(reference::line_bits(algorithm, &line))).sum::<u64>();
        assert_eq!(paper_bits(algorithm, raw), Some(bits));
        for log2 in [12, 14, 16] {
            for checksum in [false, true] {
                let chunk_size = frame::ChunkSize::from_log2(log2).unwrap();
                let options = frame::Options { chunk_size, checksum };
                let stored = frame::encode(codec_of(algorithm), Element::U8, raw, options).unwrap().len();
                let chunks = raw.len().div_ceil(1 << log2);
                let limit = 1.03 * bits as f64 / 8.0 + 40.0 * chunks as f64 + 16.0;
                assert!(
                    stored as f64 <= limit,
                    "{algorithm} 2^{log2} {checksum}: {stored} bytes for {bits} bits in {chunks} chunks, at most {limit:.1}"
                );
            }
        }
    }
}

/// The cheapest line of each algorithm that is not zero: here the kind bits weigh most.
fn cheapest_coded_line(algorithm: Algorithm) -> Line {
    match algorithm {
        Algorithm::Bdi => line_of(&[1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0]), // repeated: 68 bits
        Algorithm::Fpc => line_of(&[1]),                                              // 15 × 3 + 7 = 52 bits
        _ => line_of(&[0x55]),                                                        // 15 × 2 + 12 = 42 bits
    }
}

/// Lengths around the chunk sizes, where tables and padding weigh differently.
const LENGTHS: [usize; 12] =
    [64, 448, 4032, 4096, 4160, 8192, 16_384, 20_480, 65_535, 65_536, 65_600, 200_000];

fn repeat(lines: &[Line], len: usize) -> Vec<u8> {
    lines.concat().into_iter().cycle().take(len).collect()
}

#[test]
fn size_rule_holds_in_the_worst_cases() {
    let zero = [0; 64];
    let raw: Line = Random(9).bytes(64).try_into().unwrap();
    for len in LENGTHS {
        assert_size_rule(&repeat(&[zero], len));
        assert_size_rule(&repeat(&[raw], len));
        assert_size_rule(&repeat(&[zero, raw], len));
        for algorithm in LINE_ALGORITHMS {
            let coded = cheapest_coded_line(algorithm);
            assert_size_rule(&repeat(&[coded], len));
            assert_size_rule(&repeat(&[zero, coded], len));
            assert_size_rule(&repeat(&[coded, raw], len));
            assert_size_rule(&repeat(&[zero, coded, raw], len));
            // One zero line, or one raw one, among coded ones: a whole byte of kind bits for one line.
            assert_size_rule(&[zero.to_vec(), repeat(&[coded], len - 64)].concat());
            assert_size_rule(&[raw.to_vec(), repeat(&[coded], len - 64)].concat());
        }
    }
}

/// Every number of lines up to two small chunks: all paddings occur.
#[test]
fn size_rule_holds_for_every_number_of_lines() {
    let zero = [0; 64];
    for lines in 1..=130 {
        for algorithm in LINE_ALGORITHMS {
            let coded = cheapest_coded_line(algorithm);
            assert_size_rule(&repeat(&[coded], 64 * lines));
            assert_size_rule(&repeat(
                &[coded, line_of(&[0x1234_5678, 0x1234_5679, 5]), zero],
                64 * lines - 63,
            ));
        }
    }
}

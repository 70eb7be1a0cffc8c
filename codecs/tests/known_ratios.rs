//! Ratios that the paper's Table V prints for data that can be made anew.

mod common;

use common::{Random, data};
use mgcomp_codecs::{Algorithm, paper_bits};

/// Raw bits over coded bits, as the table counts them.
fn ratio(algorithm: Algorithm, raw: &[u8]) -> f64 {
    (8 * raw.len()) as f64 / paper_bits(algorithm, raw).unwrap() as f64
}

#[track_caller]
fn assert_ratio(algorithm: Algorithm, raw: &[u8], from: f64, to: f64) {
    let ratio = ratio(algorithm, raw);
    assert!(from - 0.005 <= ratio && ratio < to + 0.005, "{algorithm}: {ratio:.4}, not {from} to {to}");
}

#[test]
fn fir_floats_that_count_up() {
    let raw = data::words(4 << 21, |i| (i as f32).to_bits());
    assert_ratio(Algorithm::Bdi, &raw, 2.41, 2.41);
    assert_ratio(Algorithm::Fpc, &raw, 1.00, 1.00);
    assert_ratio(Algorithm::CpackZ, &raw, 1.73, 1.73);
}

#[test]
fn integers_that_count_up() {
    // 65,536 lines of 16 consecutive numbers, the first a multiple of 16.
    let raw = data::words(4 << 20, |i| i as u32);
    // Form 5 throughout: numbers below 128 are short, others lie within 15 of the smallest.
    assert_eq!(paper_bits(Algorithm::Bdi, &raw), Some(65_536 * 180));
    // Line 0: zero, 1 to 7 in 4 bits, 8 to 15 in 8. Then 7 lines below 128, 2,040 below 32,768. Where the low
    // halfword is -128 to 127 each word is two signed bytes: 8 lines before and 8 after each of 15 multiples
    // of 65,536, and the last 8. All others are raw.
    let two_signed_bytes = 15 * 16 + 8;
    let fpc = (3 + 7 * 7 + 8 * 11)
        + 7 * 16 * 11
        + (2_040 + two_signed_bytes) * 16 * 19
        + (65_536 - 2_048 - two_signed_bytes) * 512;
    assert_eq!(paper_bits(Algorithm::Fpc, &raw), Some(fpc));
    // Line 0: zero and low bytes; 15 lines of low bytes; then one new word, and 15 that differ in the low byte.
    let cpackz = (2 + 15 * 12) + 15 * 16 * 12 + 65_520 * (34 + 15 * 16);
    assert_eq!(paper_bits(Algorithm::CpackZ, &raw), Some(cpackz));
}

#[test]
fn mt_random_integers_from_0_to_47() {
    let mut random = Random(0x4d54);
    let raw = data::words(4 << 20, |_| random.below(48) as u32);
    assert_ratio(Algorithm::Bdi, &raw, 2.84, 2.84);
    assert_ratio(Algorithm::Fpc, &raw, 3.10, 3.13);
    assert_ratio(Algorithm::CpackZ, &raw, 2.69, 2.71);
}

#[test]
fn aes_random_bytes() {
    let raw = Random(0x4145).bytes(1 << 20);
    for algorithm in common::LINE_ALGORITHMS {
        assert_ratio(algorithm, &raw, 1.00, 1.00);
    }
}

#[test]
fn what_is_not_coded_counts_512_bits_a_line() {
    assert_eq!(paper_bits(Algorithm::None, &[0; 129]), Some(3 * 512));
    assert_eq!(paper_bits(Algorithm::None, &[]), Some(0));
    assert_eq!(paper_bits(Algorithm::Zvc, &[0; 64]), None);
    // A partial line is filled up with zeros.
    assert_eq!(paper_bits(Algorithm::Bdi, &[0; 65]), Some(8));
    assert_eq!(paper_bits(Algorithm::Fpc, &[7]), Some(15 * 3 + 3 + 4));
    assert_eq!(paper_bits(Algorithm::CpackZ, &[7]), Some(15 * 2 + 4 + 8));
}

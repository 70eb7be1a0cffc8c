//! ZVC, worked out by hand from the rule: 32 mask bits a window, then what is not zero.

mod common;

use common::{ELEMENTS, assert_chunk, decode_chunk, encode_chunk};
use mgcomp_codecs::zvc::Zvc;
use mgcomp_codecs::{Algorithm, Cpu, Element};

#[test]
fn four_byte_elements_and_a_tail() {
    // 0.0, 5.0, -0.0 (whose sign bit is a bit), and one byte more.
    let raw = [0, 0, 0, 0, 0x00, 0x00, 0xa0, 0x40, 0, 0, 0, 0x80, 0x63];
    #[rustfmt::skip]
    let stored = [
        0b0000_0110, 0, 0, 0,   // mask
        0, 0, 0, 0,             // padding to 8
        0x00, 0x00, 0xa0, 0x40,
        0x00, 0x00, 0x00, 0x80,
        0x63,
    ];
    assert_chunk(Algorithm::Zvc, Element::F32, &raw, &stored);
}

#[test]
fn the_element_decides_what_zero_means() {
    let raw = [0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0];
    assert_chunk(Algorithm::Zvc, Element::U8, &raw, &[0b10, 0b0100_0000, 0, 0, 0, 0, 0, 0, 1, 2]);
    assert_chunk(Algorithm::Zvc, Element::Bf16, &raw, &[0b1000_0001, 0, 0, 0, 0, 0, 0, 0, 0, 1, 2, 0]);
    assert_chunk(Algorithm::Zvc, Element::U32, &raw, &[0b1001, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 2, 0]);
    let mut whole = vec![0b11, 0, 0, 0, 0, 0, 0, 0];
    whole.extend_from_slice(&raw);
    assert_chunk(Algorithm::Zvc, Element::F64, &raw, &whole);
}

#[test]
fn elements_of_one_width_are_alike() {
    let raw: Vec<u8> = (0..999).map(|i| if i % 3 == 0 { i as u8 } else { 0 }).collect();
    let of = |element| encode_chunk(&Zvc::on(Cpu::active()), element, &raw);
    for element in Element::ALL {
        let same_width = ELEMENTS.into_iter().find(|e| e.width_bytes() == element.width_bytes()).unwrap();
        assert_eq!(of(element), of(same_width), "{element}");
    }
}

#[test]
fn windows_have_32_elements() {
    // 33 halfwords, of which numbers 31 and 32 are not zero: two masks, which need no padding.
    let mut raw = [0; 66];
    raw[62..66].copy_from_slice(&[0x34, 0x12, 0x78, 0x56]);
    let stored = [0, 0, 0, 0x80, 0x01, 0, 0, 0, 0x34, 0x12, 0x78, 0x56];
    assert_chunk(Algorithm::Zvc, Element::U16, &raw, &stored);
    // Without the last element there is one mask, and padding again.
    let stored = [0, 0, 0, 0x80, 0, 0, 0, 0, 0x34, 0x12];
    assert_chunk(Algorithm::Zvc, Element::U16, &raw[..64], &stored);
}

#[test]
fn less_than_an_element_is_all_tail() {
    assert_chunk(Algorithm::Zvc, Element::U64, &[1, 0, 3], &[1, 0, 3]);
}

#[test]
fn the_papers_extremes() {
    // All zero, 4-byte elements: 32 times smaller. None zero: a mask bit for 32 bits, 3.1 % more.
    let all_zero = encode_chunk(&Zvc::on(Cpu::active()), Element::F32, &[0; 4096]);
    assert_eq!(all_zero.len() * 32, 4096);
    let none_zero = encode_chunk(&Zvc::on(Cpu::active()), Element::F32, &[1; 4096]);
    assert_eq!(none_zero.len(), 4096 + 128);
}

#[test]
fn a_decoder_takes_stored_zeros() {
    let stored = [0b11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 0];
    assert_eq!(decode_chunk(&Zvc::on(Cpu::active()), Element::U16, &stored, 4), Ok(vec![0, 0, 5, 0]));
}

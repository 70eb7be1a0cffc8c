//! Columns: many numbers of the same few bits, laid out so that neither a vector nor a thread block has to
//! shift bits across bytes.
//!
//! The low whole bytes come first, in pieces of 4, 2 and 1 bytes as their number asks for: all numbers' first
//! piece, then all numbers' second. Each of the up to seven bits above is a plane, one bit per number. The
//! planes of 64 numbers stand together, 8 bytes each; the planes of the last, shorter group are as many bytes
//! as its numbers need.

use crate::chunk::{ChunkError, SectionReader};

/// Numbers whose planes stand together.
pub(super) const GROUP: usize = 64;

/// The byte pieces of a number of `bits` bits: the lowest bit of each, and its bytes.
fn pieces(bits: u32) -> impl Iterator<Item = (u32, usize)> {
    let whole_bytes = bits / 8;
    [4, 2, 1].into_iter().filter(move |piece| whole_bytes & piece != 0).map(move |piece| {
        let before = whole_bytes & !(2 * piece - 1);
        (8 * before, piece as usize)
    })
}

/// The bits of a number that are planes.
fn planes(bits: u32) -> std::ops::Range<u32> {
    bits / 8 * 8..bits
}

/// Appends `numbers`, of `bits` bits each.
pub(super) fn put(numbers: &[u64], bits: u32, out: &mut Vec<u8>) {
    for (low, bytes) in pieces(bits) {
        out.extend(numbers.iter().flat_map(|number| (number >> low).to_le_bytes().into_iter().take(bytes)));
    }
    for group in numbers.chunks(GROUP) {
        for bit in planes(bits) {
            let plane =
                group.iter().enumerate().fold(0, |plane, (i, number)| plane | (number >> bit & 1) << i);
            out.extend_from_slice(&plane.to_le_bytes()[..group.len().div_ceil(8)]);
        }
    }
}

/// Takes `count` numbers of `bits` bits.
pub(super) fn take(
    sections: &mut SectionReader<'_>,
    count: usize,
    bits: u32,
) -> Result<Vec<u64>, ChunkError> {
    let mut numbers = vec![0; count];
    for (low, bytes) in pieces(bits) {
        let stored = sections.take(count * bytes)?.chunks_exact(bytes);
        for (number, stored) in numbers.iter_mut().zip(stored) {
            *number |= little_endian(stored) << low;
        }
    }
    for group in numbers.chunks_mut(GROUP) {
        for bit in planes(bits) {
            let plane = little_endian(sections.take(group.len().div_ceil(8))?);
            if group.len() < GROUP && plane >> group.len() != 0 {
                return Err(ChunkError::Padding { offset: sections.offset() });
            }
            for (i, number) in group.iter_mut().enumerate() {
                *number |= (plane >> i & 1) << bit;
            }
        }
    }
    Ok(numbers)
}

/// The bytes of `planes` planes of `count` numbers.
pub(super) const fn planes_len(count: usize, planes: usize) -> usize {
    planes * (count / GROUP * 8 + (count % GROUP).div_ceil(8))
}

/// The bytes of a column of `count` numbers of `bits` bits.
pub(super) const fn column_len(count: usize, bits: u32) -> usize {
    count * (bits as usize / 8) + planes_len(count, bits as usize % 8)
}

/// Whether the bits behind the last of `count` numbers are zero in each of the planes, `number` a group.
pub(super) fn planes_end_in_zeros(planes: &[u8], count: usize, number: usize) -> bool {
    let plane_len = (count % GROUP).div_ceil(8);
    let last = &planes[planes_len(count / GROUP * GROUP, number)..];
    plane_len == 0
        || count.is_multiple_of(8)
        || last.chunks(plane_len).all(|plane| plane[plane_len - 1] >> (count % 8) == 0)
}

/// The number in up to eight bytes.
pub(super) fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, &byte| number << 8 | u64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(numbers: &[u64], bits: u32) -> Vec<u8> {
        let mut out = Vec::new();
        put(numbers, bits, &mut out);
        out
    }

    #[test]
    fn whole_bytes_come_first_then_planes() {
        assert_eq!(stored(&[1, 2, 3], 2), [0b101, 0b110]);
        assert_eq!(stored(&[0x1ff, 0x002], 9), [0xff, 0x02, 0b01]);
        assert_eq!(stored(&[0x33_2211, 0x66_5544], 24), [0x11, 0x22, 0x44, 0x55, 0x33, 0x66]);
        let number = 0x1f_6655_4433_2211;
        assert_eq!(stored(&[number], 53), [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 1, 1, 1, 1, 1]);
    }

    #[test]
    fn planes_of_64_numbers_stand_together() {
        let mut numbers = [0; 65];
        (numbers[0], numbers[63], numbers[64]) = (1, 2, 3);
        let mut expected = [0; 18];
        (expected[0], expected[15], expected[16], expected[17]) = (1, 0x80, 1, 1);
        assert_eq!(stored(&numbers, 2), expected);
    }

    #[test]
    fn columns_come_back_and_planes_end_with_their_numbers() {
        for bits in 1..=53 {
            for count in [0, 1, 7, 8, 9, 63, 64, 65, 200] {
                let numbers: Vec<u64> =
                    (1..=count).map(|i| 0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(i) >> (64 - bits)).collect();
                let stored = stored(&numbers, bits);
                let mut sections = SectionReader::new(&stored);
                assert_eq!(stored.len(), column_len(numbers.len(), bits));
                assert_eq!(take(&mut sections, numbers.len(), bits), Ok(numbers));
                assert_eq!(sections.finish(), Ok(()));
            }
        }
        let mut sections = SectionReader::new(&[0, 0b1000]);
        assert_eq!(take(&mut sections, 3, 2), Err(ChunkError::Padding { offset: 2 }));
    }
}

//! Masks in which whole bytes of zeros are left out, up to three times over.
//!
//! At depth 0 a mask is its bytes. At depth *d* it is, at depth *d* − 1, the mask of those of its bytes that
//! are not zero, and then these bytes.

use super::column::little_endian;
use crate::chunk::{ChunkError, SectionReader};

/// The deepest nesting: a byte of the top level stands for 4096 bits.
pub(super) const MAX_DEPTH: u8 = 3;

/// The depth at which `bits` take the fewest bytes; the lowest of equals.
pub(super) fn best_depth(bits: &[bool]) -> u8 {
    let len = |depth| {
        let mut out = Vec::new();
        put(bits, depth, &mut out);
        out.len()
    };
    (0..=MAX_DEPTH).min_by_key(|&depth| len(depth)).unwrap_or(0)
}

/// Appends `bits` at `depth`.
pub(super) fn put(bits: &[bool], depth: u8, out: &mut Vec<u8>) {
    let bytes: Vec<u8> = bits
        .chunks(8)
        .map(|bits| bits.iter().enumerate().fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i))
        .collect();
    if depth == 0 {
        out.extend(bytes);
    } else {
        let kept: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
        put(&kept, depth - 1, out);
        out.extend(bytes.into_iter().filter(|&byte| byte != 0));
    }
}

/// Takes `count` bits that stand at `depth`.
pub(super) fn take(
    sections: &mut SectionReader<'_>,
    count: usize,
    depth: u8,
) -> Result<Vec<bool>, ChunkError> {
    let len = count.div_ceil(8);
    let bytes = if depth == 0 {
        sections.take(len)?.to_vec()
    } else {
        let kept = take(sections, len, depth - 1)?;
        let mut stored = sections.take(kept.iter().filter(|&&kept| kept).count())?.iter();
        kept.into_iter().map(|kept| if kept { stored.next().copied().unwrap_or(0) } else { 0 }).collect()
    };
    if !count.is_multiple_of(8) && little_endian(&bytes[len - 1..]) >> (count % 8) != 0 {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    Ok((0..count).map(|i| bytes[i / 8] >> (i % 8) & 1 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(set: &[usize], count: usize, depth: u8) -> Vec<u8> {
        let bits: Vec<bool> = (0..count).map(|i| set.contains(&i)).collect();
        let mut out = Vec::new();
        put(&bits, depth, &mut out);
        let mut sections = SectionReader::new(&out);
        assert_eq!(take(&mut sections, count, depth), Ok(bits));
        assert_eq!(sections.finish(), Ok(()));
        out
    }

    #[test]
    fn each_level_leaves_out_the_zero_bytes_of_the_one_below() {
        assert_eq!(stored(&[0, 3, 77], 80, 0), [0b1001, 0, 0, 0, 0, 0, 0, 0, 0, 0b10_0000]);
        assert_eq!(stored(&[0, 3, 77], 80, 1), [0b1, 0b10, 0b1001, 0b10_0000]);
        assert_eq!(stored(&[0, 3, 77], 80, 2), [0b11, 0b1, 0b10, 0b1001, 0b10_0000]);
        assert_eq!(stored(&[], 80, 2), [0]);
        assert_eq!(stored(&[], 0, 3), []);
        assert_eq!(stored(&[4095], 4096, 3), [0x80, 0x80, 0x80, 0x80]);
    }

    #[test]
    fn the_shortest_depth_wins() {
        assert_eq!(best_depth(&[true; 100]), 0);
        assert_eq!(best_depth(&[false; 64]), 1);
        assert_eq!(best_depth(&[false; 4096]), 3);
        assert_eq!(best_depth(&[]), 0);
    }

    #[test]
    fn bits_behind_the_last_are_refused_at_every_level() {
        let mut sections = SectionReader::new(&[0, 0b10]);
        assert_eq!(take(&mut sections, 9, 0), Err(ChunkError::Padding { offset: 2 }));
        let mut sections = SectionReader::new(&[0b100]);
        assert_eq!(take(&mut sections, 9, 1), Err(ChunkError::Padding { offset: 1 }));
        let mut sections = SectionReader::new(&[0b10, 0b10]);
        assert_eq!(take(&mut sections, 9, 1), Err(ChunkError::Padding { offset: 2 }));
    }
}

//! Seeded damage to coded bytes.

use crate::data::Random;
use mgcomp_codecs::frame::{Frame, UNIT};

/// Values that lie on the borders of length and offset fields.
const BORDERS: [u32; 8] = [0, 1, 0x10, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// A copy of `bytes` with one to three changes; half of them hit the first 64 bytes, where the structure is.
#[must_use]
pub fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.below(3) {
        change(&mut bytes, random);
    }
    bytes
}

/// Every frame that is `frame` with units missing at the end of its last chunk, and a table that agrees.
///
/// # Panics
/// If `frame` is no frame of at least one chunk without checksums.
#[must_use]
pub fn shorten_last_chunk(frame: &[u8]) -> Vec<Vec<u8>> {
    let parsed = Frame::parse(frame).expect("a frame");
    let chunks = parsed.header().chunks();
    let entry = 16 + 4 * (chunks - 1);
    let units = parsed.chunk(chunks - 1).stored.len() / UNIT;
    let shorten = |missing: usize| {
        let mut short = frame[..frame.len() - missing * UNIT].to_vec();
        let end = (short.len() - parsed.chunks_offset()) / UNIT;
        short[entry..entry + 4].copy_from_slice(&(end as u32).to_le_bytes());
        short
    };
    (1..units).map(shorten).collect()
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.bits() as u8);
        return;
    }
    let reach = if random.percent(50) { bytes.len().min(64) } else { bytes.len() };
    let at = random.below(reach);
    match random.below(16) {
        0..8 => bytes[at] ^= 1 << random.below(8),
        8..10 => bytes[at] = random.bits() as u8,
        10 => {
            let border = BORDERS[random.below(BORDERS.len())].to_le_bytes();
            bytes.iter_mut().skip(at).zip(border).for_each(|(byte, b)| *byte = b);
        }
        11 => bytes[at] = bytes[at].wrapping_add(1),
        12 => bytes[at] = bytes[at].wrapping_sub(1),
        13 => {
            let other = random.below(bytes.len());
            bytes.swap(at, other);
        }
        14 => bytes.truncate(bytes.len() - 1 - random.below(bytes.len().min(33))),
        _ => bytes.extend(std::iter::repeat_n(0, 1 + random.below(32))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use mgcomp_codecs::{Cpu, Element, frame, zvc::Zvc};

    #[test]
    fn shorter_frames_still_have_a_good_table() {
        let options = frame::Options { chunk_size: frame::ChunkSize::SMALL, checksum: false };
        let coded = frame::encode(&Zvc::on(Cpu::Portable), Element::U8, &[0; 5000], options).unwrap();
        // The last chunk has 904 elements: 29 masks and padding, 120 bytes, so 8 units.
        let short = shorten_last_chunk(&coded);
        assert_eq!(short.len(), 7);
        for frame in short {
            assert_eq!(Frame::parse(&frame).unwrap().header().chunks(), 2);
        }
    }
}

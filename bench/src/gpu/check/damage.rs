//! Damage by chance to frames.

use crate::data::Random;

/// Values that lie on the borders of length and offset fields.
const BORDERS: [u32; 8] = [0, 1, 0x10, 0x7f, 0xff, 0x7fff_ffff, 0x8000_0000, u32::MAX];

/// A copy of `frame` with one to three changes, most of them near its start, where the structure is.
pub(super) fn damaged(frame: &[u8], random: &mut Random) -> Vec<u8> {
    let mut bytes = frame.to_vec();
    for _ in 0..=random.below(3) {
        change(&mut bytes, random);
    }
    bytes
}

fn change(bytes: &mut Vec<u8>, random: &mut Random) {
    if bytes.is_empty() {
        bytes.push(random.bits() as u8);
        return;
    }
    let reach = if random.percent(60) { bytes.len().min(96) } else { bytes.len() };
    let at = random.below(reach);
    match random.below(8) {
        0..4 => bytes[at] ^= 1 << random.below(8),
        4 => bytes[at] = random.bits() as u8,
        5 => {
            let border = random.pick(&BORDERS).to_le_bytes();
            bytes.iter_mut().skip(at).zip(border).for_each(|(byte, b)| *byte = b);
        }
        6 => bytes.truncate(bytes.len() - 1 - random.below(bytes.len().min(40))),
        _ => bytes.extend((0..=random.below(32)).map(|_| 0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_is_done() {
        let mut random = Random::new(5);
        let frame: Vec<u8> = (0..=255).collect();
        let changed = (0..100).filter(|_| damaged(&frame, &mut random) != frame).count();
        assert!(changed > 90, "{changed}");
        assert!(damaged(&[], &mut random).len() < 200);
    }
}

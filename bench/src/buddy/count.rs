//! A second count of entries that overflow, which has nothing of the pool or of the profile.

use mgcomp_codecs::frame::{self, ChunkSize, FrameError, Options};
use mgcomp_codecs::{Algorithm, Element, bpc, codec};
use mgcomp_transport::buddy::{Form, Target};

/// Entries of `raw` that do not fit their slots.
pub(super) fn overflowing(raw: &[u8], form: Form, target: Target) -> Result<u64, FrameError> {
    let mut raw = raw.to_vec();
    raw.resize(raw.len().next_multiple_of(128), 0);
    let sixteenths = target.device_sixteenths();
    Ok(match form {
        Form::Xp(element) => chunks(&raw, element)?
            .zip(raw.chunks(32_768))
            // A frame has a unit of every chunk.
            .filter(|(bytes, raw)| 16 * bytes > sixteenths * raw.len() && raw.iter().any(|&byte| byte != 0))
            .count() as u64,
        _ => raw.as_chunks().0.iter().filter(|entry| overflows(entry, sixteenths)).count() as u64,
    })
}

/// Whether an entry of BPC needs more than its sixteenths, by the size in bits that the paper gives it.
fn overflows(entry: &bpc::Entry, sixteenths: usize) -> bool {
    let bytes = bpc::entry_bits(entry).div_ceil(8) as usize;
    // Short of 8 bytes sectors count, and four of them are taken by what has more than three.
    let taken = if bytes <= 8 { bytes } else { bytes.next_multiple_of(32) };
    entry != &[0; 128] && taken > 8 * sixteenths
}

/// The bytes that each chunk of a frame of XP takes, told from the bytes of its table.
fn chunks(raw: &[u8], element: Element) -> Result<impl Iterator<Item = usize>, FrameError> {
    let options =
        Options { chunk_size: ChunkSize::from_log2(15).unwrap_or(ChunkSize::DEFAULT), checksum: false };
    // The table of codecs has XP.
    let framed =
        codec(Algorithm::Xp).map_or(Ok(Vec::new()), |xp| frame::encode(xp, element, raw, options))?;
    let mut start = 0;
    let entries = raw.len().div_ceil(32_768);
    let table: Vec<u8> = framed.iter().skip(16).take(4 * entries).copied().collect();
    let ends: Vec<usize> = table.as_chunks().0.iter().map(|end| u32::from_le_bytes(*end) as usize).collect();
    Ok(ends.into_iter().map(move |end| 16 * (end - std::mem::replace(&mut start, end))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_counted_by_the_sizes_of_the_paper() {
        // An entry of zeros, a ramp of 15 bits, one of noise: nothing overflows at 1, the noise does at others.
        let mut raw = vec![0; 128];
        raw.extend((0..32u32).flat_map(u32::to_le_bytes));
        raw.extend((0..32u32).flat_map(|i| (i ^ 0x5bd1_e995).wrapping_pow(7).rotate_left(i).to_le_bytes()));
        let counts = [Target::One, Target::FourThirds, Target::Sixteen]
            .map(|target| overflowing(&raw, Form::Bpc, target).unwrap());
        assert_eq!(counts, [0, 1, 1]);
        let xp = |target| overflowing(&raw, Form::Xp(Element::F32), target).unwrap();
        assert_eq!((xp(Target::One), xp(Target::Sixteen)), (0, 1));
    }
}

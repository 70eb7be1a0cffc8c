//! The definition of ZVC, for elements of `W` bytes.

use super::WINDOW;
use crate::chunk::{ChunkError, SectionReader, SectionWriter};

pub(super) fn encode<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.as_chunks::<W>();
    let mut out = SectionWriter::new(coded);
    for window in elements.chunks(WINDOW) {
        let mask = window.iter().enumerate().fold(0u32, |mask, (i, e)| mask | u32::from(*e != [0; W]) << i);
        out.put(&mask.to_le_bytes());
    }
    out.align(8);
    for element in elements.iter().filter(|&&e| e != [0; W]) {
        out.put(element);
    }
    out.put(tail);
    out.len()
}

pub(super) fn decode<const W: usize>(coded: &[u8], raw: &mut [u8]) -> Result<(), ChunkError> {
    let (elements, tail) = raw.as_chunks_mut::<W>();
    let mut sections = SectionReader::new(coded);
    let masks = sections.take(4 * elements.len().div_ceil(WINDOW))?.as_chunks().0;
    let masks = masks.iter().map(|&bytes| u32::from_le_bytes(bytes));
    let past_end =
        masks.clone().next_back().map_or(0, |m| u64::from(m) >> ((elements.len() - 1) % WINDOW) >> 1);
    if past_end != 0 {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    sections.align(8)?;
    let kept = masks.clone().map(|mask| mask.count_ones() as usize).sum::<usize>();
    let mut kept = sections.take(kept * W)?.as_chunks::<W>().0.iter();
    let rest = sections.take(tail.len())?;
    sections.finish()?;

    for (window, mask) in elements.chunks_mut(WINDOW).zip(masks) {
        for (i, element) in window.iter_mut().enumerate() {
            let stored = if mask >> i & 1 == 1 { kept.next() } else { None };
            *element = stored.copied().unwrap_or([0; W]);
        }
    }
    tail.copy_from_slice(rest);
    Ok(())
}

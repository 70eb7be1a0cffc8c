//! The definition of ZVC, for elements of `W` bytes.

use super::{WINDOW, masks_len};
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

/// How many elements of `raw` are not zero.
pub(super) fn non_zeros<const W: usize>(raw: &[u8]) -> usize {
    raw.as_chunks::<W>().0.iter().filter(|&&e| e != [0; W]).count()
}

/// The sections of a chunk whose lengths hold together: as many elements are kept as masks have bits.
pub(super) struct Sections<'a> {
    /// One bit per element; none behind the last one.
    pub(super) masks: &'a [u8],
    /// The non-zero elements.
    pub(super) kept: &'a [u8],
    /// What follows the last whole element.
    pub(super) tail: &'a [u8],
}

pub(super) fn sections<const W: usize>(coded: &[u8], raw_len: usize) -> Result<Sections<'_>, ChunkError> {
    let mut sections = SectionReader::new(coded);
    let masks = sections.take(masks_len::<W>(raw_len))?;
    let past_end = match (raw_len / W % WINDOW, masks.last_chunk()) {
        (1.., Some(&last)) => u32::from_le_bytes(last) >> (raw_len / W % WINDOW),
        _ => 0,
    };
    if past_end != 0 {
        return Err(ChunkError::Padding { offset: sections.offset() });
    }
    sections.align(8)?;
    let kept = sections.take(W * ones(masks))?;
    let tail = sections.take(raw_len % W)?;
    sections.finish()?;
    Ok(Sections { masks, kept, tail })
}

/// Set bits of masks, eight bytes at a time.
fn ones(masks: &[u8]) -> usize {
    let (words, last) = masks.as_chunks();
    let in_words = words.iter().map(|&word| u64::from_le_bytes(word).count_ones() as usize);
    let in_last = last.iter().map(|byte| byte.count_ones() as usize);
    in_words.sum::<usize>() + in_last.sum::<usize>()
}

pub(super) fn decode<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let (elements, tail) = raw.as_chunks_mut::<W>();
    let mut kept = sections.kept.as_chunks::<W>().0.iter();
    for (window, mask) in elements.chunks_mut(WINDOW).zip(sections.masks.as_chunks().0) {
        let mask = u32::from_le_bytes(*mask);
        for (i, element) in window.iter_mut().enumerate() {
            let stored = if mask >> i & 1 == 1 { kept.next() } else { None };
            *element = stored.copied().unwrap_or([0; W]);
        }
    }
    tail.copy_from_slice(sections.tail);
}

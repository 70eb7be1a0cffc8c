//! The definition of RLE, for elements of `W` bytes.

use super::{COUNT_LEN, Counts, LITERALS, MAX_RUN, min_zeros};
use crate::chunk::{ChunkError, SectionReader, SectionWriter};

/// Neighbours that share a control byte.
enum Run<'a, const W: usize> {
    Zeros(usize),
    Literals(&'a [[u8; W]]),
}

impl<const W: usize> Run<'_, W> {
    fn control(&self) -> u8 {
        match self {
            Self::Zeros(len) => (len - 1) as u8,
            Self::Literals(elements) => LITERALS | (elements.len() - 1) as u8,
        }
    }
}

/// The runs of a chunk, in order.
fn runs<const W: usize>(elements: &[[u8; W]]) -> impl Iterator<Item = Run<'_, W>> {
    let mut left = elements;
    // What is left of the stretch that the next run belongs to.
    let (mut zeros, mut literals) = (0, 0);
    std::iter::from_fn(move || {
        if zeros + literals == 0 {
            // Elements before the next stretch of zeros; without any, the stretch itself.
            let mut candidates = left.windows(min_zeros::<W>());
            literals = candidates
                .position(|some| some.iter().all(|&element| element == [0; W]))
                .unwrap_or(left.len());
            if literals == 0 {
                zeros = left.iter().take_while(|&&element| element == [0; W]).count();
            }
        }
        let (run, rest) = left.split_at_checked((zeros + literals).min(MAX_RUN))?;
        left = rest;
        if zeros > 0 {
            zeros -= run.len();
            Some(Run::Zeros(run.len()))
        } else {
            literals -= run.len();
            (!run.is_empty()).then_some(Run::Literals(run))
        }
    })
}

pub(super) fn encode<const W: usize>(raw: &[u8], coded: &mut [u8]) -> usize {
    let (elements, tail) = raw.as_chunks::<W>();
    let mut out = SectionWriter::new(coded);
    out.put(&(count::<W>(raw).controls as u32).to_le_bytes());
    for run in runs(elements) {
        out.put(&[run.control()]);
    }
    out.align(W);
    for run in runs(elements) {
        if let Run::Literals(literals) = run {
            out.put(literals.as_flattened());
        }
    }
    out.put(tail);
    out.len()
}

pub(super) fn count<const W: usize>(raw: &[u8]) -> Counts {
    let mut counts = Counts::default();
    for run in runs(raw.as_chunks::<W>().0) {
        counts.controls += 1;
        counts.literals += if let Run::Literals(literals) = run { literals.len() } else { 0 };
    }
    counts
}

/// The sections of a chunk whose lengths hold together: as many elements as the controls say.
pub(super) struct Sections<'a> {
    /// One byte per run.
    pub(super) controls: &'a [u8],
    /// The elements of literal runs.
    pub(super) literals: &'a [u8],
    /// What follows the last whole element.
    pub(super) tail: &'a [u8],
}

pub(super) fn sections<const W: usize>(coded: &[u8], raw_len: usize) -> Result<Sections<'_>, ChunkError> {
    let mut sections = SectionReader::new(coded);
    let count = sections.take(COUNT_LEN)?.iter().rev().fold(0, |count, &byte| count << 8 | usize::from(byte));
    let controls = sections.take(count)?;
    let (elements, literals) = sums(controls);
    if elements != raw_len / W {
        return Err(ChunkError::Runs { needed: raw_len / W, got: elements });
    }
    sections.align(W)?;
    let literals = sections.take(W * literals)?;
    let tail = sections.take(raw_len % W)?;
    sections.finish()?;
    Ok(Sections { controls, literals, tail })
}

/// The elements that `controls` stand for: in all, and in literal runs.
fn sums(controls: &[u8]) -> (usize, usize) {
    controls.iter().fold((0, 0), |(elements, literals), control| {
        let len = run_len(*control);
        (elements + len, literals + if control & LITERALS != 0 { len } else { 0 })
    })
}

/// The elements of one run.
pub(super) fn run_len(control: u8) -> usize {
    usize::from(control & !LITERALS) + 1
}

pub(super) fn decode<const W: usize>(sections: Sections<'_>, raw: &mut [u8]) {
    let (mut literals, mut left) = (sections.literals, raw);
    for control in sections.controls {
        let (run, rest) = left.split_at_mut(W * run_len(*control));
        left = rest;
        if control & LITERALS != 0 {
            let (stored, rest) = literals.split_at(run.len());
            literals = rest;
            run.copy_from_slice(stored);
        } else {
            run.fill(0);
        }
    }
    left.copy_from_slice(sections.tail);
}

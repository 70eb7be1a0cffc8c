//! From bits to granules.

// Bits are read at any byte; each place is checked.
#![allow(unsafe_code)]

use std::arch::x86_64::*;

use super::LINE;
use super::layout::{Layout, lanes};
use super::tables::Walk;
use crate::cpu::{prefetch_line, store256};
use crate::ibp::bits::{Source, marks_at, ones};
use crate::ibp::plan::Plan;

/// Bytes that half a vector is read from: its own, and one for bits that begin within a byte.
const WINDOW: usize = 17;
/// Bytes behind which all windows of a line end, wherever in the first byte it begins.
const REACH: usize = LINE + WINDOW;

/// Decodes with `P` runs to move, or 0 for the stages.
#[target_feature(enable = "avx2,bmi1,bmi2")]
pub(super) fn granules<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    source: &mut Source<'_>,
    raw: &mut [u8],
) {
    let mut walk = Walk::<P>::new(plan, phase);
    let (whole, part) = raw.as_chunks_mut();
    let done = lines::<G, P>(&mut walk, source, whole);
    let whole = &mut whole[done..];
    if whole.is_empty() && part_of_line::<G, P>(&mut walk, source, part) {
        return;
    }
    // What is left of the kept bits is less than a line may need.
    let place = source.bit / 8;
    let left = &source.kept[place..];
    let mut kept = [0; 2 * REACH];
    kept[..left.len()].copy_from_slice(left);
    let mut last = Source { kept: &kept, bit: source.bit % 8, ..*source };
    lines::<G, P>(&mut walk, &mut last, whole);
    part_of_line::<G, P>(&mut walk, &mut last, part);
    (source.granules, source.bit) = (last.granules, last.bit + 8 * place);
}

/// Decodes less than a line, if the source has the bytes of all windows of a line; returns whether it has.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn part_of_line<const G: usize, const P: usize>(
    walk: &mut Walk<'_, P>,
    source: &mut Source<'_>,
    part: &mut [u8],
) -> bool {
    let count = part.len() / G;
    if count == 0 {
        return true;
    }
    let marks = marks_at(source.participation, source.granules) & ones(count as u32);
    let mut line = [[0; LINE]];
    let mut alone = Source { participation: &marks.to_le_bytes(), granules: 0, ..*source };
    if lines::<G, P>(walk, &mut alone, &mut line) == 0 {
        return false;
    }
    part.copy_from_slice(&line[0][..part.len()]);
    source.granules += count;
    // Granules that are not there were taken as well.
    source.bit = alone.bit - 8 * (LINE - part.len());
    true
}

/// Decodes lines as long as the source has the bytes of all windows; returns how many these are.
#[target_feature(enable = "avx2,bmi1,bmi2")]
fn lines<const G: usize, const P: usize>(
    walk: &mut Walk<'_, P>,
    source: &mut Source<'_>,
    lines: &mut [[u8; LINE]],
) -> usize {
    let Some(last) = source.kept.len().checked_sub(WINDOW) else { return 0 };
    // Copies stay in registers.
    let (mut steps, mut at) = (*walk, *source);
    let (mut done, chunk_len) = (0, LINE * lines.len());
    let mut ahead = Layout::new::<G, P>(&steps, &at);
    for line in lines {
        // Chunks mostly follow each other, and a line that is written is read before.
        prefetch_line(line.as_ptr().wrapping_add(chunk_len));
        let layout = ahead;
        if layout.quarters[3] / 8 > last {
            break;
        }
        let places = steps.places();
        steps.advance();
        at.granules += LINE / G;
        at.bit = layout.end;
        // It takes long to know where to read, so the next line's places are found while this one is decoded.
        ahead = Layout::new::<G, P>(&steps, &at);
        let (vectors, _) = line.as_chunks_mut();
        for (i, place) in places.into_iter().enumerate() {
            // SAFETY: no quarter begins behind the last one, and from there on there are 17 bytes.
            let windows = unsafe { windows(at.kept, layout.quarters[2 * i], layout.quarters[2 * i + 1]) };
            let words = layout.words::<G>(i, windows);
            let participants = lanes::<G>(layout.participants, i);
            let decoded = _mm256_blendv_epi8(words, place.scatter::<G>(words), participants);
            store256(&mut vectors[i], decoded);
        }
        done += 1;
    }
    (*walk, *source) = (steps, at);
    done
}

/// The 16 bytes from where each quarter begins, and those a byte behind.
///
/// # Safety
/// From the byte of either bit on `kept` must have 17 bytes.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn windows(kept: &[u8], low: usize, high: usize) -> [__m256i; 2] {
    // SAFETY: the caller promises the bytes.
    unsafe {
        let (low, high) = (kept.as_ptr().add(low / 8), kept.as_ptr().add(high / 8));
        [
            _mm256_loadu2_m128i(high.cast(), low.cast()),
            _mm256_loadu2_m128i(high.add(1).cast(), low.add(1).cast()),
        ]
    }
}

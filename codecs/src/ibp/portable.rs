//! The definition of invariant bit packing: granule by granule.

use super::bits::{Sink, Source, ones};
use super::plan::Plan;

/// Codes the granules of `raw`, the first of which lies `phase` bytes into the tensor.
pub(super) fn encode(plan: &Plan, mut phase: usize, raw: &[u8], sink: &mut Sink<'_>) {
    for granule in raw.chunks_exact(plan.granule) {
        let word = word_of(granule);
        let participates = word & plan.mask(phase) == plan.bitval(phase);
        let keep = if participates { plan.keep(phase) } else { plan.all() };
        sink.put(participates, gather(word, keep), keep.count_ones());
        phase = plan.next(phase);
    }
}

/// How many bits the granules of `raw` save.
pub(super) fn saved_by(plan: &Plan, mut phase: usize, raw: &[u8]) -> usize {
    let mut saved = 0;
    for granule in raw.chunks_exact(plan.granule) {
        if word_of(granule) & plan.mask(phase) == plan.bitval(phase) {
            saved += plan.saved(phase);
        }
        phase = plan.next(phase);
    }
    saved
}

/// How many bits are saved by `count` granules with these participation bits, from number `first` on.
pub(super) fn saved_in(
    plan: &Plan,
    mut phase: usize,
    participation: &[u8],
    first: usize,
    count: usize,
) -> usize {
    let mut saved = 0;
    for i in first..first + count {
        if participation[i / 8] >> (i % 8) & 1 == 1 {
            saved += plan.saved(phase);
        }
        phase = plan.next(phase);
    }
    saved
}

/// Decodes the granules of `raw`. Bits that are missing in `source` read as zeros.
pub(super) fn decode(plan: &Plan, mut phase: usize, source: &mut Source<'_>, raw: &mut [u8]) {
    for granule in raw.chunks_exact_mut(plan.granule) {
        let word = if source.participates() {
            let keep = plan.keep(phase);
            scatter(source.take(keep.count_ones()), keep) | plan.bitval(phase)
        } else {
            source.take(8 * plan.granule as u32)
        };
        granule.copy_from_slice(&word.to_le_bytes()[..plan.granule]);
        phase = plan.next(phase);
    }
}

/// The number in four or eight bytes.
#[inline]
pub(super) fn word_of(granule: &[u8]) -> u64 {
    match granule.first_chunk() {
        Some(&eight) => u64::from_le_bytes(eight),
        None => granule.first_chunk().map_or(0, |&four| u64::from(u32::from_le_bytes(four))),
    }
}

/// The bits of `word` where `keep` has ones, moved together at the low end. Run by run: masks have few.
fn gather(word: u64, keep: u64) -> u64 {
    let (mut bits, mut count) = (0, 0);
    for (start, len) in runs(keep) {
        bits |= (word >> start & ones(len)) << count;
        count += len;
    }
    bits
}

/// The inverse of [`gather`], zero where `keep` is.
fn scatter(bits: u64, keep: u64) -> u64 {
    let (mut word, mut count) = (0, 0);
    for (start, len) in runs(keep) {
        word |= (bits >> count & ones(len)) << start;
        count += len;
    }
    word
}

/// Start and length of each run of ones, lowest first.
pub(super) fn runs(mut keep: u64) -> impl Iterator<Item = (u32, u32)> {
    std::iter::from_fn(move || {
        if keep == 0 {
            return None;
        }
        let start = keep.trailing_zeros();
        let len = (keep >> start).trailing_ones();
        keep &= !(ones(len) << start);
        Some((start, len))
    })
}

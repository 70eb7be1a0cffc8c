//! Rows of tables: whole tensors, of which many lines have all their granules participate. The kept bits of such a
//! line are in a fixed order, and where they fit a word, one shuffle of bits brings them to their places.

use std::arch::x86_64::*;

use super::decode;
use super::tables::{ROW, Tables};
use crate::cpu::{load512, store512, store512_partial};
use crate::ibp::bits::{Source, marks_at, ones};
use crate::ibp::plan::{Plan, RowLines, all};

/// Bytes that are decoded at a time.
const LINE: usize = 64;
/// Kept bits that fit a word, wherever in a byte they begin.
const WORD_BITS: u8 = 57;

/// Decodes the granules of a whole tensor with tables of `P` fields.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn lines<const G: usize, const P: usize>(plan: &Plan, source: &mut Source<'_>, raw: &mut [u8]) {
    let mut line = 0;
    while LINE * line < raw.len() {
        if plan.row.bits[line] <= WORD_BITS && marks_at(source.participation, source.granules) & 0xff == 0xff
        {
            let (whole, _) = raw[LINE * line..].as_chunks_mut();
            line += short_lines::<G, P>(plan, line, source, whole);
        }
        if let Some(other) = raw[LINE * line..].chunks_mut(LINE).next() {
            any_line::<G, P>(plan, LINE * line, source, other);
            line += 1;
        }
    }
}

/// Decodes a line, or less at the end of a tensor.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn any_line<const G: usize, const P: usize>(
    plan: &Plan,
    phase: usize,
    source: &mut Source<'_>,
    raw: &mut [u8],
) {
    let count = raw.len() / G;
    let marks = (marks_at(source.participation, source.granules) & ones(count as u32)) as u16;
    let tables = Tables::<P>::at::<G, ROW>(plan, phase);
    let (decoded, taken) = decode::vector::<G, P, ROW>(source.kept, source.bit, marks, count, &tables);
    source.granules += count;
    source.bit += taken;
    match raw.first_chunk_mut() {
        Some(raw) => store512(raw, decoded),
        None => store512_partial(raw, decoded),
    }
}

/// Decodes lines from number `first` on as long as all their granules participate and keep few bits; returns how many
/// these are. (On its own, so that it has all registers.)
#[inline(never)]
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn short_lines<const G: usize, const P: usize>(
    plan: &Plan,
    first: usize,
    source: &mut Source<'_>,
    lines: &mut [[u8; LINE]],
) -> usize {
    let places = first..first + lines.len();
    let table = |index: usize| &plan.lines[index].as_chunks::<LINE>().0[places.clone()];
    let bitvals = table(Plan::BITVALS);
    let starts: [_; P] = std::array::from_fn(|field| table(plan.row.first + field));
    let keeps: [_; P] = std::array::from_fn(|field| table(plan.scatter.first + 2 * field + 1));
    let bits_of = &plan.row.bits[places.clone()];
    // As many bytes of participation for each line as there are granules in eight bytes.
    let marks = source.participation[8 / G * first..].chunks_exact(8 / G);
    let mut done = 0;
    for (i, (line, marks)) in lines.iter_mut().zip(marks).enumerate() {
        let word = source.kept.get(source.bit / 8..).and_then(<[u8]>::first_chunk);
        let Some(&word) = word.filter(|_| bits_of[i] <= WORD_BITS && marks.iter().all(|&byte| byte == 0xff))
        else {
            break;
        };
        let words = _mm512_set1_epi64((u64::from_le_bytes(word) >> (source.bit % 8)) as i64);
        let mut decoded = load512(&bitvals[i]);
        for field in 0..P {
            let moved = _mm512_multishift_epi64_epi8(load512(&starts[field][i]), words);
            let keeps = load512(&keeps[field][i]);
            decoded = _mm512_ternarylogic_epi64::<0xf8>(decoded, moved, keeps); // decoded | (moved & keeps)
        }
        store512(line, decoded);
        source.bit += usize::from(bits_of[i]);
        done += 1;
    }
    source.granules += done * (LINE / G);
    done
}

/// Adds the tables for rows of granules with these masks, one per field that scatters bits: where in the kept bits of
/// a line, all of whose granules participate, the eight bits of the field start, modulo 64.
pub(in crate::ibp) fn add_row_tables(
    granule: usize,
    masks: &[u64],
    plan: &Plan,
    tables: &mut Vec<Vec<u8>>,
) -> RowLines {
    let first = tables.len();
    let keeps: Vec<u32> = masks.iter().map(|mask| (!mask & all(granule)).count_ones()).collect();
    let lines = keeps.chunks(LINE / granule);
    // What is too long for a word may be as long as it likes.
    let bits = lines.clone().map(|line| line.iter().sum::<u32>().min(u32::from(u8::MAX)) as u8).collect();
    // For each granule, the kept bits before it in its line.
    let before = lines.flat_map(|line| {
        line.iter().scan(0, |sum, keep| {
            let before = *sum;
            *sum += keep;
            Some(before as u8)
        })
    });
    let before: Vec<u8> = before.flat_map(|before| std::iter::repeat_n(before, granule)).collect();
    for field in 0..plan.scatter.count {
        let starts = &tables[plan.scatter.first + 2 * field];
        tables.push(
            starts.iter().zip(&before).map(|(start, before)| start.wrapping_add(*before) % 64).collect(),
        );
    }
    RowLines { first, bits }
}

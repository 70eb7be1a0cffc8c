//! Rows of tables: whole tensors, of which many lines have all their granules participate. The kept bits of such a
//! line are in a fixed order, and where they fit a word, one shuffle of bits brings them to their places.

use std::arch::x86_64::*;

use super::decode;
use super::tables::{Tables, load_table};
use crate::cpu::{store512, store512_partial};
use crate::ibp::bits::{self, Source, marks_at, ones};
use crate::ibp::plan::{Plan, RowLines, all};

/// Bytes that are decoded at a time.
const LINE: usize = 64;
/// Kept bits that fit a word, wherever in a byte they begin.
const WORD_BITS: u32 = 57;

/// Decodes the granules of a whole tensor with tables of `P` fields.
#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
pub(super) fn lines<const G: usize, const P: usize>(plan: &Plan, source: &mut Source<'_>, raw: &mut [u8]) {
    let Source { participation, kept, mut granules, mut bit } = *source;
    for (line, (raw, &short_bits)) in raw.chunks_mut(LINE).zip(&plan.row.bits).enumerate() {
        let (phase, count) = (LINE * line, raw.len() / G);
        let whole = ones(count as u32);
        let marks = marks_at(participation, granules) & whole;
        granules += count;
        let decoded = match short_bits {
            Some(bits) if marks == whole => {
                let word = bits::load(kept, bit / 8) >> (bit % 8);
                bit += usize::from(bits);
                short_line::<P>(plan, phase, word)
            }
            _ => {
                let tables = Tables::<P>::at::<G, false>(plan, phase);
                let (decoded, taken) = decode::vector::<G, P>(kept, bit, marks as u16, count, &tables);
                bit += taken;
                decoded
            }
        };
        match raw.first_chunk_mut() {
            Some(raw) => store512(raw, decoded),
            None => store512_partial(raw, decoded),
        }
    }
    (source.granules, source.bit) = (granules, bit);
}

/// The line at `phase`, all of whose granules participate, from a word that starts with its kept bits.
#[inline]
#[target_feature(enable = "avx512bw,avx512vbmi")]
fn short_line<const P: usize>(plan: &Plan, phase: usize, word: u64) -> __m512i {
    let words = _mm512_set1_epi64(word as i64);
    let mut decoded = load_table(plan, Plan::BITVALS, phase);
    for field in 0..P {
        let starts = load_table(plan, plan.row.first + field, phase);
        let keeps = load_table(plan, plan.scatter.first + 2 * field + 1, phase);
        let moved = _mm512_multishift_epi64_epi8(starts, words);
        decoded = _mm512_ternarylogic_epi64::<0xf8>(decoded, moved, keeps); // decoded | (moved & keeps)
    }
    decoded
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
    let bits = lines.clone().map(|line| line.iter().sum()).map(short).collect();
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

fn short(bits: u32) -> Option<u8> {
    (bits <= WORD_BITS).then_some(bits as u8)
}

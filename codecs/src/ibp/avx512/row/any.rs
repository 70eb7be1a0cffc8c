//! Tensors of which any granules participate: where the kept bits of one start follows from all before it.

use std::arch::x86_64::*;

use super::{LINE, LineTable};
use crate::Avx512;
use crate::cpu::{load512, store512, store512_partial};
use crate::ibp::avx512::decode;
use crate::ibp::avx512::tables::{ROW, Tables};
use crate::ibp::bits::{Source, ones};
use crate::ibp::plan::Plan;

/// What is known of each line.
#[derive(Debug)]
pub(in crate::ibp) struct AnyGranules {
    decode: unsafe fn(&Self, &mut Source<'_>, &mut [u8]),
    lines: Vec<Line>,
    /// For each line the plan's fields that scatter bits.
    fields: Vec<[LineTable; 2]>,
}

#[derive(Debug)]
struct Line {
    /// The values of the invariant bits.
    bitvals: LineTable,
    /// Bits that each granule saves if it participates.
    savings: [u8; 16],
}

impl AnyGranules {
    /// Decodes the granules of a tensor, `raw`. Whether `source` has as many bits as this takes is for the caller to ask.
    #[inline]
    pub(in crate::ibp) fn decode(&self, _: Avx512, source: &mut Source<'_>, raw: &mut [u8]) {
        // SAFETY: the token says that this machine has the instructions.
        unsafe { (self.decode)(self, source, raw) }
    }

    pub(super) fn new(plan: &Plan) -> Self {
        let lines = 0..plan.period.div_ceil(LINE);
        let fields = lines.clone().flat_map(|line| (0..plan.scatter.count).map(move |field| (line, field)));
        Self {
            decode: match (plan.granule, plan.scatter.count) {
                (8, 1) => decode_lines::<8, 1>,
                (8, 2) => decode_lines::<8, 2>,
                (8, 3) => decode_lines::<8, 3>,
                (8, _) => decode_lines::<8, 4>,
                (_, 1) => decode_lines::<4, 1>,
                (_, 2) => decode_lines::<4, 2>,
                (_, 3) => decode_lines::<4, 3>,
                (_, _) => decode_lines::<4, 4>,
            },
            lines: lines.map(|line| Line::new(plan, line)).collect(),
            fields: fields.map(|(line, field)| field_of(plan, line, field)).collect(),
        }
    }
}

impl Line {
    fn new(plan: &Plan, line: usize) -> Self {
        let first = LINE * line / plan.granule;
        Self {
            bitvals: LineTable::of_line(line, |byte| usize::from(plan.lines[Plan::BITVALS][byte])),
            savings: std::array::from_fn(|granule| plan.savings[first + granule]),
        }
    }
}

/// Where a field starts in the granules' words, of which two of four bytes share one; and which of its bits count.
fn field_of(plan: &Plan, line: usize, field: usize) -> [LineTable; 2] {
    let [starts, keeps] = [0, 1].map(|table| &plan.lines[plan.scatter.first + 2 * field + table]);
    let of_word = |byte| if plan.granule == 4 { 8 * (byte & 4) } else { 0 };
    let start = |byte: usize| (usize::from(starts[byte]) + of_word(byte)) % 64;
    [LineTable::of_line(line, start), LineTable::of_line(line, |byte| usize::from(keeps[byte]))]
}

#[target_feature(enable = "avx512bw,avx512vl,avx512vbmi,avx512vbmi2,bmi2,popcnt")]
fn decode_lines<const G: usize, const P: usize>(any: &AnyGranules, source: &mut Source<'_>, raw: &mut [u8]) {
    let Source { participation, kept, mut granules, mut bit } = *source;
    let tables = any.lines.iter().zip(any.fields.as_chunks::<P>().0);
    for ((raw, marks), (line, fields)) in
        raw.chunks_mut(LINE).zip(participation.chunks(LINE / G / 8)).zip(tables)
    {
        let count = raw.len() / G;
        let marks = match *marks {
            [low, high] => u16::from_le_bytes([low, high]),
            _ => u16::from(marks[0]),
        };
        let mut tables = Tables::<P>::none();
        tables.bitvals = load512(&line.bitvals.0);
        // SAFETY: the array has the 16 bytes that are read.
        tables.savings = unsafe { _mm_loadu_si128(line.savings.as_ptr().cast()) };
        for (of_field, field) in tables.fields.iter_mut().zip(fields) {
            *of_field = [load512(&field[0].0), load512(&field[1].0)];
        }
        let marks = marks & ones(count as u32) as u16; // whatever somebody else has written there meanwhile
        let (decoded, taken) = decode::vector::<G, P, ROW>(kept, bit, marks, count, &tables);
        granules += count;
        bit += taken;
        match raw.first_chunk_mut() {
            Some(raw) => store512(raw, decoded),
            None => store512_partial(raw, decoded),
        }
    }
    (source.granules, source.bit) = (granules, bit);
}

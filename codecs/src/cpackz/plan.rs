//! What the vector back-ends know of a chunk before they write or read its sections.

use super::PLANES_LEN;
use crate::line::blocks::{BLOCK_LINES, Block, BlockFields, BlockKinds, Blocks, Masks};
use crate::line::{LINE_WORDS, Taken, kinds_len, line_count};
use crate::packed::packed_len;

/// One block.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) kinds: BlockKinds,
    /// Bits 0 and 1 of the codes.
    pub(super) codes: [Masks; 2],
    /// Words with a sub-code.
    pub(super) extended: Masks,
    /// Bits 0 and 1 of the sub-codes.
    pub(super) subcodes: [Masks; 2],
    pub(super) fields: BlockFields,
    pub(super) count: Taken,
    pub(super) extended_count: usize,
}

impl Plan {
    pub(super) const EMPTY: Self = Self {
        kinds: BlockKinds { coded: 0, raw: 0 },
        codes: [Masks::NONE; 2],
        extended: Masks::NONE,
        subcodes: [Masks::NONE; 2],
        fields: BlockFields::NONE,
        count: Taken::NONE,
        extended_count: 0,
    };
}

/// Dictionary indices of the words of a block's lines; anything for words without.
pub(super) type Indices = [[u8; LINE_WORDS]; BLOCK_LINES];

/// The plans of a chunk's blocks and the indices of their words, made by `plan`.
#[inline(always)]
pub(super) fn plans(
    blocks: &Blocks<'_>,
    plan: impl Fn(&Block, &mut Plan, &mut Indices),
) -> Vec<(Plan, Indices)> {
    let mut plans = vec![(Plan::EMPTY, [[0; LINE_WORDS]; BLOCK_LINES]); blocks.len()];
    for (block, (into, indices)) in blocks.iter().zip(&mut plans) {
        plan(block, into, indices);
    }
    plans
}

/// The length of a chunk whose blocks have the plans that `plan` makes.
#[inline(always)]
pub(super) fn chunk_len(raw: &[u8], plan: impl Fn(&Block, &mut Plan, &mut Indices)) -> usize {
    let (mut coded_lines, mut extended, mut total) = (0, 0, Taken::NONE);
    let (mut each, mut indices) = (Plan::EMPTY, [[0; LINE_WORDS]; BLOCK_LINES]);
    for block in Blocks::of(raw).iter() {
        plan(block, &mut each, &mut indices);
        coded_lines += each.kinds.coded.count_ones() as usize;
        extended += each.extended_count;
        total += each.count;
    }
    let kinds_len = kinds_len(line_count(raw.len()), coded_lines);
    total.end(kinds_len.next_multiple_of(2) + PLANES_LEN * coded_lines + packed_len::<2>(extended))
}

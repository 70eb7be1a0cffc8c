//! What the vector back-ends know of a chunk before they write or read its sections.

use super::Totals;
use crate::line::blocks::{BLOCK_LINES, Block, BlockFields, BlockKinds, Blocks, Masks};
use crate::line::{LINE_WORDS, Taken};

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

/// What the lines of a chunk add up to whose blocks have the plans that `plan` makes.
#[inline(always)]
pub(super) fn totals(raw: &[u8], plan: impl Fn(&Block, &mut Plan, &mut Indices)) -> Totals {
    let (mut totals, mut each) = (Totals::of_lines_in(raw), Plan::EMPTY);
    let mut indices = [[0; LINE_WORDS]; BLOCK_LINES];
    for block in Blocks::of(raw).iter() {
        plan(block, &mut each, &mut indices);
        totals.coded_lines += each.kinds.coded.count_ones() as usize;
        totals.raw_lines += each.kinds.raw.count_ones() as usize;
        totals.extended += each.extended_count;
        totals.fields += each.count;
    }
    totals
}

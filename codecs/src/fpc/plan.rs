//! What the vector back-ends know of a chunk before they write or read its sections.

use super::Totals;
use crate::line::Taken;
use crate::line::blocks::{Block, BlockFields, BlockKinds, Blocks, Masks};

/// One block.
#[derive(Clone)]
pub(super) struct Plan {
    pub(super) kinds: BlockKinds,
    /// Bits 0, 1 and 2 of the prefixes.
    pub(super) planes: [Masks; 3],
    pub(super) fields: BlockFields,
    pub(super) count: Taken,
}

impl Plan {
    pub(super) const EMPTY: Self = Self {
        kinds: BlockKinds { coded: 0, raw: 0 },
        planes: [Masks::NONE; 3],
        fields: BlockFields::NONE,
        count: Taken::NONE,
    };
}

/// The plans of a chunk's blocks, each made by `plan`.
#[inline(always)]
pub(super) fn plans(blocks: &Blocks<'_>, plan: impl Fn(&Block, &mut Plan)) -> Vec<Plan> {
    let mut plans = vec![Plan::EMPTY; blocks.len()];
    blocks.iter().zip(&mut plans).for_each(|(block, into)| plan(block, into));
    plans
}

/// What the lines of a chunk add up to whose blocks have the plans that `plan` makes.
#[inline(always)]
pub(super) fn totals(raw: &[u8], plan: impl Fn(&Block, &mut Plan)) -> Totals {
    let (mut totals, mut each) = (Totals::of_lines_in(raw), Plan::EMPTY);
    for block in Blocks::of(raw).iter() {
        plan(block, &mut each);
        totals.coded_lines += each.kinds.coded.count_ones() as usize;
        totals.raw_lines += each.kinds.raw.count_ones() as usize;
        totals.fields += each.count;
    }
    totals
}

//! What the vector back-ends know of a chunk before they write or read its sections.

use super::PLANES_LEN;
use crate::line::blocks::{Block, BlockFields, BlockKinds, Blocks, Masks};
use crate::line::{Taken, kinds_len, line_count};

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

/// The length of a chunk whose blocks have the plans that `plan` makes.
#[inline(always)]
pub(super) fn chunk_len(raw: &[u8], plan: impl Fn(&Block, &mut Plan)) -> usize {
    let (mut coded_lines, mut total, mut each) = (0, Taken::NONE, Plan::EMPTY);
    for block in Blocks::of(raw).iter() {
        plan(block, &mut each);
        coded_lines += each.kinds.coded.count_ones() as usize;
        total += each.count;
    }
    let kinds_len = kinds_len(line_count(raw.len()), coded_lines);
    total.end(kinds_len.next_multiple_of(2) + PLANES_LEN * coded_lines)
}

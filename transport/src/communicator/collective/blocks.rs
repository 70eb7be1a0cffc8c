//! Where the bytes of each member lie in a buffer.

use super::super::{CommunicatorError, Group};
use crate::memory::{Slice, Stretch};

/// A part of a buffer, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Block {
    /// Where it starts.
    pub offset: usize,
    /// Its length.
    pub len: usize,
}

/// Blocks of `len` bytes, one after the other.
pub(super) fn equal(group: &Group, len: usize) -> Vec<Block> {
    (0..group.size()).map(|rank| Block { offset: rank * len, len }).collect()
}

/// How many bytes blocks have together, whatever they are a part of.
pub(super) fn total(blocks: &[Block]) -> usize {
    blocks.iter().fold(0, |total, block| total.saturating_add(block.len))
}

/// Blocks of about equal length, one for each rank, that hold all of `len` bytes, whole numbers of `width` each.
pub(crate) fn shares(ranks: usize, len: usize, width: usize) -> Vec<Block> {
    let count = len / width;
    let start = |rank: usize| (count / ranks * rank + (count % ranks).min(rank)) * width;
    (0..ranks).map(|rank| Block { offset: start(rank), len: start(rank + 1) - start(rank) }).collect()
}

/// Checks the length of a buffer.
pub(super) fn check_len(
    what: &'static str,
    buffer: &impl Stretch,
    expected: usize,
) -> Result<(), CommunicatorError> {
    let got = buffer.len();
    if got == expected { Ok(()) } else { Err(CommunicatorError::Length { what, got, expected }) }
}

/// The parts of `buffer` that `blocks` name, one for each member.
pub(super) fn in_buffer<S: Stretch>(
    group: &Group,
    buffer: &S,
    blocks: &[Block],
) -> Result<Vec<S>, CommunicatorError> {
    if blocks.len() != group.size() {
        return Err(CommunicatorError::Blocks { got: blocks.len(), ranks: group.size() as u32 });
    }
    let part = |(block, &Block { offset, len }): (usize, &Block)| {
        let outside = CommunicatorError::BlockOutside { block, offset, len, buffer_len: buffer.len() };
        buffer.part(offset, len).ok_or(outside)
    };
    blocks.iter().enumerate().map(part).collect()
}

/// A member's block by itself, `own`, is apart from the `buffer` of all blocks, or it is its own block there.
pub(super) fn check_own(own: &Slice, block: &Slice, buffer: &Slice) -> Result<(), CommunicatorError> {
    check_len("this member's block", own, block.len())?;
    if !own.is_same(block) && own.overlaps(buffer) {
        return Err(CommunicatorError::Overlap);
    }
    Ok(())
}

/// As [`in_buffer`], for blocks that are written, which must not overlap.
pub(super) fn to_receive<S: Stretch>(
    group: &Group,
    buffer: &S,
    blocks: &[Block],
) -> Result<Vec<S>, CommunicatorError> {
    let parts = in_buffer(group, buffer, blocks)?;
    let mut order: Vec<usize> = (0..blocks.len()).filter(|&block| blocks[block].len > 0).collect();
    order.sort_by_key(|&block| blocks[block].offset);
    for pair in order.windows(2) {
        if blocks[pair[0]].offset + blocks[pair[0]].len > blocks[pair[1]].offset {
            return Err(CommunicatorError::BlocksOverlap { first: pair[0], second: pair[1] });
        }
    }
    Ok(parts)
}

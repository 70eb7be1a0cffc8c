//! Whole tensors, as rows of tables are: which line of a tensor comes next is known, and so is all that is the same in
//! every tensor.

mod all;
mod any;

use crate::ibp::plan::Plan;

use all::AllGranules;
use any::AnyGranules;

/// Bytes that are decoded at a time.
const LINE: usize = 64;

/// What is known of the lines of every tensor.
#[derive(Debug)]
pub(in crate::ibp) struct Row {
    /// If all granules participate.
    pub(in crate::ibp) all: AllGranules,
    /// Whatever granules participate.
    pub(in crate::ibp) any: AnyGranules,
}

impl Row {
    /// For tensors with the invariant bits of `plan`.
    pub(in crate::ibp) fn new(plan: &Plan) -> Self {
        Self { all: AllGranules::new(plan), any: AnyGranules::new(plan) }
    }
}

/// A byte for each of a line. It starts on a cache line: a vector across two takes twice as long to read.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct LineTable([u8; LINE]);

impl LineTable {
    /// The table of a line, by byte of the tensor.
    fn of_line(line: usize, of: impl Fn(usize) -> usize) -> Self {
        Self(std::array::from_fn(|i| of(LINE * line + i) as u8))
    }
}

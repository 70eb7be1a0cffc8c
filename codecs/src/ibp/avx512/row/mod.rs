//! Whole tensors, as rows of tables are: which line of a tensor comes next is known, and so is all that is the same in every
//! tensor.

mod any;
mod whole;

use crate::ibp::plan::Plan;

use any::Any;
use whole::Whole;

/// Bytes that are decoded at a time.
const LINE: usize = 64;

/// What is known of the lines of every tensor.
#[derive(Debug)]
pub(in crate::ibp) struct Row {
    /// If all granules participate.
    pub(in crate::ibp) whole: Whole,
    /// Whatever granules participate.
    pub(in crate::ibp) any: Any,
}

impl Row {
    /// For tensors with the invariant bits of `plan`.
    pub(in crate::ibp) fn new(plan: &Plan) -> Self {
        Self { whole: Whole::new(plan), any: Any::new(plan) }
    }
}

/// A byte for each of a line. It starts on a cache line: a vector across two takes twice as long to read.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Table([u8; LINE]);

impl Table {
    /// The table of a line, by byte of the tensor.
    fn of_line(line: usize, of: impl Fn(usize) -> usize) -> Self {
        Self(std::array::from_fn(|i| of(LINE * line + i) as u8))
    }
}

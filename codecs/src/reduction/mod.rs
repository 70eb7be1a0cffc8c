//! Numbers of several ranks, combined into one: the arithmetic of reductions, the same on every machine.
//!
//! [`Operation`] has the rules. `portable.rs` is their definition; kernels give the same bits
//! (`device::Reducer`).

mod datatype;
mod portable;

use std::fmt;

pub use datatype::Datatype;
pub use portable::{combine, finish};

/// How numbers are combined: from the left, in the order of the ranks, each step rounded to the datatype, to nearest,
/// ties to even.
///
/// Sums of integers wrap; `f16` and `bf16` are added as `f32` and rounded to 16 bits after each step; a sum that is not a
/// number is the one quiet NaN without sign and payload. For min and max −0 is less than +0, and what is not a number is
/// the result, bit for bit, the left one if both are. The average is the sum, divided once by the number of ranks:
/// integers, as they wrapped, towards zero, `f16` and `bf16` as `f32`.
///
/// How the calling thread rounds, flushes denormals or traps does not matter, and stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    /// Added up.
    Sum,
    /// The smallest.
    Min,
    /// The largest.
    Max,
    /// Added up, and divided by the number of ranks.
    Avg,
}

impl Operation {
    /// Every operation.
    pub const ALL: [Self; 4] = [Self::Sum, Self::Min, Self::Max, Self::Avg];

    /// The one spelling used in flags and JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Min => "min",
            Self::Max => "max",
            Self::Avg => "avg",
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

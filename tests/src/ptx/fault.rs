//! What can be wrong with a program, or happen when it runs.

use thiserror::Error;

/// A text that is no program which this machine understands.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("line {line}: {problem}: {text}")]
pub struct ParseError {
    /// Of the text, from 1.
    pub line: u32,
    /// What stands there.
    pub text: String,
    /// What is wrong with it.
    pub problem: ParseProblem,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ParseProblem {
    /// A directive that is not among those of the kernels.
    #[error("an unknown directive")]
    Directive,
    /// An opcode that is not among those of the kernels.
    #[error("an unknown opcode")]
    Opcode,
    /// A name that nothing declares.
    #[error("{0:?} is not declared")]
    Undeclared(String),
    /// A predicate before an instruction that does not branch, compute or update memory.
    #[error("only branches, atomics and what computes may be predicated")]
    Predicated,
    /// Too many operands, too few, or of the wrong kind.
    #[error("operands that the opcode does not take")]
    Operands,
    /// Braces, or an instruction outside of them.
    #[error("outside of a kernel, or in one that does not end")]
    Nesting,
}

/// What a kernel did wrong.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{kernel}, line {line}, block {block}, warp {warp}: {problem}")]
pub struct Fault {
    /// Its name.
    pub kernel: String,
    /// Of the instruction in the program's text, from 1.
    pub line: u32,
    /// Number of the block in the grid.
    pub block: u32,
    /// Number of the warp in the block.
    pub warp: u32,
    /// What it did.
    pub problem: Problem,
}

/// What is wrong with what a kernel did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Problem {
    /// An access outside of all buffers and objects.
    #[error("{len} bytes at {address:#x} are not within one object")]
    Outside {
        /// Of the access.
        address: u64,
        /// In bytes.
        len: u64,
    },
    /// An access that is not on a multiple of its length.
    #[error("{len} bytes at {address:#x}, which is no multiple of that")]
    Misaligned {
        /// Of the access.
        address: u64,
        /// In bytes.
        len: u64,
    },
    /// A write to what is only to be read.
    #[error("a write to {address:#x}, which is read only")]
    ReadOnly {
        /// Of the access.
        address: u64,
    },
    /// A lane that takes part in what its own mask, or that of a lane beside it, leaves it out of.
    #[error("lane {lane} meets others with other masks, or one that leaves it out")]
    Mask {
        /// Number of the lane.
        lane: u32,
    },
    /// A value asked of a lane that does not take part.
    #[error("lane {lane} asks for the value of a lane outside of the mask")]
    AbsentLane {
        /// Number of the lane.
        lane: u32,
    },
    /// Threads wait for others that will never come.
    #[error("lanes {lanes:#010x} wait for lanes that will not come")]
    Deadlock {
        /// Of the lanes that wait.
        lanes: u32,
    },
    /// Warps of a block at two kinds of barrier at once: what that does is undefined.
    #[error("warps of the block wait at different kinds of barrier")]
    MixedBarriers,
    /// Copies that nobody waited for.
    #[error("it ends before its copies have")]
    PendingCopies,
    /// More instructions than the launch allows.
    #[error("more instructions than a launch may take")]
    Endless,
}

//! Instructions, decoded.

use super::compute::Function;

/// Lanes of a warp.
pub(super) const LANES: usize = 32;

/// Registers that are there before a kernel starts, and what they are called.
pub(super) const SPECIAL: [&str; 4] = ["%tid.x", "%ctaid.x", "%nctaid.x", "%lanemask_lt"];

/// The kernel of a program.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Its name.
    pub name: String,
    pub(super) code: Vec<Instruction>,
    /// How many registers a thread has, [`SPECIAL`] ones included.
    pub(super) registers: u32,
    /// Where objects of shared memory lie, and their lengths in bytes; the dynamic one is not among them.
    pub(super) shared: Vec<(u64, u64)>,
}

impl Entry {
    /// The line of each of its instructions, from 1.
    pub fn lines(&self) -> impl Iterator<Item = u32> {
        self.code.iter().map(|instruction| instruction.line)
    }
}

/// One instruction of a kernel.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub(super) operation: Operation,
    /// The register that says for which lanes it is done, and what it has to be there; branches have their own.
    pub(super) guard: Option<(u32, bool)>,
    pub(super) to: [u32; 4],
    /// Of an access to memory, the address comes first.
    pub(super) from: [Operand; 5],
    /// In the text, from 1.
    pub(super) line: u32,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Operand {
    Register(u32),
    Constant(u64),
}

/// What an instruction does.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A result from so many operands of the same lane.
    Compute(usize, Function),
    /// A register from so many parts of so many bits, the lowest first.
    Pack {
        parts: usize,
        bits: u32,
    },
    /// The reverse.
    Unpack {
        parts: usize,
        bits: u32,
    },
    Load(Access),
    Store(Access),
    Atomic(Access, Update),
    /// Starts a copy of 16 bytes from global to shared memory.
    CopyAsync,
    CommitCopies,
    /// Until at most so many groups are on their way.
    WaitCopies(usize),
    Shuffle(Shuffle),
    Ballot,
    Any,
    MatchAny,
    Reduce(Reduction),
    WarpBarrier,
    /// Of the block; with the or of a predicate of all threads if it has a result.
    Barrier {
        reduces: bool,
    },
    /// To the instruction of this index, if the register says so.
    Branch {
        target: u32,
        when: Option<(u32, bool)>,
    },
    /// Lets others go on.
    Sleep,
    Return,
}

/// What an instruction reads or writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Access {
    pub(super) space: Space,
    /// Bytes of an element.
    pub(super) width: u32,
    /// Elements.
    pub(super) count: usize,
    /// Whether an element that is loaded keeps its sign.
    pub(super) signed: bool,
    /// Bytes to add to the address.
    pub(super) offset: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Space {
    Param,
    Global,
    Shared,
}

/// What an atomic puts in the place of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Update {
    Add,
    Or,
    Max,
    CompareAndSwap,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shuffle {
    Up,
    Down,
    Butterfly,
    Index,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reduction {
    Add,
    Min,
    Or,
}

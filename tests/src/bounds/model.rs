//! From counts of the PTX to machine code, and from there to time.

use std::collections::{HashMap, HashSet};

use super::machine_code::{Function, Instruction};

/// Multiprocessors of the device that the table is about, cycles of each per second, and bytes per second of memory:
/// an H100 SXM.
pub const MULTIPROCESSORS: f64 = 132.0;
/// As above.
pub const CYCLES_PER_SECOND: f64 = 1.7e9;
/// As above.
pub const BYTES_PER_SECOND: f64 = 3.0e12;
/// Instructions of warps that a multiprocessor issues in a cycle.
pub const ISSUES: f64 = 4.0;

/// Units of a multiprocessor that execute instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Pipe {
    /// Integers but for products: 64 lanes a cycle.
    Alu,
    /// Products, and what is written as such: 64 lanes.
    Product,
    /// Counting bits, conversions: 16 lanes.
    Slow,
    /// Shuffles, and accesses to memory before their bank conflicts: 32 lanes.
    Memory,
    /// What takes no such unit: branches, barriers, what is the same in all lanes.
    None,
}

impl Pipe {
    /// All that limit.
    pub const ALL: [Self; 4] = [Self::Alu, Self::Product, Self::Slow, Self::Memory];

    /// The unit that executes `opcode`.
    #[must_use]
    pub fn of(opcode: &str) -> Self {
        match opcode.split('.').next().unwrap_or_default() {
            "IMAD" | "IDP" | "FMUL" | "FFMA" => Self::Product,
            "POPC" | "FLO" | "BREV" | "MUFU" | "I2F" | "F2I" | "REDUX" | "MATCH" => Self::Slow,
            "SHFL" | "LDS" | "STS" | "ATOMS" | "LDG" | "STG" | "ATOMG" | "REDG" | "LDGSTS" | "LDC" => {
                Self::Memory
            }
            "LOP3" | "SHF" | "IADD3" | "VIADD" | "ISETP" | "SEL" | "PRMT" | "LEA" | "VIMNMX" | "VIMNMX3"
            | "VIADDMNMX" | "PLOP3" | "SGXT" | "P2R" | "R2P" | "MOV" | "VOTE" | "FSEL" | "FSETP" | "CS2R" => {
                Self::Alu
            }
            _ => Self::None,
        }
    }

    /// Its name in the table.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Alu => "alu",
            Self::Product => "product",
            Self::Slow => "slow",
            Self::Memory => "memory",
            Self::None => "none",
        }
    }

    /// Instructions of warps that it executes in a cycle.
    #[must_use]
    pub const fn per_cycle(self) -> f64 {
        match self {
            Self::Alu | Self::Product => 2.0,
            Self::Slow => 0.5,
            Self::Memory => 1.0,
            Self::None => f64::INFINITY,
        }
    }
}

/// How often warps execute the instructions of machine code, each by its pipe, as far as that follows from how often
/// they execute the lines of its PTX.
///
/// An instruction is executed as often as its line; where the compiler has put it into several blocks, they share.
/// The instructions of a block are executed equally often: their median. So neither what was moved out of a loop
/// counts as often as the loop's line, nor what lanes skip by a predicate as seldom as a branch around it.
#[must_use]
pub fn executed(function: &Function, of_line: &HashMap<u32, u64>) -> HashMap<Pipe, f64> {
    let mut blocks_of: HashMap<&Instruction, HashSet<usize>> = HashMap::new();
    for (index, block) in function.blocks.iter().enumerate() {
        for instruction in block {
            blocks_of.entry(instruction).or_default().insert(index);
        }
    }
    let mut total = HashMap::new();
    for block in &function.blocks {
        let times = |instruction: &Instruction| {
            let of_line = of_line.get(&instruction.line).copied()?;
            Some(of_line as f64 / blocks_of[instruction].len() as f64)
        };
        let mut times: Vec<f64> = block.iter().filter_map(times).collect();
        times.sort_by(f64::total_cmp);
        let times = times.get(times.len() / 2).copied().unwrap_or(0.0);
        for instruction in block {
            *total.entry(Pipe::of(&instruction.opcode)).or_default() += times;
        }
    }
    total
}

/// What a launch takes of a device.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Instructions of warps.
    pub instructions: f64,
    /// Cycles of a multiprocessor that issuing them, or the pipe that takes longest, takes.
    pub pipe_cycles: f64,
    /// Bytes that must come from memory and go there.
    pub bytes: f64,
}

impl Work {
    /// Bytes moved, as a fraction of what a copy would move in the least time that issuing instructions and moving bytes
    /// take.
    #[must_use]
    pub fn issue_bound(&self) -> f64 {
        self.fraction(self.instructions / ISSUES)
    }

    /// The same for the pipe that takes longest.
    #[must_use]
    pub fn pipe_bound(&self) -> f64 {
        self.fraction(self.pipe_cycles)
    }

    fn fraction(&self, cycles: f64) -> f64 {
        let memory = self.bytes / BYTES_PER_SECOND;
        memory / memory.max(cycles / MULTIPROCESSORS / CYCLES_PER_SECOND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instruction(opcode: &str, line: u32) -> Instruction {
        Instruction { opcode: opcode.to_owned(), line }
    }

    #[test]
    fn blocks_are_executed_as_most_of_their_lines() {
        // The third is from within a loop, the fourth skipped by a predicate; the last stands in both blocks.
        let first = vec![
            instruction("LOP3.LUT", 1),
            instruction("LOP3.LUT", 2),
            instruction("IMAD", 3),
            instruction("SHFL.UP", 4),
            instruction("VIADD", 1),
        ];
        let function = Function { blocks: vec![first, vec![instruction("POPC", 5), instruction("POPC", 5)]] };
        let of_line = HashMap::from([(1, 10), (2, 10), (3, 80), (4, 5), (5, 6)]);
        let executed = executed(&function, &of_line);
        let expected = [(Pipe::Alu, 30.0), (Pipe::Product, 10.0), (Pipe::Memory, 10.0), (Pipe::Slow, 12.0)];
        assert_eq!(executed, HashMap::from(expected));
    }

    #[test]
    fn bounds_by_hand() {
        // A second of the memory, two of the instructions, four of a pipe.
        let cycles = MULTIPROCESSORS * CYCLES_PER_SECOND;
        let work =
            Work { instructions: 2.0 * ISSUES * cycles, pipe_cycles: 4.0 * cycles, bytes: BYTES_PER_SECOND };
        assert!((work.issue_bound() - 0.5).abs() < 1e-9 && (work.pipe_bound() - 0.25).abs() < 1e-9);
    }
}

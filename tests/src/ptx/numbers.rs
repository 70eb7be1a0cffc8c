//! The kernel that combines numbers, given what hosts give it.

use mgcomp_codecs::device::KernelSource;

use super::fault::{Fault, ParseError};
use super::grid::{self, Grid, Order};
use super::memory::Global;
use super::parse::Program;
use super::traffic::Counts;
use crate::shim::launch;
use crate::shim::numbers::{Addresses, Numbers};

/// Instructions that a launch may take.
const LIMIT: u64 = 1 << 26;

/// The kernel of a program.
#[derive(Clone, Debug)]
pub struct Reducer {
    program: Program,
}

impl Reducer {
    /// The one that ships.
    ///
    /// # Errors
    /// The first line that is not understood.
    ///
    /// # Panics
    /// If none ships.
    pub fn shipped() -> Result<Self, ParseError> {
        Self::of(&KernelSource::of_reductions().shipped_ptx().expect("PTX of reductions"))
    }

    /// The one in a text.
    ///
    /// # Errors
    /// The first line that is not understood.
    pub fn of(text: &str) -> Result<Self, ParseError> {
        Ok(Self { program: Program::parse(text)? })
    }

    /// Combines numbers on so many blocks; gives the result, and what the launch took.
    ///
    /// # Errors
    /// What the kernel did wrong.
    ///
    /// # Panics
    /// If the program has no such kernel.
    pub fn reduce(&self, numbers: &Numbers, blocks: u32, order: Order) -> Result<(Vec<u8>, Counts), Fault> {
        let entry = self.program.entry("reduce_numbers").expect("the kernel");
        let [offset, own_offset, result_offset] = numbers.offsets.map(|offset| offset as u64);
        let mut global = Global::default();
        let together = global.add(numbers.together(), offset, false);
        let result = global.add(numbers.before(), result_offset, true);
        let own =
            if numbers.in_place { result } else { global.add(numbers.apart().to_vec(), own_offset, false) };
        let task = numbers.task(Addresses { numbers: together, own, result });
        let grid = Grid { blocks, threads: launch::BLOCK_THREADS, dynamic_len: 0, order, limit: LIMIT };
        let counts = grid::launch(entry, grid, &task, &mut global)?;
        Ok((global.bytes(result).to_vec(), counts))
    }
}

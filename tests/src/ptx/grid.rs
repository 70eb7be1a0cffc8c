//! Launches: blocks, their barriers, and the order in which they go on.

use super::fault::{Fault, Problem};
use super::instruction::{Entry, LANES};
use super::memory::{Global, Memory, Shared};
use super::traffic::Counts;
use super::warp::{Stop, Warp};

/// Instructions of a warp before another one goes on.
const SLICE: u64 = 1 << 12;

/// Which block goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// Each to its end, in the order of their numbers.
    OneByOne,
    /// All, a slice of each in turn.
    InTurn,
}

/// How a kernel is launched.
#[derive(Clone, Copy, Debug)]
pub struct Grid {
    /// Its blocks.
    pub blocks: u32,
    /// Threads of each, a multiple of 32.
    pub threads: u32,
    /// Bytes of the dynamic shared memory of each.
    pub dynamic_len: u64,
    /// The order in which they go on.
    pub order: Order,
    /// About how many instructions the launch may take.
    pub limit: u64,
}

/// Runs `entry` with `parameters` to its end.
///
/// # Errors
/// The first thing that it does wrong.
pub fn launch(entry: &Entry, grid: Grid, parameters: &[u8], global: &mut Global) -> Result<Counts, Fault> {
    let mut counts = Counts::new(entry.code.len());
    let mut budget = grid.limit;
    let at_a_time = if grid.order == Order::OneByOne { 1 } else { grid.blocks.max(1) };
    for first in (0..grid.blocks).step_by(at_a_time as usize) {
        let numbers = first..(first + at_a_time).min(grid.blocks);
        let mut blocks: Vec<Block<'_>> = numbers.map(|number| Block::new(entry, grid, number)).collect();
        while !blocks.is_empty() {
            for block in &mut blocks {
                block.run(parameters, global, &mut counts, &mut budget)?;
            }
            blocks.retain(|block| !block.warps.is_empty());
        }
    }
    Ok(counts)
}

struct Block<'a> {
    entry: &'a Entry,
    number: u32,
    /// Empty when it has ended.
    warps: Vec<Warp>,
    shared: Shared,
}

impl<'a> Block<'a> {
    fn new(entry: &'a Entry, grid: Grid, number: u32) -> Self {
        let warps = (0..grid.threads).step_by(LANES);
        let warps = warps.map(|first| Warp::new(entry, first, number, grid.blocks)).collect();
        // Other garbage in each block, so that none can live on what another left.
        let shared = Shared::new(&entry.shared, grid.dynamic_len, 0xa5 ^ number as u8);
        Self { entry, number, warps, shared }
    }

    /// Every warp goes on for a slice, and passes the barrier if all are there.
    fn run(
        &mut self,
        parameters: &[u8],
        global: &mut Global,
        counts: &mut Counts,
        budget: &mut u64,
    ) -> Result<(), Fault> {
        let mut memory = Memory { global, shared: &mut self.shared, parameters };
        let (mut ended, mut arrived, mut reducing, mut any) = (0, 0, 0, 0);
        for (index, warp) in self.warps.iter_mut().enumerate() {
            let mut slice = SLICE;
            let stop = warp.run(self.entry, &mut memory, counts, &mut slice).and_then(|stop| {
                *budget = budget.saturating_sub(SLICE - slice);
                if *budget == 0 { Err(Problem::Endless) } else { Ok(stop) }
            });
            let stop = stop.map_err(|problem| Fault {
                kernel: self.entry.name.clone(),
                line: warp.line(self.entry),
                block: self.number,
                warp: index as u32,
                problem,
            })?;
            match stop {
                Stop::Paused => {}
                Stop::Ended => ended += 1,
                Stop::Barrier { reduces, any: holds } => {
                    arrived += 1;
                    reducing += usize::from(reduces);
                    any |= holds;
                }
            }
        }
        if ended == self.warps.len() {
            self.warps.clear();
        } else if arrived == self.warps.len() && ![0, arrived].contains(&reducing) {
            return Err(self.stuck(Problem::MixedBarriers));
        } else if arrived == self.warps.len() {
            self.warps.iter_mut().for_each(|warp| warp.pass_barrier(self.entry, any));
        } else if ended != 0 && ended + arrived == self.warps.len() {
            return Err(self.stuck(Problem::Deadlock { lanes: u32::MAX }));
        }
        Ok(())
    }

    /// Warps wait for others in vain.
    fn stuck(&self, problem: Problem) -> Fault {
        let index = self.warps.iter().position(|warp| !warp.has_ended()).unwrap_or_default();
        Fault {
            kernel: self.entry.name.clone(),
            line: self.warps[index].line(self.entry),
            block: self.number,
            warp: index as u32,
            problem,
        }
    }
}

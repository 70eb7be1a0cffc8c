//! 32 threads in lock step.
//!
//! Each lane has a place in the code of its own. The lanes that go on are those with the lowest place, so that lanes
//! which part meet again where their ways do: the compiler puts what comes later behind.

use std::cell::RefCell;

use super::access::Copy;
use super::collective::{self, Lanes, lanes};
use super::fault::Problem;
use super::instruction::{Entry, Instruction, LANES, Operand, Operation, SPECIAL};
use super::memory::Memory;
use super::traffic::Counts;

/// Why a warp does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// It has done all that it was allowed to.
    Paused,
    /// All its lanes wait at the block's barrier.
    Barrier {
        /// Whether it brings together what lanes say, which no other kind of barrier may be met with.
        reduces: bool,
        /// 1 if a lane's predicate holds.
        any: u64,
    },
    /// It has ended.
    Ended,
}

thread_local! {
    /// Registers of warps that have ended: kernels have thousands, and fresh memory costs more than a small launch.
    static SPARE: RefCell<Vec<Vec<Lanes>>> = const { RefCell::new(Vec::new()) };
}

/// A warp of a block.
#[derive(Debug)]
pub(super) struct Warp {
    pub(super) registers: Vec<Lanes>,
    /// Index of the instruction that comes next.
    pub(super) place: [u32; LANES],
    pub(super) alive: u32,
    /// Those that wait for others of the warp.
    pub(super) waiting: u32,
    pub(super) copies: Vec<Copy>,
    /// Groups of copies that each lane has ended.
    pub(super) groups: [u64; LANES],
}

impl Warp {
    /// The warp of `entry` whose lanes are threads `first` and on, in a block of a grid.
    pub(super) fn new(entry: &Entry, first: u32, block: u32, blocks: u32) -> Self {
        let mut registers = SPARE.with_borrow_mut(Vec::pop).unwrap_or_default();
        registers.resize(entry.registers as usize, [0; LANES]);
        for (register, name) in registers.iter_mut().zip(SPECIAL) {
            *register = std::array::from_fn(|lane| match name {
                "%tid.x" => u64::from(first) + lane as u64,
                "%ctaid.x" => block.into(),
                "%nctaid.x" => blocks.into(),
                _ => (1 << lane) - 1,
            });
        }
        Self {
            registers,
            place: [0; LANES],
            alive: u32::MAX,
            waiting: 0,
            copies: Vec::new(),
            groups: [0; LANES],
        }
    }

    /// The place of its first lane that has one, for messages.
    pub(super) fn line(&self, entry: &Entry) -> u32 {
        let lane = (self.alive.trailing_zeros() as usize).min(LANES - 1);
        entry.code.get(self.place[lane] as usize).map_or(0, |instruction| instruction.line)
    }

    /// Whether all its lanes have.
    pub(super) fn has_ended(&self) -> bool {
        self.alive == 0
    }

    /// Goes on for about `budget` instructions, which it takes from there.
    pub(super) fn run(
        &mut self,
        entry: &Entry,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
        budget: &mut u64,
    ) -> Result<Stop, Problem> {
        while *budget > 0 {
            let runnable = self.alive & !self.waiting;
            if runnable == 0 {
                return self.blocked(entry);
            }
            let at = lanes(runnable).map(|lane| self.place[lane]).min().unwrap_or_default();
            let mask =
                lanes(runnable).filter(|lane| self.place[*lane] == at).fold(0, |mask, lane| mask | 1 << lane);
            let others = runnable & !mask;
            let next_stop = lanes(others).map(|lane| self.place[lane]).min().unwrap_or(u32::MAX);
            let group = Group { at, mask, next_stop };
            if self.run_group(entry, group, memory, counts, budget)? {
                return Ok(Stop::Paused);
            }
        }
        Ok(Stop::Paused)
    }

    /// What it means that no lane can go on.
    fn blocked(&self, entry: &Entry) -> Result<Stop, Problem> {
        if self.alive == 0 {
            return if self.copies.is_empty() { Ok(Stop::Ended) } else { Err(Problem::PendingCopies) };
        }
        let deadlock = Problem::Deadlock { lanes: self.alive };
        let at = self.place[self.alive.trailing_zeros() as usize];
        let instruction = &entry.code[at as usize];
        let together = lanes(self.alive).all(|lane| self.place[lane] == at);
        match instruction.operation {
            Operation::Barrier { reduces } if together => {
                let any = lanes(self.alive).any(|lane| self.value(instruction.from[0], lane) & 1 != 0);
                Ok(Stop::Barrier { reduces, any: any.into() })
            }
            _ => Err(deadlock),
        }
    }

    /// Goes on behind the barrier where all its lanes wait, which gave `any`.
    pub(super) fn pass_barrier(&mut self, entry: &Entry, any: u64) {
        let at = self.place[self.alive.trailing_zeros() as usize] as usize;
        if let Operation::Barrier { reduces: true } = entry.code[at].operation {
            self.set(entry.code[at].to[0], self.alive, &[any; LANES]);
        }
        for lane in lanes(self.alive) {
            self.place[lane] += 1;
        }
        self.waiting = 0;
    }

    /// Runs the lanes of `group` until they part, wait, end or meet others; true if the warp shall pause.
    fn run_group(
        &mut self,
        entry: &Entry,
        mut group: Group,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
        budget: &mut u64,
    ) -> Result<bool, Problem> {
        loop {
            let instruction = &entry.code[group.at as usize];
            counts.executed[group.at as usize] += 1;
            counts.lanes[group.at as usize] += u64::from(group.mask.count_ones());
            *budget = budget.saturating_sub(1);
            let next = match self.execute(instruction, group, memory, counts) {
                Ok(next) => next,
                Err(problem) => {
                    // Nothing goes on: what is left are those to be named.
                    self.move_to(group.mask, group.at);
                    self.alive = group.mask;
                    return Err(problem);
                }
            };
            let Some(next) = next else { return Ok(false) };
            group.at = next;
            let pauses = matches!(instruction.operation, Operation::Sleep);
            if next >= group.next_stop || *budget == 0 || pauses {
                self.move_to(group.mask, next);
                return Ok(pauses);
            }
        }
    }

    /// Executes an instruction; gives the next one unless the lanes have to be chosen anew.
    fn execute(
        &mut self,
        instruction: &Instruction,
        group: Group,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
    ) -> Result<Option<u32>, Problem> {
        let mask = instruction.guard.map_or(group.mask, |guard| self.guarded(group.mask, guard));
        match instruction.operation {
            Operation::Compute(_, function) => {
                let [a, b, c, d, _] = instruction.from;
                for lane in lanes(mask) {
                    let operands = [a, b, c, d].map(|operand| self.value(operand, lane));
                    self.registers[instruction.to[0] as usize][lane] = function(&operands);
                }
            }
            Operation::Pack { parts, bits } => self.pack(instruction, mask, parts, bits),
            Operation::Unpack { parts, bits } => self.unpack(instruction, mask, parts, bits),
            Operation::Load(access) => self.load(instruction, access, mask, memory, counts)?,
            Operation::Store(access) => self.store(instruction, access, mask, memory, counts)?,
            Operation::Atomic(access, update) => {
                self.atomic(instruction, access, update, mask, memory, counts)?;
            }
            Operation::CopyAsync => self.begin_copies(instruction, mask, counts),
            Operation::CommitCopies => lanes(mask).for_each(|lane| self.groups[lane] += 1),
            Operation::WaitCopies(left) => self.land_copies(mask, left as u64, memory, counts)?,
            Operation::Branch { target, when } => return Ok(self.branch(group, target, when)),
            Operation::Return => {
                self.alive &= !mask;
                return Ok(None);
            }
            Operation::Barrier { .. } => {
                self.move_to(mask, group.at);
                self.waiting |= mask;
                return Ok(None);
            }
            Operation::Sleep => {}
            Operation::Shuffle(_)
            | Operation::Ballot
            | Operation::Any
            | Operation::MatchAny
            | Operation::Reduce(_)
            | Operation::WarpBarrier => return self.meet(instruction, group),
        }
        Ok(Some(group.at + 1))
    }

    /// Those lanes of `mask` whose register is as expected.
    fn guarded(&self, mask: u32, (register, expected): (u32, bool)) -> u32 {
        let predicate = &self.registers[register as usize];
        lanes(mask)
            .filter(|lane| (predicate[*lane] & 1 != 0) == expected)
            .fold(0, |taken, lane| taken | 1 << lane)
    }

    fn branch(&mut self, group: Group, target: u32, when: Option<(u32, bool)>) -> Option<u32> {
        let Some(guard) = when else { return Some(target) };
        let taken = self.guarded(group.mask, guard);
        if taken == 0 {
            return Some(group.at + 1);
        }
        if taken == group.mask {
            return Some(target);
        }
        self.move_to(taken, target);
        self.move_to(group.mask & !taken, group.at + 1);
        None
    }

    /// Lanes come to where those of a mask meet: those whose mask is complete go on.
    fn meet(&mut self, instruction: &Instruction, group: Group) -> Result<Option<u32>, Problem> {
        let with = mask_operand(&instruction.operation);
        let mask_of = |warp: &Self, lane| warp.value(instruction.from[with], lane) as u32;
        // Mostly they are all here, and all at once.
        if lanes(group.mask).all(|lane| mask_of(self, lane) == group.mask) {
            self.exchange(instruction, group.mask)?;
            return Ok(Some(group.at + 1));
        }
        self.move_to(group.mask, group.at);
        let here = lanes(self.alive).filter(|lane| self.place[*lane] == group.at);
        let here = here.fold(0, |here, lane| here | 1 << lane);
        self.waiting |= group.mask;
        let mut left: u32 = here;
        while left != 0 {
            let lane = left.trailing_zeros();
            let mask = mask_of(self, lane as usize);
            if mask >> lane & 1 == 0 || lanes(mask & here).any(|other| mask_of(self, other) != mask) {
                return Err(Problem::Mask { lane });
            }
            if mask & !self.alive != 0 {
                return Err(Problem::Deadlock { lanes: here });
            }
            if mask & !here == 0 {
                self.exchange(instruction, mask)?;
                self.move_to(mask, group.at + 1);
                self.waiting &= !mask;
            }
            left &= !mask;
        }
        Ok(None)
    }

    /// What the lanes of `mask`, all here, learn from each other.
    fn exchange(&mut self, instruction: &Instruction, mask: u32) -> Result<(), Problem> {
        let operand = |warp: &Self, index: usize| -> Lanes {
            std::array::from_fn(|lane| warp.value(instruction.from[index], lane))
        };
        let values = operand(self, 0);
        let result = match instruction.operation {
            Operation::Shuffle(kind) => {
                let (got, valid) =
                    collective::shuffle(kind, mask, &values, &operand(self, 1), &operand(self, 2))?;
                self.set(instruction.to[1], mask, &valid);
                got
            }
            Operation::Ballot => [collective::ballot(mask, &values); LANES],
            Operation::Any => [u64::from(collective::ballot(mask, &values) != 0); LANES],
            Operation::MatchAny => collective::match_any(mask, &values),
            Operation::Reduce(kind) => [collective::reduce(kind, mask, &values); LANES],
            _ => return Ok(()),
        };
        self.set(instruction.to[0], mask, &result);
        Ok(())
    }

    fn pack(&mut self, instruction: &Instruction, mask: u32, parts: usize, bits: u32) {
        for lane in lanes(mask) {
            let sources = instruction.from[..parts].iter().zip(0..);
            let value = sources.fold(0, |value, (part, i)| value | self.value(*part, lane) << (i * bits));
            self.registers[instruction.to[0] as usize][lane] = value;
        }
    }

    fn unpack(&mut self, instruction: &Instruction, mask: u32, parts: usize, bits: u32) {
        for lane in lanes(mask) {
            let value = self.value(instruction.from[0], lane);
            for (to, i) in instruction.to[..parts].iter().zip(0..) {
                self.registers[*to as usize][lane] = value >> (i * bits) & ((1 << bits) - 1);
            }
        }
    }

    pub(super) fn value(&self, operand: Operand, lane: usize) -> u64 {
        match operand {
            Operand::Register(register) => self.registers[register as usize][lane],
            Operand::Constant(value) => value,
        }
    }

    fn set(&mut self, register: u32, mask: u32, values: &Lanes) {
        lanes(mask).for_each(|lane| self.registers[register as usize][lane] = values[lane]);
    }

    fn move_to(&mut self, mask: u32, place: u32) {
        lanes(mask).for_each(|lane| self.place[lane] = place);
    }
}

impl Drop for Warp {
    fn drop(&mut self) {
        SPARE.with_borrow_mut(|spare| spare.push(std::mem::take(&mut self.registers)));
    }
}

/// Lanes at the same place.
#[derive(Clone, Copy, Debug)]
struct Group {
    at: u32,
    mask: u32,
    /// Where the next of the others are.
    next_stop: u32,
}

/// Which operand names the lanes that meet.
fn mask_operand(operation: &Operation) -> usize {
    match operation {
        Operation::Shuffle(_) => 3,
        Operation::WarpBarrier => 0,
        _ => 1,
    }
}

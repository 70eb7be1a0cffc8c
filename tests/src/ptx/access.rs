//! Loads, stores, atomics and copies of a warp.

use super::collective::lanes;
use super::fault::Problem;
use super::instruction::{Access, Instruction, LANES, Space, Update};
use super::memory::{Memory, check_align};
use super::traffic::{Counts, shared_cycles};
use super::warp::Warp;

/// Bytes that a lane copies at a time.
const COPY_LEN: u32 = 16;

/// A copy on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Copy {
    to: u64,
    from: u64,
    lane: usize,
    /// Groups of the lane before this one.
    group: u64,
}

impl Warp {
    /// The addresses of the lanes of `mask`, on multiples of the access's length.
    fn addresses(&self, instruction: &Instruction, access: Access, mask: u32) -> Result<Vec<u64>, Problem> {
        let len = u64::from(access.width) * access.count as u64;
        let address = |lane| {
            let address = self.value(instruction.from[0], lane).wrapping_add_signed(access.offset);
            check_align(address, len).map(|()| address)
        };
        lanes(mask).map(address).collect()
    }

    pub(super) fn load(
        &mut self,
        instruction: &Instruction,
        access: Access,
        mask: u32,
        memory: &Memory<'_>,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let addresses = self.addresses(instruction, access, mask)?;
        for (lane, address) in lanes(mask).zip(&addresses) {
            for (to, i) in instruction.to[..access.count].iter().zip(0..) {
                let address = address + i * u64::from(access.width);
                let value = match access.space {
                    Space::Param => memory.load_parameter(address, access.width)?,
                    Space::Global => memory.global.load(address, access.width)?,
                    Space::Shared => memory.shared.load(address, access.width)?,
                };
                let unused = 64 - 8 * access.width;
                let value = if access.signed {
                    ((value << unused).cast_signed() >> unused).cast_unsigned()
                } else {
                    value
                };
                self.registers[*to as usize][lane] = value;
            }
        }
        count_access(access, &addresses, false, counts);
        Ok(())
    }

    pub(super) fn store(
        &self,
        instruction: &Instruction,
        access: Access,
        mask: u32,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let addresses = self.addresses(instruction, access, mask)?;
        for (lane, address) in lanes(mask).zip(&addresses) {
            for (from, i) in instruction.from[1..=access.count].iter().zip(0..) {
                let (address, value) = (address + i * u64::from(access.width), self.value(*from, lane));
                match access.space {
                    Space::Shared => memory.shared.store(address, access.width, value)?,
                    _ => memory.global.store(address, access.width, value)?,
                }
            }
        }
        count_access(access, &addresses, true, counts);
        Ok(())
    }

    pub(super) fn atomic(
        &mut self,
        instruction: &Instruction,
        access: Access,
        update: Update,
        mask: u32,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let addresses = self.addresses(instruction, access, mask)?;
        for (lane, &address) in lanes(mask).zip(&addresses) {
            let shared = access.space == Space::Shared;
            let old = match shared {
                true => memory.shared.load(address, access.width)?,
                false => memory.global.load(address, access.width)?,
            };
            let operand = |index: usize| self.value(instruction.from[index], lane);
            let new = match update {
                Update::Add => old.wrapping_add(operand(1)),
                Update::Or => old | operand(1),
                Update::Max => old.max(operand(1)),
                Update::CompareAndSwap if old == operand(1) => operand(2),
                Update::CompareAndSwap => old,
            };
            match shared {
                true => memory.shared.store(address, access.width, new)?,
                false => memory.global.store(address, access.width, new)?,
            }
            self.registers[instruction.to[0] as usize][lane] = old;
        }
        if access.space == Space::Shared {
            counts.shared_cycles += shared_cycles(&addresses, access.width.into(), true);
        } else {
            count_access(access, &addresses, true, counts);
        }
        Ok(())
    }

    pub(super) fn begin_copies(&mut self, instruction: &Instruction, mask: u32, counts: &mut Counts) {
        let mut addresses = Vec::with_capacity(LANES);
        for lane in lanes(mask) {
            let (to, from) = (self.value(instruction.from[0], lane), self.value(instruction.from[1], lane));
            self.copies.push(Copy { to, from, lane, group: self.groups[lane] });
            addresses.push(from);
        }
        counts.loads.add(&addresses, COPY_LEN.into());
    }

    /// Copies of the lanes of `mask` come to their end, but for those of the last `left` groups.
    pub(super) fn land_copies(
        &mut self,
        mask: u32,
        left: u64,
        memory: &mut Memory<'_>,
        counts: &mut Counts,
    ) -> Result<(), Problem> {
        let groups = self.groups;
        let lands = |copy: &Copy| mask >> copy.lane & 1 != 0 && copy.group + left < groups[copy.lane];
        let landed: Vec<Copy> = self.copies.iter().copied().filter(lands).collect();
        self.copies.retain(|copy| !lands(copy));
        for copy in &landed {
            check_align(copy.to, COPY_LEN.into())?;
            check_align(copy.from, COPY_LEN.into())?;
            for half in [0, 8] {
                let value = memory.global.load(copy.from + half, 8)?;
                memory.shared.store(copy.to + half, 8, value)?;
            }
        }
        let to: Vec<u64> = landed.iter().map(|copy| copy.to).collect();
        to.chunks(LANES).for_each(|to| counts.shared_cycles += shared_cycles(to, COPY_LEN.into(), false));
        Ok(())
    }
}

fn count_access(access: Access, addresses: &[u64], is_store: bool, counts: &mut Counts) {
    let len = u64::from(access.width) * access.count as u64;
    match access.space {
        Space::Param => {}
        Space::Shared => counts.shared_cycles += shared_cycles(addresses, len, false),
        Space::Global if is_store => counts.stores.add(addresses, len),
        Space::Global => counts.loads.add(addresses, len),
    }
}

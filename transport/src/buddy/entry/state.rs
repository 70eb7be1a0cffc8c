//! States where they lie: in device memory, behind the slots of their allocation.

use super::super::Form;
use super::super::form::SECTOR_LEN;
use super::super::memory::{Memory, MemoryError};
use super::super::shape::Shape;
use super::BATCH;

/// Where the state of entry `entry` lies.
pub(crate) const fn sector_at(shape: &Shape, entry: u64) -> u64 {
    shape.metadata_at
        + match shape.form {
            Form::Bpc => entry / BATCH as u64 * SECTOR_LEN as u64,
            Form::Xp(_) => 2 * entry,
        }
}

/// The states of entries from `first` on, all of one batch.
pub(crate) fn load(
    device: &impl Memory,
    shape: &Shape,
    first: u64,
    states: &mut [u16],
) -> Result<(), MemoryError> {
    let at = sector_at(shape, first);
    match shape.form {
        Form::Bpc => {
            let mut sector = [0; SECTOR_LEN];
            device.load(at, &mut sector)?;
            let first = first as usize % BATCH;
            for (entry, state) in (first..).zip(states) {
                *state = u16::from(sector[entry / 2] >> (entry % 2 * 4) & 15);
            }
        }
        Form::Xp(_) => {
            let mut bytes = [0; 2];
            device.load(at, &mut bytes)?;
            states[0] = u16::from_le_bytes(bytes);
        }
    }
    Ok(())
}

/// Keeps the states of entries from `first` on, all of one batch.
pub(crate) fn store(
    device: &mut impl Memory,
    shape: &Shape,
    first: u64,
    states: &[u16],
) -> Result<(), MemoryError> {
    let at = sector_at(shape, first);
    match shape.form {
        Form::Bpc => {
            let mut sector = [0; SECTOR_LEN];
            device.load(at, &mut sector)?;
            let first = first as usize % BATCH;
            for (entry, &state) in (first..).zip(states) {
                let shift = entry % 2 * 4;
                sector[entry / 2] = sector[entry / 2] & !(15 << shift) | (state as u8) << shift;
            }
            device.store(at, &sector)
        }
        Form::Xp(_) => device.store(at, &states[0].to_le_bytes()),
    }
}

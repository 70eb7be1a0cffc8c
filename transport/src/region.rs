//! Registered regions: what of its memory a rank lets its peers read and write.

use std::collections::{BTreeMap, BTreeSet};

use mgcomp_codecs::Element;

use crate::memory::Slice;
use crate::message::{Address, Rank, Status};
use crate::payload::Payload;

/// Bytes that one region number addresses: offsets have 32 bits.
const NUMBER_SPAN: u64 = 1 << 32;

/// Some of the peers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Peers {
    /// None of them.
    #[default]
    Nobody,
    /// Every rank of the job.
    All,
    /// These ranks.
    Only(BTreeSet<Rank>),
}

impl Peers {
    fn contains(&self, rank: Rank) -> bool {
        match self {
            Self::Nobody => false,
            Self::All => true,
            Self::Only(ranks) => ranks.contains(&rank),
        }
    }
}

/// Who may do what with a region.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Who may read it.
    pub read: Peers,
    /// Who may write it.
    pub write: Peers,
}

impl Access {
    /// Everybody may read and write.
    #[must_use]
    pub fn all() -> Self {
        Self { read: Peers::All, write: Peers::All }
    }

    /// Everybody may read, nobody may write.
    #[must_use]
    pub fn read_only() -> Self {
        Self { read: Peers::All, write: Peers::Nobody }
    }

    fn allows(&self, peer: Rank, operation: Operation) -> bool {
        match operation {
            Operation::Read => self.read.contains(peer),
            Operation::Write => self.write.contains(peer),
        }
    }
}

/// What a peer wants to do with a region.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Read from it.
    Read,
    /// Write to it.
    Write,
}

/// Memory that peers may reach under an address.
#[derive(Clone, Debug)]
struct Region {
    memory: Slice,
    element: Element,
    access: Access,
}

impl Region {
    /// Region numbers it takes: one for each 4 GiB begun.
    fn numbers(&self) -> u64 {
        (self.memory.len() as u64).div_ceil(NUMBER_SPAN)
    }
}

/// Part of a region that a peer may use as it asked to.
#[derive(Clone, Debug)]
pub struct Grant {
    /// The memory.
    pub memory: Payload,
    /// What its bytes are.
    pub element: Element,
}

/// Why a region was not registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RegionError {
    /// A region needs at least one byte.
    #[error("a region of no bytes cannot be registered")]
    Empty,
    /// All 65,536 region numbers, or too many in a row, are taken.
    #[error("no {needed} consecutive region numbers are free for {len} bytes")]
    NumbersExhausted {
        /// Numbers that the region takes.
        needed: u64,
        /// Its length in bytes.
        len: usize,
    },
    /// No region starts at this address.
    #[error("no region starts at {0}")]
    Unknown(Address),
    /// This process is a child, made by `fork`, of the one that started the node.
    #[error("the node belongs to the process that this one was forked from")]
    Forked,
}

/// The regions of one rank, by their first number.
#[derive(Debug, Default)]
pub struct RegionTable {
    regions: BTreeMap<u16, Region>,
}

impl RegionTable {
    /// Opens `memory` to the peers that `access` names, under the lowest numbers that are free.
    ///
    /// Returns the address of its first byte. Ranks that register in the same order get the same addresses.
    ///
    /// # Errors
    /// [`RegionError`] if the memory is empty or the numbers are used up.
    pub fn register(
        &mut self,
        memory: impl Into<Slice>,
        element: Element,
        access: Access,
    ) -> Result<Address, RegionError> {
        let memory = memory.into();
        if memory.is_empty() {
            return Err(RegionError::Empty);
        }
        let region = Region { memory, element, access };
        let needed = region.numbers();
        let number = self
            .free_numbers(needed)
            .ok_or(RegionError::NumbersExhausted { needed, len: region.memory.len() })?;
        self.regions.insert(number, region);
        Ok(Address::new(number, 0))
    }

    /// Closes the region that starts at `address`. Work that already holds its memory goes on.
    ///
    /// # Errors
    /// [`RegionError::Unknown`] if no region starts there.
    pub fn unregister(&mut self, address: Address) -> Result<(), RegionError> {
        let known = address.offset() == 0 && self.regions.remove(&address.region()).is_some();
        if known { Ok(()) } else { Err(RegionError::Unknown(address)) }
    }

    /// The memory behind `length` bytes at `address`, if `peer` may do `operation` with all of it.
    ///
    /// # Errors
    /// The status to answer with. Nothing is touched.
    pub fn grant(
        &self,
        peer: Rank,
        operation: Operation,
        address: Address,
        length: u32,
    ) -> Result<Grant, Status> {
        let (&number, region) =
            self.regions.range(..=address.region()).next_back().ok_or(Status::UnknownRegion)?;
        if u64::from(address.region() - number) >= region.numbers() {
            return Err(Status::UnknownRegion);
        }
        if !region.access.allows(peer, operation) {
            return Err(Status::NotOpened);
        }
        let offset = address.bits() - Address::new(number, 0).bits();
        let memory = Payload::from_memory(region.memory.clone())
            .part(offset, u64::from(length))
            .ok_or(Status::OutOfBounds)?;
        Ok(Grant { memory, element: region.element })
    }

    fn free_numbers(&self, needed: u64) -> Option<u16> {
        let mut start = 0u64;
        for (&number, region) in &self.regions {
            if u64::from(number) >= start + needed {
                break;
            }
            start = u64::from(number) + region.numbers();
        }
        (start + needed <= 1 << 16).then_some(start as u16)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::HostBuffer;

    const PEER: Rank = Rank(1);

    fn table(lens: &[usize]) -> RegionTable {
        let mut table = RegionTable::default();
        for &len in lens {
            table.register(HostBuffer::zeroed(len).all(), Element::U8, Access::all()).unwrap();
        }
        table
    }

    fn status(table: &RegionTable, number: u16, offset: u32, length: u32) -> Status {
        table
            .grant(PEER, Operation::Read, Address::new(number, offset), length)
            .map_or_else(|status| status, |_| Status::Good)
    }

    #[test]
    fn bounds_are_exact() {
        let table = table(&[100, 50]);
        assert_eq!(status(&table, 0, 0, 100), Status::Good);
        assert_eq!(status(&table, 0, 100, 0), Status::Good);
        assert_eq!(status(&table, 0, 100, 1), Status::OutOfBounds);
        assert_eq!(status(&table, 0, 1, 100), Status::OutOfBounds);
        assert_eq!(status(&table, 0, u32::MAX, u32::MAX), Status::OutOfBounds);
        assert_eq!(status(&table, 1, 0, 50), Status::Good);
        assert_eq!(status(&table, 1, 0, 51), Status::OutOfBounds);
        assert_eq!(status(&table, 2, 0, 1), Status::UnknownRegion);
    }

    #[test]
    fn only_opened_regions_are_granted() {
        let mut table = RegionTable::default();
        let memory = HostBuffer::zeroed(8).all();
        let only = Access { read: Peers::Only([Rank(2)].into()), write: Peers::Nobody };
        let address = table.register(memory, Element::F32, only).unwrap();
        assert!(table.grant(Rank(2), Operation::Read, address, 8).is_ok());
        assert_eq!(table.grant(Rank(1), Operation::Read, address, 8).unwrap_err(), Status::NotOpened);
        assert_eq!(table.grant(Rank(2), Operation::Write, address, 8).unwrap_err(), Status::NotOpened);
    }

    #[test]
    fn numbers_are_reused_lowest_first() {
        let mut table = table(&[1, 1, 1]);
        table.unregister(Address::new(1, 0)).unwrap();
        assert_eq!(table.unregister(Address::new(1, 0)), Err(RegionError::Unknown(Address::new(1, 0))));
        assert_eq!(status(&table, 1, 0, 1), Status::UnknownRegion);
        let again = table.register(HostBuffer::zeroed(1).all(), Element::U8, Access::all()).unwrap();
        assert_eq!(again, Address::new(1, 0));
        assert_eq!(
            table.register(HostBuffer::zeroed(0).all(), Element::U8, Access::all()),
            Err(RegionError::Empty)
        );
    }

    #[test]
    fn region_over_4_gib_takes_consecutive_numbers() {
        let len = (4 << 30) + 10; // never touched, so it takes no memory
        let mut table = table(&[1, len]);
        let next = table.register(HostBuffer::zeroed(1).all(), Element::U8, Access::all()).unwrap();
        assert_eq!(next, Address::new(3, 0));
        assert_eq!(status(&table, 2, 0, 10), Status::Good);
        assert_eq!(status(&table, 2, 0, 11), Status::OutOfBounds);
        assert_eq!(status(&table, 1, u32::MAX, 2), Status::Good); // across the seam
    }
}

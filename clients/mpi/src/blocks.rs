//! Data of several ranks, as a call names it: an address, and for each rank how many values there are and where.
//!
//! Unsafe because counts come as arrays whose length the program vouches for: one number for each rank.
#![allow(unsafe_code)]

use std::ffi::c_int;

use crate::data::Data;
use crate::mpi::Shape;
use crate::types::{Address, Type};

/// A number for each rank.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Numbers {
    /// The same for all.
    Same(i64),
    /// So many times the rank.
    Times(i64),
    /// An array of the program.
    Ints(*const c_int),
    /// An array of the program.
    Longs(*const i64),
}

/// Blocks of data, one for each rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Blocks {
    pub(crate) address: Address,
    pub(crate) counts: Numbers,
    /// Where they begin, in values from the address on.
    pub(crate) places: Numbers,
    pub(crate) datatype: Type,
}

impl Numbers {
    /// That of a rank of the communicator that the array is for.
    pub(crate) fn at(&self, rank: c_int) -> i64 {
        let index = rank as usize;
        match *self {
            Self::Same(number) => number,
            Self::Times(number) => number.saturating_mul(rank.into()),
            // SAFETY: the program has a number there for each rank of the communicator.
            Self::Ints(numbers) => unsafe { numbers.add(index).read_unaligned() }.into(),
            // SAFETY: as above.
            Self::Longs(numbers) => unsafe { numbers.add(index).read_unaligned() },
        }
    }

    /// Whether there are any.
    pub(crate) fn are_there(&self) -> bool {
        !matches!(self, Self::Ints(numbers) if numbers.is_null())
            && !matches!(self, Self::Longs(numbers) if numbers.is_null())
    }
}

impl Blocks {
    /// Blocks of `count` values each, one behind the other.
    pub(crate) fn even(address: Address, count: i64, datatype: Type) -> Self {
        Self { address, counts: Numbers::Same(count), places: Numbers::Times(count), datatype }
    }

    /// The longest of the blocks of so many ranks; `None` if MPI would not take them.
    pub(crate) fn longest(&self, ranks: c_int) -> Option<Data> {
        if !self.counts.are_there() || !self.places.are_there() {
            return None;
        }
        let counts = || (0..ranks).map(|rank| self.counts.at(rank));
        let longest = counts().max().filter(|_| counts().all(|count| count >= 0))?;
        Some(Data::new(self.address, longest, self.datatype))
    }

    /// Whether all blocks that have any bytes lie somewhere: they may be counted from address 0, which is `MPI_BOTTOM`.
    pub(crate) fn have_addresses(&self, ranks: c_int, shape: &Shape) -> bool {
        let lies_somewhere = |rank| self.counts.at(rank) == 0 || !self.block(rank, shape).address().is_null();
        !self.address.is_null() || shape.size == 0 || (0..ranks).all(lies_somewhere)
    }

    /// The block of a rank.
    pub(crate) fn block(&self, rank: c_int, shape: &Shape) -> Data {
        let offset = self.places.at(rank).wrapping_mul(shape.extent) as isize;
        Data::new(self.address.wrapping_byte_offset(offset), self.counts.at(rank), self.datatype)
    }

    /// Bytes in the block of a rank, where a value has `size`; more than there can be if the count makes no sense.
    pub(crate) fn len(&self, rank: c_int, size: u64) -> u64 {
        match self.counts.are_there() {
            true => (self.counts.at(rank) as u64).saturating_mul(size),
            false => 0,
        }
    }
}

/// Counts of the program without those of blocks that are `gone`.
pub(crate) fn remaining<T: Copy + Default>(counts: *const T, gone: &[bool]) -> Vec<T> {
    let count = |(index, gone): (usize, &bool)| match gone {
        true => T::default(),
        // SAFETY: the program has a count for each rank, and `gone` a flag.
        false => unsafe { counts.add(index).read_unaligned() },
    };
    gone.iter().enumerate().map(count).collect()
}

#[cfg(test)]
mod tests {
    use std::ptr;

    use super::*;

    #[test]
    fn blocks_lie_where_the_call_says() {
        let (counts, places) = ([3, 0, 5], [7i64, 0, -2]);
        let base = 1000 as Address;
        let blocks = Blocks {
            address: base,
            counts: Numbers::Ints(counts.as_ptr()),
            places: Numbers::Longs(places.as_ptr()),
            datatype: Type(1),
        };
        let shape = Shape { size: 4, extent: 8, is_dense: false };
        let block = |rank| blocks.block(rank, &shape);
        assert_eq!((block(0).address() as usize, block(0).count()), (1056, 3));
        assert_eq!((block(2).address() as usize, block(2).count()), (984, 5));
        assert_eq!(blocks.len(2, shape.size), 20);
        assert_eq!(blocks.longest(3).unwrap().count(), 5);
        assert_eq!(remaining(counts.as_ptr(), &[false, false, true]), [3, 0, 0]);
    }

    #[test]
    fn blocks_may_be_counted_from_the_bottom_of_memory() {
        let (counts, places) = ([3, 0, 5], [1i64 << 40, 0, 1 << 41]);
        let shape = Shape { size: 4, extent: 4, is_dense: true };
        let blocks = |counts: &[c_int; 3]| Blocks {
            address: ptr::null_mut(),
            counts: Numbers::Ints(counts.as_ptr()),
            places: Numbers::Longs(places.as_ptr()),
            datatype: Type(1),
        };
        assert!(blocks(&counts).have_addresses(3, &shape));
        assert!(!blocks(&[3, 1, 5]).have_addresses(3, &shape));
        assert!(Blocks::even(1000 as Address, 1, Type(1)).have_addresses(3, &shape));
        assert!(!Blocks::even(ptr::null_mut(), 1, Type(1)).have_addresses(3, &shape));
        let nothing = Shape { size: 0, extent: 0, is_dense: true };
        assert!(Blocks::even(ptr::null_mut(), 1, Type(1)).have_addresses(3, &nothing));
    }

    #[test]
    fn what_mpi_would_not_take_has_no_longest() {
        let counts = [3, -1];
        let blocks = |counts| Blocks { counts, ..Blocks::even(ptr::null_mut(), 1, Type(1)) };
        assert!(blocks(Numbers::Ints(counts.as_ptr())).longest(2).is_none());
        assert!(blocks(Numbers::Ints(ptr::null())).longest(2).is_none());
        assert!(blocks(Numbers::Same(-3)).longest(2).is_none());
        assert_eq!(blocks(Numbers::Same(4)).longest(2).unwrap().count(), 4);
    }
}
